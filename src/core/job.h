// Jobs: what decides the order of requests in a queue, and the waits that are predicted from it.
#ifndef ROPEWAY_CORE_JOB_H_
#define ROPEWAY_CORE_JOB_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "core/sequence_state.h"
#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway::core {

// Requests that are one to their client (OpenAI's n and lists of prompts): all are admitted, or
// none, as the first of them is. The engine thread's once the first one is in the core.
struct AdmissionGroup {
  explicit AdmissionGroup(int32_t requests) : size(requests) {}
  const int32_t size;
  std::optional<Status> decision;
};

// What a request says about its place in a queue.
struct JobRequest {
  uint64_t id = 0;
  int32_t max_tokens = 1;
  bool ignore_eos = false;
  std::vector<TokenId> stop_ids;  // Each ends it, as an end token does.
  base::TimePoint arrival{};      // When Submit was called.
  // Its place in the order of Submit: prompts may be encoded in another order, and so come to the
  // core in another. Absent: the order in which it comes. All requests of a queue have one, or
  // none.
  std::optional<uint64_t> order;
  base::TimePoint deadline =
      base::TimePoint::max();  // The request fails with kDeadlineExceeded then.
  std::string tenant;
  double tenant_weight = 1.0;
  Priority priority = Priority::kMedium;
  std::shared_ptr<AdmissionGroup> group;  // Null: it is alone.
};

// What sampling a token of a job takes: the largest logit is looked for while it is computed; a
// plain draw reads the whole row; the rest orders tokens too.
enum class SampleKind : uint8_t { kLargest, kPlain, kOrdered };

// The batch in which a job started.
struct StartedBatch {
  uint64_t number = 0;  // 0: it has not started.
  int32_t size = 0;
  base::Duration formation{};  // The part of its time in the queue in which the batch filled.
};

// The scheduler's part of a job.
struct SchedulingState {
  // Since when it waits, in the queue or running without work.
  base::TimePoint queued_since{};
  // Steps since it started or resumed in which it had work, or rested.
  int32_t run_steps = 0;
  // It is past max_wait: it goes before later arrivals, and its work is charged to no class, until
  // it has run for kMinRunSteps.
  bool aged = false;
  int32_t tenant = 0;         // Index of its tenant (TenantTable).
  uint64_t started_step = 0;  // The scheduler's step in which it started or resumed.
  int32_t again_steps = 0;    // Steps since then that only computed again what was lost.
  // It started while its tenant held no slot, in a turn between tenants, with a short prompt: this
  // is computed as if it were of class high, before decodes of other tenants.
  bool first_turn = false;
  // It decodes, and in the last step it and others would have sampled at too great a cost together:
  // some of them, it perhaps, had to wait.
  bool contends = false;
  // The part of Sequence::preemptions that gave a turn to another tenant or to one past max_wait.
  int32_t turns_given = 0;
  // While it waits: its tenant is a quantum of service above another one that waits.
  bool above_share = false;
  double held_blocks = 0.0;  // While it runs: its blocks, shared ones in part, of this step.
  // What sampling a token takes, and scoring one of its prompt; smoothed. Negative: not known yet.
  double sample_seconds = -1.0;
  double score_seconds = -1.0;
  bool long_prefill = false;  // See SchedulingOptions::long_prefill_threshold.
  // Ids found in the pool when last looked up; for ranking while it waits.
  int32_t cached_hint = 0;
  // While in the queue: the predicted cost of the work that is left, of its ids and of the tokens
  // that it will generate, and the seconds that sampling takes besides.
  double queued_prompt_cost = 0.0;
  double queued_output_cost = 0.0;
  double queued_sampling = 0.0;
  StartedBatch batch;
  // Another sequence computes some of its blocks now; the last one's name is names[follows - 1],
  // and this sequence waits for it. 0: it waits for none.
  int32_t follows = 0;
};

// A request in a queue, as policies (policy::SchedulingPolicy) and predictions
// (scheduler::QueueLoad) see it: a sequence of the engine core, or a request that a gateway sends
// to its replicas.
struct Job {
  Job() = default;
  Job(JobRequest its, uint64_t jobs_before)
      : request(std::move(its)), order(request.order.value_or(jobs_before)), number(jobs_before) {}

  JobRequest request;
  SchedulingState sched;
  SequenceState state = SequenceState::kWaiting;
  uint64_t order = 0;   // By which jobs come first, first served: see JobRequest::order.
  uint64_t number = 0;  // Jobs that came before it.
  int32_t preemptions = 0;

  int32_t prompt_len = 0;  // At least 1.
  int32_t length = 0;      // Ids of its prompt, and those that were generated.
  int32_t computed = 0;    // While it runs: the first ids whose K/V are computed.
  int32_t min_tokens = 0;  // That it generates at least.
  SampleKind samples = SampleKind::kPlain;

  uint64_t id() const { return request.id; }
  int32_t num_ids() const { return length; }
  int32_t generated() const { return length - prompt_len; }
  // Has a slot and blocks.
  bool running() const {
    return state == SequenceState::kPrefilling || state == SequenceState::kDecoding ||
           state == SequenceState::kFetching;
  }
};

// The jobs of a list whose owner keeps them as what they are. For the time of a call.
class Jobs {
 public:
  Jobs() = default;
  template <typename T>
  Jobs(const std::vector<T*>& list)  // NOLINT(google-explicit-constructor): a list of jobs is this.
      : first_(list.data()),
        size_(list.size()),
        at_([](const void* first, size_t i) -> Job& { return *static_cast<T* const*>(first)[i]; }) {
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  Job& operator[](size_t i) const { return at_(first_, i); }

  struct Iterator {
    const Jobs& jobs;
    size_t i;
    Job& operator*() const { return jobs[i]; }
    Iterator& operator++() {
      ++i;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return i != other.i; }
  };
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, size_}; }

 private:
  const void* first_ = nullptr;
  size_t size_ = 0;
  Job& (*at_)(const void* first, size_t i) = nullptr;
};

}  // namespace ropeway::core

#endif  // ROPEWAY_CORE_JOB_H_
