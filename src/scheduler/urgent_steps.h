// Which steps belong to an urgent prompt, and whose decodes leave them.
#ifndef ROPEWAY_SCHEDULER_URGENT_STEPS_H_
#define ROPEWAY_SCHEDULER_URGENT_STEPS_H_

#include <cstdint>
#include <span>

#include "core/sequence.h"
#include "policy/scheduling_policy.h"
#include "scheduler/waiting_line.h"

namespace ropeway {

// A prompt of class high of which little is left to compute is an urgent one. A step with one is
// its own: with the decodes of lower classes beside it, it would take up to twice as long. After
// kMaxSteps such steps one after the other all decode again. Thread rule: the scheduler's.
class UrgentSteps {
 public:
  // Tokens left of the prompt, at most: what takes longer would keep the decodes waiting for more
  // than it gains.
  static constexpr int32_t kMaxPrompt = 128;
  static constexpr int kMaxSteps = 4;

  // `has_classes`: else nobody is urgent. `max_chunk`: tokens of one prompt in one step; 0: no such
  // limit. The policy must outlive it.
  UrgentSteps(const SchedulingPolicy* policy, bool has_classes, int max_chunk);

  bool IsHigh(const Sequence& sequence) const {
    return has_classes_ && sequence.priority == Priority::kHigh;
  }

  // Whether the first of the queue is to start before a step's decodes are planned, though nobody
  // has to give way to it: it would be urgent as far as cached_hint knows, no other of its class
  // prefills, and some decode would leave it the step.
  bool StartsFirst(const Ranked& first, std::span<const Ranked> running) const;

  // Decides whose the next step is. `running`: in rank order; `next`: the first of the queue, or
  // null.
  void Find(std::span<const Ranked> running, const Ranked* next);

  // Of the step that Find decided about: whose it is, or null;
  const Sequence* prompt() const { return prompt_; }
  // whether a sequence's decode waits for the next one;
  bool IsLeftBy(const Ranked& decode) const {
    return prompt_ != nullptr && Leaves(decode, *prompt_);
  }
  // and whether it is one in which all decode because kMaxSteps before it were prompts' own.
  bool paused() const { return paused_; }

 private:
  // Whether the sequence's prompt is urgent where so much of it is computed.
  bool IsUrgent(const Sequence& sequence, int32_t computed) const {
    return IsHigh(sequence) && sequence.num_ids() - computed <= longest_;
  }
  bool Leaves(const Ranked& decode, const Sequence& urgent) const;
  bool AnyLeaves(std::span<const Ranked> running, const Sequence& urgent) const;

  const SchedulingPolicy* const policy_;
  const bool has_classes_;
  const int32_t longest_;
  const Sequence* prompt_ = nullptr;
  int steps_ = 0;  // So many one after the other were prompts' own.
  bool paused_ = false;
};

}  // namespace ropeway

#endif  // ROPEWAY_SCHEDULER_URGENT_STEPS_H_
