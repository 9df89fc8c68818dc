#include "policy/class_shares.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace ropeway {
namespace {

constexpr double kNewestStep = 1.0 / 32;  // Weight of the newest step in the mean cost.
constexpr double kUnlimited = std::numeric_limits<double>::infinity();

}  // namespace

ClassShares::ClassShares(const std::array<int, kNumPriorities>& shares, bool strict)
    : strict_(strict) {
  std::copy(shares.begin(), shares.end(), share_.begin());
}

bool ClassShares::MayClaim(Priority priority) const {
  return strict_ || deficit(priority) >= -kBurst * step_cost_;
}

void ClassShares::BeginStep(const std::array<ClassLoad, kNumPriorities>& loads) {
  if (strict_) return;
  Settle(loads);
  loads_ = loads;
  used_ = {};
  std::array<Priority, kNumPriorities> order = {Priority::kHigh, Priority::kMedium, Priority::kLow};
  std::sort(order.begin(), order.end(), [this](Priority a, Priority b) {
    const auto key = [this](Priority p) {
      const bool above = !MayClaim(p);
      return std::pair(above ? -deficit(p) : -kUnlimited, p);
    };
    return key(a) < key(b);
  });
  for (int i = 0; i < kNumPriorities; ++i) place_[Index(order[static_cast<size_t>(i)])] = i;
}

void ClassShares::Settle(const std::array<ClassLoad, kNumPriorities>& loads) {
  const double total = std::accumulate(used_.begin(), used_.end(), 0.0);
  if (total > 0.0) {
    step_cost_ = step_cost_ > 0.0 ? step_cost_ + (total - step_cost_) * kNewestStep : total;
    PerClass demand{};
    for (size_t c = 0; c < kNumPriorities; ++c) {
      // Not where all that waited was started in the step.
      const bool wanted_more = loads_[c].wants && loads[c].wants;
      demand[c] = wanted_more ? kUnlimited : used_[c] + std::max(0.0, -deficit_[c]);
    }
    const PerClass entitled = Divide(total, demand);
    for (size_t c = 0; c < kNumPriorities; ++c) deficit_[c] += entitled[c] - used_[c];
  }
  for (size_t c = 0; c < kNumPriorities; ++c) {
    if (!loads[c].there) {
      deficit_[c] = 0.0;
    } else if (!loads[c].wants) {
      deficit_[c] = std::min(deficit_[c], 0.0);
    }
  }
  Balance();
}

ClassShares::PerClass ClassShares::Divide(double total, const PerClass& demand) const {
  PerClass part{};
  std::array<bool, kNumPriorities> full{};
  for (size_t c = 0; c < kNumPriorities; ++c) full[c] = demand[c] <= 0.0;
  // Each round fills those whose demand is below their part of what is left.
  for (bool again = true; again;) {
    again = false;
    double shares = 0.0;
    for (size_t c = 0; c < kNumPriorities; ++c) shares += full[c] ? 0.0 : share_[c];
    const double left = total;
    for (size_t c = 0; c < kNumPriorities; ++c) {
      if (full[c]) continue;
      part[c] = left * share_[c] / shares;
      if (demand[c] > part[c]) continue;
      part[c] = demand[c];
      full[c] = true;
      total -= demand[c];
      again = true;
    }
  }
  return part;
}

void ClassShares::Balance() {
  const double most = kMaxDeficit * step_cost_;
  double credit = 0.0;
  double debt = 0.0;
  for (double& deficit : deficit_) {
    deficit = std::clamp(deficit, -most, most);
    (deficit > 0.0 ? credit : debt) += std::abs(deficit);
  }
  const double smaller = std::min(credit, debt);
  for (double& deficit : deficit_) {
    if (deficit != 0.0) deficit *= smaller / (deficit > 0.0 ? credit : debt);
  }
}

}  // namespace ropeway
