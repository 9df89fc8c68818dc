#include "server/openai_request.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "server/request_draft.h"

namespace ropeway {
namespace {

using nlohmann::json;

constexpr int32_t kDefaultCompletionTokens = 16;  // OpenAI's.

const FieldTable& CompletionTable() {
  static const FieldTable table = [] {
    FieldTable t;
    AddSamplingFields(&t);
    AddCommonFields(&t);
    AddCompletionFields(&t);
    return t;
  }();
  return table;
}

const FieldTable& ChatTable() {
  static const FieldTable table = [] {
    FieldTable t;
    AddSamplingFields(&t);
    AddCommonFields(&t);
    AddChatFields(&t);
    return t;
  }();
  return table;
}

// --- What fields mean together.

Status FinishCompletion(Draft* draft) {
  if (draft->api.prompts.empty()) return InvalidArgument("'prompt' is required.", "prompt");
  Request& request = draft->api.request;
  if (draft->best_of && *draft->best_of != draft->api.n) {
    return Unsupported("best_of", " but as equal to 'n'");
  }
  if (!request.max_tokens) request.max_tokens = kDefaultCompletionTokens;
  if (draft->api.echo && request.logprobs) {
    if (request.prompt_logprobs.value_or(*request.logprobs) != *request.logprobs) {
      return InvalidArgument(
          "With 'echo', 'logprobs' and 'prompt_logprobs' differ; give one of them.",
          "prompt_logprobs");
    }
    // The prompt's log-probabilities stand before the completion's, as many of them.
    request.prompt_logprobs = request.logprobs;
  }
  return {};
}

Status FinishChat(Draft* draft) {
  if (draft->api.prompts.empty()) return InvalidArgument("'messages' is required.", "messages");
  Request& request = draft->api.request;
  if (draft->max_completion_tokens) {
    if (request.max_tokens.value_or(*draft->max_completion_tokens) !=
        *draft->max_completion_tokens) {
      return InvalidArgument("'max_tokens' and 'max_completion_tokens' differ; give one of them.",
                             "max_tokens");
    }
    request.max_tokens = draft->max_completion_tokens;
  }
  if (draft->top_logprobs && !draft->chat_logprobs) {
    return InvalidArgument("'top_logprobs' needs 'logprobs' to be true.", "top_logprobs");
  }
  if (draft->chat_logprobs) request.logprobs = draft->top_logprobs.value_or(0);
  return {};
}

Status CheckLengths(const Draft& draft) {
  const Request& request = draft.api.request;
  const char* field = draft.max_completion_tokens ? "max_completion_tokens" : "max_tokens";
  if (request.max_tokens == 0 && !draft.api.echo && !draft.api.prompt_logprobs) {
    const char* needs = draft.api.chat ? "'prompt_logprobs'" : "'echo' or 'prompt_logprobs'";
    return InvalidArgument(
        fmt::format("'{}' must be at least 1, but is 0, which needs {}.", field, needs), field);
  }
  if (request.max_tokens && request.sampling.min_tokens > *request.max_tokens) {
    return InvalidArgument(fmt::format("'min_tokens' is {}, which is more than '{}', {}.",
                                       request.sampling.min_tokens, field, *request.max_tokens),
                           "min_tokens");
  }
  return {};
}

Status FinishPriority(Draft* draft) {
  ApiRequest& api = draft->api;
  if (draft->priority && draft->tier && *draft->priority != *draft->tier) {
    return InvalidArgument(
        fmt::format("'priority' is {}, but 'service_tier' means {}; give one of them.",
                    PriorityName(*draft->priority), PriorityName(*draft->tier)),
        "priority");
  }
  api.priority = draft->priority ? draft->priority : draft->tier;
  api.priority_field = draft->priority ? "priority" : "service_tier";
  return {};
}

Status FinishDraft(Draft* draft) {
  ApiRequest& api = draft->api;
  if (draft->has_stream_options && !api.stream) {
    return InvalidArgument("'stream_options' needs 'stream' to be true.", "stream_options");
  }
  if (api.stream && api.prompt_logprobs) {
    return Unsupported("prompt_logprobs", " in streams; use 'echo' with 'logprobs'");
  }
  Status status = api.chat ? FinishChat(draft) : FinishCompletion(draft);
  if (status.ok()) status = CheckLengths(*draft);
  if (status.ok()) status = FinishPriority(draft);
  if (!status.ok()) return status;
  // Without a token to generate, the prompt is all that there is to compute.
  if (api.request.max_tokens == 0 && !api.request.prompt_logprobs) api.request.prompt_logprobs = 0;
  if (api.choices() > static_cast<size_t>(draft->max_choices)) {
    return InvalidArgument(
        fmt::format("'n' of {} for each of {} prompts makes {} choices; at most {} are allowed.",
                    api.n, api.prompts.size(), api.choices(), draft->max_choices),
        "n");
  }
  return {};
}

}  // namespace

StatusOr<ApiRequest> ParseApiRequest(std::string_view body, bool chat, const JsonBounds& bounds,
                                     int max_choices) {
  StatusOr<json> document = ReadJson(body, bounds);
  if (!document.ok()) return document.status();
  if (!document->is_object()) return InvalidArgument("The body must be a JSON object.");

  Draft draft;
  draft.api.chat = chat;
  draft.max_choices = max_choices;
  const FieldTable& fields = chat ? ChatTable() : CompletionTable();
  for (const auto& [name, value] : document->items()) {
    auto field = fields.find(name);
    if (field == fields.end()) return UnknownField(ShownName(name));
    if (value.is_null()) continue;  // OpenAI's clients write absent fields so.
    Status status = field->second(value, name, &draft);
    if (!status.ok()) return status;
  }
  Status status = FinishDraft(&draft);
  if (!status.ok()) return status;
  return std::move(draft.api);
}

}  // namespace ropeway
