#include "tokenizer/jinja/expression_parser.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "tokenizer/jinja/builtins.h"
#include "tokenizer/jinja/error.h"
#include "tokenizer/jinja/make_expression.h"

namespace ropeway::jinja {
namespace {

// Bounds the parser's own recursion, which parentheses drive without making
// expressions.
class Deeper {
 public:
  Deeper(int& recursion, const TokenStream& stream) : recursion_(recursion) {
    if (++recursion_ > kMaxExpressionDepth) stream.Fail("an expression is nested too deep");
  }
  ~Deeper() { --recursion_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  int& recursion_;
};

// What Jinja knows and we do not, where a name stands.
constexpr std::array<std::string_view, 7> kUnknownNames = {"varargs", "kwargs", "self",  "super",
                                                           "lipsum",  "cycler", "joiner"};

// The filters that take the name of a filter or test, and where it stands.
const Builtin* (*FinderOf(std::string_view filter, size_t* at))(std::string_view) {
  *at = filter.ends_with("attr") ? 1 : 0;
  if (filter == "map") return FindFilter;
  if (filter.starts_with("select") || filter.starts_with("reject")) return FindTest;
  return nullptr;
}

// Refuses "map('filter')" and its like where the language has no such filter or
// test.
void CheckNamed(int line, std::string_view filter, const ArgumentList& arguments) {
  size_t at = 0;
  const auto find = FinderOf(filter, &at);
  if (find == nullptr || arguments.positional.size() <= at) return;
  const auto* name = std::get_if<Literal>(&arguments.positional[at]->node);
  if (name == nullptr || !name->value.is_string() || find(name->value.string()) != nullptr) return;
  throw Error(line, "the " + std::string(find == FindFilter ? "filter" : "test") + " '" +
                        name->value.string() + "' is not supported");
}

}  // namespace

ExpressionPtr ExpressionParser::Parse() {
  const Deeper deeper(recursion_, stream_);
  ExpressionPtr expression = ParseWithoutConditional();
  while (stream_.IsName("if")) {
    const int line = stream_.Take().line;
    ExpressionPtr condition = ParseWithoutConditional();
    ExpressionPtr otherwise = stream_.TakeName("else") ? Parse() : nullptr;
    const int depth = std::max({Depth(condition), Depth(expression), Depth(otherwise)});
    expression =
        Make(line, depth,
             Conditional{std::move(condition), std::move(expression), std::move(otherwise)});
  }
  return expression;
}

ExpressionPtr ExpressionParser::ParseTuple(bool with_conditional) {
  const int line = stream_.Peek().line;
  const auto part = [&] { return with_conditional ? Parse() : ParseWithoutConditional(); };
  ListDisplay tuple;
  tuple.is_tuple = true;
  tuple.items.push_back(part());
  if (!stream_.IsOperator(",")) return std::move(tuple.items[0]);
  const auto at_end = [&] {
    return stream_.Is(TokenKind::kBlockEnd) || stream_.Is(TokenKind::kOutputEnd) ||
           stream_.IsName("if") || stream_.IsOperator("=");
  };
  while (stream_.TakeOperator(",") && !at_end()) tuple.items.push_back(part());
  const int depth = Depth(tuple.items);
  return Make(line, depth, std::move(tuple));
}

ExpressionPtr ExpressionParser::ParseBlockFilters(bool with_bar) {
  ExpressionPtr block = Make(stream_.Peek().line, 0, Name{kBlockName});
  if (!with_bar) block = ParseFilter(std::move(block));
  return ParseFilters(std::move(block));
}

ExpressionPtr ExpressionParser::ParseWithoutConditional() {
  ExpressionPtr left = ParseAnd();
  while (stream_.IsName("or")) {
    const int line = stream_.Take().line;
    left = MakeBoth<Or>(line, std::move(left), ParseAnd());
  }
  return left;
}

ExpressionPtr ExpressionParser::ParseAnd() {
  ExpressionPtr left = ParseNot();
  while (stream_.IsName("and")) {
    const int line = stream_.Take().line;
    left = MakeBoth<And>(line, std::move(left), ParseNot());
  }
  return left;
}

ExpressionPtr ExpressionParser::ParseNot() {
  if (!stream_.IsName("not")) return ParseComparison();
  const Deeper deeper(recursion_, stream_);
  const int line = stream_.Take().line;
  ExpressionPtr operand = ParseNot();
  const int depth = Depth(operand);
  return Make(line, depth, Not{std::move(operand)});
}

ExpressionPtr ExpressionParser::ParseComparison() {
  constexpr std::array<std::pair<std::string_view, ComparisonOperator>, 6> kOperators = {{
      {"==", ComparisonOperator::kEqual},
      {"!=", ComparisonOperator::kNotEqual},
      {"<", ComparisonOperator::kLess},
      {"<=", ComparisonOperator::kLessEqual},
      {">", ComparisonOperator::kGreater},
      {">=", ComparisonOperator::kGreaterEqual},
  }};
  const auto take = [&]() -> std::optional<ComparisonOperator> {
    for (const auto& [text, op] : kOperators) {
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
  ExpressionPtr first = ParseSum();
  int depth = Depth(first);
  Comparison comparison{nullptr, {}};
  while (const std::optional<ComparisonOperator> op = take()) {
    comparison.rest.emplace_back(*op, ParseSum());
    depth = std::max(depth, Depth(comparison.rest.back().second));
  }
  if (comparison.rest.empty()) return first;
  comparison.first = std::move(first);
  return Make(line, depth, std::move(comparison));
}

ExpressionPtr ExpressionParser::ParseSum() {
  ExpressionPtr left = ParseConcatenation();
  while (stream_.IsOperator("+") || stream_.IsOperator("-")) {
    const Token& token = stream_.Take();
    const auto op = token.text == "+" ? ArithmeticOperator::kAdd : ArithmeticOperator::kSubtract;
    left = MakeArithmetic(token.line, op, std::move(left), ParseConcatenation());
  }
  return left;
}

ExpressionPtr ExpressionParser::ParseConcatenation() {
  const int line = stream_.Peek().line;
  Concatenation result;
  result.parts.push_back(ParseProduct());
  while (stream_.TakeOperator("~")) result.parts.push_back(ParseProduct());
  if (result.parts.size() == 1) return std::move(result.parts[0]);
  const int depth = Depth(result.parts);
  return Make(line, depth, std::move(result));
}

ExpressionPtr ExpressionParser::ParseProduct() {
  constexpr std::array<std::pair<std::string_view, ArithmeticOperator>, 4> kOperators = {{
      {"*", ArithmeticOperator::kMultiply},
      {"/", ArithmeticOperator::kDivide},
      {"//", ArithmeticOperator::kFloorDivide},
      {"%", ArithmeticOperator::kModulo},
  }};
  ExpressionPtr left = ParsePower();
  while (stream_.Is(TokenKind::kOperator)) {
    const auto* const known =
        std::find_if(kOperators.begin(), kOperators.end(),
                     [&](const auto& entry) { return entry.first == stream_.Peek().text; });
    if (known == kOperators.end()) break;
    const int line = stream_.Take().line;
    left = MakeArithmetic(line, known->second, std::move(left), ParsePower());
  }
  return left;
}

ExpressionPtr ExpressionParser::ParsePower() {
  ExpressionPtr left = ParseUnary(true);
  while (stream_.IsOperator("**")) {
    const int line = stream_.Take().line;
    left = MakeArithmetic(line, ArithmeticOperator::kPower, std::move(left), ParseUnary(true));
  }
  return left;
}

ExpressionPtr ExpressionParser::ParseUnary(bool with_filters) {
  ExpressionPtr expression;
  if (stream_.IsOperator("-")) {
    const Deeper deeper(recursion_, stream_);
    const int line = stream_.Take().line;
    ExpressionPtr operand = ParseUnary(false);
    const int depth = Depth(operand);
    expression = Make(line, depth, Negative{std::move(operand)});
  } else {
    expression = ParsePrimary();
  }
  expression = ParsePostfix(std::move(expression));
  return with_filters ? ParseFilters(std::move(expression)) : std::move(expression);
}

ExpressionPtr ExpressionParser::ParsePrimary() {
  const int line = stream_.Peek().line;
  if (stream_.Is(TokenKind::kName)) return ParseName();
  if (stream_.Is(TokenKind::kInteger)) {
    return Make(line, 0, Literal{Value::Of(stream_.Take().integer)});
  }
  if (stream_.Is(TokenKind::kFloat)) {
    return Make(line, 0, Literal{Value::Of(stream_.Take().number)});
  }
  if (stream_.Is(TokenKind::kString)) {
    std::string text;
    while (stream_.Is(TokenKind::kString)) text += stream_.Take().text;
    return Make(line, 0, Literal{Value::Of(std::move(text))});
  }
  if (stream_.TakeOperator("(")) return ParseParentheses();
  if (stream_.TakeOperator("[")) return ParseList();
  if (stream_.TakeOperator("{")) return ParseDict();
  stream_.Fail("expected an expression, not '" + stream_.Peek().text.substr(0, 40) + "'");
}

ExpressionPtr ExpressionParser::ParseName() {
  const Token token = stream_.Take();
  const std::string& name = token.text;
  if (name == "true" || name == "True") return Make(token.line, 0, Literal{Value::Of(true)});
  if (name == "false" || name == "False") return Make(token.line, 0, Literal{Value::Of(false)});
  if (name == "none" || name == "None") return Make(token.line, 0, Literal{Value()});
  if (IsReserved(name)) throw Error(token.line, "unexpected '" + name + "'");
  const bool is_unknown =
      std::find(kUnknownNames.begin(), kUnknownNames.end(), name) != kUnknownNames.end();
  if (is_unknown) throw Error(token.line, "the name '" + name + "' is not supported");
  if (name == "caller") uses_caller_ = true;
  if (stream_.IsOperator("(") && FindFunction(name) == nullptr) {
    called_.emplace_back(name, token.line);
  }
  return Make(token.line, 0, Name{name});
}

// An expression in parentheses, or a tuple.
ExpressionPtr ExpressionParser::ParseParentheses() {
  const int line = stream_.Peek().line;
  ListDisplay tuple;
  bool is_tuple = stream_.IsOperator(")");
  tuple.is_tuple = true;
  while (!stream_.IsOperator(")")) {
    tuple.items.push_back(Parse());
    if (!stream_.TakeOperator(",")) break;
    is_tuple = true;
  }
  stream_.ExpectOperator(")");
  if (!is_tuple) return std::move(tuple.items[0]);
  const int depth = Depth(tuple.items);
  return Make(line, depth, std::move(tuple));
}

ExpressionPtr ExpressionParser::ParseList() {
  const int line = stream_.Peek().line;
  ListDisplay list;
  while (!stream_.IsOperator("]")) {
    list.items.push_back(Parse());
    if (!stream_.TakeOperator(",")) break;
  }
  stream_.ExpectOperator("]");
  const int depth = Depth(list.items);
  return Make(line, depth, std::move(list));
}

ExpressionPtr ExpressionParser::ParseDict() {
  const int line = stream_.Peek().line;
  DictDisplay dict;
  int depth = 0;
  while (!stream_.IsOperator("}")) {
    ExpressionPtr key = Parse();
    stream_.ExpectOperator(":");
    ExpressionPtr value = Parse();
    depth = std::max({depth, Depth(key), Depth(value)});
    dict.entries.emplace_back(std::move(key), std::move(value));
    if (!stream_.TakeOperator(",")) break;
  }
  stream_.ExpectOperator("}");
  return Make(line, depth, std::move(dict));
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
  const int depth = Depth(object);
  const Token token = stream_.Take();
  if (token.kind == TokenKind::kInteger) {
    ExpressionPtr key = Make(token.line, 0, Literal{Value::Of(token.integer)});
    return MakeBoth<Item>(token.line, std::move(object), std::move(key));
  }
  if (token.kind != TokenKind::kName) throw Error(token.line, "expected the name of an attribute");
  if (stream_.IsOperator("(") && !IsMethod(token.text)) {
    throw Error(token.line, "the method '" + token.text + "' is not supported");
  }
  return Make(token.line, depth, Attribute{std::move(object), token.text});
}

ExpressionPtr ExpressionParser::ParseCall(ExpressionPtr callee) {
  const int line = stream_.Peek().line;
  ArgumentList arguments = ParseArguments();
  const auto* name = std::get_if<Name>(&callee->node);
  if (const Builtin* function = name == nullptr ? nullptr : FindFunction(name->name)) {
    std::vector<std::string_view> names;
    for (const auto& [key, value] : arguments.named) names.emplace_back(key);
    const std::string error = SignatureError(*function, arguments.positional.size(), names);
    if (!error.empty()) throw Error(line, "the function '" + name->name + "' " + error);
  }
  const int depth = std::max(Depth(callee), Depth(arguments));
  return Make(line, depth, Call{std::move(callee), std::move(arguments)});
}

ExpressionPtr ExpressionParser::ParseSubscript(ExpressionPtr object) {
  const int line = stream_.Peek().line;
  const auto at_end = [&] { return stream_.IsOperator(":") || stream_.IsOperator("]"); };
  const auto part = [&] { return at_end() ? nullptr : Parse(); };
  ExpressionPtr first = part();
  if (stream_.TakeOperator(":")) {
    ExpressionPtr to = part();
    ExpressionPtr step = stream_.TakeOperator(":") ? part() : nullptr;
    stream_.ExpectOperator("]");
    const int depth = std::max({Depth(object), Depth(first), Depth(to), Depth(step)});
    return Make(line, depth,
                Slice{std::move(object), std::move(first), std::move(to), std::move(step)});
  }
  if (first == nullptr) stream_.Fail("expected an index");
  stream_.ExpectOperator("]");
  return MakeBoth<Item>(line, std::move(object), std::move(first));
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
  CheckNamed(token.line, token.text, arguments);
  return MakeApply(token.line, FindFilter(token.text), "the filter '" + token.text + "'",
                   std::move(operand), std::move(arguments));
}

// A test takes one argument without parentheses: "x is divisibleby 3".
bool ExpressionParser::TestArgumentFollows() const {
  switch (stream_.Peek().kind) {
    case TokenKind::kName:
      return !IsReserved(stream_.Peek().text) || stream_.IsName("true") ||
             stream_.IsName("false") || stream_.IsName("none") || stream_.IsName("True") ||
             stream_.IsName("False") || stream_.IsName("None");
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
  ExpressionPtr test = MakeApply(token.line, FindTest(token.text), "the test '" + token.text + "'",
                                 std::move(operand), std::move(arguments));
  if (!negated) return test;
  const int depth = Depth(test);
  return Make(token.line, depth, Not{std::move(test)});
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
      stream_.Fail("an argument without a name follows one with a name");
    } else {
      arguments.positional.push_back(Parse());
    }
    if (!stream_.TakeOperator(",")) break;
  }
  stream_.ExpectOperator(")");
  return arguments;
}

ExpressionPtr ExpressionParser::MakeApply(int line, const Builtin* builtin, const std::string& what,
                                          ExpressionPtr operand, ArgumentList arguments) {
  if (builtin == nullptr) throw Error(line, what + " is not supported");
  std::vector<std::string_view> names;
  for (const auto& [name, value] : arguments.named) names.emplace_back(name);
  const std::string error = SignatureError(*builtin, arguments.positional.size(), names);
  if (!error.empty()) throw Error(line, what + " " + error);
  const int depth = std::max(Depth(operand), Depth(arguments));
  return Make(line, depth, Apply{builtin, std::move(operand), std::move(arguments)});
}

}  // namespace ropeway::jinja
