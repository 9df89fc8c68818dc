// Runs a parsed template.
#ifndef ROPEWAY_TOKENIZER_JINJA_INTERPRETER_H_
#define ROPEWAY_TOKENIZER_JINJA_INTERPRETER_H_

#include <string>
#include <utility>
#include <vector>

#include "tokenizer/jinja/ast.h"
#include "tokenizer/jinja/context.h"

namespace ropeway::jinja {

using Globals = std::vector<std::pair<std::string, Value>>;

// The text of `body` with the variables `globals`. Throws Raised where the
// template calls raise_exception, and Error where it does what cannot be done,
// or more than `context` allows.
std::string Render(const Body& body, const Globals& globals, Context& context);

}  // namespace ropeway::jinja

#endif  // ROPEWAY_TOKENIZER_JINJA_INTERPRETER_H_
