// The policies without shares, the combination of policies, and the factory for all of them.
#ifndef ROPEWAY_POLICY_POLICIES_H_
#define ROPEWAY_POLICY_POLICIES_H_

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "policy/output_predictor.h"
#include "policy/scheduling_policy.h"
#include "ropeway/options.h"
#include "ropeway/status.h"

namespace ropeway::policy {

// The policy of these options; several joined by '+' are a CombinedPolicy. `kv_is_kept`: a
// preempted sequence finds its KV blocks again when it resumes. InvalidArgument with field "policy"
// or "class_shares"; the message names the bad value and what is possible. The shares are checked
// under every policy.
StatusOr<std::unique_ptr<SchedulingPolicy>> MakePolicy(const QueueOptions& options,
                                                       bool kv_is_kept = true);

// First come, first served; the newest is preempted. The running sequences are always the oldest,
// and the oldest of all runs until it ends.
class FcfsPolicy final : public SchedulingPolicy {
 public:
  const char* name() const override { return "fcfs"; }
  Rank RankOf(const core::Job& job) const override { return {{static_cast<int64_t>(job.order)}}; }
};

// Shortest job first: ranks by the tokens left to compute, which are the sequence's ids less those
// cached, plus its predicted output. The one with the most left is preempted. Minimizes the mean
// latency if predictions are right, at the expense of long requests; the scheduler's aging bounds
// their wait.
class SjfPolicy final : public SchedulingPolicy {
 public:
  const char* name() const override { return "sjf"; }
  Rank RankOf(const core::Job& job) const override;
  size_t PickVictim(std::span<const core::Sequence* const> candidates) const override;
  void OnFinished(const core::Job& job, bool completed) override;

 private:
  OutputPredictor predictor_;
};

// Keeps the lengths in a batch alike, for batches that take as long as their longest member.
// Running sequences go first, by arrival. A waiting one ranks by its distance
//
//     | log2(its ids) - log2(reference) | - seconds in the queue / kSecondsPerDoubling, at least 0
//
// in buckets of 1 / kBuckets of a doubling; equal ones by arrival. The reference is the mean length
// of the running sequences, or the length of the oldest queued one if none runs. The newest is
// preempted.
class LengthBalancePolicy final : public SchedulingPolicy {
 public:
  static constexpr double kBuckets = 8.0;
  // Lengths differ by at most 2^17, so any distance is made up for after 17 seconds of waiting:
  // about half of the default --max-wait.
  static constexpr double kSecondsPerDoubling = 1.0;

  const char* name() const override { return "length-balance"; }
  void BeginStep(const core::Jobs& queue, const core::Jobs& running, base::TimePoint now) override;
  Rank RankOf(const core::Job& job) const override;

 private:
  double reference_ = 0.0;  // log2 of the number of ids.
  base::TimePoint now_{};
};

// Longest cached prefix first, before it is evicted: of the waiting sequences, the one with the
// largest (cached tokens + kTokensPerSecond x seconds in the queue). Running sequences go before
// them, by arrival. The newest is preempted.
class CacheAwarePolicy final : public SchedulingPolicy {
 public:
  // The worth of a second in the queue. A request whose whole 4,096-token prompt is cached
  // overtakes only those that came at most 16 seconds before it: about half of the default
  // --max-wait. With a much larger value only the order of arrival would be left.
  static constexpr double kTokensPerSecond = 256.0;

  const char* name() const override { return "cache-aware"; }
  void BeginStep(const core::Jobs&, const core::Jobs&, base::TimePoint now) override { now_ = now; }
  Rank RankOf(const core::Job& job) const override;

 private:
  base::TimePoint now_{};
};

// Several policies as one. The first part decides, the next ones break its ties, then the arrival
// does: key i is the first key of part i. The first part decides about preemption and victims, and
// whether classes have an order; the part that divides service counts it. All parts receive
// OnScheduled and OnFinished.
class CombinedPolicy final : public SchedulingPolicy {
 public:
  static constexpr size_t kMaxParts = std::tuple_size_v<decltype(Rank::keys)>;

  // REQUIRES: 1 to kMaxParts parts.
  explicit CombinedPolicy(std::vector<std::unique_ptr<SchedulingPolicy>> parts);

  const char* name() const override { return name_.c_str(); }  // The parts' names, joined by '+'.
  void BeginStep(const core::Jobs& queue, const core::Jobs& running, base::TimePoint now) override;
  Rank RankOf(const core::Job& job) const override;
  bool MayPreempt(const core::Sequence& urgent, const core::Sequence& victim) const override {
    return parts_[0]->MayPreempt(urgent, victim);
  }
  size_t PickVictim(std::span<const core::Sequence* const> candidates) const override {
    return parts_[0]->PickVictim(candidates);
  }
  bool is_fair() const override { return fair_ != nullptr; }
  int64_t ServiceOf(const core::Job& job) const override {
    return fair_ != nullptr ? fair_->ServiceOf(job) : 0;
  }
  bool has_classes() const override { return parts_[0]->has_classes(); }
  ClassParts class_parts() const override { return parts_[0]->class_parts(); }
  int ClassOrderOf(const core::Job& job) const override { return parts_[0]->ClassOrderOf(job); }
  void OnScheduled(const core::Job& job, const ScheduledWork& work) override;
  void OnFinished(const core::Job& job, bool completed) override;

 private:
  const std::vector<std::unique_ptr<SchedulingPolicy>> parts_;
  const SchedulingPolicy* fair_ = nullptr;  // The part that divides service; null: none.
  std::string name_;
};

}  // namespace ropeway::policy

#endif  // ROPEWAY_POLICY_POLICIES_H_
