#include "bench/bench_fairness_command.h"

#include <CLI/CLI.hpp>

#include "cli/flags.h"

namespace ropeway {

CLI::App* AddBenchFairness(CLI::App* bench, BenchFairnessFlags* f) {
  CLI::App* app = bench->add_subcommand(
      "fairness", "Tenants who ask for more than there is: fair shares against first come");
  AddBenchPieceFlags(app, &f->pieces);
  AddText(app, "--trace", &f->trace, kFilePlaceholder,
          "Arrivals, clients and lengths (arrival_s, client, input_tokens, output_tokens: the "
          "Arena trace of VTC); needed unless --rounds is 0")
      ->group("What is measured");
  AddChoice(app, "--part", &f->part, {"measured", "simulated", "all"},
            "measured: on servers; simulated: the same scheduler in virtual time; or all")
      ->group("What is measured");
  app->add_flag("--quick", f->pieces.quick, "One pair of runs, with lengths half as long")
      ->group("What is measured");
  AddNumber(app, "--load", &f->load, 0.01, 100,
            "Offered work over the capacity that is measured first: time is compressed to that")
      ->group("Load");
  AddInt(app, "--places", &f->places, 1, 1000, "The servers' --max-num-seqs")->group("Load");
  AddInt(app, "--length-divisor", &f->length_divisor, 1, 1000,
         "The trace's prompts and answers are so many times as long as what is asked of servers")
      ->group("Load");
  AddInt(app, "--requests", &f->requests, 0, 1000000,
         "Only so many requests from the trace's beginning; 0: all")
      ->group("Load");
  AddInt(app, "--pairs", &f->pairs, 1, 1000, "Alternated pairs of runs in each round")
      ->group("Load");
  AddInt(app, "--capacity-part", &f->capacity_part, 1, 1000,
         "One request in so many measures the capacity")
      ->group("Load");
  AddNumber(app, "--half-window", &f->half_window, 0.01, 3600,
            "Service is compared over windows of so many seconds before and after each second")
      ->group("Report");
  app->footer(
      "It starts the servers itself, one after the other, on a machine that should do nothing "
      "else.\ndocs/benchmarks.md explains the figures.\n\n"
      "Example:\n  ropeway-bench fairness --part measured --trace tests/data/tenants.csv --pairs 1 "
      "--length-divisor 1 --places 2");
  return app;
}

}  // namespace ropeway
