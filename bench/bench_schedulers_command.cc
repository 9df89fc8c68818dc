#include "bench/bench_schedulers_command.h"

#include <CLI/CLI.hpp>

#include "cli/flags.h"

namespace ropeway {

CLI::App* AddBenchSchedulers(CLI::App* bench, BenchSchedulersFlags* f) {
  CLI::App* app = bench->add_subcommand(
      "schedulers", "Batching strategies side by side: serial, static, dynamic, continuous");
  AddBenchPieceFlags(app, &f->pieces);
  AddChoice(app, "--part", &f->part, {"mixed", "sizes", "users", "ceiling", "all"},
            "mixed: short runs of small batches; sizes: each batch size with twice as many in "
            "flight; users: few users, serial against continuous; ceiling: what a batch brings to "
            "decoding alone; or all")
      ->group("What is measured");
  app->add_flag("--quick", f->pieces.quick, "Our engine only, once, with less of everything")
      ->group("What is measured");
  AddText(app, "--sizes", &f->sizes, "LIST", "Batch sizes")->group("Load");
  AddText(app, "--users", &f->users, "LIST", "How many users")->group("Load");
  AddInt(app, "--requests-per-place", &f->requests_per_place, 1, 10000,
         "Requests for each place of a batch; in the users' part half as many for each user")
      ->group("Load");
  AddDuration(app, "--batch-timeout", &f->batch_timeout,
              "What a dynamic or static batch waits for more requests, sizes")
      ->group("Load");
  AddInt(app, "--least-prompt", &f->least_prompt, 8, 100000,
         "Tokens of the shortest prompt; all lengths up to the longest are as likely")
      ->group("Load");
  AddInt(app, "--most-prompt", &f->most_prompt, 8, 100000, "Tokens of the longest prompt")
      ->group("Load");
  AddNumber(app, "--output-tokens", &f->outputs.median, 1, 100000,
            "Median of the answers' lengths; log-normal")
      ->group("Load");
  AddNumber(app, "--spread", &f->outputs.spread, 0, 3,
            "Standard deviation of the answers' lengths' logarithms")
      ->group("Load");
  AddNumber(app, "--most-output", &f->outputs.most, 1, 100000,
            "Longer answers are cut to this length")
      ->group("Load");
  AddInt(app, "--ceiling-tokens", &f->ceiling_tokens, 2, 100000, "Answers of the ceiling's part")
      ->group("Load");
  AddInt(app, "--mixed-runs", &f->mixed_runs, 1, 1000, "Runs")->group("Part mixed");
  AddInt(app, "--mixed-requests", &f->mixed_requests, 1, 100000, "Requests of each run")
      ->group("Part mixed");
  AddInt(app, "--mixed-batch", &f->mixed_batch, 1, 1000, "Batch size")->group("Part mixed");
  AddInt(app, "--mixed-in-flight", &f->mixed_in_flight, 1, 10000, "Requests in flight at most")
      ->group("Part mixed");
  AddDuration(app, "--mixed-timeout", &f->mixed_timeout,
              "What a dynamic or static batch waits for more requests")
      ->group("Part mixed");
  app->footer(
      "It starts the servers itself, one after the other, on a machine that should do nothing "
      "else.\ndocs/benchmarks.md explains the figures.\n\n"
      "Example:\n  ropeway-bench schedulers --part sizes --sizes 2 --requests-per-place 2 "
      "--output-tokens 4");
  return app;
}

}  // namespace ropeway
