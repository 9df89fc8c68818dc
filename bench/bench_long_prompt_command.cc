#include "bench/bench_long_prompt_command.h"

#include <CLI/CLI.hpp>

#include "cli/flags.h"

namespace ropeway {

CLI::App* AddBenchLongPrompt(CLI::App* bench, BenchLongPromptFlags* f) {
  CLI::App* app = bench->add_subcommand(
      "long-prompt", "Streams that decode while long prompts arrive: what either waits");
  AddBenchPieceFlags(app, &f->pieces);
  app->add_flag("--quick", f->pieces.quick, "Our engine only, once, with less of everything")
      ->group("What is measured");
  AddInt(app, "--streams", &f->streams, 1, 1000, "Streams that decode, always")->group("Load");
  AddInt(app, "--stream-prompt", &f->stream_prompt, 8, 100000, "Tokens of a stream's prompt")
      ->group("Load");
  AddInt(app, "--stream-output", &f->stream_output, 2, 100000,
         "Tokens of a stream's answer, after which its user asks again")
      ->group("Load");
  AddInt(app, "--prompt-tokens", &f->prompt_tokens, 8, 1000000, "Of each long prompt")
      ->group("Load");
  AddInt(app, "--output-tokens", &f->output_tokens, 1, 100000, "Of each long prompt's answer")
      ->group("Load");
  AddInt(app, "--prompts", &f->prompts, 1, 100000, "Long prompts, one after the other")
      ->group("Load");
  AddNumber(app, "--alone-seconds", &f->alone_seconds, 0.1, 3600, "Seconds of the streams alone")
      ->group("Load");
  app->footer(
      "It starts the servers itself, one after the other, on a machine that should do nothing "
      "else.\ndocs/benchmarks.md explains the figures.\n\n"
      "Example:\n  ropeway-bench long-prompt --streams 2 --stream-output 16 --prompt-tokens 64 "
      "--prompts 1 --alone-seconds 0.5");
  return app;
}

}  // namespace ropeway
