// The work that waits, and the wait that a new request can expect.
#ifndef ROPEWAY_SCHEDULER_QUEUE_LOAD_H_
#define ROPEWAY_SCHEDULER_QUEUE_LOAD_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/sequence.h"
#include "policy/output_predictor.h"
#include "scheduler/sampling_cost.h"
#include "scheduler/step_cost.h"
#include "scheduler/tenant_table.h"

namespace ropeway::scheduler {

// The guaranteed part of the work of each class, of 1; all 0: no shares.
using ClassParts = std::array<double, kNumPriorities>;

// Whose wait is to be predicted.
struct Newcomer {
  Priority priority = Priority::kMedium;
  int32_t tenant = -1;  // TenantTable's index; -1: it has no sequences here.
  double weight = 1.0;
};

// The waiting work in units of cost, by tenant and class, and the predicted wait. Outputs are
// predicted from completed requests. Thread rule: the scheduler's.
class QueueLoad {
 public:
  // The state in which the wait is predicted.
  struct View {
    std::span<core::Sequence* const> running;
    int free_slots = 0;
    double step_seconds = 0.0;  // Of a step, about.
  };

  // `has_classes`: a higher class goes first, within its part if there are parts.
  QueueLoad(const StepCost* cost, const SamplingCost* sampling, const TenantTable* tenants,
            bool has_classes, const ClassParts& parts)
      : cost_(cost),
        sampling_(sampling),
        tenants_(tenants),
        has_classes_(has_classes),
        parts_(parts) {}

  // Makes room for so many tenants. Throws std::bad_alloc.
  void Reserve(size_t tenants);
  // REQUIRES: reserved for the sequence's tenant.
  void Enter(core::Sequence* sequence);
  void Leave(core::Sequence* sequence);
  void OnFinished(const core::Sequence& sequence) {
    predictor_.Learn(sequence.request.max_tokens, sequence.generated());
  }

  // Ids of all waiting sequences together.
  int64_t tokens() const { return tokens_; }

  // Predicted queueing delay of a new request, at the measured speed:
  //
  //   - the work that goes before it: what waits of its own tenant and of higher classes, and of
  //     what other tenants of its class have, as much as they get while its own tenant gets that,
  //     by weight. With class parts, at most what its class takes with its part alone;
  //   - if no slot is free, the time until one is: until the first running sequence ends, or a
  //     tenant that holds more gives one up. At once if a lower class runs.
  //
  // Of R running sequences whose outputs are guesses the first ends when 2 / R of their work is
  // done; of those that run to their limit, the one with the least left does. 0 while no speed is
  // measured, or if fewer sequences wait before it than slots are free.
  double WaitSeconds(const Newcomer& newcomer, const View& view) const;

 private:
  struct Work {
    std::array<double, kNumPriorities> cost{};
    std::array<int, kNumPriorities> count{};
  };

  // Cost of the work that is left for the sequence.
  double Remaining(const core::Sequence& sequence) const;
  bool Ahead(Priority other, Priority own) const { return !has_classes_ || other <= own; }
  // Cost of the work that goes before the newcomer; adds the waiting sequences to `count`.
  double WorkBefore(const Newcomer& newcomer, const View& view, double* count) const;
  // Cost of what all that run do until the first of them ends.
  double UntilFirstEnd(std::span<core::Sequence* const> running) const;
  // Seconds until a tenant that holds more gives up a slot; negative: none does.
  double UntilTurn(const Newcomer& newcomer, const View& view) const;

  const StepCost* const cost_;
  const SamplingCost* const sampling_;
  const TenantTable* const tenants_;
  const bool has_classes_;
  const ClassParts parts_;
  policy::OutputPredictor predictor_;
  std::vector<Work> work_;              // By tenant.
  mutable std::vector<double> others_;  // Likewise: what runs of other tenants.
  int64_t tokens_ = 0;
};

}  // namespace ropeway::scheduler

#endif  // ROPEWAY_SCHEDULER_QUEUE_LOAD_H_
