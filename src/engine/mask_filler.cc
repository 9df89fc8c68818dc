#include "engine/mask_filler.h"

#include <algorithm>
#include <utility>

namespace ropeway::engine {
namespace {

// What a sequence's first mask is expected to take: it comes behind those that are known to be
// cheap, and before those that are known to be dear.
constexpr base::Duration kUnknown = MaskFiller::kMostTime / 2;

// Between dear masks, as near the limit of a pattern's part, comes a cheap one or two. So half of
// what was expected before counts too.
void Expect(base::Duration took, core::ConstraintRun* run) {
  run->expected = run->expected ? std::max(took, *run->expected / 2) : took;
}

void AcceptNext(TokenId token, core::ConstraintRun* run) {
  ++run->accepted;
  run->status = run->state->Accept(token);
}

}  // namespace

base::Duration MaskFiller::DueOf(const core::ConstraintRun& run) const {
  return static_cast<int64_t>(run.waits_since) * kMostTime +
         max_sequences_ * std::min(run.expected.value_or(kUnknown), kMostTime);
}

void MaskFiller::Fill(BatchBuilder* builder) {
  turns_.clear();
  for (const BatchBuilder::Work& work : builder->work()) {
    core::ConstraintRun* const run = work.planned.sequence->constraint_run.get();
    if (!work.planned.sample || run == nullptr || run->mask.ready) continue;
    if (run->waits_since == 0) run->waits_since = builder->batch().step;
    turns_.push_back({DueOf(*run), work.planned.sequence});
  }
  std::sort(turns_.begin(), turns_.end(), [](const Turn& a, const Turn& b) {
    return std::pair(a.due, a.sequence->number) < std::pair(b.due, b.sequence->number);
  });
  const base::TimePoint begin = clock_->Now();
  base::TimePoint last = begin;
  for (const Turn& turn : turns_) {
    if (last - begin >= kMostTime) {
      ++counts_.deferred;
      continue;
    }
    core::ConstraintRun& run = *turn.sequence->constraint_run;
    const bool filled = FillOne(turn.sequence, begin + kMostTime);
    const base::TimePoint now = clock_->Now();
    run.took += now - last;
    run.waits_since = 0;
    Expect(now - last, &run);
    ++(filled ? counts_.filled : counts_.deferred);
    last = now;
  }
  filled_for_ = last - begin;
  counts_.time += filled_for_;
}

bool MaskFiller::FillOne(core::Sequence* sequence, base::TimePoint until) {
  core::ConstraintRun& run = *sequence->constraint_run;
  while (run.status.ok() && run.accepted < sequence->generated()) {
    AcceptNext(sequence->ids()[static_cast<size_t>(sequence->prompt_len + run.accepted)], &run);
    if (run.status.ok() && clock_->Now() >= until) return false;
  }
  if (run.status.ok()) run.status = run.state->Mask(run.words);
  if (!run.status.ok()) return true;
  const auto is_empty = [](uint32_t word) { return word == 0; };
  run.exhausted =
      run.state->complete() && std::all_of(run.words.begin(), run.words.end(), is_empty);
  run.mask.ready = !run.exhausted;
  return true;
}

void MaskFiller::AcceptSampled(BatchBuilder* builder, core::StepResult* result) {
  result->sampling -= std::min(result->beside, std::exchange(filled_for_, {}));
  size_t sampled = 0;
  for (const BatchBuilder::Work& work : builder->work()) {
    if (!work.planned.sample) continue;
    core::Sampled& own = result->sampled[sampled++];
    core::ConstraintRun* const run = work.planned.sequence->constraint_run.get();
    if (run == nullptr) continue;
    if (run->mask.ready && !own.invalid) {
      const base::TimePoint begin = clock_->Now();
      AcceptNext(own.token, run);
      const base::Duration took = clock_->Now() - begin;
      run->took += took;
      counts_.time += took;
    }
    own.took += run->took;
    result->sampling += run->took;
    result->forward += run->took;
    run->took = {};
  }
}

bool MaskFiller::GoesOn(core::Sequence* sequence) {
  core::ConstraintRun* const run = sequence->constraint_run.get();
  if (run == nullptr) return true;
  run->mask.ready = false;
  return run->status.ok() && !run->state->ended();
}

}  // namespace ropeway::engine
