// The dispatch of one model's requests to its replicas: queue, order, batches, retries. Pure logic
// in the caller's time: no thread, no clock, no socket.
//
// How it is used (see GatewayBackend). Each request is added, and from then on has exactly one end:
//
//   - Run says what to do now: send a request to a replica, drop an attempt, probe a replica, or
//     end a request with a status. It is called at next_look(), which other calls may change.
//   - What a replica answers to an attempt is passed to OnOutput, OnEnd or OnFailure. Attempts that
//     were dropped, or whose request has ended, may still call: they get false (kStale), and what
//     they brought is not for the client.
//   - The end is OnEnd's true, OnFailure's kFinal, Cancel's true or Run's kEnd, whichever is first.
//   - Where memory is short, any of them may throw std::bad_alloc. Lists and places fit
//     together all the same, so Run and Cancel may be called then.
#ifndef ROPEWAY_GATEWAY_DISPATCHER_H_
#define ROPEWAY_GATEWAY_DISPATCHER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "core/job.h"
#include "core/sequence_state.h"
#include "gateway/dispatch_attempts.h"
#include "gateway/dispatch_entries.h"
#include "gateway/dispatch_load.h"
#include "gateway/dispatch_options.h"
#include "gateway/dispatch_order.h"
#include "gateway/dispatch_places.h"
#include "gateway/dispatch_starts.h"
#include "gateway/replicas.h"
#include "gateway/retry_budget.h"
#include "policy/scheduling_policy.h"
#include "ropeway/backend.h"
#include "ropeway/request.h"
#include "ropeway/stats.h"
#include "ropeway/status.h"
#include "service/front_desk.h"

namespace ropeway::gateway {

// What Run wants done.
struct Decision {
  enum class Kind {
    kSend,   // Send the request to `replica` as `attempt`; `resume`: it goes on from its output.
    kDrop,   // Cancel `attempt` at `replica`: the request goes on elsewhere, or waits for it.
    kEnd,    // The request ended with `status`; `attempt`, unless it is 0, is to be cancelled.
    kProbe,  // Ask `replica` how it is, and pass the answer to OnProbe with `probe`.
  };
  Kind kind = Kind::kSend;
  RequestId id = 0;
  int replica = -1;
  uint32_t attempt = 0;  // Counted from 1.
  bool resume = false;
  bool drained = false;  // kDrop: for SetDraining. Else the replica was silent for too long.
  uint64_t probe = 0;
  core::StartedBatch batch;  // kSend: in which it started the first time.
  Status status;             // kEnd; of kUnavailable and kResourceExhausted with Retry-After.
};

// What becomes of a request whose attempt failed.
struct FailureOutcome {
  enum class Kind {
    kStale,   // The attempt was over; nothing happens.
    kRetry,   // It is queued to be sent again, from the start.
    kResume,  // It is queued to be resumed.
    kFinal,   // It has ended with `status`.
  };
  Kind kind = Kind::kStale;
  Status status;
};

// Totals since the start.
struct DispatchCounts : BatchCounts {
  uint64_t accepted = 0;
  uint64_t rejected = 0;
  uint64_t sent = 0;  // Attempts, with retries and resumptions.
  uint64_t retries = 0;
  uint64_t resumptions = 0;
  uint64_t retries_delayed = 0;  // Retries that waited for the budget.
};

// Rules.
//
// Order. The policy ranks what waits, with the engine's own objects: aged requests by arrival, then
// the rank, then the arrival (scheduler::Before). A request that runs is one that was sent. A step
// of the policy is kDispatchStep long, or as long as it takes until a new request may start. The
// policy is charged what replicas report: the prompt with the first byte, without what was cached
// there as far as is known, and tokens as they come; besides, the first token when the request is
// sent, so that tenants start in turn. Nothing that was sent is taken back: MayPreempt is not
// asked.
//
// Tenants. Two rules hold where requests are sent continuously under a fair policy and there are
// several tenants (ReplicaRules). First, requests of a tenant that has its share of the places, by
// weight, go behind those of tenants that have not, and not beyond the places of a replica while
// one of those waits. Second, each replica keeps a place for newcomers (PlaceAsk). So the first
// newcomer does not wait, and each further one waits for one end.
//
// Starting. With continuous batching, the first request in order is sent while a replica has a free
// place. With batches, scheduler::BatchFormer says what starts, and at most max_parallel_batches
// run at a time; requests of class high do not wait for a batch, in up to half the places.
// Replicas::Choose picks the replica. A request of class high that finds no place is sent all the
// same to a replica that preempts (BackendFacts): that knows the class and makes room by itself. If
// the replica shares its machine between tenants, one request of each tenant without running
// requests is sent so too. Both together are at most half as many as the replica has places.
//
// Failures. A request without output yet is sent again, if possible to another replica, at most
// max_retries times; it waits until the budget allows it. A request with output is resumed, at most
// max_resumptions times, if its ids are known and a replica has the identity of the one where it
// began; else it fails. A request that a backend rejects as wrong fails at once. If it had output,
// though, the request was good and the backend rejected the ids: it is sent once more without them,
// to be computed anew.
//
// Parts. DispatchEntries has the requests, by list and timer; DispatchOrder ranks waiting requests,
// and DispatchLoad predicts their waits and admits new ones; DispatchPlaces tells which replica has
// a free place for a request, DispatchStarts which start, DispatchBatches in which batch;
// DispatchAttempts follows what replicas do with them. The dispatcher moves each request from one
// to the next, and says what is to be done.
//
// Thread rule: one thread at a time, const methods too. Times do not go back between calls.
class Dispatcher final {
 public:
  // REQUIRES: options.Validate() is OK.
  explicit Dispatcher(DispatchOptions options);
  ~Dispatcher();
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  // --- Requests.

  // OK: the request is queued, and has one end from now on. Otherwise it is not:
  // kResourceExhausted (too much waits) or kUnavailable (no replica is alive, and requests are not
  // held), each with Retry-After. Throws std::bad_alloc with nothing changed.
  Status Add(DispatchRequest request, base::TimePoint now);
  // The requests of one client's one request (OpenAI's n): all, or none. REQUIRES: they have one
  // AdmissionGroup of this size, or there is one.
  Status AddAll(std::vector<DispatchRequest> requests, base::TimePoint now);

  // Appends what is to be done now. Where it throws, what it has appended so far is to be done all
  // the same; the rest comes with the next call.
  void Run(base::TimePoint now, std::vector<Decision>* decisions);
  // When Run is to be called again though nothing else happens; TimePoint::max(): never.
  base::TimePoint next_look() const { return next_look_; }

  // Ends the request for its client, which is gone, or whose output is complete for another reason
  // than the backend's (`completed`). Returns false if it has ended before; true: this is its end,
  // and its attempt, if it has one, is to be cancelled.
  bool Cancel(RequestId id, base::TimePoint now, bool completed = false);
  // The first byte of an answer came, or more of it: call it before the client gets anything.
  // False: the attempt is over.
  bool OnOutput(RequestId id, uint32_t attempt, const AttemptOutput& output, base::TimePoint now);
  // Nothing of an answer came, but its replica says that it has the request still.
  void OnAlive(RequestId id, uint32_t attempt, base::TimePoint now);
  // The answer is complete. True: this is the request's end; false: the attempt was over.
  bool OnEnd(RequestId id, uint32_t attempt, const Finish& end, base::TimePoint now);
  FailureOutcome OnFailure(RequestId id, uint32_t attempt, const Outcome& failure,
                           base::TimePoint now);

  // --- Replicas, by their position in DispatchOptions::replicas.

  void OnProbe(int replica, uint64_t probe, const StatusOr<BackendFacts>& facts,
               base::TimePoint now);
  // The replica gets no more requests, or may again. What runs there and can go on elsewhere does
  // so (Run's kDrop); the rest ends there.
  void SetDraining(int replica, bool draining, base::TimePoint now);
  // No more requests will come: a batch that fills begins.
  void set_flush(bool flush) {
    flush_ = flush;
    next_look_ = now_;
  }

  // --- Views.

  size_t size() const { return entries_.size(); }  // Requests without an end.
  int waiting() const { return static_cast<int>(queue().size()); }
  int running() const { return static_cast<int>(entries_.running().size()); }
  // Whether any replica takes requests, now or after a pause; if not, why: kUnavailable, with
  // Retry-After.
  bool any_alive() const { return replicas_.Alive() != 0; }
  Status WhyNoneIsAlive() const { return replicas_.WhyNoneIsAlive(now_); }
  // In order of their ids. Positions are as of the last step. O(n log n).
  std::vector<service::RequestInfo> Requests(base::TimePoint now) const {
    return order_.Requests(now);
  }
  // Requests that start before this one; -1: it was sent, or is not there. O(n).
  int32_t PositionOf(RequestId id) const { return order_.PositionOf(id); }
  service::QueueInfo Queue(const std::string* tenant, double weight) const {
    return load_.Queue(tenant, weight);
  }
  // Seconds until the first of the tenant's requests is predicted to end; at least 1.
  int RetryAfterSeconds(const std::string& tenant) const { return load_.RetryAfterSeconds(tenant); }
  // Its batching part, and the requests now.
  EngineStats Stats() const;
  ReplicaView ViewOf(int replica, base::TimePoint now) const {
    return replicas_[replica].View(now);
  }
  std::vector<ReplicaView> AllReplicas(base::TimePoint now) const { return replicas_.Views(now); }
  DispatchCounts counts() const;
  const core::TransitionCounts& transitions() const { return mover_.counts(); }
  const RetryBudget& retry_budget() const { return budget_; }
  const DispatchOptions& options() const { return options_; }

  // Lists, places, tokens and timers fit together; kInternal names what does not. O(n).
  Status CheckIntegrity() const;

  // For tests and the simulation: another policy with the same meaning. REQUIRES: no requests.
  void ReplacePolicy(std::unique_ptr<policy::SchedulingPolicy> policy) {
    order_.ReplacePolicy(std::move(policy));
  }
  policy::SchedulingPolicy* policy() { return order_.policy(); }

 private:
  using Entry = DispatchEntry;

  const DispatchEntries::List& queue() const { return entries_.waiting(); }
  void Advance(base::TimePoint now) {
    now_ = std::max(now_, now);
    load_.set_now(now_);
    attempts_.set_now(now_);
  }

  // A request's way.
  void Reserve(size_t more);
  Entry* Insert(std::unique_ptr<Entry> entry);
  // The reverse of Insert.
  void Remove(Entry* entry);
  void Enqueue(Entry* entry);
  void LeaveQueue(Entry* entry);
  void LeaveBatch(Entry* entry);
  void Requeue(Entry* entry, bool resumes);
  // The request, which has no attempt, ends: destroys the entry.
  void Erase(Entry* entry, core::SequenceEvent event, bool completed);
  // Requeues what lost its attempt, or ends it.
  FailureOutcome AfterFailure(Entry* entry, const Outcome& failure);

  // Time.
  void SetTimer(Entry* entry);
  // Of all requests there.
  void SetTimersAt(int replica);
  void RunTimers(std::vector<Decision>* decisions);
  void OnTimer(Entry* entry, std::vector<Decision>* decisions);
  void RunProbes(std::vector<Decision>* decisions);
  void RunHeld(std::vector<Decision>* decisions);
  void MoveDrained(std::vector<Decision>* decisions);
  // For one more: throws before anything has changed, instead of when it has.
  static void MakeRoom(std::vector<Decision>* decisions);
  void EndNow(Entry* entry, Status status, std::vector<Decision>* decisions);
  void Drop(Entry* entry, std::vector<Decision>* decisions);

  // Starting.
  // Returns when more may start without any event.
  base::TimePoint RunStarts(std::vector<Decision>* decisions);
  void Send(Entry* entry, const Route& route, std::vector<Decision>* decisions);

  const DispatchOptions options_;
  Replicas replicas_;
  RetryBudget budget_;
  core::SequenceMover mover_;

  DispatchEntries entries_;
  const DispatchPlaces places_;
  DispatchBatches batches_;
  DispatchOrder order_;
  DispatchLoad load_;
  DispatchStarts starts_;
  DispatchAttempts attempts_;
  bool flush_ = false;
  ReplicaMask drained_ = 0;  // Whose requests are to be moved.

  base::TimePoint now_{};
  base::TimePoint next_look_{};
  base::TimePoint next_held_ = base::TimePoint::max();   // When a held request ends.
  base::TimePoint down_since_ = base::TimePoint::max();  // No replica is alive.

  DispatchCounts counts_;
};

}  // namespace ropeway::gateway

#endif  // ROPEWAY_GATEWAY_DISPATCHER_H_
