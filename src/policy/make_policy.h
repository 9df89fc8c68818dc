// From a policy's name to the policy.
#ifndef ROPEWAY_POLICY_MAKE_POLICY_H_
#define ROPEWAY_POLICY_MAKE_POLICY_H_

#include <array>
#include <memory>
#include <string>

#include "policy/scheduling_policy.h"
#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway {

struct PolicyOptions {
  // "fcfs", "sjf", "length-balance", "cache-aware", "priority" or "fair", or two or three of them
  // joined by '+' (CombinedPolicy).
  std::string name = "priority+fair";
  // For "priority", in percent: high, medium, low. Each at least 1, together 100.
  std::array<int, kNumPriorities> class_shares = {70, 20, 10};
  bool strict = false;     // "priority" without shares.
  bool kv_is_kept = true;  // What a preempted sequence has computed is found again.
};

// InvalidArgument with field "policy" or "class_shares" and one sentence that says what was given
// and what is possible. The shares are looked at under every policy.
StatusOr<std::unique_ptr<SchedulingPolicy>> MakePolicy(const PolicyOptions& options);

}  // namespace ropeway

#endif  // ROPEWAY_POLICY_MAKE_POLICY_H_
