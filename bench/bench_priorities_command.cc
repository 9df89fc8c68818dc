#include "bench/bench_priorities_command.h"

#include <CLI/CLI.hpp>

#include "cli/flags.h"

namespace ropeway {

CLI::App* AddBenchPriorities(CLI::App* bench, BenchPrioritiesFlags* f) {
  CLI::App* app = bench->add_subcommand(
      "priorities", "Classes of priority: what urgent requests wait, and what that costs others");
  AddBenchPieceFlags(app, &f->pieces);
  app->add_flag("--quick", f->pieces.quick, "Our engine only, once, with less of everything")
      ->group("What is measured");
  AddInt(app, "--prompt-tokens", &f->prompt_tokens, 8, 100000, "Of each prompt")->group("Load");
  AddInt(app, "--output-tokens", &f->output_tokens, 2, 100000, "Of each answer")->group("Load");
  AddInt(app, "--places", &f->places, 1, 1000,
         "--max-num-seqs of the server of the saturated parts")
      ->group("Load");
  AddNumber(app, "--temperature", &f->temperature, 0, 2, "Of the answers")->group("Load");
  AddNumber(app, "--open-load", &f->open_load, 0.01, 10,
            "Open loop of all classes: requests offered over the capacity that is measured first")
      ->group("Load");
  AddNumber(app, "--high-load", &f->high_load, 0.01, 10,
            "Beside work of class low: requests of class high over the capacity")
      ->group("Load");
  AddNumber(app, "--medium-load", &f->medium_load, 0.01, 10, "Likewise, of class medium")
      ->group("Load");
  AddInt(app, "--capacity-requests", &f->capacity_requests, 1, 100000,
         "Requests that the capacity is measured with")
      ->group("Load");
  AddInt(app, "--unloaded-requests", &f->unloaded_requests, 1, 100000,
         "Requests one after the other on an idle server")
      ->group("Load");
  AddInt(app, "--open-requests", &f->open_requests, 3, 100000,
         "Requests of the open loop, a third of each class")
      ->group("Load");
  AddInt(app, "--urgent-requests", &f->urgent_requests, 2, 100000,
         "Requests of classes high and medium beside work of class low")
      ->group("Load");
  AddNumber(app, "--alone-seconds", &f->alone_seconds, 0.1, 3600,
            "Seconds of work of class low alone")
      ->group("Load");
  AddInt(app, "--texts", &f->texts, 1, 10000,
         "Texts of class low that are compared with those of an idle server: those whose requests "
         "paused longest")
      ->group("Load");
  AddNumber(app, "--limit-factor", &f->limit_factor, 0.01, 1000,
            "The limits of TTFT are times this: the unloaded TTFT here over that of the machine "
            "for which docs/scheduling.md states them")
      ->group("Report");
  app->footer(
      "It starts the servers itself, one after the other, on a machine that should do nothing "
      "else.\ndocs/benchmarks.md explains the figures.\n\n"
      "Example:\n  ropeway-bench priorities --capacity-requests 4 --unloaded-requests 2 "
      "--open-requests 3 --urgent-requests 2 --alone-seconds 0.5 --output-tokens 4 --places 2");
  return app;
}

}  // namespace ropeway
