// Evaluates expressions, for the interpreter.
#ifndef ROPEWAY_TOKENIZER_JINJA_EVALUATOR_H_
#define ROPEWAY_TOKENIZER_JINJA_EVALUATOR_H_

#include <stdexcept>
#include <vector>

#include "tokenizer/jinja_ast.h"
#include "tokenizer/jinja_builtins.h"
#include "tokenizer/jinja_error.h"

namespace ropeway::jinja {

// Variables: innermost scope last.
using Scopes = std::vector<Dict>;

// Runs `action`, whose complaints know no line, and says the line where it fails.
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
  // Both must outlive the evaluator.
  Evaluator(const Scopes& scopes, Budget& budget) : scopes_(scopes), budget_(budget) {}

  // Throws Error and Raised.
  Value Evaluate(const Expression& expression);

  // What a loop over `value` goes through. Throws std::invalid_argument.
  List ToList(const Value& value);

 private:
  Value Visit(int line, const Literal& node);
  Value Visit(int line, const Name& node);
  Value Visit(int line, const ListDisplay& node);
  Value Visit(int line, const DictDisplay& node);
  Value Visit(int line, const Attribute& node);
  Value Visit(int line, const Item& node);
  Value Visit(int line, const Slice& node);
  Value Visit(int line, const RaiseException& node);
  Value Visit(int line, const Apply& node);
  Value Visit(int line, const Not& node);
  Value Visit(int line, const Negative& node);
  Value Visit(int line, const And& node);
  Value Visit(int line, const Or& node);
  Value Visit(int line, const Arithmetic& node);
  Value Visit(int line, const Comparison& node);
  Value Visit(int line, const Conditional& node);

  // These throw std::invalid_argument.
  Value ItemOf(const Value& object, const Value& key);
  Value Add(const Value& left, const Value& right);
  Value Compute(ArithmeticOperator op, const Value& left, const Value& right);
  bool Compare(ComparisonOperator op, const Value& left, const Value& right);
  bool Contains(const Value& container, const Value& value);

  const Scopes& scopes_;
  Budget& budget_;
};

}  // namespace ropeway::jinja

#endif  // ROPEWAY_TOKENIZER_JINJA_EVALUATOR_H_
