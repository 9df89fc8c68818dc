// Upper and lower case, as Python's strings have them.
#ifndef ROPEWAY_TOKENIZER_JINJA_LETTER_CASE_H_
#define ROPEWAY_TOKENIZER_JINJA_LETTER_CASE_H_

#include <string>
#include <string_view>

namespace ropeway::jinja {

// str.upper(), lower(), capitalize() and title(). The result takes up to three
// times the bytes.
std::string Uppercase(std::string_view text);
std::string Lowercase(std::string_view text);
std::string Capitalized(std::string_view text);
std::string TitleCase(std::string_view text);

// str.isupper() and str.islower(), as far as the letters have two cases.
bool IsUppercase(std::string_view text);
bool IsLowercase(std::string_view text);

}  // namespace ropeway::jinja

#endif  // ROPEWAY_TOKENIZER_JINJA_LETTER_CASE_H_
