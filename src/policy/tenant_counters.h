// How much service each tenant has had.
#ifndef ROPEWAY_POLICY_TENANT_COUNTERS_H_
#define ROPEWAY_POLICY_TENANT_COUNTERS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "core/sequence.h"

namespace ropeway {

// The virtual token counters of Sheng et al., "Fairness in Serving Large Language Models"
// (OSDI 2024), weighted: a tenant's counter grows by
//
//     (kPromptToken x prompt tokens + kOutputToken x output tokens) / its weight
//
// of what is computed for it. Who has the least is served first. A tenant that had nothing in the
// queue and now has is lifted (section 4 there) to the least counter of those that were in the
// queue before, or, where there were none, to the counter of the last one that left it: time
// without requests earns no credit. A counter is never lowered.
//
// Bounded: a sweep forgets each tenant that has nothing here and would be lifted anyway, and of the
// others with nothing here it keeps the kMaxIdleTenants with the most service. A sweep comes before
// the map has grown by half.
//
// Thread rule: the engine thread.
class TenantCounters {
 public:
  static constexpr double kPromptToken = 1.0;
  static constexpr double kOutputToken = 2.0;
  // A counter's unit is this part of a token: one token at the largest weight (100) is still 655.
  static constexpr double kUnitsPerToken = 65536.0;
  static constexpr size_t kMaxIdleTenants = 10'000;

  // A step begins, with these sequences there. Lifts.
  void BeginStep(std::span<Sequence* const> queue, std::span<Sequence* const> running,
                 TimePoint now);

  // The counter of the sequence's tenant; 0: a tenant that no BeginStep has named.
  int64_t Of(const Sequence& sequence) const;

  // So many tokens are computed for the sequence.
  void Charge(const Sequence& sequence, int32_t prompt_tokens, int32_t output_tokens);

  size_t size() const { return tenants_.size(); }

 private:
  struct Tenant {
    int64_t counter = 0;
    uint64_t there = 0;          // The last step in which it had a sequence here,
    uint64_t queued = 0;         // one in the queue,
    uint64_t queued_before = 0;  // and one that was in the queue in the step before too.
  };

  bool WasQueued(const Sequence& sequence) const;
  void Sweep();

  std::unordered_map<std::string, Tenant> tenants_;
  std::vector<Tenant*> in_queue_;      // In the last BeginStep, each once.
  std::vector<Tenant*> were_queued_;   // In the one before; here so that a step allocates nothing.
  const Tenant* last_left_ = nullptr;  // The one that left the queue last.
  int64_t level_ = 0;                  // What tenants that come are lifted to. Never falls.
  uint64_t step_ = 0;
  uint64_t next_order_ = 0;  // Above all arrivals up to the last BeginStep.
  TimePoint last_step_{};
  size_t sweep_at_ = 64;
};

}  // namespace ropeway

#endif  // ROPEWAY_POLICY_TENANT_COUNTERS_H_
