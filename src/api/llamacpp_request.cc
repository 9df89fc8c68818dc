#include "api/llamacpp_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/json.h"
#include "api/parameter_json.h"
#include "base/json.h"
#include "base/words.h"
#include "core/parameters.h"

namespace ropeway::api {
namespace {

using nlohmann::json;

using LlamaCppReader = Status (*)(const json& value, const std::string& field, LlamaCppBody* body);

FieldReader<OpenAiBody> OfLlamaCpp(LlamaCppReader read) {
  return [read](const json& value, const std::string& field, OpenAiBody* body) {
    return read(value, field, static_cast<LlamaCppBody*>(body));
  };
}

// --- The prompt.

bool HoldsNumbers(const json& value) {
  return std::any_of(value.begin(), value.end(), [](const json& one) { return one.is_number(); });
}

// A list of ids, or of texts and ids that follow each other.
Status ReadPromptParts(const json& list, const std::string& path, std::vector<PromptPart>* parts) {
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string at = fmt::format("{}[{}]", path, i);
    if (list[i].is_string()) {
      parts->emplace_back(list[i].get<std::string>());
      continue;
    }
    const StatusOr<int32_t> id = ReadInt32(list[i], at, 0, std::numeric_limits<int32_t>::max());
    if (!id.ok()) return Mismatch(list[i], at, "a token id or a string");
    if (parts->empty() || parts->back().index() == 0) parts->emplace_back(std::vector<TokenId>());
    std::get<std::vector<TokenId>>(parts->back()).push_back(*id);
  }
  return {};
}

// {"prompt_string": text}, which may have "multimodal_data" where a model sees or hears.
Status ReadPromptObject(const json& value, const std::string& path, LlamaCppBody* body) {
  constexpr std::string_view kUsed[] = {"prompt_string"};
  const json& text = base::Member(value, "prompt_string");
  for (const auto& [name, member] : value.items()) {
    if (name == kUsed[0]) continue;
    const std::string at = path + "." + ShownName(name);
    if (name == "multimodal_data") {
      body->report->Add(Unsupported(at, ": the model reads text alone"));
    } else {
      body->report->AddOther("prompt.", name, member, at, kUsed);
    }
  }
  if (!text.is_string()) return Mismatch(text, path + ".prompt_string", "a string");
  body->prompts.emplace_back(text.get<std::string>());
  return {};
}

Status ReadLlamaCppPrompt(const json& value, const std::string& path, LlamaCppBody* body) {
  if (value.is_string()) {
    body->prompts.emplace_back(value.get<std::string>());
    return {};
  }
  if (value.is_object()) return ReadPromptObject(value, path, body);
  if (!value.is_array()) {
    return Mismatch(value, path,
                    "a string, a list of token ids and strings, an object with 'prompt_string', or "
                    "a list of these");
  }
  if (value.empty()) return InvalidArgument(fmt::format("'{}' is empty.", path), "prompt");
  std::vector<PromptPart> parts;
  if (Status status = ReadPromptParts(value, path, &parts); !status.ok()) return status;
  if (parts.size() == 1) {
    std::visit([body](auto& part) { body->prompts.emplace_back(std::move(part)); }, parts.front());
  } else {
    body->mixed_prompts.push_back({body->prompts.size(), std::move(parts)});
    body->prompts.emplace_back(std::vector<TokenId>());
  }
  return {};
}

Status ReadOwnPrompts(const json& value, const std::string& field, LlamaCppBody* body) {
  if (!value.is_array() || HoldsNumbers(value)) return ReadLlamaCppPrompt(value, field, body);
  if (value.empty()) return InvalidArgument(fmt::format("'{}' is empty.", field), field);
  if (value.size() > static_cast<size_t>(body->max_choices)) {
    return InvalidArgument(fmt::format("'{}' holds {} prompts; at most {} are allowed.", field,
                                       value.size(), body->max_choices),
                           field);
  }
  for (size_t i = 0; i < value.size(); ++i) {
    Status status = ReadLlamaCppPrompt(value[i], fmt::format("{}[{}]", field, i), body);
    if (!status.ok()) return status;
  }
  return {};
}

// --- Parameters that llama.cpp writes in another way.

Status ReadNamedRow(const char* row, const json& value, const std::string& field,
                    LlamaCppBody* body) {
  return ReadParameter(*core::FindParameter(row), value, field, &body->request);
}

// -1, and the same as 32 bits, ask for one that is drawn.
Status ReadLlamaCppSeed(const json& value, const std::string& field, LlamaCppBody* body) {
  constexpr uint32_t kDrawn = std::numeric_limits<uint32_t>::max();
  if (value == -1 || value == kDrawn) return {};
  return ReadNamedRow("seed", value, field, body);
}

Status ReadProbs(const json& value, const std::string& field, LlamaCppBody* body) {
  if (Status status = body->report->CheckAlias(&body->request.logprobs, field, value);
      !status.ok()) {
    return status;
  }
  const StatusOr<int32_t> count = ReadInt32(value, field, 0, kMaxLogprobs);
  if (!count.ok()) return count.status();
  if (*count > 0) body->request.logprobs = *count;
  return {};
}

constexpr size_t kMostBiasBytes = 1024;  // Of a text.

// The bias, or false: never.
StatusOr<float> ReadOneBias(const json& value, const std::string& path) {
  const core::Parameter& row = *core::FindParameter("logit_bias");
  if (value == false) return static_cast<float>(row.low);
  if (!value.is_number() || !core::Within(row, value.get<double>())) {
    return Mismatch(value, path,
                    fmt::format("a number from {} to {}, or false for never", row.low, row.high));
  }
  return value.get<float>();
}

// Of a token, or of each token of a text.
Status AddBias(const json& whose, const json& value, const std::string& path, LlamaCppBody* body) {
  const StatusOr<float> bias = ReadOneBias(value, path);
  if (!bias.ok()) return bias.status();
  if (whose.is_string()) {
    const std::string& text = whose.get_ref<const std::string&>();
    const auto id = base::ParseNumber<TokenId>(text);
    // In an object, whose keys are strings, an id stands as one.
    if (!id || path.ends_with(']')) {
      if (text.size() > kMostBiasBytes) {
        return InvalidArgument(fmt::format("'{}' has a text of {} bytes; at most {} are allowed.",
                                           path, text.size(), kMostBiasBytes),
                               path);
      }
      body->text_biases.push_back({text, *bias});
      return {};
    }
    if (*id >= 0) {
      body->request.sampling.logit_bias.push_back({*id, *bias});
      return {};
    }
  }
  const StatusOr<int32_t> id = ReadInt32(whose, path, 0, std::numeric_limits<int32_t>::max());
  if (!id.ok()) return Mismatch(whose, path, "a token id or a text");
  body->request.sampling.logit_bias.push_back({*id, *bias});
  return {};
}

// [[token, bias], ...], or {token: bias}.
Status ReadLogitBias(const json& value, const std::string& field, LlamaCppBody* body) {
  if (!value.is_structured()) return Mismatch(value, field, "a list of pairs, or an object");
  const size_t most = core::FindParameter("logit_bias")->most;
  if (value.size() > most) {
    return InvalidArgument(
        fmt::format("'{}' holds {} entries; at most {} are allowed.", field, value.size(), most),
        field);
  }
  std::vector<LogitBias>* const biases = &body->request.sampling.logit_bias;
  biases->clear();
  if (value.is_object()) {
    for (const auto& [key, bias] : value.items()) {
      const std::string path = field + "." + ShownName(key);
      if (Status status = AddBias(key, bias, path, body); !status.ok()) return status;
    }
  } else {
    for (size_t i = 0; i < value.size(); ++i) {
      const std::string path = fmt::format("{}[{}]", field, i);
      if (!value[i].is_array() || value[i].size() != 2) {
        return Mismatch(value[i], path, "a pair of a token and its bias");
      }
      if (Status status = AddBias(value[i][0], value[i][1], path, body); !status.ok()) {
        return status;
      }
    }
  }
  return {};
}

// --- Samplers. Ropeway applies its own in one order; one that the list leaves out is turned off.

struct SamplerName {
  std::string_view name;
  int place;                  // In Ropeway's order; 0: it has none there, or its place is free.
  const char* parameters[3];  // What turns it off.
};

constexpr SamplerName kSamplers[] = {
    {"penalties", 1, {"repetition_penalty", "presence_penalty", "frequency_penalty"}},
    {"top_k", 2, {"top_k"}},
    {"typ_p", 3, {"typical_p"}},
    {"top_p", 4, {"top_p"}},
    {"min_p", 5, {"min_p"}},
    {"temperature", 0, {}},
    // They are off: the fields that turn them on are rejected.
    {"dry", 0, {}},
    {"top_n_sigma", 0, {}},
    {"xtc", 0, {}},
    {"adaptive_p", 0, {}},
};

const SamplerName* FindSampler(std::string_view name) {
  if (name == "typical_p" || name == "typical" || name == "typ") name = "typ_p";
  if (name == "temp") name = "temperature";
  const auto* const found = std::ranges::find(kSamplers, name, &SamplerName::name);
  return found == std::end(kSamplers) ? nullptr : found;
}

Status ReadSamplers(const json& value, const std::string& field, LlamaCppBody* body) {
  if (!value.is_array()) return Mismatch(value, field, "a list of names of samplers");
  std::vector<std::string>& names = body->samplers.emplace();
  int place = 0;
  for (size_t i = 0; i < value.size(); ++i) {
    const std::string at = fmt::format("{}[{}]", field, i);
    if (!value[i].is_string()) return Mismatch(value[i], at, "the name of a sampler");
    const SamplerName* const sampler = FindSampler(value[i].get_ref<const std::string&>());
    if (sampler == nullptr) return Unsupported(at, ", which names a sampler that there is not");
    const std::string name(sampler->name);
    if (std::ranges::find(names, name) != names.end()) return Unsupported(at, " twice");
    if (sampler->place > 0 && sampler->place < place) {
      return {
          StatusCode::kUnimplemented,
          fmt::format("'{}' supports only the order penalties, top_k, typ_p, top_p, min_p, with "
                      "temperature anywhere.",
                      field),
          field};
    }
    place = std::max(place, sampler->place);
    names.push_back(name);
  }
  return {};
}

// Sets a parameter to the value that changes nothing.
void TurnOff(const core::Parameter& row, Request* request) {
  core::VisitValue(row, *request, [&]<typename T>(T& value) {
    if constexpr (std::is_arithmetic_v<T>) value = static_cast<T>(row.off);
  });
  request->sampling.given |= row.given;
}

void ApplySamplers(LlamaCppBody* body) {
  if (!body->samplers) return;
  const auto has = [&](std::string_view name) {
    return std::ranges::find(*body->samplers, name) != body->samplers->end();
  };
  for (const SamplerName& sampler : kSamplers) {
    if (has(sampler.name)) continue;
    for (const char* name : sampler.parameters) {
      if (name != nullptr) TurnOff(*core::FindParameter(name), &body->request);
    }
  }
  SamplingParams* const sampling = &body->request.sampling;
  // Without it tokens are drawn by the model's own probabilities.
  if (!has("temperature") && sampling->temperature > 0) {
    sampling->temperature = 1;
    sampling->given |= SamplingParams::kTemperature;
  }
}

// --- The answer's form.

Status ReadResponseFields(const json& value, const std::string& field, LlamaCppBody* body) {
  constexpr size_t kMost = 128;
  if (!value.is_array() || value.size() > kMost) {
    return Mismatch(value, field, fmt::format("a list of at most {} names of fields", kMost));
  }
  for (size_t i = 0; i < value.size(); ++i) {
    StatusOr<std::string> path = ReadString(value[i], fmt::format("{}[{}]", field, i));
    if (!path.ok()) return path.status();
    body->response_fields.push_back(*std::move(path));
  }
  return {};
}

Status ReadReturnTokens(const json& value, const std::string& field, LlamaCppBody* body) {
  return Store(ReadBool(value, field), &body->return_tokens);
}

Status ReadChoiceCount(const json& value, const std::string& field, LlamaCppBody* body) {
  if (Status status = body->report->CheckAlias(&body->n, field, value); !status.ok()) return status;
  return Store(ReadInt32(value, field, 1, body->max_choices), &body->n);
}

void FinishLlamaCpp(LlamaCppBody* body, FieldReport* report) {
  if (body->prompts.empty()) {
    report->AddTogether(InvalidArgument("'prompt' is required.", "prompt"));
  }
  ApplySamplers(body);
  body->shows_seed = true;
  std::vector<LogitBias>* const biases = &body->request.sampling.logit_bias;
  MergeBiases(biases);
  body->keeps_tokens = body->return_tokens || body->stream;
  constexpr size_t kBiasBytes = 40;
  body->repeated_bytes = biases->size() * kBiasBytes;
  for (const auto* list : {&body->response_fields, &body->request.stop}) {
    for (const std::string& text : *list) body->repeated_bytes += text.size();
  }
}

}  // namespace

const FieldTable<OpenAiBody>& LlamaCppFields() {
  static const FieldTable<OpenAiBody> table = [] {
    FieldTable<OpenAiBody> all =
        WithOpenAiFields(kLlamaCpp, {{"prompt", OfLlamaCpp(ReadOwnPrompts)},
                                     {"seed", OfLlamaCpp(ReadLlamaCppSeed)},
                                     {"n", OfLlamaCpp(ReadChoiceCount)},
                                     {"n_cmpl", OfLlamaCpp(ReadChoiceCount)},
                                     {"n_probs", OfLlamaCpp(ReadProbs)},
                                     {"logprobs", OfLlamaCpp(ReadProbs)},
                                     {"logit_bias", OfLlamaCpp(ReadLogitBias)},
                                     {"samplers", OfLlamaCpp(ReadSamplers)},
                                     {"response_fields", OfLlamaCpp(ReadResponseFields)},
                                     {"return_tokens", OfLlamaCpp(ReadReturnTokens)}});
    for (const char* of_others : {"prompt_logprobs", "service_tier", "store", "background",
                                  "ropeway_gateway", "stream_options"}) {
      all.readers.erase(of_others);
    }
    return all;
  }();
  return table;
}

Status ReadLlamaCppBody(std::string_view text, const BodyLimits& limits, LlamaCppBody* body) {
  const auto finish = [body](FieldReport* report) { FinishLlamaCpp(body, report); };
  return ReadOpenAiBody(text, limits, LlamaCppFields(), "", finish, body);
}

}  // namespace ropeway::api
