// A request's way through the dispatcher: added, sent, answered, sent again, ended.
#include "gateway/dispatcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "base/failure.h"

namespace ropeway::gateway {
Dispatcher::Dispatcher(DispatchOptions options)
    : options_(options.Resolved()),
      replicas_(options_.replicas, options_.rules),
      budget_(options_.retries),
      entries_(options_.rules.tenants, replicas_.size(), options_.max_queued_requests),
      places_(&replicas_, &entries_.tenants()),
      batches_(options_.former(), options_.max_parallel_batches),
      order_(*policy::MakePolicy(options_.policy), options_.max_wait, &entries_, &replicas_),
      load_({.options = options_,
             .replicas = replicas_,
             .entries = entries_,
             .places = places_,
             .batches = batches_},
            order_.policy()->is_fair()),
      starts_({.options = options_,
               .replicas = replicas_,
               .entries = entries_,
               .order = order_,
               .places = places_,
               .load = load_,
               .batches = batches_,
               .budget = budget_}),
      attempts_({.options = options_,
                 .replicas = replicas_,
                 .entries = entries_,
                 .order = order_,
                 .load = load_,
                 .mover = mover_}) {}

Dispatcher::~Dispatcher() = default;

// --- Adding.

// What later calls append without allocating: they are to fail for no want of memory.
void Dispatcher::Reserve(size_t more) {
  entries_.Reserve(more);
  starts_.Reserve(entries_.size() + more);
  order_.Reserve(entries_.size() + more);
}

Dispatcher::Entry* Dispatcher::Insert(std::unique_ptr<Entry> entry) {
  Entry* const inserted = entries_.Insert(std::move(entry));
  try {
    load_.Add(*inserted);
  } catch (...) {
    entries_.Remove(inserted);
    throw;
  }
  return inserted;
}

void Dispatcher::Remove(Entry* entry) {
  load_.Remove(*entry);
  entries_.Remove(entry);
}

Status Dispatcher::Add(DispatchRequest request, base::TimePoint now) {
  std::vector<DispatchRequest> one;
  one.push_back(std::move(request));
  return AddAll(std::move(one), now);
}

Status Dispatcher::AddAll(std::vector<DispatchRequest> requests, base::TimePoint now) {
  Advance(now);
  if (!any_alive() && options_.hold_timeout <= base::Duration(0)) {
    counts_.rejected += requests.size();
    return WhyNoneIsAlive();
  }
  std::shared_ptr<core::AdmissionGroup> group;
  if (requests.size() > 1 && requests[0].group == nullptr) {
    group = std::make_shared<core::AdmissionGroup>(static_cast<int32_t>(requests.size()));
  }
  Reserve(requests.size());
  std::vector<RequestId> added;
  added.reserve(requests.size());
  const auto undo = [&] {
    for (const RequestId id : added) {
      load_.LeaveQueue(id);
      if (Entry* const entry = entries_.Find(id)) Remove(entry);
    }
  };
  Status status;
  try {
    for (DispatchRequest& request : requests) {
      if (group != nullptr) request.group = group;
      auto entry = std::make_unique<Entry>(std::move(request), counts_.accepted + added.size());
      entry->arrived = now_;
      added.push_back(entry->id());
      status = load_.Admit(entry.get());
      if (!status.ok()) break;
      Insert(std::move(entry));
    }
  } catch (...) {
    undo();
    throw;
  }
  if (!status.ok()) {
    undo();
    counts_.rejected += requests.size();
    return status;
  }
  counts_.accepted += added.size();
  for (const RequestId id : added) {
    Entry* const entry = entries_.Find(id);
    batches_.OnArrival(now_);
    Enqueue(entry);
    SetTimer(entry);
  }
  next_look_ = now_;
  return {};
}

// --- Lists.

void Dispatcher::Enqueue(Entry* entry) {
  order_.OnWaits(entry, now_);
  load_.Enter(entry);
  entries_.Wait(entry);
}

void Dispatcher::LeaveQueue(Entry* entry) {
  load_.Leave(entry);
  entries_.StopWaiting(entry);
}

void Dispatcher::LeaveBatch(Entry* entry) {
  if (const uint64_t batch = std::exchange(entry->batch, 0); batch != 0)
    batches_.Leave(batch, now_);
}

void Dispatcher::Requeue(Entry* entry, bool resumes) {
  LeaveBatch(entry);
  mover_.Move(entry->id(), &entry->state, core::SequenceEvent::kPreempt);
  ++entry->preemptions;
  entry->computed = 0;
  entry->resumes = resumes;
  entry->pays = !resumes;
  entry->not_before = {};
  Enqueue(entry);
  SetTimer(entry);
}

void Dispatcher::Erase(Entry* entry, core::SequenceEvent event, bool completed) {
  const RequestId id = entry->id();
  if (entry->running()) {
    LeaveBatch(entry);
  } else {
    LeaveQueue(entry);
  }
  load_.LeaveQueue(id);
  if (completed) load_.OnFinished(*entry);
  order_.OnFinished(*entry, completed);
  mover_.Move(id, &entry->state, event);
  Remove(entry);
}

// --- What replicas answer.

bool Dispatcher::OnOutput(RequestId id, uint32_t attempt, const AttemptOutput& output,
                          base::TimePoint now) {
  Advance(now);
  Entry* const entry = entries_.FindAttempt(id, attempt);
  if (entry == nullptr) return false;
  if (attempts_.OnOutput(entry, output)) SetTimer(entry);
  return true;
}

void Dispatcher::OnAlive(RequestId id, uint32_t attempt, base::TimePoint now) {
  Advance(now);
  Entry* const entry = entries_.FindAttempt(id, attempt);
  if (entry != nullptr) attempts_.OnAlive(entry);
}

bool Dispatcher::OnEnd(RequestId id, uint32_t attempt, const Finish& end, base::TimePoint now) {
  Advance(now);
  Entry* const entry = entries_.FindAttempt(id, attempt);
  if (entry == nullptr) return false;
  attempts_.OnEnd(entry, end);
  Erase(entry, core::SequenceEvent::kEnd, true);
  next_look_ = now_;
  return true;
}

bool Dispatcher::Cancel(RequestId id, base::TimePoint now, bool completed) {
  Advance(now);
  Entry* const entry = entries_.Find(id);
  if (entry == nullptr) return false;
  if (entry->replica >= 0) attempts_.OnCancel(entry, completed);
  Erase(entry, core::SequenceEvent::kAbort, completed);
  next_look_ = now_;
  return true;
}

FailureOutcome Dispatcher::OnFailure(RequestId id, uint32_t attempt, const Outcome& failure,
                                     base::TimePoint now) {
  Advance(now);
  Entry* const entry = entries_.FindAttempt(id, attempt);
  if (entry == nullptr) return {};
  next_look_ = now_;
  return AfterFailure(entry, failure);
}

FailureOutcome Dispatcher::AfterFailure(Entry* entry, const Outcome& failure) {
  using Next = DispatchAttempts::Next;
  using Kind = FailureOutcome::Kind;
  Status status;
  const Next next = attempts_.OnFailure(entry, failure, &status);
  if (next == Next::kEnd) {
    Erase(entry, core::SequenceEvent::kFail, false);
    return {Kind::kFinal, std::move(status)};
  }
  Requeue(entry, next == Next::kResume);
  return {next == Next::kResume ? Kind::kResume : Kind::kRetry, {}};
}

}  // namespace ropeway::gateway
