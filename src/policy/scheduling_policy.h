// The SchedulingPolicy seam: the order of jobs and the choice of preemption victims. A policy
// ranks. Its caller, the engine core's scheduler or a gateway's dispatch, accounts for what jobs
// take.
#ifndef ROPEWAY_POLICY_SCHEDULING_POLICY_H_
#define ROPEWAY_POLICY_SCHEDULING_POLICY_H_

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/clock.h"
#include "core/sequence.h"

namespace ropeway::policy {

// The lowest rank goes first; equal ranks go by arrival. The first key decides, the next ones break
// its ties: each part of a combined policy fills one key.
struct Rank {
  std::array<int64_t, 3> keys{};
  auto operator<=>(const Rank&) const = default;
};

// The work of one step for one job.
struct ScheduledWork {
  int32_t prompt_tokens = 0;  // Tokens of its prompt, computed for the first time.
  int32_t output_tokens = 0;  // 1 if its next token is sampled.
  // In units of StepCost, recomputed tokens and sampling included.
  double cost = 0.0;
  // The part of it that attention and sampling add to the tokens above.
  double extra = 0.0;
  // Slots' worth of the KV pool that the job holds: its part of the blocks, times the slots.
  double held = 0.0;
  // It computes nothing, and keeps its slot and blocks all the same: others' tokens are sampled in
  // this step, or other prompts of its tenant computed, or it fetches.
  bool rests = false;
};

// The guaranteed part of the work of each class, of 1; all 0: no shares.
using ClassParts = std::array<double, kNumPriorities>;

// How much more service a tenant may have than another one before it gives up a slot to it: what a
// slot decodes in kQuantumSteps steps, in the units of SchedulingPolicy::ServiceOf. 64 steps are 1
// to 3 seconds of a lone slot; a tenant that holds all of 64 slots is as far above after one step.
inline constexpr int kQuantumSteps = 64;
inline constexpr int64_t kServiceOfDecode = 2 * 65536;
inline constexpr int64_t kServiceQuantum = kQuantumSteps * kServiceOfDecode;

// Thread rule: the engine thread.
class SchedulingPolicy {
 public:
  virtual ~SchedulingPolicy() = default;

  virtual const char* name() const = 0;

  // Begins a step. `queue` (waiting and preempted) and `running` hold all jobs, unordered.
  virtual void BeginStep(const core::Jobs& /*queue*/, const core::Jobs& /*running*/,
                         base::TimePoint /*now*/) {}

  // Constant between BeginStep and the step's first OnScheduled. The scheduler starts no job of the
  // queue before a lower-ranked one that does not fit yet.
  virtual Rank RankOf(const core::Job& job) const = 0;

  // For the engine core: whether the waiting sequence `urgent` may preempt the running sequence
  // `victim` for its slot and blocks. Never true in both directions. By default none may.
  virtual bool MayPreempt(const core::Sequence& /*urgent*/,
                          const core::Sequence& /*victim*/) const {
    return false;
  }

  // Whether service is divided between tenants. If not, ServiceOf is 0.
  virtual bool is_fair() const { return false; }
  // The weighted service of the job's tenant so far; a token decoded at weight 1 is
  // kServiceOfDecode.
  virtual int64_t ServiceOf(const core::Job& /*job*/) const { return 0; }
  // Whether classes go first. Where the class only breaks another policy's ties, it tells little
  // about waits.
  virtual bool has_classes() const { return false; }
  virtual ClassParts class_parts() const { return {}; }
  // The position of the job's class in this step's order, if classes go first; else 0. Between
  // tenants, a job gives way only to jobs of its own class and of earlier ones.
  virtual int ClassOrderOf(const core::Job& /*job*/) const { return 0; }

  // For the engine core: the index of the candidate to preempt, by default the newest. Candidates
  // run, have no work yet in this step, and are in rank order. REQUIRES: not empty.
  virtual size_t PickVictim(std::span<const core::Sequence* const> candidates) const {
    return FirstOfMost(candidates, [](const core::Sequence& s) { return s.order; });
  }

  // `work` for the job is part of this step, from position `job.computed` on.
  virtual void OnScheduled(const core::Job& /*job*/, const ScheduledWork& /*work*/) {}

  // The job ended and is destroyed after this call. `completed`: by an end token, a stop or
  // its length, not by a cancel or a failure.
  virtual void OnFinished(const core::Job& /*job*/, bool /*completed*/) {}

 protected:
  // The index of the first candidate with the largest key.
  template <typename KeyOf>
  static size_t FirstOfMost(std::span<const core::Sequence* const> candidates, KeyOf key) {
    const auto most = std::max_element(
        candidates.begin(), candidates.end(),
        [&](const core::Sequence* a, const core::Sequence* b) { return key(*a) < key(*b); });
    return static_cast<size_t>(most - candidates.begin());
  }
};

// A job that was preempted this often is preempted again only if memory is short and all
// others were preempted as often. Each preemption costs at least a turn in the queue; eight are
// more than a burst of urgent requests causes, and few enough to guarantee an end.
inline constexpr int32_t kMaxPreemptions = 8;

// Whether the job was preempted so often. Turns that it gave to other tenants, and to requests
// past max_wait, do not count: what bounds those is the tenants' service, and that each request is
// past max_wait once.
inline bool PreemptedOften(const core::Job& job) {
  return job.preemptions - job.sched.turns_given >= kMaxPreemptions;
}

}  // namespace ropeway::policy

#endif  // ROPEWAY_POLICY_SCHEDULING_POLICY_H_
