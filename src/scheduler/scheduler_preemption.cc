// The part of Scheduler that preempts running sequences, for sequences of the queue and for memory.
#include <algorithm>

#include "scheduler/scheduler.h"

namespace ropeway::scheduler {

void Scheduler::StartUrgent() {
  passed_.Clear();
  // A lowered limit takes no slot from a running sequence; a preempting one takes an existing slot.
  const int slots = slots_.taken_or_limit();
  bool any = false;
  while (!order_.queue.empty()) {
    const Ranked first = order_.queue.front();
    FindVictims(first);
    // An urgent prompt does not pass an aged sequence.
    const auto starts_first = [&] {
      return passed_.empty() && slots_.num_running() < slots &&
             urgent_.StartsFirst(first, order_.running);
    };
    if (candidates_.empty() && !starts_first()) {
      // An aged sequence that may preempt none must not keep a higher class from a slot.
      if (!first.aged) break;
      passed_.Add(first);
      order_.queue.Pop();
      continue;
    }
    if (!passed_.MayPass(running(), limit())) break;
    kvcache::CachedPrefix prefix = kv_->Lookup(first.sequence);
    if (!slots_.Follow(first.sequence, &prefix)) {
      if (!PreemptFor(first, slots, first.aged)) break;
      // The preempted sequences may have computed what it would have found.
      prefix = kv_->Lookup(first.sequence);
      slots_.Start(first, &prefix);
      order_.running.push_back(first);
      any = true;
    }
    order_.queue.Pop();
  }
  passed_.Return(&order_.queue);
  if (any) std::sort(order_.running.begin(), order_.running.end(), Before);
}

void Scheduler::FindVictims(const Ranked& urgent) {
  candidates_.clear();
  for (const Ranked& ranked : order_.running) {
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

bool Scheduler::PreemptFor(const Ranked& urgent, int slots, bool due) {
  const core::Sequence& its = *urgent.sequence;
  kvcache::CachedPrefix prefix = kv_->Lookup(urgent.sequence);
  int32_t freed = 0;
  for (const core::Sequence* candidate : candidates_) {
    freed += kv_->HeldAlone(*candidate, its, prefix);
  }
  if (!slots_.Fits(its, prefix, freed)) return false;
  while (slots_.num_running() >= slots || !slots_.Fits(its, prefix)) {
    if (candidates_.empty()) return false;
    const bool for_slot = slots_.num_running() >= slots;
    const size_t pick = policy_->PickVictim(candidates_);
    core::Sequence* victim = candidates_[pick];
    candidates_.erase(candidates_.begin() + static_cast<ptrdiff_t>(pick));
    slots_.Preempt(victim, due        ? PreemptReason::kAging
                           : for_slot ? PreemptReason::kPriority
                                      : PreemptReason::kBlocks);
    prefix = kv_->Lookup(urgent.sequence);  // The victim may have been about to compute some of it.
  }
  return true;
}

}  // namespace ropeway::scheduler
