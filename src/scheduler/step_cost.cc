#include "scheduler/step_cost.h"

#include <algorithm>
#include <cmath>

namespace ropeway::scheduler {

int32_t StepCost::ChunkFor(int32_t start, int32_t wanted, double budget, double extra) const {
  const auto cost = [&](int32_t tokens) { return Cost(start, tokens) + extra * tokens; };
  if (wanted <= 0 || cost(1) > budget) return 0;
  // n + w (n start + n (n + 1) / 2) = budget, solved for n without a difference of near numbers.
  const double linear = 1.0 + extra + weight_ * (start + 0.5);
  const double n = 2.0 * budget / (linear + std::sqrt(linear * linear + 2.0 * weight_ * budget));
  auto chunk = static_cast<int32_t>(std::clamp<double>(n, 1.0, wanted));
  // Corrects rounding.
  while (chunk < wanted && cost(chunk + 1) <= budget) ++chunk;
  while (chunk > 1 && cost(chunk) > budget) --chunk;
  return chunk;
}

void StepCost::OnStep(int32_t rows, double attended_positions, base::Duration took, bool busy) {
  const double seconds = base::ToSeconds(took);
  if (rows <= 0 || seconds <= 0.0) return;
  if (busy) AddSpeed(rows + weight_ * attended_positions, seconds);
  if (rows >= kMinRows) Fit(attended_positions / rows, seconds / rows);
}

void StepCost::Fit(double x, double y) {
  if (sums_.steps >= kMinSteps / 2) {
    const double expected = a_ + b_ * x;
    if (y > kOutlier * expected || y < expected / kOutlier) {
      if (++outliers_ < kMaxOutliers) return;
      sums_ = {};
    }
  }
  outliers_ = 0;
  ++sums_.steps;
  sums_.n = kKeep * sums_.n + 1.0;
  sums_.x = kKeep * sums_.x + x;
  sums_.y = kKeep * sums_.y + y;
  sums_.xx = kKeep * sums_.xx + x * x;
  sums_.xy = kKeep * sums_.xy + x * y;

  const double mean_x = sums_.x / sums_.n;
  const double mean_y = sums_.y / sums_.n;
  const double variance = sums_.xx / sums_.n - mean_x * mean_x;
  if (sums_.steps >= kMinSteps && variance >= kMinSpread * kMinSpread) {
    const double slope = std::max(0.0, (sums_.xy / sums_.n - mean_x * mean_y) / variance);
    const double intercept = mean_y - slope * mean_x;
    // An intercept of 0 or less is noise: no weight follows from it.
    if (intercept > 0.0) weight_ = std::min(slope / intercept, kMaxWeight);
  }
  // The expected time of the next step: the mean, at the weight in use.
  a_ = mean_y / (1.0 + weight_ * mean_x);
  b_ = weight_ * a_;
}

void StepCost::AddSpeed(double cost, double seconds) {
  if (speed_seconds_ > 0.0 && cost < speed() * seconds / kSlowest) {
    if (++slow_steps_ < kMaxOutliers) return;
    speed_cost_ = speed_seconds_ = 0.0;
  }
  slow_steps_ = 0;
  const double keep = std::exp(-seconds / kSpeedSeconds);
  speed_cost_ = keep * speed_cost_ + cost;
  speed_seconds_ = keep * speed_seconds_ + seconds;
}

}  // namespace ropeway::scheduler
