// What a step costs and how long it takes, as learned from the steps so far.
#ifndef ROPEWAY_SCHEDULER_COST_MODEL_H_
#define ROPEWAY_SCHEDULER_COST_MODEL_H_

#include <optional>
#include <span>

#include "base/clock.h"
#include "core/batch.h"
#include "core/sequence.h"
#include "scheduler/queue_load.h"
#include "scheduler/sampling_cost.h"
#include "scheduler/scheduler_output.h"
#include "scheduler/step_cost.h"

namespace ropeway::scheduler {

// Thread rule: the engine thread.
class CostModel {
 public:
  // `attention_weight`: the initial one of StepCost. `learns`: what steps cost is learned; else
  // only how long they take.
  CostModel(double attention_weight, bool learns) : step_(attention_weight), learns_(learns) {}

  const StepCost& step() const { return step_; }
  const SamplingCost& sampling() const { return sampling_; }
  double step_seconds() const { return step_seconds_; }  // Smoothed; 0 before the first step.

  // In units of StepCost: sampling the sequence's next token, and scoring one of its prompt's.
  double Sampling(const core::Sequence& sequence) const {
    return sampling_.Sampling(sequence) * step_.speed();
  }
  double Scoring(const core::Sequence& sequence) const {
    return sampling_.Scoring(sequence) * step_.speed();
  }

  // The step took `took`, with this result, which has changed no sequence yet. `limit`: sequences
  // that may run at once. Returns what the step tells about the pace at which a queue is served:
  // nothing if it was not busy.
  struct BusyStep {
    Work work;
    base::Duration took{};  // Without sampling.
  };
  std::optional<BusyStep> OnStep(const SchedulerOutput& step, base::Duration took,
                                 const core::StepResult& result,
                                 std::span<core::Sequence* const> running, int limit);

 private:
  // Returns how long the step would have taken without sampling.
  base::Duration LearnSampling(const core::StepResult& result, base::Duration took,
                               std::span<core::Sequence* const> running);

  StepCost step_;
  SamplingCost sampling_;
  const bool learns_;
  double step_seconds_ = 0.0;
};

}  // namespace ropeway::scheduler

#endif  // ROPEWAY_SCHEDULER_COST_MODEL_H_
