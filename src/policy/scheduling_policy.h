// The SchedulingPolicy seam: who goes first and who gives way. A policy ranks; places, tokens and
// blocks are the scheduler's to account.
#ifndef ROPEWAY_POLICY_SCHEDULING_POLICY_H_
#define ROPEWAY_POLICY_SCHEDULING_POLICY_H_

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/clock.h"
#include "core/sequence.h"

namespace ropeway {

// Where a sequence stands: the lowest goes first, and of equal ones the first that arrived. The
// first key decides, the next ones break its ties; a policy that is combined of others gives each
// of them one.
struct Rank {
  std::array<int64_t, 3> keys{};
  auto operator<=>(const Rank&) const = default;
};

// What a step does for one sequence.
struct ScheduledWork {
  int32_t prompt_tokens = 0;  // Of its prompt, computed for the first time.
  int32_t output_tokens = 0;  // 1 where its next token is sampled.
  double cost = 0.0;          // In units of cost (StepCost), whatever is computed.
};

// Thread rule: the engine thread.
class SchedulingPolicy {
 public:
  virtual ~SchedulingPolicy() = default;

  virtual const char* name() const = 0;

  // A step begins. `queue` (waiting and preempted) and `running` are all sequences that are there,
  // in no order.
  virtual void BeginStep(std::span<Sequence* const> queue, std::span<Sequence* const> running,
                         TimePoint now) = 0;

  // Does not change between BeginStep and the step's first OnScheduled. The scheduler lets no
  // sequence of the queue start before one that ranks lower and does not fit yet.
  virtual Rank RankOf(const Sequence& sequence) const = 0;

  // Whether `victim`, which runs, may have to give its place and blocks to `urgent`, which waits.
  // Strict: never true both ways.
  virtual bool MayPreempt(const Sequence& urgent, const Sequence& victim) const = 0;

  // Which of `candidates` gives way, as an index. They run, have no work yet in this step, and
  // stand in rank order. REQUIRES: not empty.
  virtual size_t PickVictim(std::span<const Sequence* const> candidates) const = 0;

  // `work` for the sequence is part of this step. Before it, `sequence.computed` positions are
  // there.
  virtual void OnScheduled(const Sequence& sequence, const ScheduledWork& work) = 0;

  // The sequence ended, and is destroyed after this call; `completed`: of itself, by an end token,
  // a stop or its length.
  virtual void OnFinished(const Sequence& sequence, bool completed) = 0;
};

}  // namespace ropeway

#endif  // ROPEWAY_POLICY_SCHEDULING_POLICY_H_
