#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <span>

#include "base/utf8.h"
#include "tokenizer/jinja/text.h"

namespace ropeway::tokenizer::jinja {
namespace {

// utf8proc knows the letters whose other case is one letter. The rest is of Unicode 14, generated
// from Python 3.11's str.upper, lower and title.

// Each character from `first` to `last` maps to several; 0 ends them. The first of these counts up.
struct CaseExpansion {
  char32_t first;
  char32_t last;
  std::array<char32_t, 3> to;
};

// clang-format off
constexpr CaseExpansion kUpperExpansions[] = {
  {0xDF, 0xDF, {0x53, 0x53}}, {0x149, 0x149, {0x2BC, 0x4E}}, {0x1F0, 0x1F0, {0x4A, 0x30C}},
  {0x390, 0x390, {0x399, 0x308, 0x301}}, {0x3B0, 0x3B0, {0x3A5, 0x308, 0x301}},
  {0x587, 0x587, {0x535, 0x552}}, {0x1E96, 0x1E96, {0x48, 0x331}}, {0x1E97, 0x1E97, {0x54, 0x308}},
  {0x1E98, 0x1E98, {0x57, 0x30A}}, {0x1E99, 0x1E99, {0x59, 0x30A}}, {0x1E9A, 0x1E9A, {0x41, 0x2BE}},
  {0x1F50, 0x1F50, {0x3A5, 0x313}}, {0x1F52, 0x1F52, {0x3A5, 0x313, 0x300}},
  {0x1F54, 0x1F54, {0x3A5, 0x313, 0x301}}, {0x1F56, 0x1F56, {0x3A5, 0x313, 0x342}},
  {0x1F80, 0x1F87, {0x1F08, 0x399}}, {0x1F88, 0x1F8F, {0x1F08, 0x399}},
  {0x1F90, 0x1F97, {0x1F28, 0x399}}, {0x1F98, 0x1F9F, {0x1F28, 0x399}},
  {0x1FA0, 0x1FA7, {0x1F68, 0x399}}, {0x1FA8, 0x1FAF, {0x1F68, 0x399}},
  {0x1FB2, 0x1FB2, {0x1FBA, 0x399}}, {0x1FB3, 0x1FB3, {0x391, 0x399}},
  {0x1FB4, 0x1FB4, {0x386, 0x399}}, {0x1FB6, 0x1FB6, {0x391, 0x342}},
  {0x1FB7, 0x1FB7, {0x391, 0x342, 0x399}}, {0x1FBC, 0x1FBC, {0x391, 0x399}},
  {0x1FC2, 0x1FC2, {0x1FCA, 0x399}}, {0x1FC3, 0x1FC3, {0x397, 0x399}},
  {0x1FC4, 0x1FC4, {0x389, 0x399}}, {0x1FC6, 0x1FC6, {0x397, 0x342}},
  {0x1FC7, 0x1FC7, {0x397, 0x342, 0x399}}, {0x1FCC, 0x1FCC, {0x397, 0x399}},
  {0x1FD2, 0x1FD2, {0x399, 0x308, 0x300}}, {0x1FD3, 0x1FD3, {0x399, 0x308, 0x301}},
  {0x1FD6, 0x1FD6, {0x399, 0x342}}, {0x1FD7, 0x1FD7, {0x399, 0x308, 0x342}},
  {0x1FE2, 0x1FE2, {0x3A5, 0x308, 0x300}}, {0x1FE3, 0x1FE3, {0x3A5, 0x308, 0x301}},
  {0x1FE4, 0x1FE4, {0x3A1, 0x313}}, {0x1FE6, 0x1FE6, {0x3A5, 0x342}},
  {0x1FE7, 0x1FE7, {0x3A5, 0x308, 0x342}}, {0x1FF2, 0x1FF2, {0x1FFA, 0x399}},
  {0x1FF3, 0x1FF3, {0x3A9, 0x399}}, {0x1FF4, 0x1FF4, {0x38F, 0x399}},
  {0x1FF6, 0x1FF6, {0x3A9, 0x342}}, {0x1FF7, 0x1FF7, {0x3A9, 0x342, 0x399}},
  {0x1FFC, 0x1FFC, {0x3A9, 0x399}}, {0xFB00, 0xFB00, {0x46, 0x46}}, {0xFB01, 0xFB01, {0x46, 0x49}},
  {0xFB02, 0xFB02, {0x46, 0x4C}}, {0xFB03, 0xFB03, {0x46, 0x46, 0x49}},
  {0xFB04, 0xFB04, {0x46, 0x46, 0x4C}}, {0xFB05, 0xFB05, {0x53, 0x54}},
  {0xFB06, 0xFB06, {0x53, 0x54}}, {0xFB13, 0xFB13, {0x544, 0x546}},
  {0xFB14, 0xFB14, {0x544, 0x535}}, {0xFB15, 0xFB15, {0x544, 0x53B}},
  {0xFB16, 0xFB16, {0x54E, 0x546}}, {0xFB17, 0xFB17, {0x544, 0x53D}},
};
constexpr CaseExpansion kLowerExpansions[] = {
  {0x130, 0x130, {0x69, 0x307}},
};
constexpr CaseExpansion kTitleExpansions[] = {
  {0xDF, 0xDF, {0x53, 0x73}}, {0x149, 0x149, {0x2BC, 0x4E}}, {0x1F0, 0x1F0, {0x4A, 0x30C}},
  {0x390, 0x390, {0x399, 0x308, 0x301}}, {0x3B0, 0x3B0, {0x3A5, 0x308, 0x301}},
  {0x587, 0x587, {0x535, 0x582}}, {0x1E96, 0x1E96, {0x48, 0x331}}, {0x1E97, 0x1E97, {0x54, 0x308}},
  {0x1E98, 0x1E98, {0x57, 0x30A}}, {0x1E99, 0x1E99, {0x59, 0x30A}}, {0x1E9A, 0x1E9A, {0x41, 0x2BE}},
  {0x1F50, 0x1F50, {0x3A5, 0x313}}, {0x1F52, 0x1F52, {0x3A5, 0x313, 0x300}},
  {0x1F54, 0x1F54, {0x3A5, 0x313, 0x301}}, {0x1F56, 0x1F56, {0x3A5, 0x313, 0x342}},
  {0x1FB2, 0x1FB2, {0x1FBA, 0x345}}, {0x1FB4, 0x1FB4, {0x386, 0x345}},
  {0x1FB6, 0x1FB6, {0x391, 0x342}}, {0x1FB7, 0x1FB7, {0x391, 0x342, 0x345}},
  {0x1FC2, 0x1FC2, {0x1FCA, 0x345}}, {0x1FC4, 0x1FC4, {0x389, 0x345}},
  {0x1FC6, 0x1FC6, {0x397, 0x342}}, {0x1FC7, 0x1FC7, {0x397, 0x342, 0x345}},
  {0x1FD2, 0x1FD2, {0x399, 0x308, 0x300}}, {0x1FD3, 0x1FD3, {0x399, 0x308, 0x301}},
  {0x1FD6, 0x1FD6, {0x399, 0x342}}, {0x1FD7, 0x1FD7, {0x399, 0x308, 0x342}},
  {0x1FE2, 0x1FE2, {0x3A5, 0x308, 0x300}}, {0x1FE3, 0x1FE3, {0x3A5, 0x308, 0x301}},
  {0x1FE4, 0x1FE4, {0x3A1, 0x313}}, {0x1FE6, 0x1FE6, {0x3A5, 0x342}},
  {0x1FE7, 0x1FE7, {0x3A5, 0x308, 0x342}}, {0x1FF2, 0x1FF2, {0x1FFA, 0x345}},
  {0x1FF4, 0x1FF4, {0x38F, 0x345}}, {0x1FF6, 0x1FF6, {0x3A9, 0x342}},
  {0x1FF7, 0x1FF7, {0x3A9, 0x342, 0x345}}, {0xFB00, 0xFB00, {0x46, 0x66}},
  {0xFB01, 0xFB01, {0x46, 0x69}}, {0xFB02, 0xFB02, {0x46, 0x6C}},
  {0xFB03, 0xFB03, {0x46, 0x66, 0x69}}, {0xFB04, 0xFB04, {0x46, 0x66, 0x6C}},
  {0xFB05, 0xFB05, {0x53, 0x74}}, {0xFB06, 0xFB06, {0x53, 0x74}}, {0xFB13, 0xFB13, {0x544, 0x576}},
  {0xFB14, 0xFB14, {0x544, 0x565}}, {0xFB15, 0xFB15, {0x544, 0x56B}},
  {0xFB16, 0xFB16, {0x54E, 0x576}}, {0xFB17, 0xFB17, {0x544, 0x56D}},
};
// clang-format on

constexpr char32_t kSigma = 0x3A3;
constexpr char32_t kFinalSigma = 0x3C2;

struct CaseMap {
  utf8proc_int32_t (*letter)(utf8proc_int32_t);
  std::span<const CaseExpansion> expansions;
};
constexpr CaseMap kUpper = {utf8proc_toupper, kUpperExpansions};
constexpr CaseMap kLower = {utf8proc_tolower, kLowerExpansions};
constexpr CaseMap kTitle = {utf8proc_totitle, kTitleExpansions};

// nullptr: none.
const CaseExpansion* FindExpansion(const CaseMap& map, char32_t c) {
  const auto at = std::ranges::lower_bound(map.expansions, c, {}, &CaseExpansion::last);
  return c < 0x80 || at == map.expansions.end() || c < at->first ? nullptr : &*at;
}

char32_t MappedLetter(const CaseMap& map, char32_t c) {
  return static_cast<char32_t>(map.letter(static_cast<utf8proc_int32_t>(c)));
}

void AppendMapped(const CaseMap& map, char32_t c, std::string& text) {
  const CaseExpansion* expansion = FindExpansion(map, c);
  if (expansion == nullptr) return base::AppendUtf8(MappedLetter(map, c), text);
  base::AppendUtf8(expansion->to[0] + (c - expansion->first), text);
  for (const char32_t to : {expansion->to[1], expansion->to[2]}) {
    if (to != 0) base::AppendUtf8(to, text);
  }
}

bool Changes(const CaseMap& map, char32_t c) {
  return FindExpansion(map, c) != nullptr || MappedLetter(map, c) != c;
}

bool IsCased(char32_t c) { return Changes(kUpper, c) || Changes(kLower, c); }

// Calls f(code point, its bytes, the position of the next character) for each character; invalid
// bytes have the code point 0.
template <typename F>
void ForEachCharacter(std::string_view text, F f) {
  for (size_t at = 0; at < text.size();) {
    const base::Utf8Step step = base::StepUtf8(text, at);
    const std::string_view bytes = text.substr(at, step.length);
    at += step.length;
    f(step.kind == base::Utf8Kind::kValid ? step.code_point : 0, bytes, at);
  }
}

bool CasedAt(std::string_view text, size_t at) {
  if (at >= text.size()) return false;
  const base::Utf8Step step = base::StepUtf8(text, at);
  return step.kind == base::Utf8Kind::kValid && IsCased(step.code_point);
}

// The lower case of a character. That of one Greek letter depends on its position in the word.
void AppendLowerInWord(char32_t c, bool after_letter, bool before_letter, std::string& result) {
  AppendMapped(kLower, c == kSigma && after_letter && !before_letter ? kFinalSigma : c, result);
}

// Upper or lower case by whether a cased character comes before: str.title() and so on.
template <typename IsFirst>
std::string Recased(std::string_view text, IsFirst is_first) {
  std::string result;
  bool after_letter = false;
  ForEachCharacter(text, [&](char32_t c, std::string_view bytes, size_t next) {
    if (c == 0) {
      result += bytes;
    } else if (is_first(after_letter, next == bytes.size())) {
      AppendMapped(kTitle, c, result);
    } else {
      AppendLowerInWord(c, after_letter, CasedAt(text, next), result);
    }
    after_letter = c != 0 && IsCased(c);
  });
  return result;
}

// Whether `text` has letters in the case that `own` maps to, and none that `own` would change.
bool IsInCase(std::string_view text, const CaseMap& own, const CaseMap& other) {
  bool any = false;
  bool all = true;
  ForEachCharacter(text, [&](char32_t c, std::string_view, size_t) {
    any |= c != 0 && Changes(other, c);
    all &= c == 0 || !Changes(own, c);
  });
  return any && all;
}

}  // namespace

std::string Uppercase(std::string_view text) {
  std::string result;
  ForEachCharacter(text, [&](char32_t c, std::string_view bytes, size_t) {
    if (c == 0) {
      result += bytes;
    } else {
      AppendMapped(kUpper, c, result);
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

std::string JinjaTitle(std::string_view text) {
  std::string result;
  size_t begin = 0;
  const auto add_word = [&](size_t end) {
    const std::string_view word = text.substr(begin, end - begin);
    const size_t first = word.empty() ? 0 : Characters(word.substr(0, 4))[0].size();
    result += Uppercase(word.substr(0, first)) + Lowercase(word.substr(first));
  };
  for (size_t at = 0; at < text.size();) {
    const size_t length = Characters(text.substr(at, 4))[0].size();
    const std::string_view character = text.substr(at, length);
    const bool splits =
        StripLeft(character).empty() ||
        (length == 1 && std::string_view("-({[<").find(character[0]) != std::string_view::npos);
    if (splits) {
      add_word(at);
      result += character;
      begin = at + length;
    }
    at += length;
  }
  add_word(text.size());
  return result;
}

bool IsUppercase(std::string_view text) { return IsInCase(text, kUpper, kLower); }
bool IsLowercase(std::string_view text) { return IsInCase(text, kLower, kUpper); }

}  // namespace ropeway::tokenizer::jinja
