#include "api/llamacpp_answer.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "api/json.h"
#include "api/openai_format.h"
#include "base/utf8.h"

namespace ropeway::api {
namespace {

using Json = nlohmann::ordered_json;

// In the order in which the sampler applies them.
constexpr const char* kSamplerOrder[] = {"penalties", "temperature", "top_k",
                                         "typ_p",     "top_p",       "min_p"};

Json BiasesJson(const std::vector<LogitBias>& biases) {
  Json list = Json::array();
  for (const LogitBias& bias : biases) list.push_back({{"bias", bias.bias}, {"token", bias.id}});
  return list;
}

Json ByteList(std::string_view bytes) {
  Json list = Json::array();
  for (const char c : bytes) list.push_back(static_cast<uint8_t>(c));
  return list;
}

Json ProbabilityJson(TokenId id, const std::string& bytes, float logprob) {
  return {{"id", id},
          {"token", base::ReplaceInvalidUtf8(bytes)},
          {"bytes", ByteList(bytes)},
          {"logprob", FiniteLogprob(logprob)}};
}

double InMilliseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

double PerUnit(double part, double whole) { return whole > 0 ? part / whole : 0; }

const char* LlamaCppType(const ApiError& error) {
  if (error.code == "context_length_exceeded") return "exceed_context_size_error";
  switch (error.http_status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 500:
      return "server_error";
    case 501:
      return "not_supported_error";
    case 503:
      return "unavailable_error";
    default:
      return error.type.c_str();
  }
}

}  // namespace

Json LlamaCppSettingsJson(const Request& request, const LlamaCppSettings& settings) {
  const SamplingParams& sampling = request.sampling;
  const int32_t most = request.max_tokens.value_or(-1);
  Json json = {{"seed", settings.seed},
               {"temperature", sampling.temperature},
               {"dynatemp_range", 0.0},
               {"dynatemp_exponent", 1.0},
               {"top_k", std::max(sampling.top_k, 0)},
               {"top_p", sampling.top_p},
               {"min_p", sampling.min_p},
               {"top_n_sigma", -1.0},
               {"xtc_probability", 0.0},
               {"xtc_threshold", 0.1},
               {"typical_p", sampling.typical_p},
               {"repeat_last_n", -1},  // All of the prompt and the answer.
               {"repeat_penalty", sampling.repetition_penalty},
               {"presence_penalty", sampling.presence_penalty},
               {"frequency_penalty", sampling.frequency_penalty},
               {"dry_multiplier", 0.0},
               {"dry_base", 1.75},
               {"dry_allowed_length", 2},
               {"dry_penalty_last_n", -1}};
  if (settings.texts) json["dry_sequence_breakers"] = Json::array();
  json["mirostat"] = 0;
  json["mirostat_tau"] = 5.0;
  json["mirostat_eta"] = 0.1;
  json["adaptive_target"] = -1.0;
  json["adaptive_decay"] = 0.9;
  if (settings.texts) json["stop"] = request.stop;
  json["max_tokens"] = most;
  json["n_predict"] = most;
  json["n_keep"] = 0;
  json["n_discard"] = 0;
  json["ignore_eos"] = request.ignore_eos;
  json["stream"] = settings.stream;
  if (settings.texts) json["logit_bias"] = BiasesJson(sampling.logit_bias);
  json["n_probs"] = request.logprobs.value_or(0);
  json["min_keep"] = 0;
  if (settings.texts) {
    json["grammar"] = "";
    json["grammar_lazy"] = false;
    json["grammar_triggers"] = Json::array();
    json["preserved_tokens"] = Json::array();
  }
  json["chat_format"] = "Content-only";
  json["reasoning_format"] = "none";
  json["reasoning_in_content"] = false;
  json["generation_prompt"] = "";
  json["samplers"] = settings.samplers ? Json(*settings.samplers) : Json(kSamplerOrder);
  json["speculative.types"] = "none";
  json["timings_per_token"] = false;
  json["post_sampling_probs"] = false;
  json["backend_sampling"] = false;
  json["lora"] = Json::array();
  return json;
}

Json LlamaCppTimings(const Finish& finish) {
  const Usage& usage = finish.usage;
  const double prompt_ms = InMilliseconds(finish.times.prefill);
  const double predicted_ms = InMilliseconds(finish.times.decode);
  const int32_t computed = usage.prompt_tokens - usage.cached_tokens;
  return {{"cache_n", usage.cached_tokens},
          {"prompt_n", computed},
          {"prompt_ms", prompt_ms},
          {"prompt_per_token_ms", PerUnit(prompt_ms, computed)},
          {"prompt_per_second", PerUnit(1000.0 * computed, prompt_ms)},
          {"predicted_n", usage.completion_tokens},
          {"predicted_ms", predicted_ms},
          {"predicted_per_token_ms", PerUnit(predicted_ms, usage.completion_tokens)},
          {"predicted_per_second", PerUnit(1000.0 * usage.completion_tokens, predicted_ms)}};
}

Json LlamaCppProbabilities(const std::vector<OutputToken>& tokens) {
  Json list = Json::array();
  for (const OutputToken& token : tokens) {
    Json entry = ProbabilityJson(token.id, token.bytes, token.logprob);
    entry["top_logprobs"] = Json::array();
    for (size_t i = 0; i < TopCount(token); ++i) {
      const TokenLogprob& top = token.top_logprobs[i];
      entry["top_logprobs"].push_back(ProbabilityJson(top.id, token.top_bytes[i], top.logprob));
    }
    list.push_back(std::move(entry));
  }
  return list;
}

LlamaCppEnd LlamaCppEndOf(const Request& request, const Finish& finish) {
  if (finish.reason == FinishReason::kLength) {
    // Where nothing else bounded it, the context did.
    const bool context = !request.max_tokens || finish.max_tokens > 0;
    return {.type = "limit", .word = "", .truncated = context && *finish.cut_by == '\0'};
  }
  if (finish.reason != FinishReason::kStop) return {};
  const auto stop = static_cast<size_t>(finish.stop);
  if (finish.stop < 0 || stop >= request.stop.size()) return {.type = "eos", .word = ""};
  return {.type = "word", .word = request.stop[stop]};
}

Json Selected(Json answer, const std::vector<std::string>& paths) {
  if (paths.empty()) return answer;
  Json selected = Json::object();
  for (const std::string& path : paths) {
    const Json* at = &answer;
    for (std::string_view rest = path; at != nullptr;) {
      const size_t slash = rest.find('/');
      const auto member = at->is_object() ? at->find(rest.substr(0, slash)) : at->end();
      at = at->is_object() && member != at->end() ? &*member : nullptr;
      if (slash == rest.npos) break;
      rest.remove_prefix(slash + 1);
    }
    if (at != nullptr) selected[path] = *at;
  }
  return selected;
}

std::string LlamaCppError(const ApiError& error) {
  return DumpJson(
      {{"error",
        {{"code", error.http_status}, {"message", error.message}, {"type", LlamaCppType(error)}}}});
}

}  // namespace ropeway::api
