// How the next token is drawn, and what ends the output: the fields of both endpoints.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "server/request_draft.h"

namespace ropeway {
namespace {

using nlohmann::json;

constexpr size_t kMaxStops = 16;
constexpr size_t kMaxStopBytes = 1024;
constexpr size_t kMaxStopTokens = 128;
constexpr size_t kMaxBiases = 1024;
constexpr double kMaxBias = 100;
constexpr int32_t kInt32Max = std::numeric_limits<int32_t>::max();

SamplingParams* Sampling(Draft* draft) { return &draft->api.request.sampling; }

// In (0, high], also as a float: a double above 0 may be none.
Status ReadAboveZero(const json& value, const std::string& field, double high, float* out) {
  Status status = Store(ReadNumber(value, field, 0, high, true), out);
  if (status.ok() && *out <= 0) {
    return Mismatch(value, field, fmt::format("a number above 0 and at most {}", high));
  }
  return status;
}

Status ReadTemperature(const json& value, const std::string& field, Draft* draft) {
  return Store(ReadNumber(value, field, 0, 2), &Sampling(draft)->temperature);
}

Status ReadTopP(const json& value, const std::string& field, Draft* draft) {
  return ReadAboveZero(value, field, 1, &Sampling(draft)->top_p);
}

Status ReadTypicalP(const json& value, const std::string& field, Draft* draft) {
  return ReadAboveZero(value, field, 1, &Sampling(draft)->typical_p);
}

Status ReadMinP(const json& value, const std::string& field, Draft* draft) {
  return Store(ReadNumber(value, field, 0, 1), &Sampling(draft)->min_p);
}

Status ReadTopK(const json& value, const std::string& field, Draft* draft) {
  return Store(ReadInt32(value, field, -1, kInt32Max), &Sampling(draft)->top_k);
}

Status ReadPresencePenalty(const json& value, const std::string& field, Draft* draft) {
  return Store(ReadNumber(value, field, -2, 2), &Sampling(draft)->presence_penalty);
}

Status ReadFrequencyPenalty(const json& value, const std::string& field, Draft* draft) {
  return Store(ReadNumber(value, field, -2, 2), &Sampling(draft)->frequency_penalty);
}

Status ReadRepetitionPenalty(const json& value, const std::string& field, Draft* draft) {
  return ReadAboveZero(value, field, 10, &Sampling(draft)->repetition_penalty);
}

// A token id as JSON writes it in a key: decimal, and in one way only, so that none comes twice.
bool ParseIdKey(const std::string& key, TokenId* id) {
  if (key.empty() || (key.size() > 1 && key[0] == '0')) return false;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), *id);
  return error == std::errc() && end == key.data() + key.size() && *id >= 0;
}

Status ReadLogitBias(const json& value, const std::string& field, Draft* draft) {
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
          fmt::format("'{}' must hold numbers from -100 to 100; that of token {} is none.", field,
                      key),
          field);
    }
    entry.bias = static_cast<float>(bias.get<double>());
    biases.push_back(entry);
  }
  // A JSON object has no order; what is submitted shall have one.
  std::sort(biases.begin(), biases.end(),
            [](const LogitBias& a, const LogitBias& b) { return a.id < b.id; });
  Sampling(draft)->logit_bias = std::move(biases);
  return {};
}

// All 64-bit integers, signed or not: a negative seed stands for its two's complement.
Status ReadSeed(const json& value, const std::string& field, Draft* draft) {
  if (!value.is_number_integer()) return Mismatch(value, field, "an integer of 64 bits");
  Sampling(draft)->seed = value.is_number_unsigned() ? value.get<uint64_t>()
                                                     : static_cast<uint64_t>(value.get<int64_t>());
  return {};
}

Status ReadMaxTokens(const json& value, const std::string& field, Draft* draft) {
  return Store(ReadInt32(value, field, 0, kInt32Max), &draft->api.request.max_tokens);
}

Status ReadMinTokens(const json& value, const std::string& field, Draft* draft) {
  return Store(ReadInt32(value, field, 0, kInt32Max), &Sampling(draft)->min_tokens);
}

Status ReadStop(const json& value, const std::string& field, Draft* draft) {
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
    draft->api.request.stop.push_back(text);
  }
  return {};
}

Status ReadStopTokenIds(const json& value, const std::string& field, Draft* draft) {
  if (!value.is_array()) return Mismatch(value, field, "a list of token ids");
  if (value.size() > kMaxStopTokens) {
    return InvalidArgument(fmt::format("'{}' holds more than {} ids.", field, kMaxStopTokens),
                           field);
  }
  return Store(ReadTokenIds(value, field), &draft->api.request.stop_token_ids);
}

Status ReadIgnoreEos(const json& value, const std::string& field, Draft* draft) {
  return Store(ReadBool(value, field), &draft->api.request.ignore_eos);
}

Status RefuseUnlessOne(const json& value, const std::string& field, Draft*) {
  if (!value.is_number()) return Mismatch(value, field, "a number");
  return value.get<double>() == 1 ? Status() : Unsupported(field, " but as 1");
}

}  // namespace

void AddSamplingFields(FieldTable* table) {
  table->insert({{"temperature", ReadTemperature},
                 {"top_p", ReadTopP},
                 {"top_k", ReadTopK},
                 {"min_p", ReadMinP},
                 {"typical_p", ReadTypicalP},
                 {"presence_penalty", ReadPresencePenalty},
                 {"frequency_penalty", ReadFrequencyPenalty},
                 {"repetition_penalty", ReadRepetitionPenalty},
                 {"logit_bias", ReadLogitBias},
                 {"seed", ReadSeed},
                 {"max_tokens", ReadMaxTokens},
                 {"min_tokens", ReadMinTokens},
                 {"stop", ReadStop},
                 {"stop_token_ids", ReadStopTokenIds},
                 {"ignore_eos", ReadIgnoreEos},
                 // vLLM's, where they would change the answer.
                 {"bad_words", RefuseUnlessEmpty},
                 {"allowed_token_ids", Refuse},
                 {"use_beam_search", RefuseUnlessFalse},
                 {"length_penalty", RefuseUnlessOne},
                 {"early_stopping", RefuseUnlessFalse},
                 {"logits_processors", RefuseUnlessEmpty},
                 {"truncate_prompt_tokens", Refuse},
                 {"include_stop_str_in_output", RefuseUnlessFalse},
                 {"skip_special_tokens", RefuseUnlessTrue},
                 {"spaces_between_special_tokens", RefuseUnlessTrue},
                 {"structured_outputs", Refuse},
                 {"guided_json", Refuse},
                 {"guided_regex", Refuse},
                 {"guided_choice", Refuse},
                 {"guided_grammar", Refuse},
                 {"guided_decoding_backend", Refuse},
                 {"guided_whitespace_pattern", Refuse}});
}

}  // namespace ropeway
