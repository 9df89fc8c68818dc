#include "tokenizer/jinja/characters.h"

#include <cstring>
#include <string>

#include "base/utf8.h"

namespace ropeway::jinja {

// Python's str.isspace().
bool IsSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

std::vector<std::string_view> Characters(std::string_view text) {
  std::vector<std::string_view> characters;
  for (size_t at = 0; at < text.size();) {
    const size_t length = StepUtf8(text, at).length;
    characters.push_back(text.substr(at, length));
    at += length;
  }
  return characters;
}

size_t CountCharacters(std::string_view text) {
  size_t count = 0;
  for (size_t at = 0; at < text.size(); ++count) at += StepUtf8(text, at).length;
  return count;
}

std::string_view StripLeft(std::string_view text) {
  while (!text.empty()) {
    const Utf8Step step = StepUtf8(text, 0);
    if (step.kind != Utf8Kind::kValid || !IsSpace(step.code_point)) break;
    text.remove_prefix(step.length);
  }
  return text;
}

std::string_view StripRight(std::string_view text) {
  while (!text.empty()) {
    size_t at = text.size() - 1;
    while (at > 0 && text.size() - at < 4 && (static_cast<uint8_t>(text[at]) & 0xC0U) == 0x80U)
      --at;
    const Utf8Step step = StepUtf8(text, at);
    const bool whole = step.kind == Utf8Kind::kValid && at + step.length == text.size();
    if (!whole || !IsSpace(step.code_point)) break;
    text.remove_suffix(step.length);
  }
  return text;
}

size_t FindText(std::string_view text, std::string_view part, size_t from) {
  // Not std::string_view::find, which takes the product of both sizes at worst.
  const void* const found =
      memmem(text.data() + from, text.size() - from, part.data(), part.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

size_t FindLastText(std::string_view text, std::string_view part) {
  const std::string reversed_text(text.rbegin(), text.rend());
  const std::string reversed_part(part.rbegin(), part.rend());
  const size_t found = FindText(reversed_text, reversed_part);
  return found == std::string_view::npos ? found : text.size() - found - part.size();
}

}  // namespace ropeway::jinja
