#include "bench/sameness_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace ropeway {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kShownOutputs = 10;
constexpr size_t kShownBytes = 60;

// In quotes, with control characters escaped: JSON's rules.
std::string Quoted(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

// A token and how probable it was.
std::string Shown(const std::string& token, std::optional<double> logprob) {
  std::string text = token.empty() ? "(the end)" : Quoted(token);
  if (logprob) text += fmt::format(" (log-prob {:.6f})", *logprob);
  return text;
}

// The beginning of the part that is not common to all outputs.
std::string Tail(const Answer& answer, size_t from) {
  std::string text;
  for (size_t i = from; i < answer.tokens.size() && text.size() < kShownBytes; ++i) {
    text += answer.tokens[i];
  }
  if (text.size() > kShownBytes) text.resize(kShownBytes);
  return Quoted(text);
}

}  // namespace

bool AllTheSame(const AnswerTally& tally) {
  return tally.distinct() == 1 && (!tally.has_logprobs() || tally.distinct_with_logprobs() == 1);
}

std::string TallyText(const AnswerTally& tally) {
  std::string text = fmt::format("{} answers: {} distinct output{} by tokens", tally.answers(),
                                 tally.distinct(), tally.distinct() == 1 ? "" : "s");
  if (tally.has_logprobs()) {
    text += fmt::format(", {} with log-probabilities (largest difference {:.3g})",
                        tally.distinct_with_logprobs(), tally.LargestLogprobDifference());
  } else {
    text += "; log-probabilities were not told";
  }
  text += '\n';
  const auto difference = tally.FirstDifference();
  if (!difference) return text;
  const auto outputs = tally.ByTokens();
  text += fmt::format("outputs 1 and 2 first differ at token {}: {} and {}\n",
                      difference->position + 1, Shown(difference->first, difference->first_logprob),
                      Shown(difference->second, difference->second_logprob));
  text += fmt::format("output  times  from token {} on\n", difference->position + 1);
  for (size_t i = 0; i < std::min(outputs.size(), kShownOutputs); ++i) {
    text += fmt::format("{:>6}  {:>5}  {}\n", i + 1, outputs[i].count,
                        Tail(outputs[i].answer, difference->position));
  }
  if (outputs.size() > kShownOutputs) {
    text += fmt::format("and {} more\n", outputs.size() - kShownOutputs);
  }
  return text;
}

Json TallyJson(const AnswerTally& tally) {
  Json json = {{"answers", tally.answers()}, {"distinct", tally.distinct()}};
  json["distinct_with_logprobs"] = nullptr;
  json["counts"] = Json::array();
  for (const auto& output : tally.ByTokens()) json["counts"].push_back(output.count);
  json["logprob_counts"] = Json::array();
  json["largest_logprob_difference"] = nullptr;
  if (tally.has_logprobs()) {
    json["distinct_with_logprobs"] = tally.distinct_with_logprobs();
    json["logprob_counts"] = tally.LogprobCounts();
    json["largest_logprob_difference"] = tally.LargestLogprobDifference();
  }
  json["most_frequent"] = nullptr;
  if (tally.answers() > 0) {
    const Answer answer = tally.ByTokens().front().answer;
    json["most_frequent"] = {{"tokens", answer.tokens}, {"logprobs", answer.logprobs}};
  }
  json["first_difference"] = nullptr;
  if (const auto difference = tally.FirstDifference()) {
    Json& at = json["first_difference"];
    at["position"] = difference->position;
    at["tokens"] = {difference->first, difference->second};
    at["logprobs"] = {nullptr, nullptr};
    if (difference->first_logprob) at["logprobs"][0] = *difference->first_logprob;
    if (difference->second_logprob) at["logprobs"][1] = *difference->second_logprob;
  }
  return json;
}

}  // namespace ropeway
