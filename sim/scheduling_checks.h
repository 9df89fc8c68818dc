// Checks of the order of scheduling under every strategy and policy, from outside.
#ifndef ROPEWAY_SIM_SCHEDULING_CHECKS_H_
#define ROPEWAY_SIM_SCHEDULING_CHECKS_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/engine_core.h"
#include "setup.h"

namespace ropeway::sim {

// The checks, by the name under which a violation is reported:
//   waiting_bound  a request waited past max_wait although a later one started and later ones held
//                  more than half the slots, not aged ones (not between tenants, where their
//                  service decides); or for more steps than all earlier requests need
//   class_order    a request of a lower class started while one of a higher class waited that was
//                  below its share
//   shares         the classes' parts of the work were not their shares, over 30 s in which all of
//                  them always had requests waiting
//   ping_pong      a request was preempted (not for memory, nor for a tenant's first slot) before
//                  it had run kMinRunSteps, or too often for a higher class
//   batch_whole    a request started while a batch ran (not continuous), and was not of class high
//                  with urgent_joins
// Aged requests are exempt from the classes' order and shares.
class SchedulingChecks {
 public:
  using ViolateFn = std::function<void(const std::string& check, const std::string& message)>;

  // `may_follow`: whether a request may wait for another one that computes the same prefix.
  SchedulingChecks(const Setup& setup, ViolateFn violate, std::function<bool(RequestId)> may_follow)
      : setup_(setup), violate_(std::move(violate)), may_follow_(std::move(may_follow)) {}

  void OnAdd(const SimRequest& made, uint64_t order, base::TimePoint now);
  void OnEvent(const engine::CoreEvent& event);
  void OnKill();
  // The step began at `begin` and computed `content`.
  void AfterStep(const engine::CoreStats& stats, const core::StepContent& content,
                 base::TimePoint begin, base::TimePoint end);
  void AtEnd();

  // Urgent requests that started beside a running batch.
  uint64_t joined() const { return joined_; }

 private:
  struct Request {
    Priority priority = Priority::kMedium;
    uint64_t order = 0;
    bool waits = true;
    bool masked = false;         // It may rest, for its sampling may be costly.
    bool decodes = false;        // It had a token since it started or resumed.
    bool ended = false;          // Its end was reported in this step, perhaps requested before.
    bool started_now = false;    // In this step, for the first time.
    bool overdue = false;        // At the beginning of this step, while it waited.
    uint64_t batch = 0;          // Number of the batch in which it started.
    bool aged = false;           // It was overdue when it started or resumed, or since.
    bool waited_long = false;    // BeginOfDue when it started, or more.
    base::TimePoint since{};     // Since when it waits, in the queue or for a chunk.
    bool is_long = false;        // Others may pass it while the long ones' budget is spent.
    int64_t must_start_by = -1;  // In busy steps; negative: it is not overdue.
    int32_t run_steps = 0;       // Since it started or resumed, with those in which it rested.
    int32_t preemptions = 0;
    int32_t turns = 0;        // Of these, those for another tenant or for one past max_wait.
    int64_t turned_step = 0;  // The last step in which it started or was preempted.
  };

  // Whether tenants take turns: which request starts first depends on what each tenant had
  // (TenantChecks).
  bool several_tenants() const {
    return setup_.tenants > 1 && setup_.core.queue.policy.find("fair") != std::string::npos;
  }
  bool has_classes() const { return setup_.core.queue.policy.find("priority") == 0; }
  bool continuous() const { return scheduler::IsContinuous(setup_.core.scheduler); }
  // A request started in the batch of this number.
  void CheckBatch(RequestId id, Request* request, uint64_t batch);
  void NoteWork(const core::StepContent& content, base::TimePoint begin);
  void CheckWaiting(const engine::CoreStats& stats);
  // How long a request has waited, at least, that starts because it is due.
  base::Duration BeginOfDue() const;
  void CheckOrder(RequestId started, const Request& its, int64_t limit, int64_t aged);
  void CountShares(const core::StepContent& content, base::TimePoint end);

  const Setup& setup_;
  const ViolateFn violate_;
  const std::function<bool(RequestId)> may_follow_;
  std::map<RequestId, Request> requests_;  // Those that have not ended.
  std::vector<engine::CoreEvent> events_;  // Of this step.
  int64_t steps_ = 0;                      // Of this engine's life.
  base::Duration longest_step_{};
  int64_t busy_steps_ = 0;       // Steps that computed something, and put no mask off.
  uint64_t deferred_masks_ = 0;  // CoreStats::deferred_masks.
  uint64_t batch_ = 0;           // The running batch; 0: none has begun.
  uint64_t joined_ = 0;
  // By class: busy steps in a row in which it was there and got nothing.
  std::array<int64_t, kNumPriorities> starved_{};
  // Work of a time in which all classes always had requests waiting.
  std::array<double, kNumPriorities> work_{};
  base::TimePoint backlog_since_ = base::TimePoint::max();
  bool measured_ = false;
};

}  // namespace ropeway::sim

#endif  // ROPEWAY_SIM_SCHEDULING_CHECKS_H_
