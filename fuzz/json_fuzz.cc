// A request body, for both endpoints that generate.
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api/dialects.h"
#include "api/fields.h"
#include "base/json.h"
#include "core/request_check.h"
#include "fuzz/fuzz_target.h"

namespace ropeway::fuzz {
namespace {

// The ranges that every accepted request must respect (include/ropeway/request.h).
void CheckSampling(const SamplingParams& s) {
  Require(s.temperature >= 0 && s.temperature <= 2, "temperature");
  Require(s.top_p > 0 && s.top_p <= 1, "top_p");
  Require(s.min_p >= 0 && s.min_p <= 1, "min_p");
  Require(s.top_k >= -1, "top_k");
  Require(s.typical_p > 0 && s.typical_p <= 1, "typical_p");
  Require(std::fabs(s.presence_penalty) <= 2, "presence_penalty");
  Require(std::fabs(s.frequency_penalty) <= 2, "frequency_penalty");
  Require(s.repetition_penalty > 0 && s.repetition_penalty <= 10, "repetition_penalty");
  Require(s.min_tokens >= 0, "min_tokens");
  Require(s.logit_bias.size() <= 1024, "logit_bias");
  for (const LogitBias& bias : s.logit_bias) {
    Require(bias.id >= 0 && std::fabs(bias.bias) <= 100, "logit_bias");
  }
}

void CheckRequest(const Request& request) {
  CheckSampling(request.sampling);
  Require(!request.max_tokens || *request.max_tokens >= 0, "max_tokens");
  Require(!request.logprobs || (*request.logprobs >= 0 && *request.logprobs <= 20), "logprobs");
  Require(!request.timeout || request.timeout->count() > 0, "timeout");
  Require(request.stop.size() <= 16, "stop");
  for (const std::string& stop : request.stop) {
    Require(!stop.empty() && stop.size() <= 1024, "stop");
  }
  Require(request.stop_token_ids.size() <= 128, "stop_token_ids");
  for (const TokenId id : request.resume_ids) Require(id >= 0, "resume_ids");
}

void CheckChat(const Chat& chat) {
  const auto is_object = [](const std::string& text) {
    const StatusOr<nlohmann::json> json = base::ReadJson(text, {}, "the text");
    return json.ok() && json->is_object();
  };
  Require(core::CheckChat(chat).ok(), "a chat that no engine takes");
  for (const ChatMessage& message : chat.messages) {
    if (!message.part_sizes.empty()) {
      size_t bytes = message.part_sizes.size() - 1;
      for (const size_t size : message.part_sizes) bytes += size;
      Require(bytes == message.content.size(), "parts that are not their text");
    }
    for (const ToolCall& call : message.tool_calls) {
      Require(!call.name.empty() && is_object(call.arguments), "a call");
    }
  }
  for (const Tool& tool : chat.tools) {
    Require(tool.parameters.empty() || is_object(tool.parameters), "parameters");
  }
  Require(chat.template_arguments.empty() || is_object(chat.template_arguments), "arguments");
}

void CheckApiRequest(const api::ApiRequest& api) {
  CheckRequest(api.request);
  Require(!api.prompts.empty() && api.n >= 1 && api.choices() <= 128, "choices");
  Require(api.request.resume_ids.empty() || (api.gateway && api.stream && api.choices() == 1),
          "resume_ids");
  for (const api::Prompt& prompt : api.prompts) {
    if (const auto* ids = std::get_if<std::vector<TokenId>>(&prompt)) {
      for (const TokenId id : *ids) Require(id >= 0, "a negative token id");
    }
    if (const auto* chat = std::get_if<Chat>(&prompt)) CheckChat(*chat);
  }
}

void CheckBody(std::string_view body, const std::unique_ptr<api::ApiFormat>& format) {
  const Status status = format->Parse(body, api::BodyLimits());
  const std::string header = api::IgnoredHeader(format->request()->ignored);
  Require(header.size() <= 256, "a long header");
  for (const char c : header) Require(c >= ' ' && c <= '~', "a header that is not printable");
  if (status.ok()) {
    CheckApiRequest(*format->request());
  } else {
    RequireError(status);
  }
}

}  // namespace
}  // namespace ropeway::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  ropeway::fuzz::CheckBody(body, ropeway::api::MakeOpenAiCompletions());
  ropeway::fuzz::CheckBody(body, ropeway::api::MakeOpenAiChat());
  return 0;
}
