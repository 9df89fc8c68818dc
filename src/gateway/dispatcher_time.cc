// What time does in the dispatcher: deadlines, replicas that hang, probes and their answers,
// requests that are held.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "gateway/dispatcher.h"

namespace ropeway::gateway {
namespace {

double InSeconds(base::Duration time) { return base::ToSeconds(time); }

}  // namespace

void Dispatcher::Run(base::TimePoint now, std::vector<Decision>* decisions) {
  Advance(now);
  RunTimers(decisions);
  RunProbes(decisions);
  MoveDrained(decisions);
  RunHeld(decisions);
  const base::TimePoint next_start = StartAll(decisions);
  next_look_ =
      std::min({entries_.first_timer(), replicas_.next_look(now_), next_held_, next_start});
}

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
         fmt::format("the stream was cut, and within {:g} s there was no backend to go on with it",
                     InSeconds(options_.resume_wait))},
        decisions);
    return;
  }
  MakeRoom(decisions);
  const bool begun = entry->first_byte;
  Outcome failure;
  failure.status = {StatusCode::kUnavailable,
                    fmt::format("it gave no {} for {:g} s", begun ? "more output" : "output",
                                InSeconds(attempts_.PatienceFor(*entry)))};
  Decision decision;
  decision.id = entry->id();
  decision.replica = entry->replica;
  decision.attempt = entry->attempt;
  FailureOutcome outcome = AfterFailure(entry, failure);
  const bool over = outcome.kind == FailureOutcome::Kind::kFinal;
  decision.kind = over ? Decision::Kind::kEnd : Decision::Kind::kDrop;
  decision.status = std::move(outcome.status);
  decisions->push_back(std::move(decision));
}

void Dispatcher::EndNow(Entry* entry, Status status, std::vector<Decision>* decisions) {
  MakeRoom(decisions);
  Decision decision;
  decision.kind = Decision::Kind::kEnd;
  decision.id = entry->id();
  decision.status = std::move(status);
  if (entry->replica >= 0) {
    decision.replica = entry->replica;
    decision.attempt = entry->attempt;
    attempts_.Leave(entry);
  }
  decisions->push_back(std::move(decision));
  Erase(entry, core::SequenceEvent::kFail, false);
}

void Dispatcher::Drop(Entry* entry, std::vector<Decision>* decisions) {
  MakeRoom(decisions);
  Decision decision;
  decision.kind = Decision::Kind::kDrop;
  decision.id = entry->id();
  decision.replica = entry->replica;
  decision.attempt = entry->attempt;
  decisions->push_back(std::move(decision));
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
        EndOf(std::max(down_since_, entry->queued_at), options_.hold_timeout);
    if (now_ < end) {
      next_held_ = std::min(next_held_, end);
      continue;
    }
    EndNow(entry, WhyNoneIsAlive(), decisions);
    --i;  // Another one takes its position.
  }
}

Status Dispatcher::WhyNoneIsAlive() const {
  constexpr size_t kNamed = 3;
  std::string why;
  for (size_t i = 0; i < std::min(kNamed, replicas_.size()); ++i) {
    const ReplicaView view = replicas_[static_cast<int>(i)].View(now_);
    why += fmt::format("{}{}: {}", why.empty() ? "" : "; ", view.name,
                       view.reason.empty() ? ReplicaStateName(view.state) : view.reason);
  }
  if (replicas_.size() > kNamed) why += fmt::format("; and {} more", replicas_.size() - kNamed);
  Status status(StatusCode::kUnavailable, "no backend takes requests (" + why + ")");
  const base::Duration until = replicas_.next_look(now_) - now_;
  status.set_retry_after_seconds(scheduler::WholeSeconds(InSeconds(until)));
  return status;
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
    // Another one now: of which of the two the streams are that run there is not known.
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

}  // namespace ropeway::gateway
