#include "tokenizer/jinja/expression_parser.h"

#include <algorithm>
#include <array>
#include <optional>

#include "tokenizer/jinja/builtins.h"

namespace ropeway::tokenizer::jinja {
namespace {

// Expressions are evaluated and freed by recursion.
constexpr int kMaxExpressionDepth = 100;

// Bounds the parser's own recursion, which parentheses deepen without making expressions.
class Nesting {
 public:
  Nesting(int& recursion, const TokenStream& stream) : recursion_(recursion) {
    if (++recursion_ > kMaxExpressionDepth) stream.Fail("an expression is nested too deeply");
  }
  ~Nesting() { --recursion_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  int& recursion_;
};

// The depth of a part of an expression.
template <typename Part>
int DepthOf(const Part&) {
  return 0;
}
int DepthOf(const ExpressionPtr& expression) {
  return expression == nullptr ? 0 : expression->depth;
}
template <typename First, typename Second>
int DepthOf(const std::pair<First, Second>& pair) {
  return std::max(DepthOf(pair.first), DepthOf(pair.second));
}
template <typename Part>
int DepthOf(const std::vector<Part>& parts) {
  int depth = 0;
  for (const Part& part : parts) depth = std::max(depth, DepthOf(part));
  return depth;
}
int DepthOf(const ArgumentList& arguments) {
  return std::max(DepthOf(arguments.positional), DepthOf(arguments.named));
}

template <typename Node, typename... Parts>
ExpressionPtr Make(int line, Parts... parts) {
  const int depth = std::max({0, DepthOf(parts)...});
  if (depth >= kMaxExpressionDepth) throw Error(line, "an expression is nested too deeply");
  return std::make_unique<const Expression>(Expression{Node{std::move(parts)...}, line, depth + 1});
}

// The names that Jinja defines and this interpreter does not support.
constexpr std::string_view kUnsupportedNames[] = {"varargs", "kwargs", "self",  "super",
                                                  "lipsum",  "cycler", "joiner"};

struct BinaryOperator {
  std::string_view text;
  ArithmeticOperator op;
  int level;
};
// By precedence, loosest first. "~" lies between the first level and the second.
constexpr int kSumLevel = 0;
constexpr int kProductLevel = 1;
constexpr int kPowerLevel = 2;
constexpr BinaryOperator kBinaryOperators[] = {
    {"+", ArithmeticOperator::kAdd, kSumLevel},
    {"-", ArithmeticOperator::kSubtract, kSumLevel},
    {"*", ArithmeticOperator::kMultiply, kProductLevel},
    {"/", ArithmeticOperator::kDivide, kProductLevel},
    {"//", ArithmeticOperator::kFloorDivide, kProductLevel},
    {"%", ArithmeticOperator::kModulo, kProductLevel},
    {"**", ArithmeticOperator::kPower, kPowerLevel},
};

constexpr std::pair<std::string_view, ComparisonOperator> kComparisonOperators[] = {
    {"==", ComparisonOperator::kEqual},  {"!=", ComparisonOperator::kNotEqual},
    {"<", ComparisonOperator::kLess},    {"<=", ComparisonOperator::kLessEqual},
    {">", ComparisonOperator::kGreater}, {">=", ComparisonOperator::kGreaterEqual},
};

// True, False, None and their lower-case forms.
std::optional<Value> ConstantOf(std::string_view name) {
  if (name == "true" || name == "True") return Value::Of(true);
  if (name == "false" || name == "False") return Value::Of(false);
  if (name == "none" || name == "None") return Value();
  return std::nullopt;
}

// Rejects "map('filter')" and its like where the language has no such filter or test.
void CheckNamedBuiltin(int line, std::string_view filter, const ArgumentList& arguments) {
  const bool is_map = filter == "map";
  if (!is_map && !filter.starts_with("select") && !filter.starts_with("reject")) return;
  const size_t at = filter.ends_with("attr") ? 1 : 0;
  if (arguments.positional.size() <= at) return;
  const auto* name = std::get_if<Literal>(&arguments.positional[at]->node);
  if (name == nullptr || !name->value.is_string()) return;
  if (FindBuiltin(is_map ? kFilter : kTest, name->value.string()) != nullptr) return;
  throw Error(line, "the " + std::string(is_map ? "filter" : "test") + " '" + name->value.string() +
                        "' is not supported");
}

// Rejects a call of `builtin`, `what` in messages, that does not fit its parameters.
void CheckCall(int line, const Builtin* builtin, const std::string& what,
               const ArgumentList& arguments) {
  if (builtin == nullptr) throw Error(line, what + " is not supported");
  std::vector<std::string_view> names;
  for (const auto& [name, value] : arguments.named) names.emplace_back(name);
  const std::string error = SignatureError(*builtin, arguments.positional.size(), names);
  if (!error.empty()) throw Error(line, what + " " + error);
}

}  // namespace

ExpressionPtr ExpressionParser::Parse() {
  const Nesting nesting(recursion_, stream_);
  ExpressionPtr expression = ParseLogical(false);
  while (stream_.IsName("if")) {
    const int line = stream_.Take().line;
    ExpressionPtr condition = ParseLogical(false);
    ExpressionPtr otherwise = stream_.TakeName("else") ? Parse() : nullptr;
    expression =
        Make<Conditional>(line, std::move(condition), std::move(expression), std::move(otherwise));
  }
  return expression;
}

ExpressionPtr ExpressionParser::ParseTuple(bool with_conditional) {
  const int line = stream_.Peek().line;
  const auto part = [&] { return with_conditional ? Parse() : ParseLogical(false); };
  ExpressionPtr first = part();
  if (!stream_.IsOperator(",")) return first;
  std::vector<ExpressionPtr> items;
  items.push_back(std::move(first));
  const auto at_end = [&] {
    return stream_.Is(TokenKind::kBlockEnd) || stream_.Is(TokenKind::kOutputEnd) ||
           stream_.IsName("if") || stream_.IsOperator("=");
  };
  while (stream_.TakeOperator(",") && !at_end()) items.push_back(part());
  return Make<ListDisplay>(line, std::move(items), /*is_tuple=*/true);
}

ExpressionPtr ExpressionParser::ParseBlockFilters(bool with_bar) {
  ExpressionPtr block = Make<Name>(stream_.Peek().line, std::string(kBlockName));
  if (!with_bar) block = ParseFilter(std::move(block));
  return ParseFilters(std::move(block));
}

ExpressionPtr ExpressionParser::ParseLogical(bool is_and) {
  const auto operand = [&] { return is_and ? ParseNot() : ParseLogical(true); };
  ExpressionPtr left = operand();
  while (stream_.IsName(is_and ? "and" : "or")) {
    const int line = stream_.Take().line;
    left = Make<Logical>(line, std::move(left), operand(), is_and);
  }
  return left;
}

ExpressionPtr ExpressionParser::ParseNot() {
  if (!stream_.IsName("not")) return ParseComparison();
  const Nesting nesting(recursion_, stream_);
  const int line = stream_.Take().line;
  return Make<Not>(line, ParseNot());
}

ExpressionPtr ExpressionParser::ParseComparison() {
  const auto take = [&]() -> std::optional<ComparisonOperator> {
    for (const auto& [text, op] : kComparisonOperators) {
      if (stream_.TakeOperator(text)) return op;
    }
    if (stream_.TakeName("in")) return ComparisonOperator::kIn;
    if (stream_.IsName("not") && stream_.Peek(1).kind == TokenKind::kName &&
        stream_.Peek(1).text == "in") {
      stream_.Take();
      stream_.Take();
      return ComparisonOperator::kNotIn;
    }
    return std::nullopt;
  };

  const int line = stream_.Peek().line;
  ExpressionPtr first = ParseArithmetic(kSumLevel);
  std::vector<std::pair<ComparisonOperator, ExpressionPtr>> rest;
  while (const std::optional<ComparisonOperator> op = take()) {
    rest.emplace_back(*op, ParseArithmetic(kSumLevel));
  }
  if (rest.empty()) return first;
  return Make<Comparison>(line, std::move(first), std::move(rest));
}

ExpressionPtr ExpressionParser::ParseArithmetic(int level) {
  const auto operand = [&] {
    if (level == kSumLevel) return ParseConcatenation();
    return level == kPowerLevel ? ParseUnary(true) : ParseArithmetic(level + 1);
  };
  ExpressionPtr left = operand();
  while (stream_.Is(TokenKind::kOperator)) {
    const auto* const known = std::find_if(
        std::begin(kBinaryOperators), std::end(kBinaryOperators), [&](const auto& entry) {
          return entry.level == level && entry.text == stream_.Peek().text;
        });
    if (known == std::end(kBinaryOperators)) break;
    const int line = stream_.Take().line;
    left = Make<Arithmetic>(line, std::move(left), operand(), known->op);
  }
  return left;
}

ExpressionPtr ExpressionParser::ParseConcatenation() {
  const int line = stream_.Peek().line;
  std::vector<ExpressionPtr> parts;
  do {
    parts.push_back(ParseArithmetic(kProductLevel));
  } while (stream_.TakeOperator("~"));
  if (parts.size() == 1) return std::move(parts[0]);
  return Make<Concatenation>(line, std::move(parts));
}

ExpressionPtr ExpressionParser::ParseUnary(bool with_filters) {
  ExpressionPtr expression;
  if (stream_.IsOperator("-")) {
    const Nesting nesting(recursion_, stream_);
    const int line = stream_.Take().line;
    expression = Make<Negative>(line, ParseUnary(false));
  } else {
    expression = ParsePrimary();
  }
  expression = ParsePostfix(std::move(expression));
  return with_filters ? ParseFilters(std::move(expression)) : std::move(expression);
}

ExpressionPtr ExpressionParser::ParsePrimary() {
  const int line = stream_.Peek().line;
  switch (stream_.Peek().kind) {
    case TokenKind::kName:
      return ParseName();
    case TokenKind::kInteger:
      return Make<Literal>(line, Value::Of(stream_.Take().integer));
    case TokenKind::kFloat:
      return Make<Literal>(line, Value::Of(stream_.Take().number));
    case TokenKind::kString: {
      std::string text;
      while (stream_.Is(TokenKind::kString)) text += stream_.Take().text;
      return Make<Literal>(line, Value::Of(std::move(text)));
    }
    default:
      break;
  }
  if (stream_.TakeOperator("(")) return ParseParentheses();
  if (stream_.TakeOperator("[")) return ParseList();
  if (stream_.TakeOperator("{")) return ParseDict();
  stream_.Fail("expected an expression, got '" + stream_.Peek().text.substr(0, 40) + "'");
}

ExpressionPtr ExpressionParser::ParseName() {
  const Token token = stream_.Take();
  const std::string& name = token.text;
  if (std::optional<Value> constant = ConstantOf(name)) {
    return Make<Literal>(token.line, *std::move(constant));
  }
  if (IsReserved(name)) throw Error(token.line, "unexpected '" + name + "'");
  if (std::find(std::begin(kUnsupportedNames), std::end(kUnsupportedNames), name) !=
      std::end(kUnsupportedNames)) {
    throw Error(token.line, "the name '" + name + "' is not supported");
  }
  if (name == "caller") uses_caller_ = true;
  if (stream_.IsOperator("(") && FindBuiltin(kFunction, name) == nullptr) {
    called_.emplace_back(name, token.line);
  }
  return Make<Name>(token.line, name);
}

// An expression in parentheses, or a tuple.
ExpressionPtr ExpressionParser::ParseParentheses() {
  const int line = stream_.Peek().line;
  std::vector<ExpressionPtr> items;
  bool is_tuple = stream_.IsOperator(")");
  while (!stream_.IsOperator(")")) {
    items.push_back(Parse());
    if (!stream_.TakeOperator(",")) break;
    is_tuple = true;
  }
  stream_.ExpectOperator(")");
  if (!is_tuple) return std::move(items[0]);
  return Make<ListDisplay>(line, std::move(items), is_tuple);
}

ExpressionPtr ExpressionParser::ParseList() {
  const int line = stream_.Peek().line;
  std::vector<ExpressionPtr> items;
  while (!stream_.IsOperator("]")) {
    items.push_back(Parse());
    if (!stream_.TakeOperator(",")) break;
  }
  stream_.ExpectOperator("]");
  return Make<ListDisplay>(line, std::move(items), /*is_tuple=*/false);
}

ExpressionPtr ExpressionParser::ParseDict() {
  const int line = stream_.Peek().line;
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
  while (!stream_.IsOperator("}")) {
    ExpressionPtr key = Parse();
    stream_.ExpectOperator(":");
    entries.emplace_back(std::move(key), Parse());
    if (!stream_.TakeOperator(",")) break;
  }
  stream_.ExpectOperator("}");
  return Make<DictDisplay>(line, std::move(entries));
}

ExpressionPtr ExpressionParser::ParsePostfix(ExpressionPtr object) {
  while (true) {
    if (stream_.TakeOperator(".")) {
      object = ParseMember(std::move(object));
    } else if (stream_.TakeOperator("[")) {
      object = ParseSubscript(std::move(object));
    } else if (stream_.TakeOperator("(")) {
      object = ParseCall(std::move(object));
    } else {
      return object;
    }
  }
}

ExpressionPtr ExpressionParser::ParseMember(ExpressionPtr object) {
  const Token token = stream_.Take();
  if (token.kind == TokenKind::kInteger) {
    return Make<Item>(token.line, std::move(object),
                      Make<Literal>(token.line, Value::Of(token.integer)));
  }
  if (token.kind != TokenKind::kName) throw Error(token.line, "expected the name of an attribute");
  if (stream_.IsOperator("(") && !IsMethod(token.text)) {
    throw Error(token.line, "the method '" + token.text + "' is not supported");
  }
  return Make<Attribute>(token.line, std::move(object), token.text);
}

ExpressionPtr ExpressionParser::ParseCall(ExpressionPtr callee) {
  const int line = stream_.Peek().line;
  ArgumentList arguments = ParseArguments();
  const auto* name = std::get_if<Name>(&callee->node);
  if (const Builtin* function = name == nullptr ? nullptr : FindBuiltin(kFunction, name->name)) {
    CheckCall(line, function, "the function '" + name->name + "'", arguments);
  }
  return Make<Call>(line, std::move(callee), std::move(arguments));
}

ExpressionPtr ExpressionParser::ParseSubscript(ExpressionPtr object) {
  const int line = stream_.Peek().line;
  const auto part = [&] {
    return stream_.IsOperator(":") || stream_.IsOperator("]") ? nullptr : Parse();
  };
  ExpressionPtr first = part();
  if (stream_.TakeOperator(":")) {
    ExpressionPtr to = part();
    ExpressionPtr step = stream_.TakeOperator(":") ? part() : nullptr;
    stream_.ExpectOperator("]");
    return Make<Slice>(line, std::move(object), std::move(first), std::move(to), std::move(step));
  }
  if (first == nullptr) stream_.Fail("expected an index");
  stream_.ExpectOperator("]");
  return Make<Item>(line, std::move(object), std::move(first));
}

ExpressionPtr ExpressionParser::ParseFilters(ExpressionPtr operand) {
  while (true) {
    if (stream_.TakeOperator("|")) {
      operand = ParseFilter(std::move(operand));
    } else if (stream_.TakeName("is")) {
      operand = ParseTest(std::move(operand));
    } else if (stream_.TakeOperator("(")) {
      operand = ParseCall(std::move(operand));
    } else {
      return operand;
    }
  }
}

ExpressionPtr ExpressionParser::ParseFilter(ExpressionPtr operand) {
  const Token token = stream_.Expect(TokenKind::kName, "the name of a filter");
  ArgumentList arguments;
  if (stream_.TakeOperator("(")) arguments = ParseArguments();
  CheckNamedBuiltin(token.line, token.text, arguments);
  const Builtin* const filter = FindBuiltin(kFilter, token.text);
  CheckCall(token.line, filter, "the filter '" + token.text + "'", arguments);
  return Make<Apply>(token.line, filter, std::move(operand), std::move(arguments));
}

// A test takes one argument without parentheses: "x is divisibleby 3".
bool ExpressionParser::TestArgumentFollows() const {
  switch (stream_.Peek().kind) {
    case TokenKind::kName:
      return !IsReserved(stream_.Peek().text) || ConstantOf(stream_.Peek().text).has_value();
    case TokenKind::kInteger:
    case TokenKind::kFloat:
    case TokenKind::kString:
      return true;
    default:
      return stream_.IsOperator("[") || stream_.IsOperator("{");
  }
}

ExpressionPtr ExpressionParser::ParseTest(ExpressionPtr operand) {
  const bool negated = stream_.TakeName("not");
  const Token token = stream_.Expect(TokenKind::kName, "the name of a test");
  ArgumentList arguments;
  if (stream_.TakeOperator("(")) {
    arguments = ParseArguments();
  } else if (TestArgumentFollows()) {
    arguments.positional.push_back(ParsePostfix(ParsePrimary()));
  }
  const Builtin* const test = FindBuiltin(kTest, token.text);
  CheckCall(token.line, test, "the test '" + token.text + "'", arguments);
  ExpressionPtr result = Make<Apply>(token.line, test, std::move(operand), std::move(arguments));
  return negated ? Make<Not>(token.line, std::move(result)) : std::move(result);
}

ArgumentList ExpressionParser::ParseArguments() {
  ArgumentList arguments;
  while (!stream_.IsOperator(")")) {
    if (stream_.IsOperator("*") || stream_.IsOperator("**")) {
      stream_.Fail("arguments with '*' are not supported");
    }
    const Token& next = stream_.Peek(1);
    if (stream_.Is(TokenKind::kName) && next.kind == TokenKind::kOperator && next.text == "=") {
      std::string name = stream_.Take().text;
      stream_.Take();
      arguments.named.emplace_back(std::move(name), Parse());
    } else if (!arguments.named.empty()) {
      stream_.Fail("a positional argument follows a named argument");
    } else {
      arguments.positional.push_back(Parse());
    }
    if (!stream_.TakeOperator(",")) break;
  }
  stream_.ExpectOperator(")");
  return arguments;
}

}  // namespace ropeway::tokenizer::jinja
