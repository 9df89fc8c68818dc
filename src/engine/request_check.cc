#include "engine/request_check.h"

#include <fmt/format.h>

namespace ropeway {
namespace {

// Written so that NaN is outside every range.
bool Within(float value, float low, float high) { return value >= low && value <= high; }

Status CheckSampling(const SamplingParams& params) {
  if (!Within(params.temperature, 0.0F, 2.0F)) {
    return InvalidArgument(
        fmt::format("temperature must be between 0 and 2, not {}", params.temperature),
        "temperature");
  }
  if (params.top_k < -1) {
    return InvalidArgument(
        fmt::format("top_k must be at least 1, or 0 or -1 for all tokens, not {}", params.top_k),
        "top_k");
  }
  if (!(params.top_p > 0.0F && params.top_p <= 1.0F)) {
    return InvalidArgument(fmt::format("top_p must be above 0 and at most 1, not {}", params.top_p),
                           "top_p");
  }
  if (!Within(params.min_p, 0.0F, 1.0F)) {
    return InvalidArgument(fmt::format("min_p must be between 0 and 1, not {}", params.min_p),
                           "min_p");
  }
  return {};
}

Status CheckStops(const std::vector<std::string>& stops) {
  if (stops.size() > kMaxStopStrings) {
    return InvalidArgument(
        fmt::format("stop may hold at most {} strings, not {}", kMaxStopStrings, stops.size()),
        "stop");
  }
  for (const std::string& stop : stops) {
    if (stop.empty()) return InvalidArgument("stop must not hold an empty string", "stop");
    if (stop.size() > kMaxStopBytes) {
      return InvalidArgument(fmt::format("a stop string may have at most {} bytes, not {}",
                                         kMaxStopBytes, stop.size()),
                             "stop");
    }
  }
  return {};
}

}  // namespace

Status CheckRequest(const Request& request) {
  const bool empty = std::visit([](const auto& prompt) { return prompt.empty(); }, request.prompt);
  const bool chat = std::holds_alternative<std::vector<ChatMessage>>(request.prompt);
  if (empty && chat) return InvalidArgument("messages must not be empty", "messages");
  if (empty && !std::holds_alternative<std::string>(request.prompt)) {
    return InvalidArgument("the prompt must hold at least one token id", "prompt");
  }
  if (request.max_tokens && *request.max_tokens < 1) {
    return InvalidArgument(
        fmt::format("max_tokens must be at least 1, not {}", *request.max_tokens), "max_tokens");
  }
  if (request.logprobs && (*request.logprobs < 0 || *request.logprobs > kMaxLogprobs)) {
    return InvalidArgument(
        fmt::format("logprobs must be between 0 and {}, not {}", kMaxLogprobs, *request.logprobs),
        "logprobs");
  }
  if (Status status = CheckSampling(request.sampling); !status.ok()) return status;
  return CheckStops(request.stop);
}

}  // namespace ropeway
