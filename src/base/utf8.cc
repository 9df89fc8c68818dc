#include "base/utf8.h"

namespace ropeway::base {
namespace {

// The character's length by its first byte, and the bounds of its second byte, which exclude
// overlong forms, surrogates and code points above U+10FFFF.
struct Lead {
  size_t length;
  uint8_t second_min;
  uint8_t second_max;
};

Lead LeadOf(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

// `bytes` with invalid parts, and characters that `keep` rejects, replaced.
template <typename Keep>
std::string Replaced(std::string_view bytes, Keep keep) {
  std::string text;
  text.reserve(bytes.size());
  for (size_t at = 0; at < bytes.size();) {
    const Utf8Step step = StepUtf8(bytes, at);
    const bool kept = step.kind == Utf8Kind::kValid && keep(step.code_point);
    text.append(kept ? bytes.substr(at, step.length) : kReplacementCharacter);
    at += step.length;
  }
  return text;
}

}  // namespace

Utf8Step StepUtf8(std::string_view text, size_t at) {
  const auto first = static_cast<uint8_t>(text[at]);
  const Lead lead = LeadOf(first);
  if (lead.length == 0) return {Utf8Kind::kInvalid, 1, 0};
  if (lead.length == 1) return {Utf8Kind::kValid, 1, first};

  char32_t code_point = first & (0x7FU >> lead.length);
  for (size_t i = 1; i < lead.length; ++i) {
    if (at + i == text.size()) return {Utf8Kind::kTruncated, i, 0};
    const auto byte = static_cast<uint8_t>(text[at + i]);
    const uint8_t min = i == 1 ? lead.second_min : 0x80;
    const uint8_t max = i == 1 ? lead.second_max : 0xBF;
    if (byte < min || byte > max) return {Utf8Kind::kInvalid, i, 0};
    code_point = (code_point << 6U) | (byte & 0x3FU);
  }
  return {Utf8Kind::kValid, lead.length, code_point};
}

void AppendUtf8(char32_t code_point, std::string& text) {
  const auto tail = [&](unsigned shift) {
    text.push_back(static_cast<char>(0x80U | ((code_point >> shift) & 0x3FU)));
  };
  if (code_point < 0x80) {
    text.push_back(static_cast<char>(code_point));
  } else if (code_point < 0x800) {
    text.push_back(static_cast<char>(0xC0U | (code_point >> 6U)));
    tail(0);
  } else if (code_point < 0x10000) {
    text.push_back(static_cast<char>(0xE0U | (code_point >> 12U)));
    tail(6);
    tail(0);
  } else {
    text.push_back(static_cast<char>(0xF0U | (code_point >> 18U)));
    tail(12);
    tail(6);
    tail(0);
  }
}

std::string ReplaceInvalidUtf8(std::string_view bytes) {
  return Replaced(bytes, [](char32_t) { return true; });
}

std::string PrintableText(std::string_view bytes) {
  return Replaced(bytes, [](char32_t c) {
    const bool control = c < 0x20 || (c >= 0x7F && c <= 0x9F);
    const bool separates = c == 0x2028 || c == 0x2029;
    const bool reorders = c == 0x061C || c == 0x200E || c == 0x200F ||
                          (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
    // Invisible characters, and tag characters.
    const bool hides = c == 0x00AD || c == 0x200B || (c >= 0x2060 && c <= 0x2065) ||
                       (c >= 0x206A && c <= 0x206F) || c == 0xFEFF ||
                       (c >= 0xFFF9 && c <= 0xFFFB) || (c >= 0xE0000 && c <= 0xE007F);
    return !control && !separates && !reorders && !hides;
  });
}

bool IsValidUtf8(std::string_view bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const Utf8Step step = StepUtf8(bytes, at);
    if (step.kind != Utf8Kind::kValid) return false;
    at += step.length;
  }
  return true;
}

}  // namespace ropeway::base
