// One simulated run: setup (from the seed), start (deliver inputs, step, look), check.
#ifndef ROPEWAY_SIM_SIMULATION_H_
#define ROPEWAY_SIM_SIMULATION_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/random.h"
#include "checks.h"
#include "core/sequence_state.h"
#include "doubles.h"
#include "encoder.h"
#include "engine/engine_core.h"
#include "mask_checks.h"
#include "masks.h"
#include "scheduling_checks.h"
#include "setup.h"
#include "tenant_checks.h"

namespace ropeway::sim {

// By what was counted. A name is there, with 0, also if it never happened.
using Counts = std::map<std::string_view, uint64_t>;

struct Report {
  std::map<std::string, std::string> violations;  // Check -> what was seen first.
  uint64_t digest = 0;                            // Of everything that happened, in order.
  std::map<RequestId, Record> records;
  std::map<std::string, uint64_t, std::less<>> faults_fired;
  Counts counts;                         // Over all lives of the engine.
  core::TransitionCounts transitions{};  // Over all lives of the engine.
};

void Add(const core::TransitionCounts& more, core::TransitionCounts* sum);

// Runs the seed twice, and its requests once more undisturbed (huge pool, no faults, cancels or
// plants), and compares. The report is the first run's with all violations.
Report RunSeed(uint64_t seed, Plant plant, bool verbose);

class Simulation {
 public:
  Simulation(const Setup& setup, bool verbose);

  Report Run();

 private:
  struct Input {
    enum class Kind { kText, kArrival, kCancel, kStop };
    Kind kind = Kind::kArrival;
    RequestId id = 0;  // kCancel, kStop.
    SimRequest made;   // kText: its text is to be encoded first; kArrival.
  };

  // Makes the core: at the start, and again after a kill.
  void StartEngine();
  void Kill();
  // Adds what the core counted, before it is gone.
  void CountLife();
  void CountRequests();
  void Count(std::string_view what, uint64_t n) { report_.counts[what] += n; }
  // `priority`: of a request that replaces one that ended.
  void ScheduleArrival(std::optional<Priority> priority = std::nullopt);
  // With a hostile tenant: the tenant's next request, or `again`, is sent after this time.
  void ScheduleOf(int tenant, base::Duration after);
  void ScheduleAgain(SimRequest made, const Status& answer);
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
  base::SeededRandom late_random_;
  base::FaultPoints faults_;
  base::VirtualClock clock_;
  SimExecutor executor_;
  SimTier tier_;
  SimMasks masks_;
  std::unique_ptr<policy::SchedulingPolicy> policy_;
  std::unique_ptr<engine::EngineCore> core_;
  Checks checks_;
  SchedulingChecks scheduling_;
  TenantChecks tenants_;
  MaskChecks mask_checks_;
  SimEncoder encoder_;                           // With a hostile tenant: of all requests.
  std::multimap<base::TimePoint, Input> inbox_;  // Equal times keep their order.
  int next_request_ = 0;
  std::array<int, kNumSimTenants> next_of_{};  // With a hostile tenant, by tenant.
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
