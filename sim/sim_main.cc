// sim_main: runs the engine core, or the gateway's dispatcher, in virtual time, one run per seed,
// and looks for violations.
//
//   sim_main                          seeds 1..400
//   sim_main --seed 7 --verbose       one seed, with what happens
//   sim_main --seeds 1..400 --coverage  fails too unless every fault point fired and every move of
//                                     the transition table was seen
//   sim_main --plant leak             with a planted bug: exit code 1 where it is caught
//   sim_main --world gateway ...      the gateway's world, which has plants of its own
//
// Exit code: 0 nothing found, 1 a violation (named), 2 a wrong command line.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "gateway_world.h"
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

void ExplainSeed(uint64_t seed, const std::string& setup,
                 const std::map<std::string, std::string>& violations, const std::string& flags) {
  const std::string number = std::to_string(seed);
  std::printf("seed %s FAILED\n  setup: %s\n", number.c_str(), setup.c_str());
  for (const auto& [check, message] : violations) {
    std::printf("  violation of %s: %s\n", check.c_str(), message.c_str());
  }
  std::printf("  again: sim_main --seed %s%s --verbose\n", number.c_str(), flags.c_str());
}

void Explain(const Setup& setup, const Report& report) {
  ExplainSeed(setup.seed, Describe(setup), report.violations,
              setup.plant == Plant::kNone ? "" : std::string(" --plant ") + PlantName(setup.plant));
}

void PrintDigest(uint64_t seed, uint64_t digest) {
  std::printf("seed %llu digest %016llx\n", static_cast<unsigned long long>(seed),
              static_cast<unsigned long long>(digest));
}

void NotCaught(const std::string& plant) {
  std::printf("the planted bug %s was not caught\n", plant.c_str());
}

// Prints how often something happened; false: never.
bool Note(std::string_view name, uint64_t n) {
  std::printf("  %-52.*s %8llu\n", static_cast<int>(name.size()), name.data(),
              static_cast<unsigned long long>(n));
  return n > 0;
}

// What the seeds together never did; a test that does not meet a case says nothing about it.
bool Covered(const Totals& totals) {
  bool all = true;
  const auto note = [&all](std::string_view name, uint64_t n) { all = Note(name, n) && all; };
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

// What is asked for on the command line.
struct Asked {
  unsigned long long first = 0;
  unsigned long long last = 0;
  std::string plant = "none";
  bool verbose = false;
  bool coverage = false;
};

int RunEngine(const Asked& asked, Plant plant) {
  Totals totals;
  int failed = 0;
  for (uint64_t s = asked.first; s <= asked.last; ++s) {
    current_seed = s;
    const Setup setup = MakeSetup(s, plant);
    const Report report = RunSeed(s, plant, asked.verbose);
    totals.Add(setup, report);
    if (asked.verbose) PrintDigest(s, report.digest);
    if (report.violations.empty()) continue;
    Explain(setup, report);
    if (++failed == 5 || plant != Plant::kNone) break;
  }
  for (const char* const name : {"requests", "steps", "preemptions"}) {
    std::printf("%llu %s\n", static_cast<unsigned long long>(totals.counts[name]), name);
  }
  const bool covered = !asked.coverage || Covered(totals);
  if (failed == 0 && plant != Plant::kNone) NotCaught(asked.plant);
  return failed == 0 && covered ? 0 : 1;
}

int RunGateway(const Asked& asked, GatewayPlant plant) {
  std::map<std::string_view, uint64_t> counts;
  int failed = 0;
  for (uint64_t s = asked.first; s <= asked.last; ++s) {
    current_seed = s;
    const GatewayReport report = RunGatewaySeed(s, plant, asked.verbose);
    for (const auto& [name, n] : report.counts) counts[name] += n;
    if (asked.verbose) PrintDigest(s, report.digest);
    if (report.violations.empty()) continue;
    ExplainSeed(s, Describe(MakeGatewaySetup(s, plant)), report.violations,
                plant == GatewayPlant::kNone
                    ? " --world gateway"
                    : std::string(" --world gateway --plant ") + GatewayPlantName(plant));
    if (++failed == 5 || plant != GatewayPlant::kNone) break;
  }
  for (const char* const name : {"requests", "sends", "resumptions"}) {
    std::printf("%llu %s\n", static_cast<unsigned long long>(counts[name]), name);
  }
  bool covered = true;
  for (const auto& [name, n] : counts) {
    if (asked.coverage) covered = Note(name, n) && covered;
  }
  if (!covered) std::printf("FAILED: not covered: something above never happened\n");
  if (failed == 0 && plant != GatewayPlant::kNone) NotCaught(asked.plant);
  return failed == 0 && covered ? 0 : 1;
}

int Main(int argc, char** argv) {
  CLI::App app{"Simulates the engine core, or the gateway"};
  uint64_t seed = 0;
  std::string seeds = "1..400";
  std::string world = "engine";
  Asked asked;
  auto* one = app.add_option("--seed", seed, "Run this seed only");
  app.add_option("--seeds", seeds, "Run the seeds A..B")->excludes(one);
  app.add_option("--world", world, "engine, or gateway");
  app.add_option(
      "--plant", asked.plant,
      "Plant a bug: " + PlantNames() + "; of the gateway's world: " + GatewayPlantNames());
  app.add_flag("--verbose", asked.verbose, "Print what happens");
  app.add_flag("--coverage", asked.coverage,
               "Fail unless the seeds met every fault and transition");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  asked.first = asked.last = seed;
  const bool in_gateway = world == "gateway";
  const auto plant = in_gateway ? std::nullopt : ParsePlant(asked.plant);
  const auto gateway_plant = in_gateway ? ParseGatewayPlant(asked.plant) : std::nullopt;
  if ((world != "engine" && !in_gateway) || (!plant && !gateway_plant) ||
      (one->empty() && std::sscanf(seeds.c_str(), "%llu..%llu", &asked.first, &asked.last) != 2)) {
    std::fprintf(stderr, "sim_main: no such world or plant, or --seeds is not A..B\n");
    return 2;
  }
  std::signal(SIGABRT, OnAbort);
  return in_gateway ? RunGateway(asked, *gateway_plant) : RunEngine(asked, *plant);
}

}  // namespace
}  // namespace ropeway::sim

int main(int argc, char** argv) { return ropeway::sim::Main(argc, argv); }
