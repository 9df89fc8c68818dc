// Fills the masks of a step: which tokens each sequence with a constraint may sample.
#ifndef ROPEWAY_ENGINE_MASK_FILLER_H_
#define ROPEWAY_ENGINE_MASK_FILLER_H_

#include <chrono>
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "core/batch.h"
#include "core/sequence.h"
#include "engine/batch_builder.h"

namespace ropeway::engine {

// Masks usually take microseconds, and tens of milliseconds where a string nears its limit. When
// those of a step have taken kMostTime, the other sequences sit the step out: nothing is sampled
// for them, their row is computed again in the next step, and their masks are filled first then. So
// a step is never longer than kMostTime and one mask, each sequence gets its turn, and no bits
// change.
//
// Thread rule: the engine thread. Nothing throws.
class MaskFiller {
 public:
  static constexpr base::Duration kMostTime = std::chrono::milliseconds(5);

  // Since the start.
  struct Counts {
    uint64_t filled = 0;
    uint64_t deferred = 0;  // Once for each step that a sequence sat out.
    base::Duration time{};
  };
  const Counts& counts() const { return counts_; }

  MaskFiller(const base::Clock* clock, int max_items) : clock_(clock) {
    turns_.reserve(static_cast<size_t>(max_items));
  }

  // Fills the masks of the batch's items, between Launch and Wait.
  void Fill(BatchBuilder* builder);

  // Adds the time of each mask to that of its sampling, and takes it out of the runs.
  static void AddTimes(BatchBuilder* builder, core::StepResult* result);

  // Whether the token that was sampled for the sequence counts: it has no constraint, or its mask
  // was filled.
  static bool MaySample(const core::Sequence& sequence) {
    const core::ConstraintRun* const run = sequence.constraint_run.get();
    return run == nullptr || run->mask.ready;
  }

  // The sequence goes on behind `token`, which was sampled for it, if its constraint's status is OK
  // then. Returns whether its output ends with the token.
  static bool Accept(core::Sequence* sequence, TokenId token);

 private:
  static void FillOne(core::Sequence* sequence);

  const base::Clock* const clock_;
  Counts counts_;
  std::vector<core::Sequence*> turns_;  // Of this step, in the order of their turns.
};

}  // namespace ropeway::engine

#endif  // ROPEWAY_ENGINE_MASK_FILLER_H_
