#include "policy/policies.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "policy/fair_policy.h"
#include "policy/priority_policy.h"

namespace ropeway::policy {
namespace {

constexpr char kPolicyNames[] = "fcfs, sjf, length-balance, cache-aware, priority, fair";

std::vector<std::string> SplitPolicyName(const std::string& name) {
  std::vector<std::string> parts(1);
  for (const char c : name) {
    if (c == '+') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// Null for an unknown name.
std::unique_ptr<SchedulingPolicy> MakePart(const std::string& name, const QueueOptions& options,
                                           bool kv_is_kept) {
  if (name == "fcfs") return std::make_unique<FcfsPolicy>();
  if (name == "sjf") return std::make_unique<SjfPolicy>();
  if (name == "length-balance") return std::make_unique<LengthBalancePolicy>();
  if (name == "cache-aware") return std::make_unique<CacheAwarePolicy>();
  if (name == "fair") return std::make_unique<FairPolicy>();
  if (name == "priority") {
    return std::make_unique<PriorityPolicy>(options.class_shares, options.strict_priority,
                                            kv_is_kept);
  }
  return nullptr;
}

Status BadPolicyName(const QueueOptions& options, const std::string& why) {
  return InvalidArgument("policy \"" + options.policy + "\" " + why + ": expected one of " +
                             kPolicyNames + ", or two or three of them joined by '+'",
                         "policy");
}

Status CheckShares(const std::array<int, kNumPriorities>& shares) {
  const bool each = std::all_of(shares.begin(), shares.end(), [](int s) { return s >= 1; });
  // In 64 bits: the sum of a caller's numbers may overflow an int.
  const int64_t sum = std::accumulate(shares.begin(), shares.end(), int64_t{0});
  if (each && sum == 100) return {};
  std::string given;
  for (const int share : shares) given += (given.empty() ? "" : ",") + std::to_string(share);
  const std::string what = "class_shares " + given + ": expected three whole percentages (high, " +
                           "medium, low), each at least 1, that add up to 100";
  return InvalidArgument(each ? what + ", but these add up to " + std::to_string(sum) : what,
                         "class_shares");
}

}  // namespace

StatusOr<std::unique_ptr<SchedulingPolicy>> MakePolicy(const QueueOptions& options,
                                                       bool kv_is_kept) {
  if (Status status = CheckShares(options.class_shares); !status.ok()) return status;
  const std::vector<std::string> names = SplitPolicyName(options.policy);
  if (names.size() > CombinedPolicy::kMaxParts) {
    return BadPolicyName(options, "has more than three parts");
  }
  std::vector<std::unique_ptr<SchedulingPolicy>> parts;
  for (auto name = names.begin(); name != names.end(); ++name) {
    if (name->empty()) {
      return BadPolicyName(options, names.size() == 1 ? "is empty" : "has an empty part");
    }
    if (std::find(names.begin(), name, *name) != name) {
      return BadPolicyName(options, "names " + *name + " twice");
    }
    parts.push_back(MakePart(*name, options, kv_is_kept));
    if (parts.back() == nullptr) {
      return BadPolicyName(
          options, names.size() == 1 ? "is unknown" : "has the unknown part \"" + *name + "\"");
    }
  }
  if (parts.size() == 1) return std::move(parts[0]);
  return std::unique_ptr<SchedulingPolicy>(std::make_unique<CombinedPolicy>(std::move(parts)));
}

Rank SjfPolicy::RankOf(const core::Job& job) const {
  const int32_t computed = job.running() ? job.computed : job.sched.cached_hint;
  const int64_t of_ids = std::max(0, job.num_ids() - computed);
  return {{of_ids + predictor_.Remaining(job)}};
}

size_t SjfPolicy::PickVictim(std::span<const core::Sequence* const> candidates) const {
  return FirstOfMost(candidates,
                     [this](const core::Job& s) { return std::pair(RankOf(s), s.order); });
}

void SjfPolicy::OnFinished(const core::Job& job, bool completed) {
  if (completed) predictor_.Learn(job.request.max_tokens, job.generated());
}

void LengthBalancePolicy::BeginStep(const core::Jobs& queue, const core::Jobs& running,
                                    base::TimePoint now) {
  now_ = now;
  double length = 0.0;
  for (const core::Job& job : running) length += job.num_ids();
  if (!running.empty()) {
    length /= static_cast<double>(running.size());
  } else if (!queue.empty()) {
    const core::Job* oldest = &queue[0];
    for (const core::Job& job : queue) oldest = job.order < oldest->order ? &job : oldest;
    length = oldest->num_ids();
  }
  reference_ = std::log2(std::max(1.0, length));
}

Rank LengthBalancePolicy::RankOf(const core::Job& job) const {
  if (job.running()) return {{-1}};
  const double distance = std::abs(std::log2(std::max(1, job.num_ids())) - reference_);
  const double aged =
      distance - base::ToSeconds(now_ - job.sched.queued_since) / kSecondsPerDoubling;
  return {{static_cast<int64_t>(std::max(0.0, aged) * kBuckets)}};
}

Rank CacheAwarePolicy::RankOf(const core::Job& job) const {
  if (job.running()) return {{std::numeric_limits<int64_t>::min()}};
  const double waited = base::ToSeconds(now_ - job.sched.queued_since) * kTokensPerSecond;
  return {{-(static_cast<int64_t>(waited) + job.sched.cached_hint)}};
}

CombinedPolicy::CombinedPolicy(std::vector<std::unique_ptr<SchedulingPolicy>> parts)
    : parts_(std::move(parts)) {
  for (const auto& part : parts_) {
    if (!name_.empty()) name_ += '+';
    name_ += part->name();
    if (part->is_fair()) fair_ = part.get();
  }
}

void CombinedPolicy::BeginStep(const core::Jobs& queue, const core::Jobs& running,
                               base::TimePoint now) {
  for (const auto& part : parts_) part->BeginStep(queue, running, now);
}

Rank CombinedPolicy::RankOf(const core::Job& job) const {
  Rank rank;
  for (size_t i = 0; i < parts_.size(); ++i) rank.keys[i] = parts_[i]->RankOf(job).keys[0];
  return rank;
}

void CombinedPolicy::OnScheduled(const core::Job& job, const ScheduledWork& work) {
  for (const auto& part : parts_) part->OnScheduled(job, work);
}

void CombinedPolicy::OnFinished(const core::Job& job, bool completed) {
  for (const auto& part : parts_) part->OnFinished(job, completed);
}

}  // namespace ropeway::policy
