// Runs a parsed template.
#ifndef ROPEWAY_TOKENIZER_JINJA_INTERPRETER_H_
#define ROPEWAY_TOKENIZER_JINJA_INTERPRETER_H_

#include <string>

#include "tokenizer/jinja_ast.h"
#include "tokenizer/jinja_builtins.h"

namespace ropeway::jinja {

// The text of `body` with the variables `globals`. Throws Raised where the template calls
// raise_exception, and Error where it does what cannot be done, or more than `budget` allows.
std::string Render(const Body& body, Dict globals, Budget budget);

}  // namespace ropeway::jinja

#endif  // ROPEWAY_TOKENIZER_JINJA_INTERPRETER_H_
