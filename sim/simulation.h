// One simulated run: setup (from the seed), start (deliver inputs, step, look), check.
#ifndef ROPEWAY_SIM_SIMULATION_H_
#define ROPEWAY_SIM_SIMULATION_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/random.h"
#include "checks.h"
#include "core/sequence_state.h"
#include "doubles.h"
#include "engine/engine_core.h"
#include "scheduling_checks.h"
#include "setup.h"

namespace ropeway::sim {

struct Report {
  std::map<std::string, std::string> violations;  // Check -> what was seen first.
  uint64_t digest = 0;                            // Of everything that happened, in order.
  std::map<RequestId, Record> records;
  std::map<std::string, uint64_t, std::less<>> faults_fired;
  core::TransitionCounts transitions{};
  engine::CoreStats stats;
  uint64_t mixed_steps = 0;  // Steps with both decodes and prefill chunks.
  // Over all lives of the engine.
  uint64_t kills = 0;
  uint64_t found_after_kill = 0;  // Blocks flushed before a kill and read after it.
  uint64_t spilled = 0;           // Blocks driven out of the pool into the tier.
  uint64_t cached_tokens = 0;     // Of prompts, found when they began to compute.
  uint64_t followed = 0;          // Steps in which the head of the queue waited for a leader.
  uint64_t late_reads = 0;
  uint64_t refused = 0;  // Requests that would have waited too long, or too many tokens.
  uint64_t padding_rows = 0;
  uint64_t joined = 0;  // Urgent requests that started beside a running batch.
  uint64_t fills = 0;   // Steps in which a batch filled.
  std::array<uint64_t, scheduler::kNumPreemptReasons> preemptions_by{};
};

// Runs the seed twice, and its requests once more undisturbed (huge pool, no faults, cancels or
// plants), and compares. The report is the first run's with all violations.
Report RunSeed(uint64_t seed, Plant plant, bool verbose);

class Simulation {
 public:
  Simulation(const Setup& setup, bool verbose);

  Report Run();

 private:
  struct Input {
    enum class Kind { kArrival, kCancel, kStop };
    Kind kind = Kind::kArrival;
    RequestId id = 0;  // kCancel, kStop.
    SimRequest made;   // kArrival.
  };

  // Makes the core: at the start, and again after a kill.
  void StartEngine();
  void Kill();
  // Adds what the core counted to the report, before it is gone.
  void CountLife();
  // `priority`: of a request that replaces one that ended.
  void ScheduleArrival(std::optional<Priority> priority = std::nullopt);
  void DeliverDue();
  void Deliver(Input input);
  // `again`: its first try was cut by a kill.
  void Arrive(SimRequest made, bool again);
  void Finish(RequestId id, FinishReason reason);
  void Step();
  void DisturbFetching();
  void Receive(std::vector<engine::CoreEvent> events);
  void React(const engine::CoreEvent& event);
  void Trace(uint64_t value) { digest_ = base::Mix64(digest_, value); }
  bool Hopeless() const;
  // Names all partial blocks that the requests can have by now, for Plant::kPartialName.
  void NamePartials();

  const Setup setup_;
  const bool verbose_;
  base::SeededRandom fault_random_;
  base::SeededRandom check_random_;
  base::FaultPoints faults_;
  base::VirtualClock clock_;
  SimExecutor executor_;
  SimTier tier_;
  std::unique_ptr<policy::SchedulingPolicy> policy_;
  std::unique_ptr<engine::EngineCore> core_;
  Checks checks_;
  SchedulingChecks scheduling_;
  std::multimap<base::TimePoint, Input> inbox_;  // Equal times keep their order.
  int next_request_ = 0;
  base::TimePoint last_arrival_{0};
  int burst_left_ = 0;
  uint64_t digest_ = 0;
  // For Plant::kPartialName: the requests' ids and block names so far, and of each partial block's
  // name the request and the block's index.
  std::map<RequestId, core::Sequence> named_;
  std::unordered_map<core::BlockName, std::pair<uint64_t, int32_t>, core::BlockNameHash> partials_;
  Report report_;  // Of the lives that are over, and what is counted on the way.
};

}  // namespace ropeway::sim

#endif  // ROPEWAY_SIM_SIMULATION_H_
