// What waits, in units of cost: for admission and for how long it will take.
#ifndef ROPEWAY_SCHEDULER_QUEUE_LOAD_H_
#define ROPEWAY_SCHEDULER_QUEUE_LOAD_H_

#include <array>
#include <cstdint>
#include <span>

#include "core/sequence.h"
#include "policy/output_predictor.h"
#include "scheduler/step_cost.h"

namespace ropeway {

// Each class's guaranteed part of the work, of 1; all 0: there are none.
using ClassParts = std::array<double, kNumPriorities>;

// Foresees outputs by those that ended. Thread rule: the scheduler's.
class QueueLoad {
 public:
  // `has_classes`: a higher class goes first, within its part where there are parts.
  QueueLoad(const StepCost* cost, bool has_classes, const ClassParts& parts)
      : cost_(cost), has_classes_(has_classes), parts_(parts) {}

  void Enter(Sequence* sequence);
  void Leave(Sequence* sequence);
  void OnFinished(const Sequence& sequence) {
    predictor_.Learn(sequence.max_tokens, sequence.generated());
  }

  // Tokens of prompts that are still to be computed, all that wait together.
  int64_t tokens() const { return tokens_; }

  // How long a request of the class would wait that came now, at the measured speed: for all that
  // waits before it, and until the first place is free: of R that run to random ends, the first
  // ends when 2 / R of their work is done; no place need get free where a lower class runs. Where
  // classes have parts, no longer than its class takes with its part alone. 0 while no speed is
  // measured, or where fewer wait before it than places are free.
  double WaitSeconds(Priority priority, std::span<Sequence* const> running, int free_places) const;

 private:
  // What is still to be computed for it.
  double Remaining(const Sequence& sequence) const;
  bool Ahead(Priority other, Priority own) const { return !has_classes_ || other <= own; }

  const StepCost* const cost_;
  const bool has_classes_;
  const ClassParts parts_;
  OutputPredictor predictor_;
  std::array<double, kNumPriorities> waiting_{};  // Cost, by class.
  std::array<int, kNumPriorities> count_{};
  int64_t tokens_ = 0;
};

}  // namespace ropeway

#endif  // ROPEWAY_SCHEDULER_QUEUE_LOAD_H_
