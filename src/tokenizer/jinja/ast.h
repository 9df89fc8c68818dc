// A parsed template: a tree of plain values. To add a construct: a struct here,
// a case in the parser, a case in the evaluator or interpreter.
#ifndef ROPEWAY_TOKENIZER_JINJA_AST_H_
#define ROPEWAY_TOKENIZER_JINJA_AST_H_

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tokenizer/jinja/builtin.h"
#include "tokenizer/jinja/operators.h"
#include "tokenizer/jinja/value.h"

namespace ropeway::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;  // Null only where said so.

struct ArgumentList {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
};

struct Literal {
  Value value;
};
struct Name {
  std::string name;
};
struct ListDisplay {
  std::vector<ExpressionPtr> items;
  bool is_tuple = false;
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
struct Apply {  // operand|builtin(arguments) or operand is builtin(arguments)
  const Builtin* builtin;
  ExpressionPtr operand;
  ArgumentList arguments;
};
struct Call {  // callee(arguments)
  ExpressionPtr callee;
  ArgumentList arguments;
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
struct Arithmetic {
  ArithmeticOperator op;
  ExpressionPtr left;
  ExpressionPtr right;
};
struct Concatenation {  // a ~ b ~ c
  std::vector<ExpressionPtr> parts;
};
struct Comparison {  // a < b <= c: each with its neighbour
  ExpressionPtr first;
  std::vector<std::pair<ComparisonOperator, ExpressionPtr>> rest;
};
struct Conditional {  // then if condition else otherwise; `otherwise` may be
                      // null
  ExpressionPtr condition;
  ExpressionPtr then;
  ExpressionPtr otherwise;
};

struct Expression {
  std::variant<Literal, Name, ListDisplay, DictDisplay, Attribute, Item, Slice, Apply, Call, Not,
               Negative, And, Or, Arithmetic, Concatenation, Comparison, Conditional>
      node;
  int line = 0;
  int depth = 1;  // Of the tree below, which is evaluated and freed by recursion.
};

struct Statement;
using Body = std::vector<Statement>;

// Where a value goes: a variable, a variable of a namespace, or several.
struct Target {
  std::string name;
  std::string attribute;      // Of the namespace `name`; "": none.
  std::vector<Target> parts;  // Not empty: the value is unpacked.
};

// What {% macro %} and {% call %} make.
struct Macro {
  struct Parameter {
    std::string name;
    ExpressionPtr otherwise;  // Null: none.
  };
  std::string name;
  std::vector<Parameter> parameters;
  Body body;
  bool takes_caller = false;  // Whether its body speaks of `caller`.
  int line = 0;
};

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
  Target target;
  ExpressionPtr items;
  ExpressionPtr condition;  // May be null.
  Body body;
  Body otherwise;  // Run where there is no item.
};
struct Set {
  Target target;
  ExpressionPtr value;
};
struct SetBlock {  // {% set target %}body{% endset %}
  Target target;
  ExpressionPtr filtered;  // Over the variable kBlockName; may be null.
  Body body;
};
struct FilterBlock {
  ExpressionPtr filtered;  // Over the variable kBlockName.
  Body body;
};
struct MacroBlock {
  std::shared_ptr<const Macro> macro;
};
struct CallBlock {
  std::shared_ptr<const Macro> caller;
  ExpressionPtr call;  // A Call.
};
struct ScopeBlock {  // {% with %} or {% generation %}
  std::vector<std::pair<Target, ExpressionPtr>> variables;
  Body body;
};
struct Break {};
struct Continue {};

struct Statement {
  std::variant<Text, Output, If, For, Set, SetBlock, FilterBlock, MacroBlock, CallBlock, ScopeBlock,
               Break, Continue>
      node;
  int line = 0;
};

// The variable, of a name that no template can write, that holds the text of a
// block.
inline constexpr const char* kBlockName = "the block";

}  // namespace ropeway::jinja

#endif  // ROPEWAY_TOKENIZER_JINJA_AST_H_
