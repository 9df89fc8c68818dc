#include "tokenizer/detokenizer.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"

namespace ropeway::tokenizer {

std::string Detokenizer::Append(std::string_view bytes) {
  const std::string input = std::exchange(pending_, {}).append(bytes);
  std::string text;
  for (size_t at = 0; at < input.size();) {
    const base::Utf8Step step = base::StepUtf8(input, at);
    if (step.kind == base::Utf8Kind::kTruncated) {
      pending_ = input.substr(at);
      break;
    }
    const bool valid = step.kind == base::Utf8Kind::kValid;
    text.append(valid ? std::string_view(input).substr(at, step.length)
                      : base::kReplacementCharacter);
    at += step.length;
  }
  return text;
}

std::string Detokenizer::Finish() { return base::ReplaceInvalidUtf8(std::exchange(pending_, {})); }

StopMatcher::StopMatcher(std::vector<std::string> stops) {
  patterns_.reserve(stops.size());
  for (std::string& text : stops) {
    std::vector<size_t> borders(text.size(), 0);
    for (size_t i = 1, length = 0; i < text.size(); ++i) {
      while (length > 0 && text[i] != text[length]) length = borders[length - 1];
      if (text[i] == text[length]) ++length;
      borders[i] = length;
    }
    patterns_.push_back({std::move(text), std::move(borders), 0});
  }
}

void StopMatcher::Advance(Pattern& pattern, char byte) {
  size_t& matched = pattern.matched;
  while (matched > 0 && pattern.text[matched] != byte) matched = pattern.borders[matched - 1];
  if (pattern.text[matched] == byte) ++matched;
}

StopMatcher::Step StopMatcher::Append(std::string_view text) {
  Step step;
  step.text = std::exchange(held_, {});
  for (const char byte : text) {
    step.text.push_back(byte);
    size_t longest = 0;
    for (size_t i = 0; i < patterns_.size(); ++i) {
      Pattern& pattern = patterns_[i];
      Advance(pattern, byte);
      if (pattern.matched == pattern.text.size() && pattern.matched > longest) {
        longest = pattern.matched;
        step.stop = i;
      }
    }
    if (step.stop.has_value()) {
      step.text.resize(step.text.size() - longest);
      return step;
    }
  }
  size_t may_begin = 0;
  for (const Pattern& pattern : patterns_) may_begin = std::max(may_begin, pattern.matched);
  held_ = step.text.substr(step.text.size() - may_begin);
  step.text.resize(step.text.size() - may_begin);
  return step;
}

std::string StopMatcher::Finish() { return std::exchange(held_, {}); }

}  // namespace ropeway::tokenizer
