#include "policy/priority_policy.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

namespace ropeway::policy {
namespace {

constexpr double kNewestStepWeight = 1.0 / 32;  // The newest step's weight in the mean cost.
constexpr double kUnlimited = std::numeric_limits<double>::infinity();

}  // namespace

ClassShares::ClassShares(const std::array<int, kNumPriorities>& shares, bool strict)
    : strict_(strict) {
  std::copy(shares.begin(), shares.end(), share_.begin());
}

ClassParts ClassShares::Parts() const {
  ClassParts parts{};
  if (strict_) return parts;
  const double all = std::accumulate(share_.begin(), share_.end(), 0.0);
  for (size_t c = 0; c < parts.size(); ++c) parts[c] = share_[c] / all;
  return parts;
}

bool ClassShares::WithinShare(Priority priority) const {
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
      return std::pair(WithinShare(p) ? -kUnlimited : -deficit(p), p);
    };
    return key(a) < key(b);
  });
  for (int i = 0; i < kNumPriorities; ++i) order_[Index(order[static_cast<size_t>(i)])] = i;
}

void ClassShares::Settle(const std::array<ClassLoad, kNumPriorities>& loads) {
  const double total = std::accumulate(used_.begin(), used_.end(), 0.0);
  if (total > 0.0) {
    step_cost_ = step_cost_ > 0.0 ? step_cost_ + (total - step_cost_) * kNewestStepWeight : total;
    PerClass demand{};
    for (size_t c = 0; c < kNumPriorities; ++c) {
      // A class whose whole backlog started in the step had no more demand.
      const bool wanted_more = loads_[c].backlog && loads[c].backlog;
      demand[c] = wanted_more ? kUnlimited : used_[c] + std::max(0.0, -deficit_[c]);
    }
    const PerClass entitled = Divide(total, demand);
    for (size_t c = 0; c < kNumPriorities; ++c) deficit_[c] += entitled[c] - used_[c];
  }
  for (size_t c = 0; c < kNumPriorities; ++c) {
    if (!loads[c].active) {
      deficit_[c] = 0.0;
    } else if (!loads[c].backlog) {
      deficit_[c] = std::min(deficit_[c], 0.0);
    }
  }
  Balance();
}

ClassShares::PerClass ClassShares::Divide(double total, const PerClass& demand) const {
  PerClass part{};
  std::array<bool, kNumPriorities> full{};
  for (size_t c = 0; c < kNumPriorities; ++c) full[c] = demand[c] <= 0.0;
  // Each round fills the classes whose demand is below their part of the rest.
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

void PriorityPolicy::BeginStep(const core::Jobs& queue, const core::Jobs& running,
                               base::TimePoint /*now*/) {
  std::array<ClassLoad, kNumPriorities> loads{};
  const auto count = [&loads](const core::Job& job, bool backlog) {
    if (job.sched.aged) return;
    ClassLoad& load = loads[static_cast<size_t>(job.request.priority)];
    load.active = true;
    load.backlog |= backlog;
  };
  for (const core::Job& job : queue) count(job, true);
  for (const core::Job& job : running) {
    count(job, job.state == core::SequenceState::kPrefilling || job.sched.contends);
  }
  shares_.BeginStep(loads);
}

bool PriorityPolicy::MayPreempt(const core::Sequence& urgent, const core::Sequence& victim) const {
  return urgent.request.priority < victim.request.priority && !victim.sched.aged &&
         shares_.WithinShare(urgent.request.priority);
}

bool PriorityPolicy::IsBetterVictim(const core::Sequence& a, const core::Sequence& b) const {
  if (a.request.priority != b.request.priority) return a.request.priority > b.request.priority;
  const int32_t lost_a = kv_is_kept_ ? 0 : a.computed;
  const int32_t lost_b = kv_is_kept_ ? 0 : b.computed;
  // The newest of equal ones: the orders are swapped.
  return std::tuple(lost_a, a.generated(), b.order) < std::tuple(lost_b, b.generated(), a.order);
}

size_t PriorityPolicy::PickVictim(std::span<const core::Sequence* const> candidates) const {
  size_t last = 0;
  for (size_t i = 1; i < candidates.size(); ++i) {
    if (IsBetterVictim(*candidates[last], *candidates[i])) last = i;
  }
  size_t victim = last;  // If it is alone.
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (i == last) continue;
    const bool capped = PreemptedOften(*candidates[i]);
    const bool victim_capped = PreemptedOften(*candidates[victim]);
    const bool better = capped != victim_capped
                            ? victim_capped
                            : IsBetterVictim(*candidates[i], *candidates[victim]);
    if (victim == last || better) victim = i;
  }
  return victim;
}

}  // namespace ropeway::policy
