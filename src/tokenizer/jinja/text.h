// Text as Python has it: characters and letter case, values written as text or JSON, formats.
#ifndef ROPEWAY_TOKENIZER_JINJA_TEXT_H_
#define ROPEWAY_TOKENIZER_JINJA_TEXT_H_

#include <cstddef>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/jinja/value.h"

namespace ropeway::tokenizer::jinja {

inline bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// The characters of `text` (UTF-8; each invalid byte counts as one), and their number.
std::vector<std::string_view> Characters(std::string_view text);
size_t CountCharacters(std::string_view text);

// Python's str.isspace() of the character at text[at].
bool IsSpaceAt(std::string_view text, size_t at);

// str.lstrip() and str.rstrip(): without Unicode's white space at that end.
std::string_view StripLeft(std::string_view text);
std::string_view StripRight(std::string_view text);

// The first and the last position of `part` in `text`, from byte `from` on; npos: none. Linear
// time. REQUIRES: from <= text.size().
size_t FindText(std::string_view text, std::string_view part, size_t from = 0);
size_t FindLastText(std::string_view text, std::string_view part);

// str.upper(), lower(), capitalize() and title(). The result takes up to kMaxCaseGrowth times the
// bytes.
inline constexpr size_t kMaxCaseGrowth = 3;
std::string Uppercase(std::string_view text);
std::string Lowercase(std::string_view text);
std::string Capitalized(std::string_view text);
std::string TitleCase(std::string_view text);
// Jinja's filter title: a word begins after white space or an opening bracket.
std::string JinjaTitle(std::string_view text);

// str.isupper() and str.islower(), for letters that have two cases.
bool IsUppercase(std::string_view text);
bool IsLowercase(std::string_view text);

// str(value): what {{ value }} and ~ write. Throws std::invalid_argument for values whose text
// would differ from Python's.
Str ToText(const Value& value, Context& context);
// repr(value): how a list writes its items.
Str ToRepr(const Value& value, Context& context);
// repr(float): the shortest digits that read back as the same number.
std::string FloatText(double value);

// format % values: %s %r %d %i %f %x %X %%, with flags, width and precision. Throws
// std::invalid_argument for other conversions.
Str FormatPercent(const Str& format, const Value& values, Context& context);

// The C library's strftime in the C locale. Throws std::invalid_argument for conversions that are
// not in ISO C, and for conversions of a time zone.
std::string Strftime(std::string_view format, const std::tm& time);

// The options of Python's json.dumps.
struct JsonStyle {
  bool ensure_ascii = false;
  std::optional<Str> indent;  // One level's indentation.
  Str item_separator = {", "};
  Str key_separator = {": "};
  bool sort_keys = false;
};

// Throws std::invalid_argument for values that JSON cannot represent.
Str ToJson(const Value& value, const JsonStyle& style, Context& context);
// The value of a JSON text, whose strings are all quoted if a part of the text is. Throws
// std::invalid_argument for any other text.
Value FromJson(const Str& text, Context& context);

}  // namespace ropeway::tokenizer::jinja

#endif  // ROPEWAY_TOKENIZER_JINJA_TEXT_H_
