// The fields that OpenAI's two dialects share: how tokens are drawn, what ends the output, and what
// the request asks for as a whole.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "api/openai_format.h"
#include "core/tenant.h"

namespace ropeway::api {
namespace {

using nlohmann::json;

constexpr size_t kMaxStops = 16;
constexpr size_t kMaxStopBytes = 1024;
constexpr size_t kMaxStopTokens = 128;
constexpr size_t kMaxBiases = 1024;
constexpr double kMaxBias = 100;
constexpr int32_t kInt32Max = std::numeric_limits<int32_t>::max();

// The reader of a number in (0, high], also as a float: a double above 0 may be none.
auto AboveZero(double high, float SamplingParams::*member) {
  return [=](const json& value, const std::string& field, OpenAiBody* body) -> Status {
    float* const out = Slot(body, member);
    Status status = Store(ReadNumber(value, field, 0, high, true), out);
    if (status.ok() && *out <= 0) {
      return Mismatch(value, field, fmt::format("a number above 0 and at most {}", high));
    }
    return status;
  };
}

// The reader of a sampling parameter by `read`, which notes that the body gives it.
FieldReader<OpenAiBody> Given(SamplingParams::Given bit, FieldReader<OpenAiBody> read) {
  return [=](const json& value, const std::string& field, OpenAiBody* body) -> Status {
    Status status = read(value, field, body);
    if (status.ok()) body->request.sampling.given |= bit;
    return status;
  };
}

// A token id as JSON writes it in a key: decimal, and in one way only, so that none comes twice.
bool ParseIdKey(const std::string& key, TokenId* id) {
  if (key.empty() || (key.size() > 1 && key[0] == '0')) return false;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), *id);
  return error == std::errc() && end == key.data() + key.size() && *id >= 0;
}

Status ReadLogitBias(const json& value, const std::string& field, OpenAiBody* body) {
  if (!value.is_object()) return Mismatch(value, field, "an object");
  if (value.size() > kMaxBiases) {
    return InvalidArgument(fmt::format("'{}' holds {} tokens; at most {} are allowed.", field,
                                       value.size(), kMaxBiases),
                           field);
  }
  std::vector<LogitBias> biases;
  biases.reserve(value.size());
  for (const auto& [key, bias] : value.items()) {
    LogitBias entry;
    if (!ParseIdKey(key, &entry.id)) {
      return InvalidArgument(
          fmt::format("'{}' must map token ids to numbers, but has the key '{}'.", field,
                      ShownName(key)),
          field);
    }
    if (!bias.is_number() || !(std::fabs(bias.get<double>()) <= kMaxBias)) {
      return InvalidArgument(
          fmt::format("'{}' must hold numbers from -100 to 100; that of token {} is not.", field,
                      key),
          field);
    }
    entry.bias = static_cast<float>(bias.get<double>());
    biases.push_back(entry);
  }
  // A JSON object has no order; what is submitted shall have one.
  std::sort(biases.begin(), biases.end(),
            [](const LogitBias& a, const LogitBias& b) { return a.id < b.id; });
  body->request.sampling.logit_bias = std::move(biases);
  return {};
}

// All 64-bit integers, signed or not: a negative seed stands for its two's complement.
Status ReadSeed(const json& value, const std::string& field, OpenAiBody* body) {
  if (!value.is_number_integer()) return Mismatch(value, field, "an integer of 64 bits");
  body->request.sampling.seed = value.is_number_unsigned()
                                    ? value.get<uint64_t>()
                                    : static_cast<uint64_t>(value.get<int64_t>());
  return {};
}

Status ReadStop(const json& value, const std::string& field, OpenAiBody* body) {
  const bool one = !value.is_array();
  if (!one && value.size() > kMaxStops) {
    return InvalidArgument(fmt::format("'{}' holds more than {} strings.", field, kMaxStops),
                           field);
  }
  const size_t count = one ? 1 : value.size();
  for (size_t i = 0; i < count; ++i) {
    const json& stop = one ? value : value[i];
    if (!stop.is_string()) return Mismatch(stop, field, "a string or a list of strings");
    const std::string& text = stop.get_ref<const std::string&>();
    if (text.empty() || text.size() > kMaxStopBytes) {
      return InvalidArgument(
          fmt::format("'{}' must hold strings of 1 to {} bytes.", field, kMaxStopBytes), field);
    }
    body->request.stop.push_back(text);
  }
  return {};
}

Status ReadStopTokenIds(const json& value, const std::string& field, OpenAiBody* body) {
  if (!value.is_array()) return Mismatch(value, field, "a list of token ids");
  if (value.size() > kMaxStopTokens) {
    return InvalidArgument(fmt::format("'{}' holds more than {} ids.", field, kMaxStopTokens),
                           field);
  }
  return Store(ReadTokenIds(value, field), &body->request.stop_token_ids);
}

Status RejectUnlessOne(const json& value, const std::string& field, OpenAiBody*) {
  if (!value.is_number()) return Mismatch(value, field, "a number");
  return value.get<double>() == 1 ? Status() : SupportsOnly(field, "1");
}

// --- What the request asks for as a whole.

constexpr double kMaxTimeoutSeconds = 86'400;
constexpr size_t kMaxSaltBytes = 256;

Status ReadN(const json& value, const std::string& field, OpenAiBody* body) {
  return Store(ReadInt32(value, field, 1, body->max_choices), &body->n);
}

Status ReadStreamOption(const std::string& name, const json& option, const std::string& path,
                        OpenAiBody* body) {
  if (name == "include_usage") return Store(ReadBool(option, path), &body->include_usage);
  if (name == "continuous_usage_stats") return RejectUnlessFalse(option, path, body);
  if (name == "include_obfuscation") return IgnoreBool(option, path, body);
  return UnknownField(path);
}

Status ReadStreamOptions(const json& value, const std::string& field, OpenAiBody* body) {
  if (!value.is_object()) return Mismatch(value, field, "an object");
  body->has_stream_options = true;
  for (const auto& [name, option] : value.items()) {
    if (option.is_null()) continue;
    Status status = ReadStreamOption(name, option, field + "." + ShownName(name), body);
    if (!status.ok()) return status;
  }
  return {};
}

Status ReadPromptLogprobs(const json& value, const std::string& field, OpenAiBody* body) {
  body->prompt_logprobs = true;
  return Store(ReadInt32(value, field, 0, kMaxLogprobs), &body->request.prompt_logprobs);
}

Status ReadTimeout(const json& value, const std::string& field, OpenAiBody* body) {
  StatusOr<double> seconds = ReadNumber(value, field, 0, kMaxTimeoutSeconds, true);
  if (!seconds.ok()) return seconds.status();
  // Rounded up: the shortest timeout is still one.
  body->request.timeout =
      std::chrono::milliseconds(static_cast<int64_t>(std::ceil(*seconds * 1000.0)));
  return {};
}

// An empty salt is rejected, as in vLLM: its sender wants a salt, and would share blocks without
// one.
Status ReadCacheSalt(const json& value, const std::string& field, OpenAiBody* body) {
  StatusOr<std::string> salt = ReadString(value, field);
  if (!salt.ok()) return salt.status();
  if (salt->empty() || salt->size() > kMaxSaltBytes) {
    return InvalidArgument(fmt::format("'{}' must be 1 to {} bytes long, but has {}.", field,
                                       kMaxSaltBytes, salt->size()),
                           field);
  }
  body->request.cache_salt = *std::move(salt);
  return {};
}

Status ReadCacheRetention(const json& value, const std::string& field, OpenAiBody* body) {
  CacheRetention* retention = &body->request.cache_retention;
  if (value == "in_memory" || value == "in-memory") {
    *retention = CacheRetention::kNormal;
  } else if (value == "24h") {
    *retention = CacheRetention::kLong;
  } else {
    return Mismatch(value, field, "\"in_memory\" or \"24h\"");
  }
  return {};
}

Status ReadResponseFormat(const json& value, const std::string& field, OpenAiBody*) {
  if (value.is_object() && value.size() == 1 && value.value("type", json()) == "text") return {};
  return SupportsOnly(field, "{\"type\": \"text\"}");
}

Status IgnoreMetadata(const json& value, const std::string& field, OpenAiBody*) {
  if (!value.is_object()) return Mismatch(value, field, "an object of strings");
  for (const auto& [name, text] : value.items()) {
    if (!text.is_string()) return Mismatch(value, field, "an object of strings");
  }
  return {};
}

Status ReadPriority(const json& value, const std::string& field, OpenAiBody* body) {
  std::optional<Priority> priority;
  if (value.is_string()) priority = PriorityOf(value.get_ref<const std::string&>());
  if (value.is_number_integer() && value >= 0 && value < kNumPriorities) {
    priority = static_cast<Priority>(value.get<int>());
  }
  if (!priority) {
    return Mismatch(value, field,
                    "\"high\", \"medium\" or \"low\", or 0, 1 or 2 (the lower, the earlier)");
  }
  body->priority = *priority;
  return {};
}

// OpenAI's "scale" is a tier that was paid for in advance, and is served as its "priority" is.
Status ReadServiceTier(const json& value, const std::string& field, OpenAiBody* body) {
  body->service_tier = true;
  if (value == "auto") return {};
  if (value == "priority" || value == "scale") {
    body->tier = Priority::kHigh;
  } else if (value == "default") {
    body->tier = Priority::kMedium;
  } else if (value == "flex") {
    body->tier = Priority::kLow;
  } else {
    return Mismatch(value, field, "\"auto\", \"priority\", \"default\", \"flex\" or \"scale\"");
  }
  return {};
}

// --- What a gateway says.

Status ReadTenantName(const json& value, const std::string& path, std::string* name) {
  StatusOr<std::string> text = ReadString(value, path);
  if (!text.ok()) return text.status();
  if (!core::IsTenantName(*text)) return Mismatch(value, path, "a name such as API keys have");
  *name = *std::move(text);
  return {};
}

Status ReadResumeIds(const json& value, const std::string& path, OpenAiBody* body) {
  if (!value.is_array()) return Mismatch(value, path, "a list of token ids");
  return Store(ReadTokenIds(value, path), &body->request.resume_ids);
}

Status ReadGatewayField(const std::string& name, const json& value, const std::string& path,
                        OpenAiBody* body) {
  GatewayFields* const gateway = &*body->gateway;
  if (name == "tenant") return ReadTenantName(value, path, &gateway->tenant);
  if (name == "cache_scope") return ReadTenantName(value, path, &gateway->cache_scope);
  if (name == "weight") {
    return Store(ReadNumber(value, path, core::kMinTenantWeight, core::kMaxTenantWeight),
                 &gateway->weight);
  }
  if (name == "choice") return Store(ReadInt32(value, path, 0, kInt32Max), &body->request.choice);
  if (name == "ids") return Store(ReadBool(value, path), &gateway->ids);
  if (name == "resume_ids") return ReadResumeIds(value, path, body);
  return UnknownField(path);
}

Status ReadGateway(const json& value, const std::string& field, OpenAiBody* body) {
  if (!value.is_object()) return Mismatch(value, field, "an object");
  body->gateway.emplace();
  for (const auto& [name, member] : value.items()) {
    if (member.is_null()) continue;
    Status status = ReadGatewayField(name, member, field + "." + ShownName(name), body);
    if (!status.ok()) return status;
  }
  return {};
}

}  // namespace

const FieldTable<OpenAiBody>& OpenAiFields() {
  using P = SamplingParams;
  static const FieldTable<OpenAiBody> table = {
      {"temperature", Given(P::kTemperature, NumberField(0, 2, &SamplingParams::temperature))},
      {"top_p", Given(P::kTopP, AboveZero(1, &SamplingParams::top_p))},
      {"top_k", Given(P::kTopK, IntField(-1, kInt32Max, &SamplingParams::top_k))},
      {"min_p", Given(P::kMinP, NumberField(0, 1, &SamplingParams::min_p))},
      {"typical_p", Given(P::kTypicalP, AboveZero(1, &SamplingParams::typical_p))},
      {"presence_penalty",
       Given(P::kPresencePenalty, NumberField(-2, 2, &SamplingParams::presence_penalty))},
      {"frequency_penalty",
       Given(P::kFrequencyPenalty, NumberField(-2, 2, &SamplingParams::frequency_penalty))},
      {"repetition_penalty",
       Given(P::kRepetitionPenalty, AboveZero(10, &SamplingParams::repetition_penalty))},
      {"logit_bias", ReadLogitBias},
      {"seed", Given(P::kSeed, ReadSeed)},
      {"max_tokens", IntField(0, kInt32Max, &Request::max_tokens)},
      {"min_tokens", IntField(0, kInt32Max, &SamplingParams::min_tokens)},
      {"stop", ReadStop},
      {"stop_token_ids", ReadStopTokenIds},
      {"ignore_eos", FieldOf(ReadBool, &Request::ignore_eos)},
      // vLLM's, where they would change the answer.
      {"bad_words", RejectUnlessEmpty},
      {"allowed_token_ids", Reject},
      {"use_beam_search", RejectUnlessFalse},
      {"length_penalty", RejectUnlessOne},
      {"early_stopping", RejectUnlessFalse},
      {"logits_processors", RejectUnlessEmpty},
      {"truncate_prompt_tokens", Reject},
      {"include_stop_str_in_output", RejectUnlessFalse},
      {"skip_special_tokens", RejectUnlessTrue},
      {"spaces_between_special_tokens", RejectUnlessTrue},
      {"structured_outputs", Reject},
      {"guided_json", Reject},
      {"guided_regex", Reject},
      {"guided_choice", Reject},
      {"guided_grammar", Reject},
      {"guided_decoding_backend", Reject},
      {"guided_whitespace_pattern", Reject},
      {"model", FieldOf(ReadString, &Request::model)},
      {"n", ReadN},
      {"stream", FieldOf(ReadBool, &OpenAiBody::stream)},
      {"stream_options", ReadStreamOptions},
      {"prompt_logprobs", ReadPromptLogprobs},
      {"timeout", ReadTimeout},
      {"response_format", ReadResponseFormat},
      {"priority", ReadPriority},
      {"service_tier", ReadServiceTier},
      {"cache_salt", ReadCacheSalt},
      {"prompt_cache_retention", ReadCacheRetention},
      {"ropeway_gateway", ReadGateway},
      // Accepted without effect: they concern bookkeeping, or parts that there are none
      // of yet. A prompt_cache_key says on which machine to look for a prefix.
      {"user", IgnoreString},
      {"safety_identifier", IgnoreString},
      {"metadata", IgnoreMetadata},
      {"prompt_cache_key", IgnoreString},
      {"request_id", IgnoreString},
      {"store", RejectUnlessFalse},
      // vLLM's, which ask for more than an answer holds.
      {"return_token_ids", RejectUnlessFalse},
      {"return_tokens_as_token_ids", RejectUnlessFalse},
      {"kv_transfer_params", Reject},
      {"vllm_xargs", Reject}};
  return table;
}

}  // namespace ropeway::api
