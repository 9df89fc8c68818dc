// What sampling a token costs, which depends on how a request wants it sampled.
#ifndef ROPEWAY_SCHEDULER_SAMPLING_COST_H_
#define ROPEWAY_SCHEDULER_SAMPLING_COST_H_

#include <array>
#include <cstddef>

#include "base/clock.h"
#include "core/batch.h"
#include "core/sequence.h"

namespace ropeway::scheduler {

// Learned from the times that the executor reports: those of the sequence itself, or, before its
// first token, those of others of its kind (core::SampleKind). Smoothed exponentially; 0 before
// anything is known.
//
// Thread rule: the scheduler's.
class SamplingCost {
 public:
  static constexpr double kNewest = 1.0 / 4;  // Weight of the newest time in the mean.
  static constexpr double kLongest = 0.1;     // Seconds; what takes longer was a stall.

  // The predicted seconds of a step that sampling the job's next token adds,
  double Sampling(const core::Job& job) const;
  // and that scoring one token of its prompt does; 0 if it wants none scored.
  double Scoring(const core::Sequence& sequence) const;

  // It took `seconds` of a step to sample, or score, a token of the sequence.
  void OnSampled(core::Job* job, double seconds);
  void OnScored(core::Sequence* sequence, double seconds);

 private:
  static void Learn(double seconds, double* own, double* of_kind);

  // Negative: not known.
  std::array<double, 3> of_kind_ = {-1.0, -1.0, -1.0};  // By core::SampleKind.
  double scored_ = -1.0;
};

}  // namespace ropeway::scheduler

#endif  // ROPEWAY_SCHEDULER_SAMPLING_COST_H_
