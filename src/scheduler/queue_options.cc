#include "scheduler/queue_options.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "policy/policies.h"

namespace ropeway::scheduler {

Status CheckQueueOptions(const QueueOptions& options) {
  const auto least = [](const std::array<std::chrono::milliseconds, 3>& limits) {
    return *std::min_element(limits.begin(), limits.end());
  };
  const std::pair<const char*, std::chrono::milliseconds> times[] = {
      {"max_wait", options.max_wait},
      {"ttft_limits", least(options.ttft_limits)},
      {"latency_limits", least(options.latency_limits)}};
  for (const auto& [field, time] : times) {
    if (time.count() <= 0)
      return InvalidArgument(field + std::string(" must be above 0 ms"), field);
  }
  const std::pair<const char*, int64_t> counts[] = {
      {"max_queued_requests", options.max_queued_requests},
      {"max_queued_tokens", options.max_queued_tokens}};
  for (const auto& [field, count] : counts) {
    if (count >= 1) continue;
    return InvalidArgument(field + (" must be at least 1, not " + std::to_string(count)), field);
  }
  const auto policy = policy::MakePolicy(options);
  return policy.ok() ? Status() : policy.status();
}

}  // namespace ropeway::scheduler
