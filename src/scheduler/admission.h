// Whether a request is accepted, and when a rejected one is to come again: for an engine core and
// for the dispatch of a gateway.
#ifndef ROPEWAY_SCHEDULER_ADMISSION_H_
#define ROPEWAY_SCHEDULER_ADMISSION_H_

#include <cstdint>
#include <map>

#include "base/clock.h"
#include "base/shared_budget.h"
#include "core/job.h"
#include "ropeway/request.h"
#include "ropeway/status.h"
#include "scheduler/admission_tickets.h"
#include "scheduler/queue_load.h"

namespace ropeway::scheduler {

// Of a limit on what may wait, the amount that tenants share so that one alone has the limit: a
// SharedBudget gives it half. All tenants together have less than twice the limit.
int64_t SharedByTenants(int64_t limit_alone);

// The predicted wait of a request that comes now, in seconds: behind the tickets too, unless the
// queue alone is short.
double PredictedWait(const LoadView& load, const LoadView::Asker& asker, base::Duration max_wait);

// When to retry (Retry-After) after a predicted wait of `wait`, both in seconds: half of max_wait
// before the turn comes (see AdmissionTickets), as WholeSeconds.
int RetryAfter(double wait, base::Duration max_wait);

// Seconds as Retry-After says them: whole ones, from 1 to an hour's.
int WholeSeconds(double seconds);

// The queue alone is short if it takes at most this part of max_wait. Then it admits also those
// whose turn has not come, so that no slot is idle because others do not come again.
inline constexpr double kShortQueue = 0.25;

// The queue that an AdmissionControl stands before.
class AdmissionQueue {
 public:
  virtual ~AdmissionQueue() = default;
  // The job, which is not queued, would start at once.
  virtual bool StartsAtOnce(const core::Job& job) const = 0;
  // The load, which predicts waits. Throws std::bad_alloc.
  virtual void View(LoadView* view) const = 0;
  // The predicted work of a job that is not queued.
  virtual Work WorkOf(const core::Job& job) const = 0;
};

// Decides about requests, tenant by tenant. A request is rejected if
//
//   - it would wait longer than max_wait (LoadView::Wait, in which another tenant's backlog delays
//     nobody who is below its share) behind the queue and the tickets before it, and the queue
//     alone is not short, or
//   - its prompt is more than its tenant may have waiting (max_queued_tokens, base::SharedBudget).
//
// Then it gets a ticket. What is one to its client (core::AdmissionGroup) is decided once, by the
// first of it, and the wait that its own parts cause one another does not count. So an empty
// machine admits whatever fits it.
//
// Thread rule: the queue's.
class AdmissionControl {
 public:
  // `max_queued_tokens`: prompt tokens of one tenant that may wait while no other's do. `queue`
  // must outlive it.
  AdmissionControl(base::Duration max_wait, int64_t max_queued_tokens, const AdmissionQueue* queue);

  // OK: the job's prompt counts as waiting, until LeaveQueue. kResourceExhausted: it does not, and
  // the status says when to retry. `content` tells what it asks from other texts of its tenant.
  // Throws std::bad_alloc.
  Status Admit(const core::Job& job, uint64_t content, base::TimePoint now);
  // The request does not wait any more.
  void LeaveQueue(RequestId id) { queued_.erase(id); }

  // The load with what is booked, for predictions. Throws std::bad_alloc.
  void View(LoadView* view) const;

  const AdmissionTickets& tickets() const { return tickets_; }

 private:
  Status Decide(const core::Job& job, uint64_t content, base::TimePoint now);
  // False: its tenant has too many tokens waiting.
  bool TakeTokens(const core::Job& job);
  // `wait`: 0 if it is not the reason.
  Status Rejection(const core::Job& job, double wait, int seconds) const;

  const base::Duration max_wait_;
  const int64_t max_queued_tokens_;
  const AdmissionQueue* const queue_;
  base::SharedBudget tokens_;
  std::map<RequestId, base::SharedBudget::Hold> queued_;  // Tokens of prompts that wait.
  AdmissionTickets tickets_;
  LoadView view_;  // A member, so that a decision allocates little.
};

}  // namespace ropeway::scheduler

#endif  // ROPEWAY_SCHEDULER_ADMISSION_H_
