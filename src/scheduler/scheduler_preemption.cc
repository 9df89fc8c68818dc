// The part of Scheduler that preempts running sequences, for sequences of the queue and for memory.
#include <algorithm>

#include "scheduler/scheduler.h"

namespace ropeway::scheduler {

void Scheduler::StartUrgent() {
  // A lowered limit takes no slot from a running sequence; a preempting one takes an existing slot.
  const int slots = std::max(limit_, num_running());
  bool any = false;
  while (!line_.empty()) {
    const Ranked first = line_.front();
    FindVictims(first);
    // An urgent prompt does not pass an aged sequence.
    const auto starts_first = [&] {
      return passed_.empty() && num_running() < slots && urgent_.StartsFirst(first, ranked_);
    };
    if (candidates_.empty() && !starts_first()) {
      // An aged sequence that may preempt none must not keep a higher class from a slot.
      if (!first.aged) break;
      passed_.push_back(first);
      line_.Pop();
      continue;
    }
    if (!MayPassAged()) break;
    kvcache::CachedPrefix prefix = kv_->Lookup(first.sequence);
    if (!Follow(first.sequence, &prefix)) {
      if (!PreemptFor(first, slots, first.aged)) break;
      // The preempted sequences may have computed what it would have found.
      prefix = kv_->Lookup(first.sequence);
      Start(first, &prefix);
      ranked_.push_back(first);
      any = true;
    }
    line_.Pop();
  }
  for (const Ranked& passed : passed_) line_.Add(passed);
  if (!passed_.empty()) line_.Sort();
  if (any) std::sort(ranked_.begin(), ranked_.end(), Before);
}

void Scheduler::PreemptLong() {
  for (size_t i = running_.size(); i-- > 0;) {  // Preempt puts the last one in its place.
    const core::Sequence& sequence = *running_[i];
    if (sequence.request.long_rope || sequence.rope_length() <= options_.long_rope_above) continue;
    Preempt(&sequence, PreemptReason::kLength);
  }
}

void Scheduler::FindVictims(const Ranked& urgent) {
  candidates_.clear();
  for (const Ranked& ranked : ranked_) {
    if (MayBeVictim(ranked, urgent)) candidates_.push_back(ranked.sequence);
  }
}

bool Scheduler::MayBeVictim(const Ranked& victim, const Ranked& urgent) {
  const core::Sequence& its = *victim.sequence;
  if (!its.running() || its.sched.aged || victim.leads) return false;
  if (its.sched.run_steps < kMinRunSteps || policy::PreemptedOften(its)) return false;
  if (its.generated() >= options_.preempt_max_generated) return false;
  if (urgent.aged && its.order > urgent.sequence->order &&
      tenants_.GivesInTurn(its, *urgent.sequence)) {
    return true;
  }
  return policy_->MayPreempt(*urgent.sequence, its);
}

bool Scheduler::MayPassAged() const {
  return std::all_of(passed_.begin(), passed_.end(), [this](const Ranked& passed) {
    return LaterRunning(*passed.sequence) < limit_ / 2;
  });
}

int Scheduler::LaterRunning(const core::Sequence& sequence) const {
  return static_cast<int>(
      std::count_if(running_.begin(), running_.end(),
                    [&](const core::Sequence* other) { return other->order > sequence.order; }));
}

bool Scheduler::PreemptFor(const Ranked& urgent, int slots, bool due) {
  const core::Sequence& its = *urgent.sequence;
  const int32_t positions = PositionsToStart(its);
  kvcache::CachedPrefix prefix = kv_->Lookup(urgent.sequence);
  int32_t freed = 0;
  for (const core::Sequence* candidate : candidates_) {
    freed += kv_->HeldAlone(*candidate, its, prefix);
  }
  if (!kv_->Fits(its, prefix, positions, freed)) return false;
  while (num_running() >= slots || !kv_->Fits(its, prefix, positions)) {
    if (candidates_.empty()) return false;
    const bool for_slot = num_running() >= slots;
    const size_t pick = policy_->PickVictim(candidates_);
    const core::Sequence* victim = candidates_[pick];
    candidates_.erase(candidates_.begin() + static_cast<ptrdiff_t>(pick));
    Preempt(victim, due        ? PreemptReason::kAging
                    : for_slot ? PreemptReason::kPriority
                               : PreemptReason::kBlocks);
    prefix = kv_->Lookup(urgent.sequence);  // The victim may have been about to compute some of it.
  }
  return true;
}

void Scheduler::Preempt(const core::Sequence* victim, PreemptReason reason) {
  core::Sequence* const sequence = *std::find(running_.begin(), running_.end(), victim);
  if (sequence->state == core::SequenceState::kFetching) {
    // It may have been about to fetch from this step on.
    std::erase_if(output_.fetches, [sequence](const SchedulerOutput::Fetch& fetch) {
      return fetch.sequence == sequence;
    });
  }
  tenants_.Release(*sequence);
  if (reason == PreemptReason::kLength) {
    kv_->Release(sequence);
    sequence->UseLongRope();
  } else {
    kv_->Park(sequence);
  }
  sequence->sched.first_turn = false;
  sequence->sched.contends = false;
  mover_->Move(sequence->id(), &sequence->state, core::SequenceEvent::kPreempt);
  ++sequence->preemptions;
  if (reason == PreemptReason::kAging || reason == PreemptReason::kFairness) {
    ++sequence->sched.turns_given;
  }
  sequence->sched.queued_since = aging_.QueuedSince(*sequence, now_);
  Erase(&running_, sequence);
  queue_.push_back(sequence);
  UpdateHint(sequence);
  load_.Enter(sequence);
  output_.preempted.push_back({sequence, reason});
}

void Scheduler::PreemptForChunk() {
  const auto first = std::find_if(ranked_.begin(), ranked_.end(), [](const Ranked& ranked) {
    return ranked.sequence->state == core::SequenceState::kPrefilling;
  });
  if (first == ranked_.end()) return;
  core::Sequence* const sequence = first->sequence;
  while (kv_->Cover(sequence, 1) == 0) {
    candidates_.clear();
    for (const bool aged : {false, true}) {
      for (const core::Sequence* other : running_) {
        if (other != sequence && other->sched.aged == aged) candidates_.push_back(other);
      }
      if (!candidates_.empty()) break;
    }
    if (candidates_.empty()) return;
    if (tenants_.several()) KeepLargestHolder();
    Preempt(candidates_[policy_->PickVictim(candidates_)], PreemptReason::kMemory);
  }
  AddChunk(sequence);
}

bool Scheduler::ExtendOrPreempt(size_t index) {
  core::Sequence* sequence = ranked_[index].sequence;
  while (!kv_->Extend(sequence, sequence->kv.computed + 1)) {
    // Candidates have no work in this step yet: prefilling and fetching sequences of any rank, and
    // decoding ones from here on.
    candidates_.clear();
    for (size_t i = 0; i < ranked_.size(); ++i) {
      const core::Sequence* other = ranked_[i].sequence;
      const bool pending = i >= index || other->state != core::SequenceState::kDecoding;
      if (other->running() && pending && !other->sched.aged) candidates_.push_back(other);
    }
    if (candidates_.empty()) candidates_.push_back(sequence);
    if (tenants_.several()) KeepLargestHolder();
    const core::Sequence* victim = candidates_[policy_->PickVictim(candidates_)];
    Preempt(victim, PreemptReason::kMemory);
    if (victim == sequence) return false;
  }
  return true;
}

}  // namespace ropeway::scheduler
