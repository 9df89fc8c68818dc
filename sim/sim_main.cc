// sim_main: runs the engine core in virtual time, one run per seed, and looks for violations.
//
//   sim_main                          seeds 1..400
//   sim_main --seed 7 --verbose       one seed, with what happens
//   sim_main --seeds 1..400 --coverage  fails too unless every fault point fired and every move of
//                                     the transition table was seen
//   sim_main --plant leak             with a planted bug: exit code 1 where it is caught
//
// Exit code: 0 nothing found, 1 a violation (named), 2 a wrong command line.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <string>

#include "simulation.h"

namespace ropeway::sim {
namespace {

volatile uint64_t current_seed = 0;  // For the handler alone.

// A CHECK of the code under test ends the process; the seed must not be lost with it.
extern "C" void OnAbort(int) {
  char text[64] = "sim: aborted in seed ";
  size_t n = 21;
  char digits[20];
  size_t count = 0;
  uint64_t value = current_seed;
  do {
    digits[count++] = static_cast<char>('0' + value % 10);
    value /= 10;
  } while (value > 0);
  while (count > 0) text[n++] = digits[--count];
  text[n++] = '\n';
  if (write(2, text, n) < 0) _exit(3);
}

struct Totals {
  std::map<std::string, uint64_t> faults;
  Counts counts;
  core::TransitionCounts transitions{};

  void Add(const Setup& setup, const Report& report) {
    for (const auto& [name, p] : setup.faults) faults.try_emplace(name, 0);
    for (const auto& [name, n] : report.faults_fired) faults[name] += n;
    for (const auto& [name, n] : report.counts) counts[name] += n;
    sim::Add(report.transitions, &transitions);
  }
};

void Explain(const Setup& setup, const Report& report) {
  const std::string seed = std::to_string(setup.seed);
  std::printf("seed %s FAILED\n  setup: %s\n", seed.c_str(), Describe(setup).c_str());
  for (const auto& [check, message] : report.violations) {
    std::printf("  violation of %s: %s\n", check.c_str(), message.c_str());
  }
  std::printf("  again: sim_main --seed %s%s --verbose\n", seed.c_str(),
              setup.plant == Plant::kNone
                  ? ""
                  : (std::string(" --plant ") + PlantName(setup.plant)).c_str());
}

// What the seeds together never did; a test that does not meet a case says nothing about it.
bool Covered(const Totals& totals) {
  bool all = true;
  const auto note = [&all](std::string_view name, uint64_t n) {
    std::printf("  %-52.*s %8llu\n", static_cast<int>(name.size()), name.data(),
                static_cast<unsigned long long>(n));
    all = all && n > 0;
  };
  for (const auto& [name, n] : totals.faults) note("fault " + name, n);
  for (const core::SequenceTransition& t : core::SequenceTransitions()) {
    note(std::string("move  ") + core::SequenceStateName(t.from) + " " +
             core::SequenceEventName(t.event),
         totals.transitions[static_cast<size_t>(t.from)][static_cast<size_t>(t.event)]);
  }
  for (const auto& [name, n] : totals.counts) note(name, n);
  if (!all)
    std::printf("FAILED: not covered: a fault, move or kind of step above never happened\n");
  return all;
}

int Main(int argc, char** argv) {
  CLI::App app{"Simulates the engine core"};
  uint64_t seed = 0;
  std::string seeds = "1..400";
  std::string plant_name = "none";
  bool verbose = false;
  bool coverage = false;
  auto* one = app.add_option("--seed", seed, "Run this seed only");
  app.add_option("--seeds", seeds, "Run the seeds A..B")->excludes(one);
  app.add_option("--plant", plant_name, "Plant a bug: " + PlantNames());
  app.add_flag("--verbose", verbose, "Print what happens");
  app.add_flag("--coverage", coverage, "Fail unless the seeds met every fault and transition");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  unsigned long long first = seed;
  unsigned long long last = seed;
  const auto plant = ParsePlant(plant_name);
  if (!plant.has_value() ||
      (one->empty() && std::sscanf(seeds.c_str(), "%llu..%llu", &first, &last) != 2)) {
    std::fprintf(stderr, "sim_main: no such plant, or --seeds is not A..B\n");
    return 2;
  }
  std::signal(SIGABRT, OnAbort);

  Totals totals;
  int failed = 0;
  for (uint64_t s = first; s <= last; ++s) {
    current_seed = s;
    const Setup setup = MakeSetup(s, *plant);
    const Report report = RunSeed(s, *plant, verbose);
    totals.Add(setup, report);
    if (verbose) {
      std::printf("seed %llu digest %016llx\n", static_cast<unsigned long long>(s),
                  static_cast<unsigned long long>(report.digest));
    }
    if (report.violations.empty()) continue;
    Explain(setup, report);
    if (++failed == 5 || *plant != Plant::kNone) break;
  }
  for (const char* const name : {"requests", "steps", "preemptions"}) {
    std::printf("%llu %s\n", static_cast<unsigned long long>(totals.counts[name]), name);
  }
  const bool covered = !coverage || Covered(totals);
  if (failed == 0 && *plant != Plant::kNone) {
    std::printf("the planted bug %s was not caught\n", plant_name.c_str());
  }
  return failed == 0 && covered ? 0 : 1;
}

}  // namespace
}  // namespace ropeway::sim

int main(int argc, char** argv) { return ropeway::sim::Main(argc, argv); }
