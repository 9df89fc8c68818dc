// The fields that OpenAI's two dialects share.

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/openai_format.h"
#include "api/output_format.h"
#include "api/parameter_json.h"
#include "core/tenant.h"

namespace ropeway::api {
namespace {

using nlohmann::json;

constexpr int32_t kInt32Max = std::numeric_limits<int32_t>::max();

constexpr double kMaxTimeoutSeconds = 86'400;

Status ReadN(const json& value, const std::string& field, OpenAiBody* body) {
  return Store(ReadInt32(value, field, 1, body->max_choices), &body->n);
}

Status ReadStreamOptions(const json& value, const std::string& field, OpenAiBody* body) {
  if (!value.is_object()) return Mismatch(value, field, "an object");
  body->has_stream_options = true;
  constexpr std::string_view kUsed[] = {"include_usage"};
  for (const auto& [name, option] : value.items()) {
    const std::string path = field + "." + ShownName(name);
    if (name != kUsed[0]) {
      body->report->AddOther("stream_options.", name, option, path, kUsed);
    } else if (!option.is_null()) {
      body->report->Add(Store(ReadBool(option, path), &body->include_usage));
    }
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

Status ReadPriority(const json& value, const std::string& field, OpenAiBody* body) {
  std::optional<Priority> priority;
  if (value.is_string()) priority = PriorityOf(value.get_ref<const std::string&>());
  if (value.is_number_integer() && value >= 0 && value < kNumPriorities) {
    priority = static_cast<Priority>(value.get<int>());
  }
  if (!priority) {
    return Mismatch(value, field,
                    "\"high\", \"medium\" or \"low\", or 0, 1 or 2 (0 is the highest)");
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

Status ReadStore(const json& value, const std::string& field, OpenAiBody* body) {
  return Store(ReadBool(value, field), &body->keeping.store);
}

Status ReadBackground(const json& value, const std::string& field, OpenAiBody* body) {
  return Store(ReadBool(value, field), &body->keeping.background);
}

// --- What a gateway says.

Status ReadTenantName(const json& value, const std::string& path, std::string* name) {
  StatusOr<std::string> text = ReadString(value, path);
  if (!text.ok()) return text.status();
  if (!core::IsTenantName(*text)) {
    return Mismatch(value, path,
                    fmt::format("a name of 1 to {} letters, digits, '-', '_' or '.'",
                                core::kMaxTenantNameBytes));
  }
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
    body->report->Add(ReadGatewayField(name, member, field + "." + ShownName(name), body));
  }
  return {};
}

StatusOr<Prompt> ReadOnePrompt(const json& value, const std::string& field) {
  if (value.is_string()) return Prompt(value.get<std::string>());
  if (!value.is_array()) {
    return Mismatch(value, field, "a string, a list of token ids, or a list of either");
  }
  if (value.empty()) return InvalidArgument(fmt::format("'{}' is empty.", field), field);
  StatusOr<std::vector<TokenId>> ids = ReadTokenIds(value, field);
  if (!ids.ok()) return ids.status();
  return Prompt(*std::move(ids));
}

// A parameter, under its name or an alias.
Status ReadRow(const core::Parameter& row, const json& value, const std::string& field,
               OpenAiBody* body) {
  if (Status status = body->report->CheckAlias(&row, field, value); !status.ok()) return status;
  if (row.member == core::ParameterMember(&Request::max_tokens)) {
    body->max_tokens_field = field;
    body->to_context_end = value == row.no_limit;
    if (body->to_context_end) return {};
  }
  return ReadParameter(row, value, field, &body->request);
}

}  // namespace

// A list of prompts holds prompts of one kind.
Status ReadPrompts(const json& value, const std::string& field, int most, const char* what,
                   std::vector<Prompt>* prompts) {
  const bool several =
      value.is_array() && !value.empty() && (value.front().is_string() || value.front().is_array());
  if (several && value.size() > static_cast<size_t>(most)) {
    return InvalidArgument(
        fmt::format("'{}' holds {} {}; at most {} are allowed.", field, value.size(), what, most),
        field);
  }
  const size_t count = several ? value.size() : 1;
  for (size_t i = 0; i < count; ++i) {
    const json& prompt = several ? value[i] : value;
    const std::string at = several ? fmt::format("{}[{}]", field, i) : field;
    if (several && prompt.type() != value.front().type()) {
      return InvalidArgument(
          fmt::format("'{}' must hold only strings or only lists of token ids; '{}' is not of the "
                      "type of those before it.",
                      field, at),
          field);
    }
    StatusOr<Prompt> read = ReadOnePrompt(prompt, at);
    if (!read.ok()) return AtEntry(read.status(), field);
    prompts->push_back(*std::move(read));
  }
  return {};
}

FieldTable<OpenAiBody> WithOpenAiFields(Dialect dialect, FieldReaders<OpenAiBody> own) {
  own.insert({{"model", FieldOf(ReadString, &Request::model)},
              {"n", ReadN},
              {"stream", FieldOf(ReadBool, &OpenAiBody::stream)},
              {"stream_options", ReadStreamOptions},
              {"prompt_logprobs", ReadPromptLogprobs},
              {"timeout", ReadTimeout},
              {"priority", ReadPriority},
              {"service_tier", ReadServiceTier},
              {"prompt_cache_retention", ReadCacheRetention},
              {"store", ReadStore},
              {"background", ReadBackground},
              {"ropeway_gateway", ReadGateway}});
  for (const core::Parameter& row : core::Parameters()) {
    const auto reader = [&row](const json& value, const std::string& field, OpenAiBody* body) {
      return ReadRow(row, value, field, body);
    };
    own.emplace(row.name, reader);
    for (const char* alias : row.aliases) {
      if (alias != nullptr) own.emplace(alias, reader);
    }
  }
  own.merge(OutputFormatReaders());
  return {dialect, std::move(own)};
}

}  // namespace ropeway::api
