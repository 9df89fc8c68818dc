#include "scheduler/urgent_steps.h"

#include <algorithm>

namespace ropeway {

UrgentSteps::UrgentSteps(const SchedulingPolicy* policy, bool has_classes, int max_chunk)
    : policy_(policy),
      has_classes_(has_classes),
      longest_(max_chunk > 0 ? std::min(kMaxPrompt, max_chunk) : kMaxPrompt) {}

bool UrgentSteps::Leaves(const Ranked& decode, const Sequence& urgent) const {
  return decode.sequence->state == SequenceState::kDecoding && !decode.promoted && !decode.leads &&
         policy_->MayPreempt(urgent, *decode.sequence);
}

bool UrgentSteps::AnyLeaves(std::span<const Ranked> running, const Sequence& urgent) const {
  return std::any_of(running.begin(), running.end(),
                     [&](const Ranked& ranked) { return Leaves(ranked, urgent); });
}

bool UrgentSteps::StartsFirst(const Ranked& first, std::span<const Ranked> running) const {
  if (first.promoted || !IsUrgent(*first.sequence, first.sequence->cached_hint)) return false;
  const bool another = std::any_of(running.begin(), running.end(), [this](const Ranked& ranked) {
    return ranked.sequence->state == SequenceState::kPrefilling && IsHigh(*ranked.sequence);
  });
  return !another && AnyLeaves(running, *first.sequence);
}

void UrgentSteps::Find(std::span<const Ranked> running, const Ranked* next) {
  prompt_ = nullptr;
  paused_ = steps_ >= kMaxSteps;
  if (paused_) {
    steps_ = 0;
    return;
  }
  const auto first = std::find_if(running.begin(), running.end(), [](const Ranked& ranked) {
    return ranked.sequence->state == SequenceState::kPrefilling;
  });
  if (first != running.end() && IsUrgent(*first->sequence, first->sequence->computed) &&
      (next == nullptr || !Before(*next, *first)) && AnyLeaves(running, *first->sequence)) {
    prompt_ = first->sequence;
  }
  steps_ = prompt_ == nullptr ? 0 : steps_ + 1;
}

}  // namespace ropeway
