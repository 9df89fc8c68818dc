// Parses a template.
#ifndef ROPEWAY_TOKENIZER_JINJA_PARSER_H_
#define ROPEWAY_TOKENIZER_JINJA_PARSER_H_

#include <string_view>

#include "tokenizer/jinja/ast.h"

namespace ropeway::jinja {

// The statements of `source`. Throws Error, with the line, at whatever is wrong
// or not supported.
Body Parse(std::string_view source);

}  // namespace ropeway::jinja

#endif  // ROPEWAY_TOKENIZER_JINJA_PARSER_H_
