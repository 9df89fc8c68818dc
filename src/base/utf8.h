// UTF-8, one character at a time.
#ifndef ROPEWAY_BASE_UTF8_H_
#define ROPEWAY_BASE_UTF8_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace ropeway::base {

enum class Utf8Kind {
  kValid,      // A whole character.
  kInvalid,    // Bytes that no continuation can make valid.
  kTruncated,  // The text ends inside what may still become a character.
};

struct Utf8Step {
  Utf8Kind kind = Utf8Kind::kValid;
  // Number of bytes, 1 to 4. For kInvalid and kTruncated the maximal subpart (Unicode, 3.9): the
  // longest beginning of a well-formed character, else one byte. A "replace" decoder writes one
  // U+FFFD for each.
  size_t length = 0;
  char32_t code_point = 0;  // For kValid.
};

// Decodes the character at text[at]. REQUIRES: at < text.size().
Utf8Step StepUtf8(std::string_view text, size_t at);

// Appends the character. REQUIRES: code_point is a Unicode scalar value.
void AppendUtf8(char32_t code_point, std::string& text);

// U+FFFD, which replaces bytes that are not UTF-8.
inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

// `bytes` with each maximal subpart of invalid UTF-8 replaced by U+FFFD.
std::string ReplaceInvalidUtf8(std::string_view bytes);

// ReplaceInvalidUtf8 with control characters (C0, DEL, C1), separators of lines and what changes
// the direction of text replaced too, to quote files, requests and servers on a terminal or in a
// log.
std::string PrintableText(std::string_view bytes);

// Whether `bytes` is valid UTF-8.
bool IsValidUtf8(std::string_view bytes);

}  // namespace ropeway::base

#endif  // ROPEWAY_BASE_UTF8_H_
