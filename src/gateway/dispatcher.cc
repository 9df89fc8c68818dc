#include "gateway/dispatcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "policy/policies.h"

namespace ropeway::gateway {
namespace {

// A decision about the entry's attempt, if one is under way.
Decision DecisionFor(Decision::Kind kind, const DispatchEntry& entry) {
  Decision decision;
  decision.kind = kind;
  decision.id = entry.id();
  decision.replica = entry.replica;
  if (entry.replica >= 0) decision.attempt = entry.attempt;
  return decision;
}

}  // namespace

Dispatcher::Dispatcher(DispatchOptions options)
    : options_(options.Resolved()),
      replicas_(options_.replicas, options_.rules),
      budget_(options_.retries),
      entries_(options_.rules.tenants, replicas_.size(), options_.queue.max_queued_requests),
      places_(&replicas_, &entries_.tenants()),
      batches_(options_.former(), options_.batching.max_parallel_batches),
      order_(*policy::MakePolicy(options_.queue), options_.queue.max_wait, &entries_, &replicas_),
      load_({.options = options_,
             .replicas = replicas_,
             .entries = entries_,
             .places = places_,
             .batches = batches_},
            *order_.policy()),
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
  if (!any_alive() && options_.failover.hold_timeout <= base::Duration(0)) {
    counts_.rejected += requests.size();
    return replicas_.WhyNoneIsAlive(now_);
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

// --- What is done now.

void Dispatcher::Run(base::TimePoint now, std::vector<Decision>* decisions) {
  Advance(now);
  RunTimers(decisions);
  RunProbes(decisions);
  MoveDrained(decisions);
  RunHeld(decisions);
  const base::TimePoint next_start = RunStarts(decisions);
  next_look_ =
      std::min({entries_.first_timer(), replicas_.next_look(now_), next_held_, next_start});
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

// --- Time.

void Dispatcher::SetTimer(Entry* entry) {
  entries_.SetTimer(entry, attempts_.DueOf(*entry));
  next_look_ = std::min(next_look_, entry->timer);
}

void Dispatcher::SetTimersAt(int replica) {
  for (Entry* entry : entries_.running()) {
    if (entry->replica == replica) SetTimer(entry);
  }
}

void Dispatcher::RunTimers(std::vector<Decision>* decisions) {
  while (entries_.first_timer() <= now_) {
    Entry* const entry = entries_.first_due();
    // Output may have come since; each time there is none the timer moves on, or the entry goes.
    if (attempts_.DueOf(*entry) > now_) {
      SetTimer(entry);
    } else {
      OnTimer(entry, decisions);
    }
  }
}

void Dispatcher::MakeRoom(std::vector<Decision>* decisions) {
  if (decisions->size() < decisions->capacity()) return;
  constexpr size_t kLeast = 16;
  decisions->reserve(std::max(kLeast, 2 * decisions->size()));
}

void Dispatcher::OnTimer(Entry* entry, std::vector<Decision>* decisions) {
  if (now_ >= entry->request.deadline) {
    EndNow(entry, {StatusCode::kDeadlineExceeded, "the request did not end within its timeout"},
           decisions);
    return;
  }
  if (entry->replica < 0) {
    EndNow(
        entry,
        {StatusCode::kUnavailable,
         fmt::format("the stream was interrupted, and no backend could continue it within {:g} s",
                     base::ToSeconds(options_.resume_wait))},
        decisions);
    return;
  }
  MakeRoom(decisions);
  const bool begun = entry->first_byte;
  Outcome failure;
  failure.status = {StatusCode::kUnavailable,
                    fmt::format("it sent no {} for {:g} s", begun ? "more output" : "output",
                                base::ToSeconds(attempts_.PatienceFor(*entry)))};
  Decision decision = DecisionFor(Decision::Kind::kDrop, *entry);
  FailureOutcome outcome = AfterFailure(entry, failure);
  if (outcome.kind == FailureOutcome::Kind::kFinal) decision.kind = Decision::Kind::kEnd;
  decision.status = std::move(outcome.status);
  decisions->push_back(std::move(decision));
}

void Dispatcher::EndNow(Entry* entry, Status status, std::vector<Decision>* decisions) {
  MakeRoom(decisions);
  Decision decision = DecisionFor(Decision::Kind::kEnd, *entry);
  decision.status = std::move(status);
  if (entry->replica >= 0) attempts_.Leave(entry);
  decisions->push_back(std::move(decision));
  Erase(entry, core::SequenceEvent::kFail, false);
}

void Dispatcher::Drop(Entry* entry, std::vector<Decision>* decisions) {
  MakeRoom(decisions);
  decisions->push_back(DecisionFor(Decision::Kind::kDrop, *entry));
  decisions->back().drained = true;
  attempts_.Leave(entry);
}

void Dispatcher::RunProbes(std::vector<Decision>* decisions) {
  for (size_t i = 0; i < replicas_.size(); ++i) {
    const int replica = static_cast<int>(i);
    MakeRoom(decisions);
    Decision decision;
    decision.kind = Decision::Kind::kProbe;
    decision.replica = replica;
    bool ejected = false;
    const bool was_unheard = replicas_[replica].unheard();
    if (replicas_[replica].TakeProbe(now_, &decision.probe, &ejected)) {
      decisions->push_back(std::move(decision));
    }
    if (ejected) replicas_.ForgetCache(replica);
    if (!was_unheard && replicas_[replica].unheard()) SetTimersAt(replica);
  }
}

void Dispatcher::MoveDrained(std::vector<Decision>* decisions) {
  if (drained_ == 0) return;
  for (size_t i = 0; i < entries_.running().size();) {
    Entry* const entry = entries_.running()[i];
    const bool there = (drained_ & MaskOf(entry->replica)) != 0;
    const ReplicaMask others = replicas_.CanResume(entry->identity.get()) & replicas_.Alive();
    if (!there || !attempts_.MayResume(*entry) || others == 0) {
      ++i;
      continue;
    }
    Drop(entry, decisions);
    ++entry->resumptions;
    Requeue(entry, true);  // Another one takes its position.
  }
  drained_ = 0;
}

void Dispatcher::RunHeld(std::vector<Decision>* decisions) {
  next_held_ = base::TimePoint::max();
  if (any_alive()) {
    down_since_ = base::TimePoint::max();
    return;
  }
  down_since_ = std::min(down_since_, now_);
  for (size_t i = 0; i < queue().size();) {
    Entry* const entry = queue()[i];
    ++i;
    if (entry->resumes) continue;
    const base::TimePoint end =
        EndOf(std::max(down_since_, entry->queued_at), options_.failover.hold_timeout);
    if (now_ < end) {
      next_held_ = std::min(next_held_, end);
      continue;
    }
    EndNow(entry, replicas_.WhyNoneIsAlive(now_), decisions);
    --i;  // Another one takes its position.
  }
}

// --- Replicas.

void Dispatcher::OnProbe(int replica, uint64_t probe, const StatusOr<BackendFacts>& facts,
                         base::TimePoint now) {
  Advance(now);
  const bool alone = (replicas_.Alive() & ~MaskOf(replica)) == 0;
  const std::shared_ptr<const std::string> before = replicas_[replica].identity();
  const bool was_unheard = replicas_[replica].unheard();
  if (replicas_[replica].OnProbe(probe, facts, alone, now_)) replicas_.ForgetCache(replica);
  if (!was_unheard && replicas_[replica].unheard()) SetTimersAt(replica);
  const std::shared_ptr<const std::string>& after = replicas_[replica].identity();
  if (before != nullptr && after != nullptr && *before != *after) {
    // It is another one now. Which of the two sends the streams that run there is not known.
    for (Entry* entry : entries_.running()) {
      if (entry->replica == replica) entry->ids_known = false;
    }
    replicas_.ForgetCache(replica);
  }
  next_look_ = now_;
}

void Dispatcher::SetDraining(int replica, bool draining, base::TimePoint now) {
  Advance(now);
  replicas_[replica].set_draining(draining);
  if (draining) drained_ |= MaskOf(replica);
  next_look_ = now_;
}

// --- Starting.

base::TimePoint Dispatcher::RunStarts(std::vector<Decision>* decisions) {
  const size_t first = decisions->size();
  // Of all that were sent, also where the rest could not be.
  const auto set_batches = [&] {
    for (size_t i = first; i < decisions->size(); ++i) {
      (*decisions)[i].batch = entries_.Find((*decisions)[i].id)->sched.batch;
    }
  };
  load_.Measure();
  base::TimePoint next_start{};
  try {
    next_start = starts_.Run(now_, flush_, [&](DispatchEntry* entry, const Route& route) {
      Send(entry, route, decisions);
    });
  } catch (...) {
    set_batches();
    throw;
  }
  set_batches();
  return next_start;
}

void Dispatcher::Send(Entry* entry, const Route& route, std::vector<Decision>* decisions) {
  using Event = core::SequenceEvent;
  const bool first = entry->state == core::SequenceState::kWaiting;
  MakeRoom(decisions);
  LeaveQueue(entry);
  mover_.Move(entry->id(), &entry->state, first ? Event::kStart : Event::kResume);
  attempts_.Begin(entry, route);
  ++counts_.sent;
  if (first) {
    load_.LeaveQueue(entry->id());
    entry->place.Release();
    budget_.OnRequest(now_);
  } else {
    ++(entry->resumes ? counts_.resumptions : counts_.retries);
  }
  Decision decision = DecisionFor(Decision::Kind::kSend, *entry);
  decision.resume = entry->resumes && !entry->replays;
  decisions->push_back(std::move(decision));
  SetTimer(entry);
  // Last, since it may take memory: it is sent, whether or not it is charged before it has output.
  if (first) order_.ChargeStart(entry);
}

// --- Views.

EngineStats Dispatcher::Stats() const {
  EngineStats stats;
  stats.enabled = options_.batching.enable_batching;
  stats.strategy = options_.batching.enable_batching ? options_.batching.dispatch : "serial";
  stats.max_batch_size =
      options_.in_batches() ? options_.batching.max_batch_size : replicas_.limit(now_);
  if (!options_.batching.enable_batching) stats.max_batch_size = 1;
  if (options_.in_batches() && options_.batching.enable_batching) {
    stats.max_batch_wait_ms = 1000.0 * base::ToSeconds(options_.batching.max_batch_wait);
  }
  batches_.AddTo(&stats);
  for (const Entry* entry : queue()) {
    ++(entry->was_sent() ? stats.preempted : stats.waiting);
  }
  stats.queue_depth = waiting();
  stats.running = running();
  return stats;
}

DispatchCounts Dispatcher::counts() const {
  DispatchCounts all = counts_;
  static_cast<BatchCounts&>(all) = batches_.counts();
  all.retries_delayed = starts_.retries_delayed();
  return all;
}

Status Dispatcher::CheckIntegrity() const {
  if (Status status = entries_.CheckIntegrity(); !status.ok()) return status;
  if (Status status = entries_.CheckReplicas(replicas_); !status.ok()) return status;
  return entries_.CheckBatches(batches_);
}

}  // namespace ropeway::gateway
