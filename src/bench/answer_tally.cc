#include "bench/answer_tally.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>

namespace ropeway {
namespace {

bool SameBits(const std::vector<double>& a, const std::vector<double>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](double x, double y) {
    return std::bit_cast<uint64_t>(x) == std::bit_cast<uint64_t>(y);
  });
}

// Counts the answer among those that `same` says it is equal to. Few outputs differ, if any: a list
// is all it takes.
template <typename Same>
void Count(const Answer& answer, const Same& same, std::vector<AnswerTally::Output>* outputs) {
  for (AnswerTally::Output& output : *outputs) {
    if (same(output.answer, answer)) {
      ++output.count;
      return;
    }
  }
  outputs->push_back({answer, 1});
}

size_t CommonTokens(const Answer& a, const Answer& b) {
  const auto parted =
      std::mismatch(a.tokens.begin(), a.tokens.end(), b.tokens.begin(), b.tokens.end());
  return static_cast<size_t>(parted.first - a.tokens.begin());
}

std::optional<double> LogprobAt(const Answer& answer, size_t position) {
  if (position >= answer.logprobs.size()) return std::nullopt;
  return answer.logprobs[position];
}

}  // namespace

void AnswerTally::Add(Answer answer) {
  ++answers_;
  if (answer.logprobs.empty()) ++without_logprobs_;
  Count(
      answer, [](const Answer& a, const Answer& b) { return a.tokens == b.tokens; }, &by_tokens_);
  Count(
      answer,
      [](const Answer& a, const Answer& b) {
        return a.tokens == b.tokens && SameBits(a.logprobs, b.logprobs);
      },
      &by_logprobs_);
  const Answer& first = by_logprobs_.front().answer;
  const size_t told = std::min(first.logprobs.size(), answer.logprobs.size());
  const size_t common = std::min(CommonTokens(first, answer), told);
  for (size_t i = 0; i < common; ++i) {
    const double difference = std::abs(first.logprobs[i] - answer.logprobs[i]);
    largest_difference_ = std::max(largest_difference_, difference);
  }
}

std::vector<AnswerTally::Output> AnswerTally::ByTokens() const {
  std::vector<Output> sorted = by_tokens_;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Output& a, const Output& b) { return a.count > b.count; });
  return sorted;
}

std::vector<int> AnswerTally::LogprobCounts() const {
  std::vector<int> counts;
  for (const Output& output : by_logprobs_) counts.push_back(output.count);
  std::sort(counts.rbegin(), counts.rend());
  return counts;
}

std::optional<AnswerTally::Difference> AnswerTally::FirstDifference() const {
  const std::vector<Output> sorted = ByTokens();
  if (sorted.size() < 2) return std::nullopt;
  const Answer& a = sorted[0].answer;
  const Answer& b = sorted[1].answer;
  Difference difference;
  difference.position = CommonTokens(a, b);
  const auto token = [&](const Answer& answer) {
    return difference.position < answer.tokens.size() ? answer.tokens[difference.position] : "";
  };
  difference.first = token(a);
  difference.second = token(b);
  difference.first_logprob = LogprobAt(a, difference.position);
  difference.second_logprob = LogprobAt(b, difference.position);
  return difference;
}

}  // namespace ropeway
