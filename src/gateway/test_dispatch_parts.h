// The parts of a dispatcher without it, for their tests.
#ifndef ROPEWAY_GATEWAY_TEST_DISPATCH_PARTS_H_
#define ROPEWAY_GATEWAY_TEST_DISPATCH_PARTS_H_

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <utility>

#include "gateway/dispatch_attempts.h"
#include "gateway/dispatch_load.h"
#include "gateway/dispatch_order.h"
#include "gateway/dispatch_starts.h"
#include "policy/policies.h"

namespace ropeway::gateway {

class DispatchPartsTest : public testing::Test {
 protected:
  explicit DispatchPartsTest(const DispatchOptions& options) : options_(options.Resolved()) {
    Advance({});
  }

  void Advance(base::Duration time) {
    now_ += time;
    load_.set_now(now_);
    starts_.Look(now_);
    attempts_.set_now(now_);
  }
  // Queues the request, with the next id. Null: it was rejected, with status_.
  DispatchEntry* Queue(DispatchRequest request) {
    request.id = ++last_id_;
    entries_.Reserve(1);
    starts_.Reserve(last_id_);
    order_.Reserve(last_id_);
    auto made = std::make_unique<DispatchEntry>(std::move(request), last_id_ - 1);
    status_ = load_.Admit(made.get());
    if (!status_.ok()) return nullptr;
    DispatchEntry* const entry = entries_.Insert(std::move(made));
    entry->arrived = now_;
    order_.OnWaits(entry, now_);
    load_.Add(*entry);
    load_.Enter(entry);
    entries_.Wait(entry);
    return entry;
  }
  // Takes it out of the queue.
  void Unqueue(DispatchEntry* entry) {
    load_.Leave(entry);
    entries_.StopWaiting(entry);
    load_.LeaveQueue(entry->id());
    entry->place.Release();
  }
  // Sends it, so that it decodes.
  void Send(DispatchEntry* entry, int replica = 0) {
    Unqueue(entry);
    entries_.Send(entry, replica);
    entry->state = core::SequenceState::kDecoding;
    replicas_[replica].OnSent(entry->prompt_len, entry->tenant->running == 1, now_);
  }

  const DispatchOptions options_;
  base::TimePoint now_ = std::chrono::seconds(1000);
  Replicas replicas_{options_.replicas, options_.rules};
  RetryBudget budget_{options_.retries};
  core::SequenceMover mover_;
  DispatchEntries entries_{options_.rules.tenants, replicas_.size(),
                           options_.queue.max_queued_requests};
  DispatchPlaces places_{&replicas_, &entries_.tenants()};
  DispatchBatches batches_{options_.former(), options_.batching.max_parallel_batches};
  DispatchOrder order_{*policy::MakePolicy(options_.queue), options_.queue.max_wait, &entries_,
                       &replicas_};
  DispatchLoad load_{{.options = options_,
                      .replicas = replicas_,
                      .entries = entries_,
                      .places = places_,
                      .batches = batches_},
                     *order_.policy()};
  DispatchStarts starts_{{.options = options_,
                          .replicas = replicas_,
                          .entries = entries_,
                          .order = order_,
                          .places = places_,
                          .load = load_,
                          .batches = batches_,
                          .budget = budget_}};
  DispatchAttempts attempts_{{.options = options_,
                              .replicas = replicas_,
                              .entries = entries_,
                              .order = order_,
                              .load = load_,
                              .mover = mover_}};
  Status status_;
  RequestId last_id_ = 0;
};

}  // namespace ropeway::gateway

#endif  // ROPEWAY_GATEWAY_TEST_DISPATCH_PARTS_H_
