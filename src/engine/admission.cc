#include "engine/admission.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ropeway::engine {
namespace {

// Seconds; no client waits longer.
constexpr double kLongestRetryAfter = 3600;

}  // namespace

Status CheckFits(const core::CoreRequest& request, int32_t max_model_len) {
  if (request.prompt.empty()) return InvalidArgument("the prompt has no tokens", "prompt");
  if (request.max_tokens < 0) {
    return InvalidArgument(fmt::format("max_tokens is {}, must be at least 0", request.max_tokens),
                           "max_tokens");
  }
  const int64_t limit = max_model_len;
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  if (prompt > limit || (prompt == limit && request.max_tokens > 0)) {
    return InvalidArgument(
        fmt::format("the prompt has {} tokens, which leaves none to generate of max_model_len {}",
                    prompt, limit),
        "prompt");
  }
  if (prompt + request.max_tokens > limit) {
    return InvalidArgument(
        fmt::format("the prompt's {} tokens and max_tokens {} exceed max_model_len {}", prompt,
                    request.max_tokens, limit),
        "max_tokens");
  }
  return {};
}

Status CheckQueue(const core::CoreRequest& request, const EngineCoreOptions& options,
                  const scheduler::Scheduler& scheduler) {
  const int64_t tokens = scheduler.queued_tokens();
  if (tokens > 0 &&
      tokens + static_cast<int64_t>(request.prompt.size()) > options.max_queued_tokens) {
    return {StatusCode::kResourceExhausted,
            fmt::format("the queue is full: prompts of {} tokens wait already, and this one has {} "
                        "(max_queued_tokens {})",
                        tokens, request.prompt.size(), options.max_queued_tokens)};
  }
  const double wait =
      scheduler.WaitSeconds(request.priority, request.tenant, request.tenant_weight);
  const double most = base::ToSeconds(options.scheduler.max_wait);
  if (wait <= most) return {};
  Status status(StatusCode::kResourceExhausted,
                fmt::format("the request would wait about {:.0f} s for its turn, longer than "
                            "max_wait ({} s)",
                            std::ceil(wait), most));
  status.set_retry_after_seconds(
      static_cast<int>(std::clamp(std::ceil(wait - most), 1.0, kLongestRetryAfter)));
  return status;
}

}  // namespace ropeway::engine
