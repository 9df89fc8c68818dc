#include "tokenizer/jinja/letter_case.h"

#include <algorithm>
#include <span>

#include "base/utf8.h"
#include "tokenizer/jinja/letter_case_table.h"

namespace ropeway::jinja {
namespace {

constexpr char32_t kSigma = 0x3A3;
constexpr char32_t kFinalSigma = 0x3C2;

constexpr bool AreInOrder(std::span<const Range> ranges) {
  for (size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].first <= ranges[i - 1].last) return false;
  }
  return true;
}
constexpr bool AreInOrder(std::span<const Expansion> expansions) {
  for (size_t i = 1; i < expansions.size(); ++i) {
    if (expansions[i].from <= expansions[i - 1].from) return false;
  }
  return true;
}
static_assert(AreInOrder(kUpperRanges) && AreInOrder(kLowerRanges) && AreInOrder(kTitleRanges));
static_assert(AreInOrder(kUpperExpansions) && AreInOrder(kLowerExpansions) &&
              AreInOrder(kTitleExpansions));

// Appends what `c` becomes; false where that is itself.
bool AppendMapped(std::span<const Range> ranges, std::span<const Expansion> expansions, char32_t c,
                  std::string& text) {
  const auto expansion =
      std::lower_bound(expansions.begin(), expansions.end(), c,
                       [](const Expansion& entry, char32_t from) { return entry.from < from; });
  if (expansion != expansions.end() && expansion->from == c) {
    for (const char32_t to : expansion->to) {
      if (to != 0) AppendUtf8(to, text);
    }
    return true;
  }
  const auto range =
      std::lower_bound(ranges.begin(), ranges.end(), c,
                       [](const Range& entry, char32_t from) { return entry.last < from; });
  if (range == ranges.end() || c < range->first || (c - range->first) % range->step != 0) {
    return false;
  }
  AppendUtf8(static_cast<char32_t>(static_cast<int32_t>(c) + range->delta), text);
  return true;
}

void AppendLower(char32_t c, std::string& text) {
  if (c < 0x80) {
    text += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : static_cast<char>(c);
  } else if (!AppendMapped(kLowerRanges, kLowerExpansions, c, text)) {
    AppendUtf8(c, text);
  }
}

void AppendUpper(char32_t c, std::string& text) {
  if (c < 0x80) {
    text += c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : static_cast<char>(c);
  } else if (!AppendMapped(kUpperRanges, kUpperExpansions, c, text)) {
    AppendUtf8(c, text);
  }
}

void AppendTitle(char32_t c, std::string& text) {
  if (c < 0x80 || !AppendMapped(kTitleRanges, kTitleExpansions, c, text)) AppendUpper(c, text);
}

bool HasUpper(char32_t c) {
  std::string unused;
  if (c < 0x80) return c >= 'a' && c <= 'z';
  return AppendMapped(kUpperRanges, kUpperExpansions, c, unused);
}

bool HasLower(char32_t c) {
  std::string unused;
  if (c < 0x80) return c >= 'A' && c <= 'Z';
  return AppendMapped(kLowerRanges, kLowerExpansions, c, unused);
}

bool IsCased(char32_t c) { return HasUpper(c) || HasLower(c); }

// Calls f(code point, its bytes, where the next character begins) for each
// character; bytes that are none have the code point 0.
template <typename F>
void ForEach(std::string_view text, F f) {
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = StepUtf8(text, at);
    const std::string_view bytes = text.substr(at, step.length);
    at += step.length;
    f(step.kind == Utf8Kind::kValid ? step.code_point : 0, bytes, at);
  }
}

bool CasedAt(std::string_view text, size_t at) {
  if (at >= text.size()) return false;
  const Utf8Step step = StepUtf8(text, at);
  return step.kind == Utf8Kind::kValid && IsCased(step.code_point);
}

// The lower case of the character, whose place in its word matters for one
// Greek letter.
void AppendLowerInWord(char32_t c, bool after_letter, bool before_letter, std::string& result) {
  AppendLower(c == kSigma && after_letter && !before_letter ? kFinalSigma : c, result);
}

// Each character by whether a cased one stands before it: str.title() and its
// like.
template <typename IsFirst>
std::string Recased(std::string_view text, IsFirst is_first) {
  std::string result;
  bool after_letter = false;
  ForEach(text, [&](char32_t c, std::string_view bytes, size_t next) {
    if (c == 0) {
      result += bytes;
    } else if (is_first(after_letter, next == bytes.size())) {
      AppendTitle(c, result);
    } else {
      AppendLowerInWord(c, after_letter, CasedAt(text, next), result);
    }
    after_letter = c != 0 && IsCased(c);
  });
  return result;
}

}  // namespace

std::string Uppercase(std::string_view text) {
  std::string result;
  ForEach(text, [&](char32_t c, std::string_view bytes, size_t) {
    if (c == 0) {
      result += bytes;
    } else {
      AppendUpper(c, result);
    }
  });
  return result;
}

std::string Lowercase(std::string_view text) {
  return Recased(text, [](bool, bool) { return false; });
}

std::string Capitalized(std::string_view text) {
  return Recased(text, [](bool, bool is_start) { return is_start; });
}

std::string TitleCase(std::string_view text) {
  return Recased(text, [](bool after_letter, bool) { return !after_letter; });
}

bool IsUppercase(std::string_view text) {
  bool any = false;
  bool all = true;
  ForEach(text, [&](char32_t c, std::string_view, size_t) {
    any |= c != 0 && HasLower(c);
    all &= c == 0 || !HasUpper(c);
  });
  return any && all;
}

bool IsLowercase(std::string_view text) {
  bool any = false;
  bool all = true;
  ForEach(text, [&](char32_t c, std::string_view, size_t) {
    any |= c != 0 && HasUpper(c);
    all &= c == 0 || !HasLower(c);
  });
  return any && all;
}

}  // namespace ropeway::jinja
