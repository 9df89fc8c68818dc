// Python's view of text: characters, not bytes.
#ifndef ROPEWAY_TOKENIZER_JINJA_CHARACTERS_H_
#define ROPEWAY_TOKENIZER_JINJA_CHARACTERS_H_

#include <cstddef>
#include <string_view>
#include <vector>

namespace ropeway::jinja {

// The characters of `text` (UTF-8; bytes that are not stand alone).
std::vector<std::string_view> Characters(std::string_view text);

// Their number.
size_t CountCharacters(std::string_view text);

// Python's str.isspace() of one character.
bool IsSpace(char32_t c);

// Python's str.lstrip() and str.rstrip(): without Unicode's white space at that
// end.
std::string_view StripLeft(std::string_view text);
std::string_view StripRight(std::string_view text);

// Where `part` first and last stands in `text` from byte `from` on; npos if
// nowhere. In linear time whatever the two are. REQUIRES: from <= text.size().
size_t FindText(std::string_view text, std::string_view part, size_t from = 0);
size_t FindLastText(std::string_view text, std::string_view part);

}  // namespace ropeway::jinja

#endif  // ROPEWAY_TOKENIZER_JINJA_CHARACTERS_H_
