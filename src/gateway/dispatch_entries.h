// The requests of a dispatcher that have not ended: by id, by whether an attempt is under way, by
// timer, by tenant, and by the batch in which they started.
#ifndef ROPEWAY_GATEWAY_DISPATCH_ENTRIES_H_
#define ROPEWAY_GATEWAY_DISPATCH_ENTRIES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/shared_budget.h"
#include "core/job.h"
#include "gateway/replicas.h"
#include "ropeway/request.h"
#include "ropeway/stats.h"
#include "ropeway/status.h"
#include "scheduler/admission.h"
#include "scheduler/batch_former.h"

namespace ropeway::gateway {

// The tenants of the requests: what each has, and what its share of the places is. Thread rule: the
// dispatcher's.
class DispatchTenants {
 public:
  // A tenant with requests; it stays where it is until its last one has left.
  struct Tenant {
    double weight = 1.0;  // Its newest request's.
    int requests = 0;
    int urgent = 0;         // Requests of class high without an attempt under way.
    int running = 0;        // Requests with an attempt under way.
    std::vector<int> at;    // `running` by replica.
    ReplicaMask there = 0;  // Replicas with such an attempt.
    bool is_newcomer() const { return requests > 0 && running == 0; }
  };
  using ByName = std::map<std::string, Tenant, std::less<>>;

  // `expected`: tenants that may send requests, as far as is known; one alone has all places.
  DispatchTenants(int expected, size_t replicas) : expected_(expected), replicas_(replicas) {}

  // A request comes. Throws std::bad_alloc with nothing changed.
  Tenant* Enter(const std::string& name, double weight);
  // It ends. REQUIRES: it is in no queue and at no replica.
  void Leave(const std::string& name);
  // A request of class high enters the queue (1), or leaves it (-1).
  void CountUrgent(Tenant* tenant, int by) {
    tenant->urgent += by;
    urgent_ += by;
  }
  // An attempt is sent to the replica (1), or over there (-1).
  void CountAttempt(Tenant* tenant, int replica, int by);

  // Whether places are divided between tenants.
  bool divides() const { return expected_ > 1; }
  // Whether a tenant without running requests may yet come.
  bool expects_newcomers() const {
    return divides() && static_cast<int>(all_.size()) - newcomers_ < expected_;
  }
  // Whether one more of `limit` places would give the tenant more than its share, by the weights of
  // the tenants with requests. Its first place is always within its share.
  bool HasItsShare(const Tenant& tenant, int limit) const;

  const ByName& all() const { return all_; }
  int newcomers() const { return newcomers_; }  // Tenants without running requests.
  int urgent() const { return urgent_; }        // Requests in the queue.
  // A table like this one without requests, to count them again.
  DispatchTenants Empty() const { return {expected_, replicas_}; }
  // Whether both count the same, except for the weights.
  bool CountsAs(const DispatchTenants& other) const;

 private:
  const int expected_;
  const size_t replicas_;
  ByName all_;
  int newcomers_ = 0;
  int urgent_ = 0;
  double weights_ = 0.0;  // Sum over all of them.
};

// Totals since the start.
struct BatchCounts {
  uint64_t batches = 0;
  uint64_t batched = 0;  // Requests that started in them.
  double batch_sizes = 0.0;
  uint64_t batches_ended = 0;
  double batch_seconds = 0.0;  // Sum over the batches that ended.
};

// Requests that start together are a batch until the last of them has ended. Requests of class high
// that start beside the others (`joins`) are a batch of their own, which does not delay the next
// one. Thread rule: the dispatcher's.
class DispatchBatches {
 public:
  // `parallel`: batches that may run at once, without those that join.
  DispatchBatches(const SchedulingOptions& options, int parallel)
      : former_(options), parallel_(parallel) {}

  void OnArrival(base::TimePoint now) { former_.OnArrival(now); }
  bool may_run_more() const { return running_ < parallel_; }
  // How many of those that wait may start now; `view.running` is set here.
  int MayStart(scheduler::BatchFormer::QueueView view, base::TimePoint now) {
    view.running = may_run_more() ? 0 : 1;
    return former_.MayStart(view, now);
  }
  // When MayStart may say more without any event.
  base::TimePoint next_look() const { return former_.next_look(); }
  // Members of batches that joined.
  int joined() const { return joined_; }

  // Takes the memory of the next batch; throws std::bad_alloc.
  void Reserve();
  // `members` requests start as a batch that is said to have `size`. Returns its number, from 1 on.
  // REQUIRES: reserved since the last one; members > 0.
  struct Starting {
    int32_t members = 0;
    int64_t prompt_tokens = 0;
    int32_t size = 0;
    bool joins = false;
  };
  uint64_t Start(const Starting& starting, base::TimePoint now);
  // Since when the batch that starts next has been filling; for ever, if it joins.
  base::TimePoint filling_since(bool joins) const {
    return joins ? base::TimePoint::max() : former_.collecting_since();
  }
  // A member is under way no more.
  void Leave(uint64_t number, base::TimePoint now);

  const BatchCounts& counts() const { return counts_; }
  void AddTo(EngineStats* stats) const;
  // By number, the members under way.
  std::map<uint64_t, int32_t> Members() const;

 private:
  struct Batch {
    int32_t left = 0;  // Members under way.
    base::TimePoint began{};
    bool joins = false;
  };
  using ByNumber = std::map<uint64_t, Batch>;

  scheduler::BatchFormer former_;
  const int parallel_;
  ByNumber batches_;           // That have not ended.
  ByNumber::node_type spare_;  // Of the next batch; or empty.
  int running_ = 0;            // Without those that join.
  int joined_ = 0;
  BatchCounts counts_;
};

// `id` is unique, also among those that ended.
struct DispatchRequest : core::JobRequest {
  int32_t prompt_tokens = 1;     // Its prompt's length, as estimated; at least 1.
  std::vector<uint64_t> blocks;  // PrefixBlocks of its prompt.
};

// A request that has not ended: it waits, or an attempt is under way.
struct DispatchEntry : core::Job {
  DispatchEntry(DispatchRequest asked, uint64_t entries_before);

  bool is_urgent() const { return request.priority == Priority::kHigh; }
  // It was sent before: nothing that waits for the first time goes before it for that.
  bool was_sent() const { return state == core::SequenceState::kPreempted; }

  DispatchTenants::Tenant* tenant = nullptr;
  std::vector<uint64_t> blocks;
  base::TimePoint arrived{};
  base::SharedBudget::Hold place;                  // Until it is sent for the first time.
  size_t index = 0;                                // In its list.
  base::TimePoint timer = base::TimePoint::max();  // Set by DispatchEntries.
  bool fresh = true;                               // No step has seen it in the queue.
  uint64_t batch = 0;                              // That it is a member of; 0: none.

  // The attempt under way.
  uint32_t attempt = 0;  // Its number, or the last one's.
  int replica = -1;      // -1: none is under way.
  base::TimePoint sent{};
  base::TimePoint last_output{};  // Or OnAlive, or `sent`.
  bool first_byte = false;
  int64_t tokens_left = 0;  // Outstanding at its replica.
  int32_t cached = 0;       // Its ids that its replica has cached, as far as known.

  // What was given to the client, and what it comes from.
  bool given = false;
  bool ids_known = true;                        // Of all of it, and of one model.
  std::shared_ptr<const std::string> identity;  // The replica's identity; null: not known.

  // What was charged.
  bool prompt_charged = false;
  int32_t prompt_paid = 0;  // Tokens of the prompt, once it is charged.
  int32_t prepaid = 0;      // Tokens, before they came.

  // Between attempts.
  bool resumes = false;  // It is resumed; else it is sent again from the start.
  // Its ids were rejected: it is computed anew, once, and goes on if that gives the same output.
  bool replays = false;
  bool pays = false;  // It needs a token of the budget.
  int retries = 0;
  int resumptions = 0;
  ReplicaMask failed_on = 0;
  base::TimePoint queued_at{};                      // The last time.
  base::TimePoint not_before{};                     // Before this the budget has no token.
  base::TimePoint passed = base::TimePoint::max();  // Since when others pass it (affinity_wait).
};

// Thread rule: the dispatcher's.
class DispatchEntries {
 public:
  using List = std::vector<DispatchEntry*>;  // Unordered.

  // `tenants`: see ReplicaRules. `most_waiting`: requests of one tenant that may wait for their
  // first start while no other's do.
  DispatchEntries(int tenants, size_t replicas, int64_t most_waiting)
      : places_(scheduler::SharedByTenants(most_waiting)), tenants_(tenants, replicas) {}

  size_t size() const { return entries_.size(); }
  const List& waiting() const { return waiting_; }
  const List& running() const { return running_; }
  const DispatchTenants& tenants() const { return tenants_; }
  DispatchEntry* Find(RequestId id) const;
  // The entry, if this attempt of it is under way; else null.
  DispatchEntry* FindAttempt(RequestId id, uint32_t attempt) const;

  // Places in the queue, one of each entry until its first start. Its owner takes and releases it.
  base::SharedBudget& places() { return places_; }

  // Takes the memory that the moves of so many more entries need. Throws std::bad_alloc.
  void Reserve(size_t more);
  // Adds an entry, without a list yet. Throws std::bad_alloc with nothing changed.
  DispatchEntry* Insert(std::unique_ptr<DispatchEntry> entry);
  // Destroys an entry that is on no list.
  void Remove(DispatchEntry* entry);

  // The moves between the lists.

  // An entry without a list joins the queue.
  void Wait(DispatchEntry* entry);
  // A waiting entry leaves the queue, and is on no list then.
  void StopWaiting(DispatchEntry* entry);
  // An entry without a list runs at the replica, as its next attempt.
  void Send(DispatchEntry* entry, int replica);
  // The attempt is over, and the entry is on no list. Returns whether its tenant runs nothing else
  // at that replica.
  bool EndAttempt(DispatchEntry* entry);

  // Each entry has a timer, of TimePoint::max() at first. Does not throw.
  void SetTimer(DispatchEntry* entry, base::TimePoint due);
  // The earliest one; TimePoint::max(): none.
  base::TimePoint first_timer() const {
    return timers_.empty() ? base::TimePoint::max() : timers_.begin()->first;
  }
  // Of the earliest timer. REQUIRES: size() > 0.
  DispatchEntry* first_due() const { return Find(timers_.begin()->second); }

  // Lists, places, timers and tenants fit together, and what the replicas and the batches count
  // fits them; kInternal names what does not. O(n).
  Status CheckIntegrity() const;
  Status CheckReplicas(const Replicas& replicas) const;
  Status CheckBatches(const DispatchBatches& batches) const;

 private:
  static void AddTo(List* list, DispatchEntry* entry);
  static void RemoveFrom(List* list, DispatchEntry* entry);
  Status CheckList(const List& list, bool runs) const;

  base::SharedBudget places_;  // Outlives the entries.
  std::unordered_map<RequestId, std::unique_ptr<DispatchEntry>> entries_;
  List waiting_;
  List running_;
  DispatchTenants tenants_;
  std::set<std::pair<base::TimePoint, RequestId>> timers_;  // One of each entry.
};

}  // namespace ropeway::gateway

#endif  // ROPEWAY_GATEWAY_DISPATCH_ENTRIES_H_
