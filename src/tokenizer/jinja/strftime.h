// Dates as text.
#ifndef ROPEWAY_TOKENIZER_JINJA_STRFTIME_H_
#define ROPEWAY_TOKENIZER_JINJA_STRFTIME_H_

#include <ctime>
#include <string>
#include <string_view>

namespace ropeway::jinja {

// As the C library's strftime in the C locale. Throws std::invalid_argument for
// a conversion that is not in ISO C, and for those of a time zone.
std::string Strftime(std::string_view format, const std::tm& time);

}  // namespace ropeway::jinja

#endif  // ROPEWAY_TOKENIZER_JINJA_STRFTIME_H_
