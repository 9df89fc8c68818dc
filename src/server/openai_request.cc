#include "server/openai_request.h"

#include <fmt/format.h>

#include <limits>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "server/chat_messages.h"
#include "server/json_fields.h"

namespace ropeway {
namespace {

using nlohmann::json;

constexpr int kMaxLogprobs = 20;
constexpr size_t kMaxStops = 16;
constexpr size_t kMaxStopBytes = 1024;
constexpr int32_t kDefaultCompletionTokens = 16;  // OpenAI's.
constexpr int32_t kInt32Max = std::numeric_limits<int32_t>::max();

// What several fields decide together, beside the request itself.
struct Draft {
  ApiRequest api;
  bool has_prompt = false;
  bool has_stream_options = false;
  std::optional<int32_t> max_completion_tokens;
  bool chat_logprobs = false;
  std::optional<int32_t> top_logprobs;
};

// Reads one field's value, never null, into the draft.
using FieldReader = Status (*)(const json& value, const std::string& field, Draft* draft);
using FieldTable = std::unordered_map<std::string, FieldReader>;

Status Unsupported(const std::string& field, const std::string& what) {
  return {StatusCode::kUnimplemented, fmt::format("'{}' is not supported{}.", field, what), field};
}

// --- Readers of many fields alike.

template <typename T>
Status Store(StatusOr<T> read, T* out) {
  if (!read.ok()) return read.status();
  *out = *std::move(read);
  return {};
}

Status StoreFloat(StatusOr<double> read, float* out) {
  if (!read.ok()) return read.status();
  *out = static_cast<float>(*read);
  return {};
}

Status StoreInt32(StatusOr<int64_t> read, std::optional<int32_t>* out) {
  if (!read.ok()) return read.status();
  *out = static_cast<int32_t>(*read);
  return {};
}

Status Ignore(const json&, const std::string&, Draft*) { return {}; }

Status Refuse(const json&, const std::string& field, Draft*) { return Unsupported(field, ""); }

// For fields whose empty value asks for nothing.
Status RefuseUnlessEmpty(const json& value, const std::string& field, Draft*) {
  bool empty = (value.is_array() || value.is_object()) && value.empty();
  return empty ? Status() : Unsupported(field, "");
}

// For switches that change nothing while they are off.
Status RefuseUnlessFalse(const json& value, const std::string& field, Draft*) {
  StatusOr<bool> on = ReadBool(value, field);
  if (!on.ok()) return on.status();
  return *on ? Unsupported(field, " but as false") : Status();
}

template <int kOnly>
Status RefuseUnless(const json& value, const std::string& field, Draft*) {
  if (!value.is_number()) return Mismatch(value, field, "a number");
  if (value.get<double>() == kOnly) return {};
  return Unsupported(field, fmt::format(" but as {}", kOnly));
}

// --- Fields of both endpoints.

Status ReadModel(const json& value, const std::string& field, Draft* draft) {
  return Store(ReadString(value, field), &draft->api.request.model);
}

Status ReadMaxTokens(const json& value, const std::string& field, Draft* draft) {
  return StoreInt32(ReadInt(value, field, 1, kInt32Max), &draft->api.request.max_tokens);
}

Status ReadTemperature(const json& value, const std::string& field, Draft* draft) {
  return StoreFloat(ReadNumber(value, field, 0, 2), &draft->api.request.sampling.temperature);
}

Status ReadTopP(const json& value, const std::string& field, Draft* draft) {
  Status status =
      StoreFloat(ReadNumber(value, field, 0, 1, true), &draft->api.request.sampling.top_p);
  // A double above 0 may be none as a float.
  if (status.ok() && draft->api.request.sampling.top_p <= 0) {
    return Mismatch(value, field, "a number above 0 and at most 1");
  }
  return status;
}

Status ReadMinP(const json& value, const std::string& field, Draft* draft) {
  return StoreFloat(ReadNumber(value, field, 0, 1), &draft->api.request.sampling.min_p);
}

Status ReadTopK(const json& value, const std::string& field, Draft* draft) {
  StatusOr<int64_t> k = ReadInt(value, field, -1, kInt32Max);
  if (!k.ok()) return k.status();
  draft->api.request.sampling.top_k = static_cast<int32_t>(*k);
  return {};
}

// All 64-bit integers, signed or not: a negative seed stands for its two's complement.
Status ReadSeed(const json& value, const std::string& field, Draft* draft) {
  if (!value.is_number_integer()) return Mismatch(value, field, "an integer of 64 bits");
  draft->api.request.sampling.seed = value.is_number_unsigned()
                                         ? value.get<uint64_t>()
                                         : static_cast<uint64_t>(value.get<int64_t>());
  return {};
}

Status ReadStop(const json& value, const std::string& field, Draft* draft) {
  json list = value.is_array() ? value : json::array({value});
  if (list.size() > kMaxStops) {
    return InvalidArgument(fmt::format("'{}' holds more than {} strings.", field, kMaxStops),
                           field);
  }
  for (const json& stop : list) {
    if (!stop.is_string()) return Mismatch(stop, field, "a string or a list of strings");
    const std::string& text = stop.get_ref<const std::string&>();
    if (text.empty() || text.size() > kMaxStopBytes) {
      return InvalidArgument(
          fmt::format("'{}' must hold strings of 1 to {} bytes.", field, kMaxStopBytes), field);
    }
    draft->api.request.stop.push_back(text);
  }
  return {};
}

Status ReadIgnoreEos(const json& value, const std::string& field, Draft* draft) {
  return Store(ReadBool(value, field), &draft->api.request.ignore_eos);
}

Status ReadStream(const json& value, const std::string& field, Draft* draft) {
  return Store(ReadBool(value, field), &draft->api.stream);
}

Status ReadStreamOptions(const json& value, const std::string& field, Draft* draft) {
  if (!value.is_object()) return Mismatch(value, field, "an object");
  draft->has_stream_options = true;
  for (const auto& [name, option] : value.items()) {
    const std::string path = field + "." + name.substr(0, 64);
    if (name == "include_obfuscation" || option.is_null()) continue;
    Status status = name == "include_usage"
                        ? Store(ReadBool(option, path), &draft->api.include_usage)
                        : InvalidArgument(fmt::format("Unknown field '{}'.", path), path);
    if (!status.ok()) return status;
  }
  return {};
}

// --- Fields of /v1/completions.

StatusOr<std::vector<TokenId>> ReadTokenIds(const json& list, const std::string& field) {
  std::vector<TokenId> ids;
  ids.reserve(list.size());
  for (const json& item : list) {
    StatusOr<int64_t> id = ReadInt(item, field, 0, kInt32Max);
    if (!id.ok()) return id.status();
    ids.push_back(static_cast<TokenId>(*id));
  }
  return ids;
}

Status ReadPrompt(const json& value, const std::string& field, Draft* draft) {
  draft->has_prompt = true;
  constexpr const char* kExpected = "a string or a list of token ids";
  // A list of one prompt is that prompt; several would be several answers.
  bool of_prompts =
      value.is_array() && !value.empty() && (value.front().is_string() || value.front().is_array());
  if (of_prompts && value.size() > 1) {
    return {StatusCode::kUnimplemented,
            fmt::format("'{}' holds several prompts; send one request each.", field), field};
  }
  const json& prompt = of_prompts ? value.front() : value;
  if (prompt.is_string()) {
    draft->api.request.prompt = prompt.get<std::string>();
    return {};
  }
  if (!prompt.is_array()) return Mismatch(prompt, field, kExpected);
  if (prompt.empty()) return InvalidArgument(fmt::format("'{}' is empty.", field), field);
  StatusOr<std::vector<TokenId>> ids = ReadTokenIds(prompt, field);
  if (!ids.ok()) return ids.status();
  draft->api.request.prompt = *std::move(ids);
  return {};
}

Status ReadLogprobs(const json& value, const std::string& field, Draft* draft) {
  return StoreInt32(ReadInt(value, field, 0, kMaxLogprobs), &draft->api.request.logprobs);
}

// --- Fields of /v1/chat/completions.

Status ReadMessages(const json& value, const std::string& field, Draft* draft) {
  draft->has_prompt = true;
  StatusOr<std::vector<ChatMessage>> messages = ReadChatMessages(value, field);
  if (!messages.ok()) return messages.status();
  draft->api.request.prompt = *std::move(messages);
  return {};
}

Status ReadMaxCompletionTokens(const json& value, const std::string& field, Draft* draft) {
  return StoreInt32(ReadInt(value, field, 1, kInt32Max), &draft->max_completion_tokens);
}

Status ReadChatLogprobs(const json& value, const std::string& field, Draft* draft) {
  return Store(ReadBool(value, field), &draft->chat_logprobs);
}

Status ReadTopLogprobs(const json& value, const std::string& field, Draft* draft) {
  return StoreInt32(ReadInt(value, field, 0, kMaxLogprobs), &draft->top_logprobs);
}

Status ReadResponseFormat(const json& value, const std::string& field, Draft*) {
  if (value.is_object() && value.size() == 1 && value.value("type", json()) == "text") return {};
  return Unsupported(field, " but as {\"type\": \"text\"}");
}

Status ReadToolChoice(const json& value, const std::string& field, Draft*) {
  if (value == "none" || value == "auto") return {};  // There are no tools to choose from.
  return Unsupported(field, "");
}

Status ReadModalities(const json& value, const std::string& field, Draft*) {
  if (value == json::array({"text"})) return {};
  return Unsupported(field, " but as [\"text\"]");
}

void AddCommonFields(FieldTable* t) {
  *t = {{"model", ReadModel},
        {"max_tokens", ReadMaxTokens},
        {"temperature", ReadTemperature},
        {"top_p", ReadTopP},
        {"top_k", ReadTopK},
        {"min_p", ReadMinP},
        {"seed", ReadSeed},
        {"stop", ReadStop},
        {"ignore_eos", ReadIgnoreEos},
        {"stream", ReadStream},
        {"stream_options", ReadStreamOptions},
        {"n", RefuseUnless<1>},
        {"presence_penalty", RefuseUnless<0>},
        {"frequency_penalty", RefuseUnless<0>},
        {"repetition_penalty", RefuseUnless<1>},
        {"min_tokens", RefuseUnless<0>},
        {"logit_bias", RefuseUnlessEmpty},
        // Accepted without effect: they concern bookkeeping, or parts that there are none of yet.
        {"user", Ignore},
        {"safety_identifier", Ignore},
        {"metadata", Ignore},
        {"service_tier", Ignore},
        {"priority", Ignore},
        {"cache_salt", Ignore},
        {"prompt_cache_key", Ignore},
        {"store", RefuseUnlessFalse}};
}

const FieldTable& CompletionFields() {
  static const FieldTable table = [] {
    FieldTable t;
    AddCommonFields(&t);
    t.insert({{"prompt", ReadPrompt},
              {"logprobs", ReadLogprobs},
              {"best_of", RefuseUnless<1>},
              {"echo", RefuseUnlessFalse},
              {"suffix", Refuse}});
    return t;
  }();
  return table;
}

const FieldTable& ChatFields() {
  static const FieldTable table = [] {
    FieldTable t;
    AddCommonFields(&t);
    t.insert({{"messages", ReadMessages},
              {"max_completion_tokens", ReadMaxCompletionTokens},
              {"logprobs", ReadChatLogprobs},
              {"top_logprobs", ReadTopLogprobs},
              {"response_format", ReadResponseFormat},
              {"tools", RefuseUnlessEmpty},
              {"functions", RefuseUnlessEmpty},
              {"tool_choice", ReadToolChoice},
              {"function_call", ReadToolChoice},
              {"parallel_tool_calls", Ignore},
              {"modalities", ReadModalities},
              {"audio", Refuse},
              {"prediction", Refuse},
              {"reasoning_effort", Refuse},
              {"verbosity", Refuse},
              {"web_search_options", Refuse}});
    return t;
  }();
  return table;
}

// --- What fields mean together.

Status FinishCompletion(Draft* draft) {
  if (!draft->has_prompt) return InvalidArgument("'prompt' is required.", "prompt");
  std::optional<int32_t>& max_tokens = draft->api.request.max_tokens;
  if (!max_tokens) max_tokens = kDefaultCompletionTokens;
  return {};
}

Status FinishChat(Draft* draft) {
  if (!draft->has_prompt) return InvalidArgument("'messages' is required.", "messages");
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

Status FinishDraft(Draft* draft) {
  if (draft->has_stream_options && !draft->api.stream) {
    return InvalidArgument("'stream_options' needs 'stream' to be true.", "stream_options");
  }
  return draft->api.chat ? FinishChat(draft) : FinishCompletion(draft);
}

}  // namespace

StatusOr<ApiRequest> ParseApiRequest(std::string_view body, bool chat, const JsonBounds& bounds) {
  StatusOr<json> document = ReadJson(body, bounds);
  if (!document.ok()) return document.status();
  if (!document->is_object()) return InvalidArgument("The body must be a JSON object.");

  Draft draft;
  draft.api.chat = chat;
  const FieldTable& fields = chat ? ChatFields() : CompletionFields();
  for (const auto& [name, value] : document->items()) {
    auto field = fields.find(name);
    if (field == fields.end()) {
      const std::string shown = name.substr(0, 64);
      return InvalidArgument(fmt::format("Unknown field '{}'.", shown), shown);
    }
    if (value.is_null()) continue;  // OpenAI's clients write absent fields so.
    Status status = field->second(value, name, &draft);
    if (!status.ok()) return status;
  }
  Status status = FinishDraft(&draft);
  if (!status.ok()) return status;
  return std::move(draft.api);
}

}  // namespace ropeway
