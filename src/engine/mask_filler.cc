#include "engine/mask_filler.h"

#include <algorithm>
#include <utility>

namespace ropeway::engine {

void MaskFiller::Fill(BatchBuilder* builder) {
  turns_.clear();
  for (const BatchBuilder::Work& work : builder->work()) {
    core::ConstraintRun* const run = work.planned.sequence->constraint_run.get();
    if (!work.planned.sample || run == nullptr || run->mask.ready) continue;
    if (run->waits_since == 0) run->waits_since = builder->batch().step;
    turns_.push_back(work.planned.sequence);
  }
  // Those that sat steps out come first.
  std::sort(turns_.begin(), turns_.end(), [](const core::Sequence* a, const core::Sequence* b) {
    return std::pair(a->constraint_run->waits_since, a->number) <
           std::pair(b->constraint_run->waits_since, b->number);
  });
  const base::TimePoint begin = clock_->Now();
  base::TimePoint last = begin;
  for (core::Sequence* const sequence : turns_) {
    if (last - begin >= kMostTime) {
      ++counts_.deferred;
      continue;
    }
    FillOne(sequence);
    const base::TimePoint now = clock_->Now();
    ++counts_.filled;
    counts_.time += now - last;
    sequence->constraint_run->took = now - last;
    sequence->constraint_run->waits_since = 0;
    last = now;
  }
}

void MaskFiller::FillOne(core::Sequence* sequence) {
  core::ConstraintRun& run = *sequence->constraint_run;
  // The ids that were generated before it was preempted, or by another engine.
  while (run.status.ok() && run.accepted < sequence->generated()) {
    (void)Accept(sequence,
                 sequence->ids()[static_cast<size_t>(sequence->prompt_len + run.accepted)]);
  }
  if (run.status.ok()) run.status = run.state->Mask(run.words);
  if (!run.status.ok()) return;
  const auto is_empty = [](uint32_t word) { return word == 0; };
  run.exhausted =
      run.state->complete() && std::all_of(run.words.begin(), run.words.end(), is_empty);
  run.mask.ready = !run.exhausted;
}

void MaskFiller::AddTimes(BatchBuilder* builder, core::StepResult* result) {
  size_t sampled = 0;
  for (const BatchBuilder::Work& work : builder->work()) {
    if (!work.planned.sample) continue;
    core::Sampled& own = result->sampled[sampled++];
    core::ConstraintRun* const run = work.planned.sequence->constraint_run.get();
    if (run == nullptr) continue;
    own.took += run->took;
    result->sampling += run->took;
    run->took = {};
  }
}

bool MaskFiller::Accept(core::Sequence* sequence, TokenId token) {
  core::ConstraintRun* const run = sequence->constraint_run.get();
  if (run == nullptr) return false;
  run->mask.ready = false;
  ++run->accepted;
  run->status = run->state->Accept(token);
  return run->status.ok() && run->state->ended();
}

}  // namespace ropeway::engine
