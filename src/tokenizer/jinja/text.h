// Values as text, as Python writes them.
#ifndef ROPEWAY_TOKENIZER_JINJA_TEXT_H_
#define ROPEWAY_TOKENIZER_JINJA_TEXT_H_

#include <string>

#include "tokenizer/jinja/context.h"
#include "tokenizer/jinja/value.h"

namespace ropeway::jinja {

// str(value): as {{ value }} and ~ write it. Throws std::invalid_argument for
// what has no text that would be the same in Python.
std::string ToText(const Value& value, Context& context);

// repr(value): as a list writes its items.
std::string ToRepr(const Value& value, Context& context);

// repr(float): the shortest digits that read back as the same number.
std::string FloatText(double value);

}  // namespace ropeway::jinja

#endif  // ROPEWAY_TOKENIZER_JINJA_TEXT_H_
