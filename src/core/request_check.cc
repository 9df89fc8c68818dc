#include "core/request_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/chat_size.h"
#include "core/parameters.h"
#include "core/tenant.h"

namespace ropeway::core {
namespace {

Status CheckLogprobs(const std::optional<int32_t>& logprobs, const char* name) {
  if (!logprobs || (*logprobs >= 0 && *logprobs <= kMaxLogprobs)) return {};
  return InvalidArgument(
      fmt::format("{} must be between 0 and {}, not {}", name, kMaxLogprobs, *logprobs), name);
}

Status CheckLengths(const Request& request) {
  const int32_t least = request.sampling.min_tokens;
  if (!request.max_tokens || least <= *request.max_tokens) return {};
  return InvalidArgument(fmt::format("min_tokens must be at most max_tokens, but {} is above {}",
                                     least, *request.max_tokens),
                         "min_tokens");
}

// So that an id can stand in a log line and a list as it is.
Status CheckSessionId(const std::string& id) {
  const bool printable =
      std::all_of(id.begin(), id.end(), [](char c) { return c >= ' ' && c <= '~'; });
  if (printable && id.size() <= kMaxSessionIdBytes) return {};
  return InvalidArgument(
      fmt::format("session_id must have 1 to {} printable ASCII characters", kMaxSessionIdBytes),
      "session_id");
}

Status CheckClass(const Request& request) {
  if (static_cast<int>(request.priority) >= kNumPriorities) {
    return InvalidArgument("priority must be high, medium or low", "priority");
  }
  // Written so that not-a-number is rejected too.
  if (!(request.tenant_weight >= kMinTenantWeight && request.tenant_weight <= kMaxTenantWeight)) {
    return InvalidArgument(fmt::format("tenant_weight must be between {} and {}, not {}",
                                       kMinTenantWeight, kMaxTenantWeight, request.tenant_weight),
                           "tenant_weight");
  }
  return {};
}

// Whether there are too many of them for a max_tokens that is absent is seen by the encoder.
Status CheckResume(const Request& request) {
  const char* const field = "resume_ids";
  const size_t count = request.resume_ids.size();
  if (count == 0) return {};
  if (!request.sampling.seed) {
    return InvalidArgument("resume_ids needs the seed that its tokens were sampled with", field);
  }
  if (request.prompt_logprobs) {
    return InvalidArgument(
        "resume_ids cannot be used with prompt_logprobs, which come before the first generated "
        "token",
        field);
  }
  if (!request.session_id.empty()) {
    return InvalidArgument("resume_ids cannot be used in a session", field);
  }
  if (!request.max_tokens || count <= static_cast<size_t>(*request.max_tokens)) return {};
  return InvalidArgument(fmt::format("resume_ids has {} tokens, more than max_tokens ({})", count,
                                     *request.max_tokens),
                         field);
}

Status CheckEmbedding(const Request& request) {
  if (!request.embedding) return {};
  const auto excludes = [](const char* what) {
    return InvalidArgument(
        fmt::format("{} cannot be used with embedding, which generates nothing", what), what);
  };
  if (request.max_tokens.value_or(0) != 0) return excludes("max_tokens");
  if (request.logprobs) return excludes("logprobs");
  if (request.prompt_logprobs) return excludes("prompt_logprobs");
  if (!request.resume_ids.empty()) return excludes("resume_ids");
  if (!request.session_id.empty()) return excludes("session_id");
  if (request.format.kind != OutputFormat::Kind::kText) return excludes("format");
  return {};
}

size_t BytesOf(const std::string& text) { return text.size(); }
size_t BytesOf(const std::vector<TokenId>& ids) { return ids.size() * sizeof(TokenId); }
size_t BytesOf(const Chat& chat) { return base::MemoryBytes(chat); }

Status CheckToolName(const std::string& name, const std::string& field) {
  const bool good = !name.empty() && name.size() <= kMaxToolNameBytes &&
                    std::all_of(name.begin(), name.end(), [](char c) {
                      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                             (c >= '0' && c <= '9') || c == '_' || c == '-';
                    });
  if (good) return {};
  return InvalidArgument(
      fmt::format("{} must be 1 to {} letters, digits, '_' and '-'", field, kMaxToolNameBytes),
      field);
}

Status CheckTools(const std::vector<Tool>& tools) {
  if (tools.size() > kMaxTools) {
    return InvalidArgument(
        fmt::format("tools has {} entries; at most {} are supported", tools.size(), kMaxTools),
        "tools");
  }
  std::set<std::string_view> names;
  for (size_t i = 0; i < tools.size(); ++i) {
    const std::string field = fmt::format("tools[{}].function.name", i);
    if (Status status = CheckToolName(tools[i].name, field); !status.ok()) return status;
    if (!names.insert(tools[i].name).second) {
      return InvalidArgument(
          fmt::format("{} is '{}', as is that of an earlier tool", field, tools[i].name), field);
    }
  }
  return {};
}

Status CheckToolChoice(const Chat& chat) {
  const char* const field = "tool_choice";
  if (chat.tool_choice == ToolChoice::kRequired && chat.tools.empty()) {
    return InvalidArgument("tool_choice asks for a call, but there are no tools", field);
  }
  if (chat.tool_name.empty()) return {};
  if (chat.tool_choice != ToolChoice::kRequired) {
    return InvalidArgument("tool_choice names a tool but does not require its call", field);
  }
  const auto is_named = [&](const Tool& tool) { return tool.name == chat.tool_name; };
  if (std::any_of(chat.tools.begin(), chat.tools.end(), is_named)) return {};
  return InvalidArgument(
      fmt::format("tool_choice names '{}', which is none of the tools", chat.tool_name), field);
}

}  // namespace

Status CheckChat(const Chat& chat) {
  if (chat.messages.empty()) return InvalidArgument("messages must not be empty", "messages");
  if (chat.continue_final_message && chat.add_generation_prompt) {
    return InvalidArgument("continue_final_message and add_generation_prompt must not both be true",
                           "continue_final_message");
  }
  if (Status status = CheckTools(chat.tools); !status.ok()) return status;
  return CheckToolChoice(chat);
}

Status CheckRequest(const Request& request) {
  if (const auto* chat = std::get_if<Chat>(&request.prompt)) {
    if (Status status = CheckChat(*chat); !status.ok()) return status;
  }
  const auto* ids = std::get_if<std::vector<TokenId>>(&request.prompt);
  if (ids != nullptr && ids->empty()) {
    return InvalidArgument("the prompt must hold at least one token id", "prompt");
  }
  if (request.timeout && request.timeout->count() <= 0) {
    return InvalidArgument(
        fmt::format("timeout must be above 0, not {} ms", request.timeout->count()), "timeout");
  }
  for (const Parameter& row : Parameters()) {
    if (Status status = CheckParameter(row, request); !status.ok()) return status;
  }
  for (Status status : {CheckLengths(request), CheckLogprobs(request.logprobs, "logprobs"),
                        CheckLogprobs(request.prompt_logprobs, "prompt_logprobs"),
                        CheckSessionId(request.session_id), CheckClass(request),
                        CheckResume(request), CheckEmbedding(request)}) {
    if (!status.ok()) return status;
  }
  return {};
}

Status ContextLengthExceeded(std::string message, std::string field) {
  Status status = InvalidArgument(std::move(message), std::move(field));
  status.set_api_code("context_length_exceeded");
  return status;
}

Status CheckFits(const CoreRequest& request, int32_t max_model_len) {
  if (request.prompt.empty()) return InvalidArgument("the prompt has no tokens", "prompt");
  if (request.max_tokens < 0) {
    return InvalidArgument(fmt::format("max_tokens must be at least 0, not {}", request.max_tokens),
                           "max_tokens");
  }
  if (!request.resume_ids.empty() &&
      static_cast<int64_t>(request.resume_ids.size()) >= request.max_tokens) {
    return InvalidArgument(
        fmt::format("resume_ids has {} tokens, which leaves none to generate with max_tokens {}",
                    request.resume_ids.size(), request.max_tokens),
        "resume_ids");
  }
  const int64_t limit = max_model_len;
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  if (prompt > limit || (prompt == limit && request.max_tokens > 0)) {
    return ContextLengthExceeded(
        fmt::format("the prompt has {} tokens, which leaves none to generate with max_model_len {}",
                    prompt, limit),
        "prompt");
  }
  if (prompt + request.max_tokens > limit) {
    return ContextLengthExceeded(
        fmt::format("the prompt's {} tokens and max_tokens {} exceed max_model_len {}", prompt,
                    request.max_tokens, limit),
        "prompt");
  }
  return {};
}

size_t BytesOf(const Request& request) {
  size_t bytes = std::visit([](const auto& prompt) { return BytesOf(prompt); }, request.prompt);
  for (const std::string& stop : request.stop) bytes += sizeof(std::string) + stop.size();
  bytes += request.sampling.logit_bias.size() * sizeof(LogitBias);
  for (const std::string& choice : request.format.choices) {
    bytes += sizeof(std::string) + choice.size();
  }
  bytes += request.format.schema.size() + request.format.regex.size();
  bytes += request.tenant.size() + request.cache_scope.size() + request.cache_salt.size();
  return bytes + BytesOf(request.stop_token_ids) + BytesOf(request.resume_ids) +
         request.session_id.size();
}

}  // namespace ropeway::core
