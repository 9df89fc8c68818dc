// One simulated run: setup (from the seed), start (deliver inputs, step, look), check.
#ifndef ROPEWAY_SIM_SIMULATION_H_
#define ROPEWAY_SIM_SIMULATION_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "checks.h"
#include "core/sequence_state.h"
#include "engine/engine_core.h"
#include "setup.h"
#include "sim_clock.h"
#include "sim_executor.h"

namespace ropeway::sim {

struct Report {
  std::map<std::string, std::string> violations;  // Check -> what was seen first.
  uint64_t digest = 0;                            // Of everything that happened, in order.
  std::map<RequestId, Record> records;
  std::map<std::string, uint64_t, std::less<>> faults_fired;
  TransitionCounts transitions{};
  CoreStats stats;
  uint64_t mixed_steps = 0;  // Steps with both decodes and prefill chunks.
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

  void ScheduleArrival();
  void DeliverDue();
  void Deliver(Input input);
  void Arrive(SimRequest made);
  void Finish(RequestId id, FinishReason reason);
  void Step();
  void Receive(std::vector<CoreEvent> events);
  void React(const CoreEvent& event);
  void Trace(uint64_t value) { digest_ = Mix64(digest_, value); }
  bool Hopeless() const;

  const Setup setup_;
  const bool verbose_;
  SeededRandom fault_random_;
  SeededRandom check_random_;
  FaultPoints faults_;
  SimClock clock_;
  SimExecutor executor_;
  std::unique_ptr<SchedulingPolicy> policy_;
  std::unique_ptr<EngineCore> core_;
  Checks checks_;
  std::multimap<TimePoint, Input> inbox_;  // Equal times keep their order.
  int next_request_ = 0;
  TimePoint last_arrival_{0};
  int burst_left_ = 0;
  uint64_t mixed_steps_ = 0;
  uint64_t digest_ = 0;
};

}  // namespace ropeway::sim

#endif  // ROPEWAY_SIM_SIMULATION_H_
