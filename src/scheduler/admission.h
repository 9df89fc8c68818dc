// Whether a request is accepted, and when a rejected one is to come again: for an engine core and
// for the dispatch of a gateway.
#ifndef ROPEWAY_SCHEDULER_ADMISSION_H_
#define ROPEWAY_SCHEDULER_ADMISSION_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <string>

#include "base/clock.h"
#include "base/shared_budget.h"
#include "core/job.h"
#include "ropeway/request.h"
#include "ropeway/status.h"
#include "scheduler/queue_load.h"

namespace ropeway::scheduler {

// A rejected request gets a ticket. Tickets lengthen the queue by what is not in it: a request's
// predicted wait counts the queue and the work of the tickets before it, so the next rejected one
// is told a later time, and no new arrival goes before those that were told one. They keep the
// order and no slots: no slot is left empty for a ticket, and a short queue admits every
// request.
//
//   - Where they are kept: in the engine core, or in the gateway's dispatch, by its clock. A
//   restart
//     forgets them, which costs a second rejection and nothing else.
//   - Which request a ticket belongs to: clients need not send it back, since the usual ones retry
//     with the same body. A ticket belongs to the tenant, the class and the content (`key`) of its
//     request. A request of that content that comes when the ticket is due holds it. A request that
//     comes earlier holds it too if no client has sent that text for kApart, and is told the same
//     time again. Otherwise it counts as another request, since many clients may send the same text
//     at once.
//   - When it is due: Retry-After is the predicted wait (queue and tickets before it) less half of
//     max_wait. So its holder meets a queue of about max_wait / 2: neither a slot is idle if it is
//     late or the machine was faster than predicted, nor is it rejected again if the machine was
//     slower. A holder that is rejected again keeps its position and is told a new time.
//   - How long it lasts: kGrace beyond the time that was told. The work of those that never come
//     again holds back the others no longer.
//   - How many: kMostAlone of one tenant, all tenants together less than twice that, each by what
//     the others leave free (base::SharedBudget). A request that gets none is told the end of all
//     tickets.
//
// Thread rule: the queue's.
class AdmissionTickets {
 public:
  static constexpr base::Duration kGrace = std::chrono::seconds(10);
  static constexpr int64_t kMostAlone = 1024;
  static constexpr base::Duration kApart = std::chrono::milliseconds(250);
  // A client's clock is not ours: so much too early is in time.
  static constexpr base::Duration kEarly = std::chrono::milliseconds(250);

  // Requests among which the order is kept.
  struct Flow {
    std::string tenant;
    Priority priority = Priority::kMedium;
    auto operator<=>(const Flow&) const = default;
  };

  struct Ticket {
    uint64_t key = 0;  // Identifies its request's content, within its tenant.
    int32_t requests = 1;
    Work work;
    base::TimePoint made{};
    base::TimePoint due{};
    base::SharedBudget::Hold place;
  };

  // Drops tickets past their grace.
  void Expire(base::TimePoint now);

  bool empty() const { return flows_.empty(); }
  size_t size() const;

  // The ticket that a request of this content has, due or not; null: none.
  Ticket* Find(const Flow& flow, uint64_t key, base::TimePoint now);
  // The work of the tickets of the flow before this one, as seen by `view`.
  WaitingWork Before(const Flow& flow, const Ticket* ticket, const LoadView& view) const;
  // Adds all tickets' work to the view. Throws std::bad_alloc.
  void BookIn(LoadView* view) const;

  // Appends a ticket for `requests` requests of this content, whose work is `work` together, that
  // is due after so many seconds; without effect if the tenant has too many. Throws std::bad_alloc
  // with nothing changed.
  struct Offer {
    uint64_t key = 0;
    int32_t requests = 1;
    Work work;
    int seconds = 1;
  };
  void Add(const Flow& flow, double weight, const Offer& offer, base::TimePoint now);
  // Its holder is rejected again, and would have to come again after so many seconds. Returns the
  // seconds that it is told: where it came too early, those that are left.
  int Renew(Ticket* ticket, base::TimePoint now, int seconds);
  // Its holder was admitted.
  void Remove(const Flow& flow, const Ticket* ticket);

 private:
  struct Line {
    double weight = 1.0;
    std::list<Ticket> tickets;
    int32_t requests = 0;  // Of all tickets.
    Work work;             // Of all tickets.
  };
  using Lines = std::map<Flow, Line>;

  // Returns the ticket after it.
  static std::list<Ticket>::iterator Erase(Line* line, std::list<Ticket>::iterator ticket);
  void NoteDue(base::TimePoint due);

  base::SharedBudget places_{2 * kMostAlone};
  Lines flows_;  // Those that have tickets.
  // No ticket's grace ends before.
  base::TimePoint next_end_ = base::TimePoint::max();
};

// The amount that tenants share so that one tenant alone has `limit_alone`: a SharedBudget gives it
// half. All tenants together have less than twice the limit.
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
//   - it would wait longer than max_wait (LoadView::Wait, in which another tenant's backlog does
//     not delay a tenant below its share) behind the queue and the tickets before it, and the queue
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
