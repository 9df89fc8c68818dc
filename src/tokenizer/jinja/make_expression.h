// Builds the tree of an expression, whose depth is bounded: it is evaluated and
// freed by recursion.
#ifndef ROPEWAY_TOKENIZER_JINJA_MAKE_EXPRESSION_H_
#define ROPEWAY_TOKENIZER_JINJA_MAKE_EXPRESSION_H_

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "tokenizer/jinja/ast.h"
#include "tokenizer/jinja/error.h"

namespace ropeway::jinja {

inline constexpr int kMaxExpressionDepth = 100;

inline int Depth(const ExpressionPtr& expression) {
  return expression == nullptr ? 0 : expression->depth;
}

inline int Depth(const std::vector<ExpressionPtr>& expressions) {
  int depth = 0;
  for (const ExpressionPtr& expression : expressions) depth = std::max(depth, Depth(expression));
  return depth;
}

inline int Depth(const ArgumentList& arguments) {
  int depth = Depth(arguments.positional);
  for (const auto& [name, value] : arguments.named) depth = std::max(depth, Depth(value));
  return depth;
}

// An expression over parts that are at most `depth` deep.
template <typename Node>
ExpressionPtr Make(int line, int depth, Node node) {
  if (depth >= kMaxExpressionDepth) throw Error(line, "an expression is nested too deep");
  return std::make_unique<const Expression>(Expression{std::move(node), line, depth + 1});
}

// A binary operator of two expressions.
template <typename Node>
ExpressionPtr MakeBoth(int line, ExpressionPtr left, ExpressionPtr right) {
  const int depth = std::max(Depth(left), Depth(right));
  return Make(line, depth, Node{std::move(left), std::move(right)});
}

inline ExpressionPtr MakeArithmetic(int line, ArithmeticOperator op, ExpressionPtr left,
                                    ExpressionPtr right) {
  const int depth = std::max(Depth(left), Depth(right));
  return Make(line, depth, Arithmetic{op, std::move(left), std::move(right)});
}

}  // namespace ropeway::jinja

#endif  // ROPEWAY_TOKENIZER_JINJA_MAKE_EXPRESSION_H_
