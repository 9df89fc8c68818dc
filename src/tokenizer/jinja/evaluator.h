// Evaluates expressions, for the interpreter.
#ifndef ROPEWAY_TOKENIZER_JINJA_EVALUATOR_H_
#define ROPEWAY_TOKENIZER_JINJA_EVALUATOR_H_

#include <functional>
#include <stdexcept>
#include <utility>

#include "tokenizer/jinja/ast.h"
#include "tokenizer/jinja/builtin.h"
#include "tokenizer/jinja/context.h"
#include "tokenizer/jinja/error.h"
#include "tokenizer/jinja/scope.h"

namespace ropeway::jinja {

// Runs `action`, whose complaints know no line, and says the line where it
// fails.
template <typename Action>
auto Guarded(int line, Action action) {
  try {
    return action();
  } catch (const std::logic_error& error) {
    throw Error(line, error.what());
  }
}

class Evaluator {
 public:
  // Calls a macro of the template.
  using CallMacro = std::function<Value(int line, const Callable& macro, CallArguments arguments)>;

  // `context` must outlive the evaluator.
  Evaluator(Context& context, CallMacro call_macro)
      : context_(context), call_macro_(std::move(call_macro)) {}

  // With the variables of `scope`. Throws Error and Raised.
  Value Evaluate(const Expression& expression, const Scope& scope);

  // `extra`, where not null, is one more named argument.
  Value EvaluateCall(const Expression& call, const Scope& scope,
                     const std::pair<std::string_view, Value>* extra);

 private:
  Value Visit(int line, const Literal& node, const Scope& scope);
  Value Visit(int line, const Name& node, const Scope& scope);
  Value Visit(int line, const ListDisplay& node, const Scope& scope);
  Value Visit(int line, const DictDisplay& node, const Scope& scope);
  Value Visit(int line, const Attribute& node, const Scope& scope);
  Value Visit(int line, const Item& node, const Scope& scope);
  Value Visit(int line, const Slice& node, const Scope& scope);
  Value Visit(int line, const Apply& node, const Scope& scope);
  Value Visit(int line, const Call& node, const Scope& scope);
  Value Visit(int line, const Not& node, const Scope& scope);
  Value Visit(int line, const Negative& node, const Scope& scope);
  Value Visit(int line, const And& node, const Scope& scope);
  Value Visit(int line, const Or& node, const Scope& scope);
  Value Visit(int line, const Arithmetic& node, const Scope& scope);
  Value Visit(int line, const Concatenation& node, const Scope& scope);
  Value Visit(int line, const Comparison& node, const Scope& scope);
  Value Visit(int line, const Conditional& node, const Scope& scope);

  CallArguments EvaluateArguments(const ArgumentList& arguments, const Scope& scope);
  Value CallValue(int line, const Value& callee, CallArguments arguments);

  Context& context_;
  const CallMacro call_macro_;
};

}  // namespace ropeway::jinja

#endif  // ROPEWAY_TOKENIZER_JINJA_EVALUATOR_H_
