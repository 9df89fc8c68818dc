// How much work a dispatcher's requests are: which of them are admitted, and how long they wait.
#ifndef ROPEWAY_GATEWAY_DISPATCH_LOAD_H_
#define ROPEWAY_GATEWAY_DISPATCH_LOAD_H_

#include <chrono>
#include <cstdint>
#include <string>

#include "base/clock.h"
#include "gateway/dispatch_entries.h"
#include "gateway/dispatch_options.h"
#include "gateway/dispatch_places.h"
#include "gateway/replicas.h"
#include "policy/scheduling_policy.h"
#include "ropeway/status.h"
#include "scheduler/admission.h"
#include "scheduler/cost_model.h"
#include "scheduler/queue_load.h"
#include "service/front_desk.h"

namespace ropeway::gateway {

// A token is a unit of work, whatever it attends to, and sampling costs nothing. The pace is
// measured while at least half the places are taken, from what replicas report.
//
// Thread rule: the dispatcher's.
class DispatchLoad final : private scheduler::AdmissionQueue {
 public:
  // A busy interval counts for the pace from this length on.
  static constexpr base::Duration kPaceInterval = std::chrono::milliseconds(200);

  // What it reads of the dispatcher. All must outlive it.
  struct Sources {
    const DispatchOptions& options;
    const Replicas& replicas;
    DispatchEntries& entries;
    const DispatchPlaces& places;
    const DispatchBatches& batches;
  };
  DispatchLoad(const Sources& sources, const policy::SchedulingPolicy& policy);

  // All answers are as of this time.
  void set_now(base::TimePoint now) { now_ = now; }

  // OK: the entry may come, and has its place in the queue. Otherwise kResourceExhausted, with
  // Retry-After.
  Status Admit(DispatchEntry* entry);
  // The request waits for its first start no more.
  void LeaveQueue(RequestId id) { admission_.LeaveQueue(id); }

  // Entries come and go, wait and do not. As QueueLoad's.
  void Add(const DispatchEntry& entry) { work_.Add(entry); }
  void Remove(const DispatchEntry& entry) { work_.Remove(entry); }
  void Enter(DispatchEntry* entry) { work_.Enter(entry); }
  void Leave(DispatchEntry* entry) { work_.Leave(entry); }
  void OnFinished(const DispatchEntry& entry) { work_.OnFinished(entry); }
  // The tokens that it is predicted to generate in all.
  int32_t OutputsOf(const DispatchEntry& entry) const { return work_.OutputsOf(entry, 0); }

  // So many tokens were computed.
  void OnWork(int32_t prompt, int32_t output) {
    done_.prompt += prompt;
    done_.output += output;
  }
  // Ends the interval in which the pace is measured, if it is long enough.
  void Measure();

  // The requests by class, and the waits that the tenant would have (null: all tenants).
  service::QueueInfo Queue(const std::string* tenant, double weight) const;
  // Seconds until the first of the tenant's requests is predicted to end; at least 1.
  int RetryAfterSeconds(const std::string& tenant) const;

 private:
  // AdmissionQueue.
  bool StartsAtOnce(const core::Job& job) const override;
  void View(scheduler::LoadView* view) const override;
  scheduler::Work WorkOf(const core::Job& job) const override { return work_.WorkOf(job); }

  scheduler::LoadView Predict() const;
  int limit() const {
    return from_.options.batching.enable_batching ? from_.replicas.limit(now_) : 1;
  }

  const Sources from_;
  const scheduler::CostModel costs_{0.0, /*learns=*/false};
  scheduler::QueueLoad work_;
  scheduler::AdmissionControl admission_;
  base::TimePoint now_{};
  // The present interval.
  base::TimePoint since_{};
  scheduler::Work done_;
  bool busy_ = false;
};

}  // namespace ropeway::gateway

#endif  // ROPEWAY_GATEWAY_DISPATCH_LOAD_H_
