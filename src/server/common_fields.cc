// What is asked of the answer as a whole, and bookkeeping: the fields of both endpoints.
#include <fmt/format.h>

#include <chrono>
#include <cmath>

#include "server/request_draft.h"

namespace ropeway {
namespace {

using nlohmann::json;

constexpr double kMaxTimeoutSeconds = 86'400;
constexpr size_t kMaxSaltBytes = 256;

Status ReadModel(const json& value, const std::string& field, Draft* draft) {
  return Store(ReadString(value, field), &draft->api.request.model);
}

Status ReadN(const json& value, const std::string& field, Draft* draft) {
  return Store(ReadInt32(value, field, 1, draft->max_choices), &draft->api.n);
}

Status ReadStream(const json& value, const std::string& field, Draft* draft) {
  return Store(ReadBool(value, field), &draft->api.stream);
}

Status ReadStreamOption(const std::string& name, const json& option, const std::string& path,
                        Draft* draft) {
  if (name == "include_usage") return Store(ReadBool(option, path), &draft->api.include_usage);
  if (name == "continuous_usage_stats") return RefuseUnlessFalse(option, path, draft);
  if (name == "include_obfuscation") return IgnoreBool(option, path, draft);
  return UnknownField(path);
}

Status ReadStreamOptions(const json& value, const std::string& field, Draft* draft) {
  if (!value.is_object()) return Mismatch(value, field, "an object");
  draft->has_stream_options = true;
  for (const auto& [name, option] : value.items()) {
    if (option.is_null()) continue;
    Status status = ReadStreamOption(name, option, field + "." + ShownName(name), draft);
    if (!status.ok()) return status;
  }
  return {};
}

Status ReadPromptLogprobs(const json& value, const std::string& field, Draft* draft) {
  draft->api.prompt_logprobs = true;
  return Store(ReadInt32(value, field, 0, kMaxLogprobs), &draft->api.request.prompt_logprobs);
}

Status ReadTimeout(const json& value, const std::string& field, Draft* draft) {
  StatusOr<double> seconds = ReadNumber(value, field, 0, kMaxTimeoutSeconds, true);
  if (!seconds.ok()) return seconds.status();
  // Rounded up: the shortest timeout is still one.
  draft->api.request.timeout =
      std::chrono::milliseconds(static_cast<int64_t>(std::ceil(*seconds * 1000.0)));
  return {};
}

// An empty one is refused, as vLLM does: who sends it wants a salt, and would share without one.
Status ReadCacheSalt(const json& value, const std::string& field, Draft* draft) {
  StatusOr<std::string> salt = ReadString(value, field);
  if (!salt.ok()) return salt.status();
  if (salt->empty() || salt->size() > kMaxSaltBytes) {
    return InvalidArgument(fmt::format("'{}' must be 1 to {} bytes long, but has {}.", field,
                                       kMaxSaltBytes, salt->size()),
                           field);
  }
  draft->api.request.cache_salt = *std::move(salt);
  return {};
}

Status ReadCacheRetention(const json& value, const std::string& field, Draft* draft) {
  CacheRetention* retention = &draft->api.request.cache_retention;
  if (value == "in_memory" || value == "in-memory") {
    *retention = CacheRetention::kNormal;
  } else if (value == "24h") {
    *retention = CacheRetention::kLong;
  } else {
    return Mismatch(value, field, "\"in_memory\" or \"24h\"");
  }
  return {};
}

Status ReadResponseFormat(const json& value, const std::string& field, Draft*) {
  if (value.is_object() && value.size() == 1 && value.value("type", json()) == "text") return {};
  return Unsupported(field, " but as {\"type\": \"text\"}");
}

Status IgnoreMetadata(const json& value, const std::string& field, Draft*) {
  if (!value.is_object()) return Mismatch(value, field, "an object of strings");
  for (const auto& [name, text] : value.items()) {
    if (!text.is_string()) return Mismatch(value, field, "an object of strings");
  }
  return {};
}

Status ReadPriority(const json& value, const std::string& field, Draft* draft) {
  for (int i = 0; i < kNumPriorities; ++i) {
    const auto priority = static_cast<Priority>(i);
    if (value != PriorityName(priority) && !(value.is_number_integer() && value == i)) continue;
    draft->priority = priority;
    return {};
  }
  return Mismatch(value, field,
                  "\"high\", \"medium\" or \"low\", or 0, 1 or 2 (the lower, the earlier)");
}

// OpenAI's "scale" is a tier that was paid for in advance, and is served as its "priority" is.
Status ReadServiceTier(const json& value, const std::string& field, Draft* draft) {
  draft->api.service_tier = true;
  if (value == "auto") return {};
  if (value == "priority" || value == "scale") {
    draft->tier = Priority::kHigh;
  } else if (value == "default") {
    draft->tier = Priority::kMedium;
  } else if (value == "flex") {
    draft->tier = Priority::kLow;
  } else {
    return Mismatch(value, field, "\"auto\", \"priority\", \"default\", \"flex\" or \"scale\"");
  }
  return {};
}

}  // namespace

void AddCommonFields(FieldTable* table) {
  table->insert({{"model", ReadModel},
                 {"n", ReadN},
                 {"stream", ReadStream},
                 {"stream_options", ReadStreamOptions},
                 {"prompt_logprobs", ReadPromptLogprobs},
                 {"timeout", ReadTimeout},
                 {"response_format", ReadResponseFormat},
                 {"priority", ReadPriority},
                 {"service_tier", ReadServiceTier},
                 {"cache_salt", ReadCacheSalt},
                 {"prompt_cache_retention", ReadCacheRetention},
                 // Accepted without effect: they concern bookkeeping, or parts that there are none
                 // of yet. A prompt_cache_key says on which machine to look for a prefix.
                 {"user", IgnoreString},
                 {"safety_identifier", IgnoreString},
                 {"metadata", IgnoreMetadata},
                 {"prompt_cache_key", IgnoreString},
                 {"request_id", IgnoreString},
                 {"store", RefuseUnlessFalse},
                 // vLLM's, which ask for more than an answer holds.
                 {"return_token_ids", RefuseUnlessFalse},
                 {"return_tokens_as_token_ids", RefuseUnlessFalse},
                 {"kv_transfer_params", Refuse},
                 {"vllm_xargs", Refuse}});
}

}  // namespace ropeway
