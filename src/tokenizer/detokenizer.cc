#include "tokenizer/detokenizer.h"

#include <utility>

#include "base/utf8.h"

namespace ropeway {

std::string Detokenizer::Append(std::string_view bytes) {
  const std::string input = std::exchange(pending_, {}).append(bytes);
  std::string text;
  for (size_t at = 0; at < input.size();) {
    const Utf8Step step = StepUtf8(input, at);
    if (step.kind == Utf8Kind::kTruncated) {
      pending_ = input.substr(at);
      break;
    }
    const bool valid = step.kind == Utf8Kind::kValid;
    text.append(valid ? std::string_view(input).substr(at, step.length) : kReplacementCharacter);
    at += step.length;
  }
  return text;
}

std::string Detokenizer::Finish() { return ReplaceInvalidUtf8(std::exchange(pending_, {})); }

}  // namespace ropeway
