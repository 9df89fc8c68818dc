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
               .budget = budget_}) {}

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

void Dispatcher::LeaveReplica(Entry* entry) {
  Replica& replica = replicas_[entry->replica];
  replica.OnLeft(std::exchange(entry->tokens_left, 0), entries_.EndAttempt(entry));
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

void Dispatcher::Charge(Entry* entry, int32_t prompt, int32_t output) {
  load_.OnWork(prompt, output);
  order_.Charge(entry, prompt, output);
}

void Dispatcher::OnFirstByte(Entry* entry) {
  if (entry->first_byte) return;
  entry->first_byte = true;
  entry->last_output = now_;
  Replica& replica = replicas_[entry->replica];
  const int32_t computed = std::max(0, entry->num_ids() - entry->cached);
  replica.OnFirstByte(now_ - entry->sent, computed);
  mover_.Move(entry->id(), &entry->state, core::SequenceEvent::kCaughtUp);
  entry->computed = entry->num_ids();
  const int64_t done = std::min<int64_t>(entry->tokens_left, computed);
  entry->tokens_left -= done;
  replica.OnTokens(done);
  if (!entry->prompt_charged) {
    Charge(entry, computed, 0);
    entry->prompt_charged = true;
    entry->prompt_paid = computed;
  }
  SetTimer(entry);
}

void Dispatcher::AddTokens(Entry* entry, int64_t reported) {
  // Whatever a backend says: no more than were asked for.
  const int32_t left = std::max(0, entry->request.max_tokens - entry->generated());
  const auto tokens = static_cast<int32_t>(std::clamp<int64_t>(reported, 0, left));
  if (tokens == 0) return;
  entry->length += tokens;
  entry->computed = entry->num_ids();
  const int64_t done = std::min<int64_t>(entry->tokens_left, tokens);
  entry->tokens_left -= done;
  replicas_[entry->replica].OnTokens(done);
  Charge(entry, 0, tokens);
}

bool Dispatcher::OnOutput(RequestId id, uint32_t attempt, const AttemptOutput& output,
                          base::TimePoint now) {
  Advance(now);
  Entry* const entry = entries_.FindAttempt(id, attempt);
  if (entry == nullptr) return false;
  OnFirstByte(entry);
  AddTokens(entry, output.tokens);
  entry->last_output = now_;
  entry->given = true;
  entry->ids_known = entry->ids_known && output.ids_known;
  // The stream lives, so its replica is the same that answered the last probe.
  const Replica& replica = replicas_[entry->replica];
  if (entry->identity == nullptr && replica.options().can_resume) {
    entry->identity = replica.identity();
  }
  return true;
}

void Dispatcher::OnAlive(RequestId id, uint32_t attempt, base::TimePoint now) {
  Advance(now);
  Entry* const entry = entries_.FindAttempt(id, attempt);
  if (entry != nullptr) entry->last_output = now_;
}

int32_t Dispatcher::PromptUnpaid(const Entry& entry, const Finish& end) {
  const Usage& usage = end.usage;
  if (usage.prompt_tokens == Usage::kUnknown) return 0;
  // What is computed again elsewhere is not charged, and what a backend does not say about its
  // cache is as it was thought.
  int64_t paid = entry.prompt_len;
  if (entry.resumptions == 0 && usage.cached_tokens != Usage::kUnknown) paid = entry.prompt_paid;
  const int64_t unpaid = int64_t{usage.prompt_tokens} - std::max(usage.cached_tokens, 0) - paid;
  // Up to the estimate: a backend may say anything.
  return static_cast<int32_t>(std::clamp<int64_t>(unpaid, 0, entry.prompt_len));
}

bool Dispatcher::OnEnd(RequestId id, uint32_t attempt, const Finish& end, base::TimePoint now) {
  Advance(now);
  Entry* const entry = entries_.FindAttempt(id, attempt);
  if (entry == nullptr) return false;
  OnFirstByte(entry);
  if (end.usage.completion_tokens != Usage::kUnknown) {
    AddTokens(entry, int64_t{end.usage.completion_tokens} - entry->generated());
  }
  Charge(entry, PromptUnpaid(*entry, end), 0);
  Replica& replica = replicas_[entry->replica];
  replica.OnCompleted(now_ - entry->sent, now_);
  LeaveReplica(entry);
  Erase(entry, core::SequenceEvent::kEnd, true);
  next_look_ = now_;
  return true;
}

bool Dispatcher::Cancel(RequestId id, base::TimePoint now, bool completed) {
  Advance(now);
  Entry* const entry = entries_.Find(id);
  if (entry == nullptr) return false;
  if (entry->replica >= 0) {
    if (completed) replicas_[entry->replica].OnCompleted(now_ - entry->sent, now_);
    LeaveReplica(entry);
  }
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

void Dispatcher::OnReplicaFailed(int replica, FailureKind kind, int retry_after_seconds) {
  const bool last = (replicas_.Alive() & ~MaskOf(replica)) == 0;
  try {
    if (replicas_[replica].OnFailure(kind, retry_after_seconds, last, now_)) {
      replicas_.ForgetCache(replica);
    }
  } catch (const std::bad_alloc&) {  // Its next failure ejects it.
  }
}

bool Dispatcher::MayResume(const Entry& entry) const {
  return entry.given && entry.ids_known && !entry.replays && entry.identity != nullptr &&
         entry.resumptions < options_.max_resumptions && now_ < entry.request.deadline;
}

FailureOutcome Dispatcher::AfterFailure(Entry* entry, const Outcome& failure) {
  using Kind = FailureKind;
  Status status = base::CopyStatus(failure.status);
  if (status.ok()) status = base::MakeStatus(StatusCode::kUnavailable, "the backend failed");
  const int replica = entry->replica;
  LeaveReplica(entry);
  // What a replica began to answer it did not find at fault.
  const bool rejected_late = failure.kind == Kind::kRejected && entry->given && !entry->resumes;
  // A replica that shares its machine between tenants has too much of this one, and may have room
  // for others: as its 429 says nothing of them, it is the request's alone.
  const bool is_tenants = failure.kind == Kind::kBusy &&
                          status.code() == StatusCode::kResourceExhausted &&
                          replicas_[replica].shares();
  if (!is_tenants) {
    OnReplicaFailed(replica, rejected_late ? Kind::kBroken : failure.kind,
                    failure.status.retry_after_seconds());
  }
  const bool in_time = now_ < entry->request.deadline;
  if (failure.kind == Kind::kRejected && entry->given &&
      status.code() != StatusCode::kDeadlineExceeded) {
    // A replica has begun to answer it. At fault is what came of that, and neither the request nor
    // this replica.
    if (entry->resumes && !entry->replays && in_time) {
      entry->replays = true;
      ++entry->resumptions;
      Requeue(entry, true);
      return {FailureOutcome::Kind::kResume, {}};
    }
    status = base::MakeStatus(StatusCode::kUnavailable, status.message().c_str());
  }
  if (failure.kind != Kind::kBusy || is_tenants) entry->failed_on |= MaskOf(replica);
  const bool elsewhere = (replicas_.Alive() & ~entry->failed_on) != 0;
  if (failure.kind != Kind::kRejected) {
    if (MayResume(*entry)) {
      ++entry->resumptions;
      Requeue(entry, true);
      return {FailureOutcome::Kind::kResume, {}};
    }
    const bool may_help = !is_tenants || elsewhere;
    if (!entry->given && in_time && may_help && entry->retries < options_.max_retries) {
      ++entry->retries;
      Requeue(entry, false);
      return {FailureOutcome::Kind::kRetry, {}};
    }
  }
  status.set_retry_after_seconds(failure.kind == Kind::kBusy
                                     ? scheduler::WholeSeconds(failure.status.retry_after_seconds())
                                     : 0);
  Erase(entry, core::SequenceEvent::kFail, false);
  return {FailureOutcome::Kind::kFinal, std::move(status)};
}

}  // namespace ropeway::gateway
