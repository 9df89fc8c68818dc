// Python's two ways to fill in a text.
#ifndef ROPEWAY_TOKENIZER_JINJA_FORMAT_STRING_H_
#define ROPEWAY_TOKENIZER_JINJA_FORMAT_STRING_H_

#include <string>

#include "tokenizer/jinja/builtin.h"
#include "tokenizer/jinja/context.h"
#include "tokenizer/jinja/value.h"

namespace ropeway::jinja {

// format % values: %s %r %d %i %f %x %X %%, with flags, width and precision.
// Throws std::invalid_argument for other conversions.
std::string FormatPercent(const std::string& format, const Value& values, Context& context);

// format.format(...): {}, {0} and {name}, without conversions or format
// specifications. Throws std::invalid_argument for those.
std::string FormatBraces(const std::string& format, const Arguments& arguments, Context& context);

}  // namespace ropeway::jinja

#endif  // ROPEWAY_TOKENIZER_JINJA_FORMAT_STRING_H_
