#include "tokenizer/characters.h"

#include <bitset>
#include <string>

#include "base/utf8.h"

namespace ropeway::tokenizer {
namespace {

constexpr char32_t kLastSpace = 0x3000;

std::bitset<256> BytesOfSpaces() {
  std::bitset<256> bytes;
  for (char32_t c = 0; c <= kLastSpace; ++c) {
    if (!IsWhiteSpace(c)) continue;
    std::string text;
    base::AppendUtf8(c, text);
    for (const char byte : text) bytes.set(static_cast<uint8_t>(byte));
  }
  return bytes;
}

bool IsContinuation(char byte) { return (static_cast<uint8_t>(byte) & 0xC0U) == 0x80U; }

}  // namespace

bool IsWhiteSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == kLastSpace;
}

size_t LeadingSpace(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const base::Utf8Step step = base::StepUtf8(text, at);
    if (step.kind != base::Utf8Kind::kValid || !IsWhiteSpace(step.code_point)) break;
    at += step.length;
  }
  return at;
}

size_t TrailingSpace(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t begin = end - 1;
    while (begin > 0 && end - begin < 4 && IsContinuation(text[begin])) --begin;
    const base::Utf8Step step = base::StepUtf8(text.substr(0, end), begin);
    if (step.kind != base::Utf8Kind::kValid || begin + step.length != end ||
        !IsWhiteSpace(step.code_point)) {
      break;
    }
    end = begin;
  }
  return text.size() - end;
}

size_t FirstSpace(std::string_view text) {
  if (text.starts_with(' ')) return 1;
  return text.starts_with(kSpaceSymbol) ? kSpaceSymbol.size() : 0;
}

size_t LastSpace(std::string_view text) {
  if (text.ends_with(' ')) return 1;
  return text.ends_with(kSpaceSymbol) ? kSpaceSymbol.size() : 0;
}

bool IsByteOfSpace(uint8_t byte) {
  static const std::bitset<256> bytes = BytesOfSpaces();
  return bytes[byte];
}

size_t CharacterLength(std::string_view text, size_t at) {
  const base::Utf8Step step = base::StepUtf8(text, at);
  return step.kind == base::Utf8Kind::kValid ? step.length : 1;
}

}  // namespace ropeway::tokenizer
