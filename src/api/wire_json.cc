#include "api/wire_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>

#include "base/utf8.h"

namespace ropeway::api {
namespace {

StatusCode HttpCodeOf(FailureKind kind, int http_status) {
  if (kind == FailureKind::kRejected) return StatusCode::kInvalidArgument;
  return http_status == 429 ? StatusCode::kResourceExhausted : StatusCode::kUnavailable;
}

}  // namespace

// A key, a path or a model name that the server does not accept is the gateway's, not the client's:
// another backend may do better, and this one is not well.
FailureKind FailureKindOf(int http_status) {
  switch (http_status) {
    case 429:
    case 503:
      return FailureKind::kBusy;
    case 400:
    case 413:
    case 414:
    case 415:
    case 422:
    case 431:
      return FailureKind::kRejected;
    default:
      return FailureKind::kBroken;
  }
}

Outcome HttpFailure(int http_status, std::string_view body) {
  const FailureKind kind = FailureKindOf(http_status);
  const StatusCode code = HttpCodeOf(kind, http_status);
  if (http_status == 401) {
    // Servers quote the key that they do not accept.
    return Outcome::Failed(kind, {code, "it does not accept the gateway's API key (HTTP 401)"});
  }
  const StatusOr<nlohmann::json> document = wire::ReadDocument(body, "it");
  std::string said = document.ok() ? wire::ErrorText(*document) : std::string();
  // Pages of proxies say nothing to a client.
  if (said.empty() && !body.starts_with('<')) said = body;
  std::string message = fmt::format("it answered with HTTP {}", http_status);
  if (!said.empty()) message += ": " + said;
  // A client is told of its own mistake as the backend tells it.
  if (kind == FailureKind::kRejected && !said.empty()) message = std::move(said);
  Status status(code, std::move(message));
  if (kind == FailureKind::kRejected && document.ok()) status = wire::WithParam(status, *document);
  return Outcome::Failed(kind, std::move(status));
}

namespace wire {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

// No token of a known vocabulary is longer.
constexpr uint64_t kMaxTokenBytes = 512;
// Some servers send their text character by character.
constexpr uint64_t kMostEventsPerToken = 16;
// Events that an honest stream may have beyond one for each token: the role, the end, a token whose
// text is told in two parts.
constexpr uint64_t kSpareEvents = 64;
// More tokens than any context holds.
constexpr uint64_t kMostTokens = uint64_t{1} << 24U;

// Where a document describes its error.
const Json& ErrorObject(const Json& json) {
  const Json& document = json.is_array() && !json.empty() ? json[0] : json;
  const Json& error = Member(document, "error");
  return error.is_object() ? error : document;
}

}  // namespace

StatusOr<Json> ReadDocument(std::string_view text, std::string_view what) {
  constexpr base::JsonBounds kBounds = {
      .max_depth = 32, .max_values = 200'000, .repeated_keys = true};
  const std::optional<std::string> repaired = ReplaceHalves(text);
  StatusOr<Json> read = base::ReadJson(repaired ? *repaired : text, kBounds, what);
  if (read.ok() || base::IsValidUtf8(text)) return read;
  // As the HTML standard reads a stream.
  return ReadDocument(base::ReplaceInvalidUtf8(text), what);
}

std::optional<int32_t> Count(const Json& json) {
  if (!json.is_number()) return std::nullopt;
  // Exact for every number in the range.
  const auto value = json.get<double>();
  constexpr double kMost = std::numeric_limits<int32_t>::max();
  if (!(value >= 0 && value <= kMost) || value != std::floor(value)) return std::nullopt;
  return static_cast<int32_t>(value);
}

std::string ErrorText(const Json& json) {
  if (json.is_array()) return json.empty() ? std::string() : ErrorText(json[0]);
  const Json& error = Member(json, "error");
  const Json& detail = Member(json, "detail");
  // FastAPI's list of what is wrong with a body.
  const Json& first = detail.is_array() && !detail.empty() ? detail[0] : detail;
  const Json* const places[] = {&Member(error, "message"), &error,  &Member(json, "message"),
                                &Member(first, "msg"),     &detail, &Member(json, "reason")};
  for (const Json* place : places) {
    if (!Text(*place).empty()) return std::string(Text(*place));
  }
  for (const Json* place : places) {
    const bool says = place->is_number() || (place->is_structured() && !place->empty());
    if (says) return place->dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  return {};
}

Status WithParam(const Status& status, const Json& json) {
  static constexpr std::pair<std::string_view, const char*> kCodes[] = {
      {"context_length_exceeded", "context_length_exceeded"},
      {"exceed_context_size_error", "context_length_exceeded"},  // llama-server's type.
      {"string_above_max_length", "string_above_max_length"},
      {"invalid_prompt", "invalid_prompt"},
      {"content_filter", "content_filter"},
      {"content_policy_violation", "content_policy_violation"},
      {"unsupported_parameter", "unsupported_parameter"},
      {"unsupported_value", "unsupported_value"},
      {"invalid_value", "invalid_value"},
      {"invalid_type", "invalid_type"},
      {"missing_required_parameter", "missing_required_parameter"},
  };
  const Json& error = ErrorObject(json);
  std::string_view param = Text(Member(error, "param"));
  // FastAPI's path to what is wrong: ["body", "max_tokens"].
  const Json& detail = Member(error, "detail");
  const Json& path = detail.is_array() && !detail.empty() ? Member(detail[0], "loc") : detail;
  if (param.empty() && path.is_array() && path.size() > 1) param = Text(path[1]);
  Status with(status.code(), status.message(), std::string(param));
  for (const char* member : {"type", "code"}) {
    for (const auto& [said, code] : kCodes) {
      if (Text(Member(error, member)) == said) with.set_api_code(code);
    }
  }
  return with;
}

Outcome ErrorFailure(const std::string& before, const Json& json) {
  const Json& error = ErrorObject(json);
  const std::string said = ErrorText(json);
  Outcome failure = Broken(before + (said.empty() ? "it does not describe the error" : said));
  const Status told = WithParam({StatusCode::kInvalidArgument, failure.status.message()}, json);
  const std::string_view type = Text(Member(error, "type"));
  FieldReader fields;
  if (Text(Member(error, "param")) == "resume_ids") {
    failure.kind = FailureKind::kRejected;  // A Ropeway, whatever code it gives.
  } else if (const std::optional<int32_t> code = fields.Count(Member(error, "code"), "code")) {
    failure.kind = FailureKindOf(*code);
  } else if (type == "invalid_request_error" || type == "BadRequestError" ||
             *told.api_code() != '\0') {
    failure.kind = FailureKind::kRejected;
  }
  if (failure.kind == FailureKind::kRejected) failure.status = told;
  return failure;
}

Outcome Broken(const std::string& what) {
  return Outcome::Failed(FailureKind::kBroken, {StatusCode::kUnavailable, "it " + what});
}

Outcome TooLong(std::optional<int32_t> max_tokens) {
  return Broken(max_tokens
                    ? fmt::format("sent more than the {} tokens that were asked for", *max_tokens)
                    : "sent an answer that does not end");
}

std::optional<double> MetricSum(std::string_view text, std::string_view name) {
  std::optional<double> sum;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.starts_with(name)) continue;
    line.remove_prefix(name.size());
    if (line.starts_with('{')) line.remove_prefix(std::min(line.rfind('}'), line.size() - 1) + 1);
    if (!line.starts_with(' ')) continue;
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    double value = 0;
    const auto [stop, error] = std::from_chars(line.data(), line.data() + line.size(), value);
    if (error == std::errc() && std::isfinite(value)) sum = sum.value_or(0) + value;
  }
  return sum;
}

std::optional<int> MetricCount(std::string_view text, std::string_view name) {
  const std::optional<double> value = MetricSum(text, name);
  if (!value || *value < 0 || *value > 1e9) return std::nullopt;
  return static_cast<int>(*value);
}

const Json& ModelEntries(const Json& document, FieldReader* fields) {
  if (document.is_array()) return document;
  const Json& data = Member(document, "data");
  return data.is_null() ? fields->List(Member(document, "models"), "models")
                        : fields->List(data, "data");
}

std::string_view ModelName(const Json& entry, FieldReader* fields) {
  if (!entry.is_object()) return fields->Text(entry, "data");
  for (const char* key : {"id", "name", "model"}) {
    if (const std::string_view name = fields->Text(Member(entry, key), key); !name.empty()) {
      return name;
    }
  }
  return {};
}

StatusOr<std::vector<std::string>> ModelIds(const Json& document) {
  FieldReader fields;
  const Json& entries = ModelEntries(document, &fields);
  if (entries.is_null() && fields.fault().empty()) {
    return Status(StatusCode::kUnavailable, "it sent no list of models");
  }
  std::vector<std::string> ids;
  std::set<std::string_view> known;
  for (const Json& entry : entries) {
    const std::string_view name = ModelName(entry, &fields);
    if (!name.empty() && known.insert(name).second) ids.emplace_back(name);
  }
  if (Status status = FaultStatus(fields); !status.ok()) return status;
  return ids;
}

Status FaultStatus(const FieldReader& fields) {
  if (fields.fault().empty()) return {};
  return {StatusCode::kUnavailable, "it " + fields.fault()};
}

std::optional<Outcome> ReadReason(std::string_view reason, FinishReason* read) {
  for (const char* bad : {"abort", "error", "cancelled", "failed"}) {
    if (reason == bad) return Broken(fmt::format("ended its answer with the reason '{}'", reason));
  }
  const bool longest = reason == "length" || reason == "max_tokens" || reason == "model_length";
  *read = longest ? FinishReason::kLength : FinishReason::kStop;
  return std::nullopt;
}

LengthGuard::LengthGuard(std::optional<int32_t> max_tokens) {
  const uint64_t tokens =
      max_tokens ? static_cast<uint64_t>(std::max(*max_tokens, 0)) : kMostTokens;
  max_tokens_ = tokens + kSpareEvents;
  max_events_ = max_tokens_ * kMostEventsPerToken;
  max_bytes_ = max_tokens_ * kMaxTokenBytes;
}

bool LengthGuard::Take(size_t said_bytes, size_t tokens) {
  if (max_events_ == 0 || said_bytes > max_bytes_ || tokens > max_tokens_) return false;
  --max_events_;
  max_tokens_ -= tokens;
  max_bytes_ -= said_bytes;
  return true;
}

std::optional<Outcome> LengthGuard::TakeIdle() {
  if (idle_events_-- > 0) return std::nullopt;
  return Broken("sent a stream that does not end");
}

int32_t ShortSeed(uint64_t seed) {
  constexpr uint64_t kMask = 0x7FFFFFFF;
  return static_cast<int32_t>(seed <= kMask ? seed : (seed ^ (seed >> 32U)) & kMask);
}

std::string Dump(const OrderedJson& body) {
  return body.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

Status CheckStreamable(const Request& request) {
  if (request.prompt_logprobs) {
    return {
        StatusCode::kUnimplemented,
        "it does not support log-probabilities of the prompt ('prompt_logprobs', or 'echo' with "
        "'logprobs')",
        "prompt_logprobs"};
  }
  if (request.max_tokens == 0) {
    return InvalidArgument("it cannot answer with 0 tokens ('max_tokens')", "max_tokens");
  }
  return {};
}

Status CheckFromTheStart(const Request& request) {
  if (request.resume_ids.empty()) return {};
  return {StatusCode::kUnimplemented,
          "it cannot continue an answer that another server began ('resume_ids')", "resume_ids"};
}

}  // namespace wire
}  // namespace ropeway::api
