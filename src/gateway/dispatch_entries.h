// The requests of a dispatcher that have not ended: by id, by whether an attempt is under way, by
// timer, and by tenant.
#ifndef ROPEWAY_GATEWAY_DISPATCH_ENTRIES_H_
#define ROPEWAY_GATEWAY_DISPATCH_ENTRIES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/shared_budget.h"
#include "core/job.h"
#include "gateway/dispatch_batches.h"
#include "gateway/dispatch_tenants.h"
#include "ropeway/request.h"
#include "ropeway/status.h"
#include "scheduler/admission.h"

namespace ropeway::gateway {

// `id` is unique, also among those that ended.
struct DispatchRequest : core::JobRequest {
  int32_t prompt_tokens = 1;     // Of its prompt, as estimated; at least 1.
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
  int32_t cached = 0;       // Of its ids, those that its replica has cached, as far as known.

  // What was given to the client, and what it comes from.
  bool given = false;
  bool ids_known = true;                        // Of all of it, and of one model.
  std::shared_ptr<const std::string> identity;  // Of the replica; null: not known.

  // What was charged.
  bool prompt_charged = false;
  int32_t prompt_paid = 0;  // Tokens of the prompt, once it is charged.
  int32_t prepaid = 0;      // Tokens, before they came.

  // Between attempts.
  bool resumes = false;  // It is gone on with; else it is sent again from the start.
  // Its ids were rejected: it is computed anew, once, and goes on where that is what was given.
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

  // The moves. An entry without a list waits,
  void Wait(DispatchEntry* entry);
  // or stops waiting and has none.
  void StopWaiting(DispatchEntry* entry);
  // One without a list is sent to the replica, as the next attempt,
  void Send(DispatchEntry* entry, int replica);
  // which is over. Returns whether its tenant runs nothing else there.
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
