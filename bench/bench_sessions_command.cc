#include "bench/bench_sessions_command.h"

#include <CLI/CLI.hpp>

#include "cli/flags.h"

namespace ropeway {

CLI::App* AddBenchSessions(CLI::App* bench, BenchSessionsFlags* f) {
  CLI::App* app = bench->add_subcommand(
      "sessions", "Chats of several turns: what it brings to keep their state between turns");
  AddBenchPieceFlags(app, &f->pieces);
  AddChoice(app, "--mode", &f->mode, {"stateful", "stateless", "compare"},
            "Chats with the caches on (stateful), with --prefix-caching off (stateless), or both "
            "(compare)")
      ->group("What is measured");
  AddChoice(app, "--part", &f->part, {"chats", "pool", "restart", "all"},
            "chats; pool: more conversations than the KV cache holds; restart: the turn after "
            "one; or all")
      ->group("What is measured");
  app->add_flag("--quick", f->pieces.quick, "Our engine only, once, with fewer users")
      ->group("What is measured");
  AddInt(app, "--users", &f->users, 1, 1000, "Users who chat at once; in the pool part three times")
      ->group("Load");
  AddInt(app, "--turns", &f->turns, 1, 100, "Turns of each conversation")->group("Load");
  AddInt(app, "--conversations", &f->conversations, 1, 1000,
         "Conversations of each user, one after the other")
      ->group("Load");
  AddNumber(app, "--think-time", &f->think_time, 0, 3600,
            "Seconds from an answer to the next message, on average (exponentially distributed)")
      ->group("Load");
  AddNumber(app, "--request-interval", &f->request_interval, 0, 3600,
            "Seconds between the first messages of two users")
      ->group("Load");
  AddNumber(app, "--duration", &f->duration, 0, 86400,
            "No further message after so many seconds; 0: no such limit")
      ->group("Load");
  AddInt(app, "--first-tokens", &f->lengths.first_tokens, 4, 100000,
         "Median length of a conversation's first message; log-normal, cut off at a quarter and at "
         "four times that")
      ->group("Load");
  AddInt(app, "--input-tokens", &f->lengths.user_tokens, 4, 100000,
         "Median length of later messages, likewise")
      ->group("Load");
  AddInt(app, "--output-tokens", &f->lengths.answer_tokens, 4, 100000,
         "Median length of answers, likewise")
      ->group("Load");
  AddNumber(app, "--spread", &f->lengths.spread, 0, 2,
            "Standard deviation of the lengths' logarithms")
      ->group("Load");
  AddText(app, "--dialogues", &f->dialogues, kFilePlaceholder,
          R"(Chats of a file instead: lines of {"history": [{"user": ..., "bot": ...}, ...]})")
      ->group("Load");
  AddInt(app, "--history-tokens", &f->history_tokens, 4, 100000,
         "pool: what was said before the turns that are measured")
      ->group("Load");
  AddInt(app, "--restart-tokens", &f->restart_tokens, 4, 100000,
         "restart: the message before the restart")
      ->group("Load");
  AddInt(app, "--restart-chats", &f->restart_chats, 1, 1000, "restart: so many chats")
      ->group("Load");
  app->footer(
      "It starts the servers itself, one after the other, on a machine that should do nothing "
      "else.\ndocs/benchmarks.md explains the figures.\n\n"
      "Example:\n  ropeway-bench sessions --part chats --users 2 --turns 2 --first-tokens 64 "
      "--output-tokens 8");
  return app;
}

}  // namespace ropeway
