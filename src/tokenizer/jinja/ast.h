// A parsed template: a tree of plain values, how it is parsed and how it is rendered. A new
// construct is a struct here, a case in the parser and a case in the interpreter.
#ifndef ROPEWAY_TOKENIZER_JINJA_AST_H_
#define ROPEWAY_TOKENIZER_JINJA_AST_H_

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tokenizer/jinja/operators.h"
#include "tokenizer/jinja/value.h"

namespace ropeway::tokenizer::jinja {

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
struct Logical {  // left and right, left or right
  ExpressionPtr left;
  ExpressionPtr right;
  bool is_and;
};
struct Arithmetic {
  ExpressionPtr left;
  ExpressionPtr right;
  ArithmeticOperator op;
};
struct Concatenation {  // a ~ b ~ c
  std::vector<ExpressionPtr> parts;
};
struct Comparison {  // a < b <= c: each operand with the next
  ExpressionPtr first;
  std::vector<std::pair<ComparisonOperator, ExpressionPtr>> rest;
};
struct Conditional {  // then if condition else otherwise; `otherwise` may be null.
  ExpressionPtr condition;
  ExpressionPtr then;
  ExpressionPtr otherwise;
};

struct Expression {
  std::variant<Literal, Name, ListDisplay, DictDisplay, Attribute, Item, Slice, Apply, Call, Not,
               Negative, Logical, Arithmetic, Concatenation, Comparison, Conditional>
      node;
  int line = 0;
  int depth = 1;  // The tree's depth: it is evaluated and freed by recursion.
};

struct Statement;
using Body = std::vector<Statement>;

// The target of an assignment: a variable, a variable of a namespace, or several targets.
struct Target {
  std::string name;
  std::string attribute;      // The attribute of the namespace `name`; "": none.
  std::vector<Target> parts;  // Not empty: the value is unpacked.
};

// A definition by {% macro %} or {% call %}.
struct Macro {
  struct Parameter {
    std::string name;
    ExpressionPtr otherwise;  // Null: none.
  };
  std::string name;
  std::vector<Parameter> parameters;
  Body body;
  bool takes_caller = false;  // Whether its body uses `caller`.
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
  Body otherwise;  // Runs where no iteration completes.
};
struct Set {
  Target target;
  ExpressionPtr value;
};
struct CaptureBlock {  // {% set target %}body{% endset %} or {% filter filtered %}body{% endfilter
                       // %}
  Target target;       // Without a name or parts: the text is written.
  ExpressionPtr filtered;  // The filters of the variable kBlockName; may be null.
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
  std::variant<Text, Output, If, For, Set, CaptureBlock, MacroBlock, CallBlock, ScopeBlock, Break,
               Continue>
      node;
  int line = 0;
};

// The variable that holds the text of a block; no template can write this name.
inline constexpr const char* kBlockName = "the block";

// The statements of `source`. Throws Error, with the line, for whatever is wrong or not supported.
Body Parse(std::string_view source);

using Globals = std::vector<std::pair<std::string, Value>>;

// The text of `body` with the variables `globals`. Throws Raised where the template calls
// raise_exception, and Error where it fails or exceeds the bounds of `context`.
Str Render(const Body& body, const Globals& globals, Context& context);

}  // namespace ropeway::tokenizer::jinja

#endif  // ROPEWAY_TOKENIZER_JINJA_AST_H_
