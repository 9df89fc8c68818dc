// What steps and samplings cost, and how long a step takes, as learned from those so far.
#ifndef ROPEWAY_SCHEDULER_COST_MODEL_H_
#define ROPEWAY_SCHEDULER_COST_MODEL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/clock.h"
#include "core/batch.h"
#include "core/device_profile.h"
#include "core/sequence.h"
#include "scheduler/scheduler_output.h"

namespace ropeway::scheduler {

// Work by kind.
struct Work {
  // `prompt` and `output` are in units of cost (StepCost).
  double prompt = 0.0;    // Ids that are computed in chunks.
  double output = 0.0;    // Tokens that are generated one by one.
  double sampling = 0.0;  // Seconds that the choice of the output tokens takes besides.

  Work& operator+=(const Work& other) {
    prompt += other.prompt;
    output += other.output;
    sampling += other.sampling;
    return *this;
  }
  Work& operator-=(const Work& other) {
    prompt -= other.prompt;
    output -= other.output;
    sampling -= other.sampling;
    return *this;
  }
};

// The unit is a token's work without attention. Attention adds `weight()` for each position that a
// token attends to: the token at position p attends to p + 1, so tokens [start, start + n) cost
//
//     n + weight x (n x start + n x (n + 1) / 2)
//
// The weight is learned from the steps' times: over the steps with at least min_rows() tokens
// (smaller ones are bound by memory and tell nothing about a token's work), least squares without
// intercept
//
//     took = a x rows + b x attended positions,   weight = b / a in [0, kMaxWeight]
//
// of each step divided by its rows, so that large steps do not dominate, with exponential
// forgetting by steps. The weight is unchanged while the steps are too similar in mean attended
// positions to tell a from b. A step that took more than kOutlier times the expected time, or less
// than the inverse, is left out; kMaxOutliers of them in a row are a change of the machine: the fit
// begins anew, with the weight it had.
//
// Thread rule: the scheduler's.
class StepCost {
 public:
  // 16 positions would cost as much as the token's own work: no model is that small.
  static constexpr double kMaxWeight = 1.0 / 16;
  static constexpr double kKeep =
      0.99;  // What each later step keeps of a step's weight: 100 steps count.
  static constexpr int kMinSteps = 16;  // Below it the fit is not used.
  // Least standard deviation of the attended positions of a token. With a weight of 1/700, 100
  // positions are a seventh of a token's work, above the noise of step times.
  static constexpr double kMinSpread = 100.0;
  static constexpr double kOutlier = 4.0;
  static constexpr int kMaxOutliers = 8;
  static constexpr double kSpeedSeconds = 10.0;  // Busy time that counts in speed().

  // `weight`: the initial one, in [0, kMaxWeight].
  explicit StepCost(double weight = core::DeviceProfile{}.attention_weight,
                    const core::DeviceProfile& device = {})
      : min_rows_(device.telling_rows), slowest_(device.speed_range), weight_(weight) {}

  // Positions that the tokens [start, start + tokens) attend to.
  static double Positions(int32_t start, int32_t tokens) {
    const double n = tokens;
    return n * start + n * (n + 1.0) / 2.0;
  }
  double Cost(int32_t start, int32_t tokens) const {
    return tokens + weight_ * Positions(start, tokens);
  }

  // Returns the most tokens, at most `wanted`, whose cost from `start` on is within `budget`; 0 if
  // not even one is. `extra`: what each costs besides.
  int32_t ChunkFor(int32_t start, int32_t wanted, double budget, double extra = 0.0) const;

  // A step of `rows` tokens took `took`. Steps that computed nothing are ignored. `busy`: it counts
  // in speed(), the speed under load.
  void OnStep(int32_t rows, double attended_positions, base::Duration took, bool busy = true);

  // The device's telling_rows.
  int32_t min_rows() const { return min_rows_; }
  double weight() const { return weight_; }

  // Units of cost per second of busy steps, over the last kSpeedSeconds of them; 0 before the
  // first. Steps slower than this by the device's speed_range are left out, unless kMaxOutliers of
  // them come in a row.
  double speed() const { return speed_seconds_ > 0.0 ? speed_cost_ / speed_seconds_ : 0.0; }

 private:
  // Weighted sums over steps; x: attended positions per row, y: seconds per row.
  struct Sums {
    double n = 0.0, x = 0.0, y = 0.0, xx = 0.0, xy = 0.0;
    int steps = 0;
  };

  void Fit(double x, double y);
  void AddSpeed(double cost, double seconds);

  int32_t min_rows_;
  double slowest_;
  double weight_;
  Sums sums_;
  double a_ = 0.0;  // Seconds per row; 0: nothing is expected yet.
  double b_ = 0.0;  // Seconds per attended position.
  int outliers_ = 0;
  double speed_cost_ = 0.0;
  double speed_seconds_ = 0.0;
  int slow_steps_ = 0;
};

// What sampling costs, learned from the times that the executor reports: from the sequence's own
// times or, before its first token, from the times of other sequences of its kind
// (core::SampleKind). Smoothed exponentially; 0 before anything is known.
//
// Thread rule: the scheduler's.
class SamplingCost {
 public:
  static constexpr double kNewest = 1.0 / 4;  // Weight of the newest time in the mean.
  static constexpr double kLongest = 0.1;     // Seconds; what takes longer was a stall.

  // The predicted seconds that sampling the job's next token adds to a step.
  double Sampling(const core::Job& job) const;
  // The predicted seconds that scoring one token of its prompt adds to a step; 0 if it wants none
  // scored.
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

// Thread rule: the engine thread.
class CostModel {
 public:
  // `attention_weight`: the initial one of StepCost. `learns`: what steps cost is learned; else
  // only how long they take.
  CostModel(double attention_weight, bool learns, const core::DeviceProfile& device = {})
      : step_(attention_weight, device), learns_(learns) {}

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
