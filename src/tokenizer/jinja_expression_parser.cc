#include "tokenizer/jinja_expression_parser.h"

#include <algorithm>
#include <array>
#include <optional>

#include "tokenizer/jinja_error.h"

namespace ropeway::jinja {
namespace {

constexpr int kMaxDepth = 100;

int Depth(const ExpressionPtr& expression) { return expression == nullptr ? 0 : expression->depth; }

int Depth(const std::vector<ExpressionPtr>& expressions) {
  int depth = 0;
  for (const ExpressionPtr& expression : expressions) depth = std::max(depth, Depth(expression));
  return depth;
}

// An expression over parts that are at most `depth` deep.
template <typename Node>
ExpressionPtr Make(int line, int depth, Node node) {
  if (depth >= kMaxDepth) throw Error(line, "an expression is nested too deep");
  return std::make_unique<const Expression>(Expression{std::move(node), line, depth + 1});
}

// A binary operator of two expressions.
template <typename Node>
ExpressionPtr MakeBoth(int line, ExpressionPtr left, ExpressionPtr right) {
  const int depth = std::max(Depth(left), Depth(right));
  return Make(line, depth, Node{std::move(left), std::move(right)});
}

ExpressionPtr MakeArithmetic(int line, ArithmeticOperator op, ExpressionPtr left,
                             ExpressionPtr right) {
  const int depth = std::max(Depth(left), Depth(right));
  return Make(line, depth, Arithmetic{op, std::move(left), std::move(right)});
}

// Bounds the parser's own recursion, which parentheses drive without making expressions.
class Deeper {
 public:
  Deeper(int& recursion, const TokenStream& stream) : recursion_(recursion) {
    if (++recursion_ > kMaxDepth) stream.Fail("an expression is nested too deep");
  }
  ~Deeper() { --recursion_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  int& recursion_;
};

}  // namespace

bool IsReserved(std::string_view name) {
  constexpr std::array<std::string_view, 15> kReserved = {"and",  "or",   "not",   "in",    "is",
                                                          "if",   "else", "elif",  "true",  "True",
                                                          "none", "None", "false", "False", "for"};
  return std::find(kReserved.begin(), kReserved.end(), name) != kReserved.end();
}

const Token& TokenStream::Peek(size_t ahead) const {
  return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
}

const Token& TokenStream::Take() {
  const Token& token = Peek();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool TokenStream::IsOperator(std::string_view text) const {
  return Is(TokenKind::kOperator) && Peek().text == text;
}

bool TokenStream::IsName(std::string_view text) const {
  return Is(TokenKind::kName) && Peek().text == text;
}

bool TokenStream::TakeOperator(std::string_view text) {
  if (!IsOperator(text)) return false;
  Take();
  return true;
}

bool TokenStream::TakeName(std::string_view text) {
  if (!IsName(text)) return false;
  Take();
  return true;
}

const Token& TokenStream::Expect(TokenKind kind, const std::string& expected) {
  if (!Is(kind)) {
    Fail("expected " + expected +
         (Is(TokenKind::kEnd) ? ", not the end" : ", not '" + Peek().text.substr(0, 40) + "'"));
  }
  return Take();
}

void TokenStream::ExpectOperator(std::string_view text) {
  if (!TakeOperator(text)) {
    Fail("expected '" + std::string(text) + "', not '" + Peek().text.substr(0, 40) + "'");
  }
}

void TokenStream::Fail(const std::string& message) const { throw Error(Peek().line, message); }

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
  ExpressionPtr left = ParseProduct();
  while (stream_.IsOperator("~")) {
    const int line = stream_.Take().line;
    left = MakeArithmetic(line, ArithmeticOperator::kConcatenate, std::move(left), ParseProduct());
  }
  return left;
}

ExpressionPtr ExpressionParser::ParseProduct() {
  ExpressionPtr left = ParseUnary(true);
  while (stream_.IsOperator("*") || stream_.IsOperator("//") || stream_.IsOperator("%")) {
    const Token& token = stream_.Take();
    const auto op = token.text == "*"    ? ArithmeticOperator::kMultiply
                    : token.text == "//" ? ArithmeticOperator::kFloorDivide
                                         : ArithmeticOperator::kModulo;
    left = MakeArithmetic(token.line, op, std::move(left), ParseUnary(true));
  }
  if (stream_.IsOperator("/") || stream_.IsOperator("**")) {
    stream_.Fail("the operator '" + stream_.Peek().text + "' is not supported");
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
  if (!stream_.TakeOperator("(")) return Make(token.line, 0, Name{name});

  std::vector<ExpressionPtr> arguments = ParseArguments();
  if (name != "raise_exception") {
    throw Error(token.line, "the function '" + name + "' is not supported");
  }
  if (arguments.size() != 1) throw Error(token.line, "raise_exception takes one argument");
  const int depth = Depth(arguments);
  return Make(token.line, depth, RaiseException{std::move(arguments[0])});
}

// An expression in parentheses, or a tuple: to templates, a list.
ExpressionPtr ExpressionParser::ParseParentheses() {
  const int line = stream_.Peek().line;
  ListDisplay tuple;
  bool is_tuple = stream_.IsOperator(")");
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
    } else if (stream_.IsOperator("(")) {
      stream_.Fail("a call of this is not supported");
    } else {
      return object;
    }
  }
}

ExpressionPtr ExpressionParser::ParseMember(ExpressionPtr object) {
  const Token token = stream_.Expect(TokenKind::kName, "the name of an attribute");
  if (!stream_.TakeOperator("(")) {
    const int depth = Depth(object);
    return Make(token.line, depth, Attribute{std::move(object), token.text});
  }
  return MakeApply(token.line, FindMethod(token.text), "the method '" + token.text + "'",
                   std::move(object), ParseArguments());
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
      const Token token = stream_.Expect(TokenKind::kName, "the name of a filter");
      std::vector<ExpressionPtr> arguments;
      if (stream_.TakeOperator("(")) arguments = ParseArguments();
      operand = MakeApply(token.line, FindFilter(token.text), "the filter '" + token.text + "'",
                          std::move(operand), std::move(arguments));
    } else if (stream_.TakeName("is")) {
      operand = ParseTest(std::move(operand));
    } else {
      return operand;
    }
  }
}

ExpressionPtr ExpressionParser::ParseTest(ExpressionPtr operand) {
  const bool negated = stream_.TakeName("not");
  const Token token = stream_.Expect(TokenKind::kName, "the name of a test");
  ExpressionPtr test = MakeApply(token.line, FindTest(token.text), "the test '" + token.text + "'",
                                 std::move(operand), {});
  if (!negated) return test;
  const int depth = Depth(test);
  return Make(token.line, depth, Not{std::move(test)});
}

std::vector<ExpressionPtr> ExpressionParser::ParseArguments() {
  std::vector<ExpressionPtr> arguments;
  while (!stream_.IsOperator(")")) {
    if (stream_.Is(TokenKind::kName) && stream_.Peek(1).kind == TokenKind::kOperator &&
        stream_.Peek(1).text == "=") {
      stream_.Fail("named arguments are not supported ('" + stream_.Peek().text + "')");
    }
    arguments.push_back(Parse());
    if (!stream_.TakeOperator(",")) break;
  }
  stream_.ExpectOperator(")");
  return arguments;
}

ExpressionPtr ExpressionParser::MakeApply(int line, const Builtin* builtin, const std::string& what,
                                          ExpressionPtr operand,
                                          std::vector<ExpressionPtr> arguments) {
  if (builtin == nullptr) throw Error(line, what + " is not supported");
  if (arguments.size() < builtin->min_arguments || arguments.size() > builtin->max_arguments) {
    throw Error(line, what + " does not take " + std::to_string(arguments.size()) + " arguments");
  }
  const int depth = std::max(Depth(operand), Depth(arguments));
  return Make(line, depth, Apply{builtin, std::move(operand), std::move(arguments)});
}

}  // namespace ropeway::jinja
