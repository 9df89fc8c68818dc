#include "tokenizer/jinja/text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "base/utf8.h"

namespace ropeway::tokenizer::jinja {
namespace {

// Python's str.isspace().
bool IsSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

std::string ScalarText(const Value& value) {
  if (value.is_undefined()) return "";
  if (value.is_none()) return "None";
  if (value.is_bool()) return value.Truth() ? "True" : "False";
  if (value.is_integer()) return std::to_string(value.integer());
  if (value.is_float()) return FloatText(value.number());
  Reject(std::string("writing ") + value.TypeName() + " as text is not supported");
}

void AppendHex(const char* format, char32_t c, std::string& text) {
  std::array<char, 16> buffer{};
  const int size = std::snprintf(buffer.data(), buffer.size(), format, static_cast<unsigned>(c));
  text.append(buffer.data(), static_cast<size_t>(size));
}

// Whether Python's repr() writes the character as it is and not as an escape: it escapes controls,
// unusual spaces and private use. (It also escapes code points that its Unicode does not know.)
bool IsPrintable(char32_t c) {
  if (c < 0x7F) return c >= 0x20;
  if (c <= 0xA0 || c == 0xAD || c == 0x1680) return false;
  const bool format = c == 0x61C || c == 0x180E || c == 0xFEFF || (c >= 0x600 && c <= 0x605) ||
                      c == 0x6DD || c == 0x70F || (c >= 0x200B && c <= 0x200F) ||
                      (c >= 0x2060 && c <= 0x206F) || (c >= 0xFFF0 && c <= 0xFFFB) ||
                      (c >= 0xE0000 && c <= 0xE0FFF);
  const bool space =
      (c >= 0x2000 && c <= 0x200A) || (c >= 0x2028 && c <= 0x202F) || c == 0x205F || c == 0x3000;
  const bool none = (c >= 0xE000 && c <= 0xF8FF) || c >= 0xF0000 || (c & 0xFFFEU) == 0xFFFEU;
  return !format && !space && !none;
}

void AppendStringRepr(const Str& value, StrBuilder& text) {
  const bool has_single = value.text.find('\'') != std::string::npos;
  const bool is_double = has_single && value.text.find('"') == std::string::npos;
  const char quote = is_double ? '"' : '\'';
  const std::string_view mark = is_double ? "\"" : "'";
  text.Add(mark);
  const std::string_view whole = value.text;
  size_t plain = 0;  // The beginning of the text that needs no escape.
  for (size_t at = 0; at < whole.size();) {
    const base::Utf8Step step = base::StepUtf8(whole, at);
    const std::string_view bytes = whole.substr(at, step.length);
    const char32_t c = step.code_point;
    const bool is_plain = step.kind != base::Utf8Kind::kValid ||
                          (c != static_cast<char32_t>(quote) && c != '\\' && IsPrintable(c));
    at += step.length;
    if (is_plain) continue;
    std::string escape;
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      (escape = '\\') += bytes;
    } else if (c == '\n' || c == '\r' || c == '\t') {
      escape = c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else {
      AppendHex(c <= 0xFF ? "\\x%02x" : c <= 0xFFFF ? "\\u%04x" : "\\U%08x", c, escape);
    }
    const size_t begin = at - step.length;
    text.AddPart(value, whole.substr(plain, begin - plain));
    text.Add(escape, AnyQuoted(value, bytes));
    plain = at;
  }
  text.AddPart(value, whole.substr(plain));
  text.Add(mark);
}

void AppendRepr(const Value& value, Context& context, StrBuilder& text) {
  if (value.is_string()) {
    // An escape takes ten bytes for one at worst.
    context.Charge(4 * value.string().size() + 2);
    if (value.is_safe()) Reject("a safe string within a list is not supported");
    AppendStringRepr(value.str(), text);
  } else if (value.is_list()) {
    context.Charge(2 + 2 * value.list().size());
    text.Add(value.is_tuple() ? "(" : "[");
    for (size_t i = 0; i < value.list().size(); ++i) {
      if (i > 0) text.Add(", ");
      AppendRepr(value.list()[i], context, text);
    }
    if (value.is_tuple() && value.list().size() == 1) text.Add(",");
    text.Add(value.is_tuple() ? ")" : "]");
  } else if (value.is_dict()) {
    context.Charge(2 + 4 * value.dict().size());
    text.Add("{");
    bool first = true;
    for (const auto& [key, item] : value.dict()) {
      if (!first) text.Add(", ");
      first = false;
      AppendRepr(key, context, text);
      text.Add(": ");
      AppendRepr(item, context, text);
    }
    text.Add("}");
  } else {
    const std::string scalar = value.is_undefined() ? "Undefined" : ScalarText(value);
    context.Charge(scalar.size());
    text.Add(scalar);
  }
}

}  // namespace

std::vector<std::string_view> Characters(std::string_view text) {
  std::vector<std::string_view> characters;
  for (size_t at = 0; at < text.size();) {
    const size_t length = base::StepUtf8(text, at).length;
    characters.push_back(text.substr(at, length));
    at += length;
  }
  return characters;
}

size_t CountCharacters(std::string_view text) {
  size_t count = 0;
  for (size_t at = 0; at < text.size(); ++count) at += base::StepUtf8(text, at).length;
  return count;
}

bool IsSpaceAt(std::string_view text, size_t at) {
  const base::Utf8Step step = base::StepUtf8(text, at);
  return step.kind == base::Utf8Kind::kValid && IsSpace(step.code_point);
}

std::string_view StripLeft(std::string_view text) {
  while (!text.empty()) {
    const base::Utf8Step step = base::StepUtf8(text, 0);
    if (step.kind != base::Utf8Kind::kValid || !IsSpace(step.code_point)) break;
    text.remove_prefix(step.length);
  }
  return text;
}

std::string_view StripRight(std::string_view text) {
  while (!text.empty()) {
    size_t at = text.size() - 1;
    while (at > 0 && text.size() - at < 4 && (static_cast<uint8_t>(text[at]) & 0xC0U) == 0x80U)
      --at;
    const base::Utf8Step step = base::StepUtf8(text, at);
    const bool whole = step.kind == base::Utf8Kind::kValid && at + step.length == text.size();
    if (!whole || !IsSpace(step.code_point)) break;
    text.remove_suffix(step.length);
  }
  return text;
}

size_t FindText(std::string_view text, std::string_view part, size_t from) {
  // std::string_view::find takes time proportional to the product of both sizes at worst.
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

Str ToText(const Value& value, Context& context) {
  if (value.is_string()) {
    context.Charge(value.string().size() + value.str().quoted.size() * sizeof(Span));
    return value.str();
  }
  if (value.is_list() || value.is_dict()) return ToRepr(value, context);
  return {ScalarText(value)};
}

Str ToRepr(const Value& value, Context& context) {
  StrBuilder text(&context);
  AppendRepr(value, context, text);
  return text.Take();
}

std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  // "d.ddde+XX", the shortest form. Python writes an exponent only below 1e-4 and from 1e16 on.
  std::array<char, 40> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 std::chars_format::scientific);
  std::string text(buffer.data(), end.ptr);
  const size_t e = text.find('e');
  const int exponent = std::stoi(text.substr(e + 1));
  if (exponent < -4 || exponent >= 16) return text;

  const std::string sign = text[0] == '-' ? "-" : "";
  std::string digits;
  for (const char c : text.substr(0, e)) {
    if (c >= '0' && c <= '9') digits += c;
  }
  if (exponent < 0)
    return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  const size_t whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() < whole) digits.append(whole - digits.size(), '0');
  const std::string fraction = digits.size() > whole ? digits.substr(whole) : "0";
  return sign + digits.substr(0, whole) + "." + fraction;
}

}  // namespace ropeway::tokenizer::jinja
