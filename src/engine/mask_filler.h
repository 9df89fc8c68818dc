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
// for them, and their row is computed again in the next step. So masks delay a step by kMostTime
// and one mask at most, and no bits change.
//
// What is due first is filled first. A mask is due in the step that asks for it if it is expected
// to take no time, `max_sequences` steps later if kMostTime or more, and in proportion between. Of
// the dear ones each step fills one, in turn, so none becomes due before a cheap one that is just
// asked for. And none starves: after `max_sequences` steps it is due before all that are asked for
// then, and those that were there already take as many steps at most.
//
// A sequence that was preempted, or comes from another engine, accepts its ids in its turns first.
// If these take a step's time, it goes on from there in another turn.
//
// Thread rule: the engine thread. Nothing throws.
class MaskFiller {
 public:
  static constexpr base::Duration kMostTime = std::chrono::milliseconds(5);

  // Since the start.
  struct Counts {
    uint64_t filled = 0;
    uint64_t deferred = 0;  // Once for each step that a sequence sat out.
    base::Duration time{};  // Of masks and accepted ids.
  };
  const Counts& counts() const { return counts_; }

  // `max_sequences`: that run at once.
  MaskFiller(const base::Clock* clock, int max_sequences)
      : clock_(clock), max_sequences_(max_sequences) {
    turns_.reserve(static_cast<size_t>(max_sequences));
  }

  // Fills the masks of the batch's items, between Launch and Wait.
  void Fill(BatchBuilder* builder);

  // Whether the token that was sampled for the sequence counts: it has no constraint, or its mask
  // was filled.
  static bool MaySample(const core::Sequence& sequence) {
    const core::ConstraintRun* const run = sequence.constraint_run.get();
    return run == nullptr || run->mask.ready;
  }

  // Accepts the tokens of `result` that count, and adds to each sequence's sampling the time of its
  // mask and of its accepted ids; to the step's, what of it no computing hid. REQUIRES:
  // BatchBuilder::CheckResult was OK.
  void AcceptSampled(BatchBuilder* builder, core::StepResult* result);

  // The sequence has a token that AcceptSampled took, so its mask is used up. Returns whether its
  // constraint lets it go on behind the token; its output ends there if not, or has failed
  // (ConstraintRun::status).
  static bool GoesOn(core::Sequence* sequence);

 private:
  // When the mask is due, as a step's number times kMostTime.
  base::Duration DueOf(const core::ConstraintRun& run) const;
  // False: it has more ids to accept, or no time left for the mask.
  bool FillOne(core::Sequence* sequence, base::TimePoint until);

  const base::Clock* const clock_;
  const int max_sequences_;
  Counts counts_;
  struct Turn {
    base::Duration due{};
    core::Sequence* sequence = nullptr;
  };
  std::vector<Turn> turns_;      // Of this step, in their order.
  base::Duration filled_for_{};  // What Fill took in this step.
};

}  // namespace ropeway::engine

#endif  // ROPEWAY_ENGINE_MASK_FILLER_H_
