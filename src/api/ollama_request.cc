#include "api/ollama_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "api/chat_messages.h"
#include "api/json.h"
#include "api/ollama_messages.h"
#include "api/output_format.h"
#include "base/json.h"
#include "core/parameters.h"

namespace ropeway::api {
namespace {

using nlohmann::json;

using OllamaReader = Status (*)(const json& value, const std::string& field, OllamaBody* body);

FieldReader<OpenAiBody> OllamaOwn(OllamaReader read) {
  return [read](const json& value, const std::string& field, OpenAiBody* body) {
    return read(value, field, static_cast<OllamaBody*>(body));
  };
}

// --- Options: the sampling parameters, under any of their names.

// Ollama takes an integer with a point, too: some clients write all numbers so. Null if it is none.
json IntegerWithPoint(const json& value) {
  constexpr double kExact = 1LL << 53;
  if (!value.is_number_float()) return nullptr;
  const auto number = value.get<double>();
  const bool whole = std::abs(number) <= kExact && number == std::floor(number);
  return whole ? json(static_cast<int64_t>(number)) : json();
}

// Whether it is Ollama's way to leave the option to the server: a seed of -1 is drawn.
bool IsUnsetOption(std::string_view name, const json& value) {
  return name == "seed" && value == -1;
}

const FieldReaders<OpenAiBody>& OllamaOptionReaders() {
  static const FieldReaders<OpenAiBody> readers = [] {
    const FieldReaders<OpenAiBody> all = WithOpenAiFields(kOllamaChat, {}).readers;
    FieldReaders<OpenAiBody> own;
    for (const core::Parameter& row : core::Parameters()) {
      own.emplace(row.name, all.at(row.name));
      for (const char* alias : row.aliases) {
        if (alias != nullptr) own.emplace(alias, all.at(alias));
      }
    }
    return own;
  }();
  return readers;
}

constexpr char kLookBack[] = "repeat_last_n";

// Clients send Ollama's default, 64, whether or not they want a penalty. One that is the server's
// default looks at the whole text, as everywhere.
Status CheckLookBack(const OllamaBody& body) {
  const SamplingParams& s = body.request.sampling;
  const auto given = [&s](uint32_t bit) { return (s.given & bit) != 0; };
  const bool penalizes =
      (given(SamplingParams::kRepetitionPenalty) && s.repetition_penalty != 1.0F) ||
      (given(SamplingParams::kPresencePenalty) && s.presence_penalty != 0.0F) ||
      (given(SamplingParams::kFrequencyPenalty) && s.frequency_penalty != 0.0F);
  if (!body.looks_back || !penalizes) return {};
  return {StatusCode::kUnimplemented,
          fmt::format("'options.{}' supports only -1 with a penalty: it looks at the whole text.",
                      kLookBack),
          std::string("options.") + kLookBack};
}

Status ReadOllamaOption(const std::string& name, const json& value, const std::string& path,
                        OllamaBody* body) {
  // 0, and less than -1, is "to the end of the context", too.
  if (name == "num_predict" && value.is_number_integer() && value <= 0) {
    return OllamaOptionReaders().at(name)(-1, path, body);
  }
  return OllamaOptionReaders().at(name)(value, path, body);
}

Status ReadOllamaOptions(const json& value, const std::string& field, OllamaBody* body) {
  if (!value.is_object()) return Mismatch(value, field, "an object");
  std::vector<std::string_view> used;  // Gathered for the first option that has no reader.
  for (const auto& [name, given] : value.items()) {
    const std::string path = field + "." + ShownName(name);
    const json whole = IntegerWithPoint(given);
    const json& option = whole.is_null() ? given : whole;
    if (OllamaOptionReaders().contains(name)) {
      if (option.is_null() || IsUnsetOption(name, option)) continue;
      body->report->Add(ReadOllamaOption(name, option, path, body));
      continue;
    }
    if (name == kLookBack && !option.is_null()) body->looks_back = option != -1;
    for (auto it = OllamaOptionReaders().begin(); used.size() < OllamaOptionReaders().size();
         ++it) {
      used.push_back(it->first);
    }
    body->report->AddOther("options.", name, option, path, used);
  }
  return {};
}

// --- The other fields.

Status ReadOllamaThink(const json& value, const std::string& field, OllamaBody* body) {
  if (value.is_boolean()) {
    body->thinking = value.get<bool>();
    return {};
  }
  constexpr std::string_view kLevels[] = {"low", "medium", "high", "max"};
  const std::string_view level = base::Text(value);
  if (std::ranges::find(kLevels, level) == std::end(kLevels)) {
    return Mismatch(value, field, R"(true, false, "low", "medium", "high" or "max")");
  }
  body->thinking = true;
  body->reasoning_effort = std::string(level);
  return {};
}

Status ReadOllamaFormat(const json& value, const std::string& field, OllamaBody* body) {
  return ReadPlainFormat(value, field, body);
}

FieldReaders<OpenAiBody> OllamaReaders() {
  return {{"model", FieldOf(ReadString, &Request::model)},
          {"stream", FieldOf(ReadBool, &OpenAiBody::stream)},
          {"options", OllamaOwn(ReadOllamaOptions)},
          {"format", OllamaOwn(ReadOllamaFormat)},
          {"think", OllamaOwn(ReadOllamaThink)},
          {"logprobs", FieldOf(ReadBool, &OpenAiBody::logprobs)},
          {"top_logprobs", IntField(0, kMaxLogprobs, &OpenAiBody::top_logprobs)}};
}

void FinishOllamaBody(OllamaBody* body, FieldReport* report) {
  body->other_model = OtherOllamaName(body->request.model);
  if (body->logprobs) body->request.logprobs = body->top_logprobs.value_or(0);
  report->AddTogether(CheckLookBack(*body));
  if (body->raw && !body->system.empty()) {
    report->AddTogether(
        InvalidArgument("'system' cannot be used with 'raw', which leaves the prompt as it is.",
                        "system"),
        {"raw"});
  }
  if (body->raw && !body->prompt.empty()) {
    body->prompts.emplace_back(std::move(body->prompt));
    return;
  }
  if (!body->prompt.empty()) {
    if (!body->system.empty()) body->messages.push_back({"system", std::move(body->system)});
    body->messages.push_back({"user", std::move(body->prompt)});
  }
  if (!body->messages.empty()) body->prompts.emplace_back(TakeChat(body, report));
}

}  // namespace

const FieldTable<OpenAiBody>& OllamaChatFields() {
  static const FieldTable<OpenAiBody> table = [] {
    FieldReaders<OpenAiBody> own = OllamaReaders();
    own.emplace("tools", ChatReaders<OpenAiBody>().at("tools"));
    own.emplace("messages", [](const json& value, const std::string& field, OpenAiBody* body) {
      return Store(ReadOllamaMessages(value, field, *body), &body->messages);
    });
    return FieldTable<OpenAiBody>{kOllamaChat, std::move(own)};
  }();
  return table;
}

const FieldTable<OpenAiBody>& OllamaGenerateFields() {
  static const FieldTable<OpenAiBody> table = [] {
    FieldReaders<OpenAiBody> own = OllamaReaders();
    own.emplace("prompt",
                OllamaOwn([](const json& value, const std::string& field, OllamaBody* body) {
                  return Store(ReadString(value, field), &body->prompt);
                }));
    own.emplace("system",
                OllamaOwn([](const json& value, const std::string& field, OllamaBody* body) {
                  return Store(ReadString(value, field), &body->system);
                }));
    own.emplace("raw", OllamaOwn([](const json& value, const std::string& field, OllamaBody* body) {
                  return Store(ReadBool(value, field), &body->raw);
                }));
    return FieldTable<OpenAiBody>{kOllamaGenerate, std::move(own)};
  }();
  return table;
}

Status ReadOllamaBody(std::string_view text, const BodyLimits& limits,
                      const FieldTable<OpenAiBody>& table, OllamaBody* body) {
  const auto finish = [body](FieldReport* report) { FinishOllamaBody(body, report); };
  return ReadOpenAiBody(text, limits, table, "", finish, body);
}

namespace {

const FieldTable<OllamaModelBody>& OllamaModelTable() {
  const auto read_model = [](const json& value, const std::string& field, OllamaModelBody* body) {
    if (Status status = body->report->CheckAlias(&body->model, field, value); !status.ok()) {
      return status;
    }
    return Store(ReadString(value, field), &body->model);
  };
  static const FieldTable<OllamaModelBody> table = {
      kOllamaModel,
      {{"model", read_model},
       {"name", read_model},
       {"stream", FieldOf(ReadBool, &OllamaModelBody::stream)}}};
  return table;
}

}  // namespace

std::vector<std::string> OllamaModelFields() { return NamesOf(OllamaModelTable()); }

StatusOr<OllamaModelBody> ReadOllamaModelBody(std::string_view text, const BodyLimits& limits) {
  const StatusOr<json> document = ReadJson(text, limits.json);
  if (!document.ok()) return document.status();
  OllamaModelBody body;
  FieldReport report(kOllamaModel, limits);
  body.report = &report;
  const Status status = ReadFields(*document, OllamaModelTable(), &body);
  body.report = nullptr;
  body.ignored = report.ignored();
  if (!status.ok()) return status;
  return body;
}

std::string OtherOllamaName(const std::string& name) {
  constexpr std::string_view kLatest = ":latest";
  if (name.ends_with(kLatest)) return name.substr(0, name.size() - kLatest.size());
  // One without a tag; a slash parts it from names of other registries.
  const size_t begin = name.rfind('/') == name.npos ? 0 : name.rfind('/');
  if (name.empty() || name.find(':', begin) != name.npos) return {};
  return name + std::string(kLatest);
}

}  // namespace ropeway::api
