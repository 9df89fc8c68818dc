// The SchedulingPolicy seam: who goes first and who gives way. A policy ranks; places, tokens and
// blocks are the scheduler's to account.
#ifndef ROPEWAY_POLICY_SCHEDULING_POLICY_H_
#define ROPEWAY_POLICY_SCHEDULING_POLICY_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/clock.h"
#include "core/sequence.h"

namespace ropeway {

// Thread rule: the engine thread.
class SchedulingPolicy {
 public:
  virtual ~SchedulingPolicy() = default;

  virtual const char* name() const = 0;

  // The lowest rank goes first; equal ranks in arrival order. Must not change within one step. The
  // scheduler never lets a sequence start before one that ranks lower and does not fit yet.
  virtual int64_t Rank(const Sequence& sequence, TimePoint now) const = 0;

  // Which of `candidates` gives its blocks back, as an index. They run, have no work yet in this
  // step, stand in rank order, and include the sequence that lacks a block. REQUIRES: not empty.
  virtual size_t PickVictim(std::span<const Sequence* const> candidates) const = 0;

  // `tokens` tokens of the sequence are part of this step.
  virtual void OnScheduled(const Sequence& sequence, int32_t tokens) = 0;

  // The sequence ended, for whatever reason, and is destroyed after this call.
  virtual void OnFinished(const Sequence& sequence) = 0;
};

}  // namespace ropeway

#endif  // ROPEWAY_POLICY_SCHEDULING_POLICY_H_
