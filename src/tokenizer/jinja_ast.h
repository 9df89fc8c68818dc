// A parsed template: a tree of plain values. To add a construct: a struct here, a case in the
// parser, a case in the interpreter.
#ifndef ROPEWAY_TOKENIZER_JINJA_AST_H_
#define ROPEWAY_TOKENIZER_JINJA_AST_H_

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tokenizer/jinja_builtins.h"
#include "tokenizer/jinja_value.h"

namespace ropeway::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;  // Null only where said so.

struct Literal {
  Value value;
};
struct Name {
  std::string name;
};
struct ListDisplay {
  std::vector<ExpressionPtr> items;
};
struct DictDisplay {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
};
struct Attribute {  // object.name
  ExpressionPtr object;
  std::string name;
};
struct Item {  // object[key]
  ExpressionPtr object;
  ExpressionPtr key;
};
struct Slice {  // object[from:to:step]; each may be null.
  ExpressionPtr object;
  ExpressionPtr from;
  ExpressionPtr to;
  ExpressionPtr step;
};
struct RaiseException {  // raise_exception(message)
  ExpressionPtr message;
};
struct Apply {  // operand|builtin(arguments), operand.builtin(arguments) or operand is builtin
  const Builtin* builtin;
  ExpressionPtr operand;
  std::vector<ExpressionPtr> arguments;
};
struct Not {
  ExpressionPtr operand;
};
struct Negative {
  ExpressionPtr operand;
};
struct And {
  ExpressionPtr left;
  ExpressionPtr right;
};
struct Or {
  ExpressionPtr left;
  ExpressionPtr right;
};
enum class ArithmeticOperator { kAdd, kSubtract, kMultiply, kFloorDivide, kModulo, kConcatenate };
struct Arithmetic {
  ArithmeticOperator op;
  ExpressionPtr left;
  ExpressionPtr right;
};
enum class ComparisonOperator {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn
};
struct Comparison {  // a < b <= c: each with its neighbour
  ExpressionPtr first;
  std::vector<std::pair<ComparisonOperator, ExpressionPtr>> rest;
};
struct Conditional {  // then if condition else otherwise; `otherwise` may be null
  ExpressionPtr condition;
  ExpressionPtr then;
  ExpressionPtr otherwise;
};

struct Expression {
  std::variant<Literal, Name, ListDisplay, DictDisplay, Attribute, Item, Slice, RaiseException,
               Apply, Not, Negative, And, Or, Arithmetic, Comparison, Conditional>
      node;
  int line = 0;
  int depth = 1;  // Of the tree below, which is evaluated and freed by recursion.
};

struct Statement;
using Body = std::vector<Statement>;

struct Text {
  std::string text;
};
struct Output {  // {{ value }}
  ExpressionPtr value;
};
struct If {
  struct Branch {
    ExpressionPtr condition;  // Null for else.
    Body body;
  };
  std::vector<Branch> branches;
};
struct For {
  std::vector<std::string> targets;  // More than one: each item is unpacked.
  ExpressionPtr items;
  ExpressionPtr condition;  // May be null.
  Body body;
  Body otherwise;  // Run where there is no item.
};
struct Set {
  std::string target;
  ExpressionPtr value;
};

struct Statement {
  std::variant<Text, Output, If, For, Set> node;
  int line = 0;
};

}  // namespace ropeway::jinja

#endif  // ROPEWAY_TOKENIZER_JINJA_AST_H_
