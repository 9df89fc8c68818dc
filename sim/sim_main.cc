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
  core::TransitionCounts transitions{};
  uint64_t steps = 0, preemptions = 0, mixed_steps = 0, requests = 0;
  uint64_t kills = 0, found_after_kill = 0, spilled = 0, cached_tokens = 0, followed = 0;
  uint64_t late_reads = 0, cut = 0;
  uint64_t refused = 0, padding_rows = 0, fills = 0, joined = 0;
  std::array<uint64_t, scheduler::kNumPreemptReasons> preemptions_by{};
  uint64_t timed_out = 0, preempted_scored = 0, no_tokens = 0, beyond_least = 0;

  void Add(const Setup& setup, const Report& report) {
    for (const auto& [name, p] : setup.faults) faults.try_emplace(name, 0);
    for (const auto& [name, n] : report.faults_fired) faults[name] += n;
    for (size_t s = 0; s < core::kNumSequenceStates; ++s) {
      for (size_t e = 0; e < core::kNumSequenceEvents; ++e) {
        transitions[s][e] += report.transitions[s][e];
      }
    }
    steps += report.stats.steps;
    preemptions += report.stats.preemptions;
    mixed_steps += report.mixed_steps;
    kills += report.kills;
    found_after_kill += report.found_after_kill;
    spilled += report.spilled;
    cached_tokens += report.cached_tokens;
    followed += report.followed;
    late_reads += report.late_reads;
    refused += report.refused;
    padding_rows += report.padding_rows;
    fills += report.fills;
    joined += report.joined;
    for (size_t i = 0; i < preemptions_by.size(); ++i) {
      preemptions_by[i] += report.preemptions_by[i];
    }
    requests += report.records.size();
    for (const auto& [id, record] : report.records) {
      const auto least = static_cast<size_t>(record.made.request.spec.params.min_tokens);
      if (record.timed_out) ++timed_out;
      for (const std::vector<Output>& output : record.cut_outputs) cut += output.empty() ? 0 : 1;
      if (record.preempted_scored) ++preempted_scored;
      if (record.made.request.max_tokens == 0) ++no_tokens;
      if (least > 0 && record.output.size() > least) ++beyond_least;
    }
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
  for (const auto& [name, n] : totals.faults) {
    std::printf("  fault %-18s %8llu\n", name.c_str(), static_cast<unsigned long long>(n));
    all = all && n > 0;
  }
  for (const core::SequenceTransition& t : core::SequenceTransitions()) {
    const uint64_t n =
        totals.transitions[static_cast<size_t>(t.from)][static_cast<size_t>(t.event)];
    std::printf("  move  %-10s %-9s %6llu\n", core::SequenceStateName(t.from),
                core::SequenceEventName(t.event), static_cast<unsigned long long>(n));
    all = all && n > 0;
  }
  all = all && totals.mixed_steps > 0 && totals.preemptions > 0;
  for (const auto& [name, n] :
       {std::pair{"timed out", totals.timed_out},
        {"preempted with a part of the prompt scored", totals.preempted_scored},
        {"wanted no token", totals.no_tokens},
        {"went beyond min_tokens", totals.beyond_least},
        {"were cut in their output by a kill", totals.cut}}) {
    std::printf("  requests that %-44s %6llu\n", name, static_cast<unsigned long long>(n));
    all = all && n > 0;
  }
  for (const auto& [name, n] :
       {std::pair{"kills", totals.kills},
        {"blocks flushed before a kill and read after it", totals.found_after_kill},
        {"blocks driven out of the pool into the tier", totals.spilled},
        {"prompt tokens found in the cache", totals.cached_tokens},
        {"steps whose head of the queue waited for a leader", totals.followed},
        {"reads given up for being late", totals.late_reads},
        {"requests refused for their wait", totals.refused},
        {"rows of padding", totals.padding_rows},
        {"steps in which a batch filled", totals.fills},
        {"urgent requests that joined a running batch", totals.joined},
        {"preemptions for memory", totals.preemptions_by[0]},
        {"preemptions for a slot", totals.preemptions_by[1]},
        {"preemptions for blocks", totals.preemptions_by[2]},
        {"preemptions for aging", totals.preemptions_by[3]}}) {
    std::printf("  %-50s %8llu\n", name, static_cast<unsigned long long>(n));
    all = all && n > 0;
  }
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
  app.add_option("--plant", plant_name,
                 "Plant a bug: leak lost double starve reorder diff scored_twice "
                 "deadline_missed early_end past_stop stale_block claim_lost shared_tenant "
                 "partial_name class_starved share_ignored aging_forgotten victim_twice "
                 "batch_joined");
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
  std::printf("%llu requests in %llu steps (%llu mixed), %llu preemptions\n",
              static_cast<unsigned long long>(totals.requests),
              static_cast<unsigned long long>(totals.steps),
              static_cast<unsigned long long>(totals.mixed_steps),
              static_cast<unsigned long long>(totals.preemptions));
  const bool covered = !coverage || Covered(totals);
  if (failed == 0 && *plant != Plant::kNone) {
    std::printf("the planted bug %s was not caught\n", plant_name.c_str());
  }
  return failed == 0 && covered ? 0 : 1;
}

}  // namespace
}  // namespace ropeway::sim

int main(int argc, char** argv) { return ropeway::sim::Main(argc, argv); }
