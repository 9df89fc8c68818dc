// Parses expressions, for the parser of templates.
#ifndef ROPEWAY_TOKENIZER_JINJA_EXPRESSION_PARSER_H_
#define ROPEWAY_TOKENIZER_JINJA_EXPRESSION_PARSER_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/jinja_ast.h"
#include "tokenizer/jinja_lexer.h"

namespace ropeway::jinja {

// Whether a name is a word of the language, not of a variable.
bool IsReserved(std::string_view name);

// A place in a template's tokens.
class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  // The token `ahead` of the next one; past the end, kEnd.
  const Token& Peek(size_t ahead = 0) const;
  const Token& Take();
  bool Is(TokenKind kind) const { return Peek().kind == kind; }
  bool IsOperator(std::string_view text) const;
  bool IsName(std::string_view text) const;

  // Takes the next token if it is this one.
  bool TakeOperator(std::string_view text);
  bool TakeName(std::string_view text);

  // Takes a token of the kind, or throws Error: `expected` says what should stand here.
  const Token& Expect(TokenKind kind, const std::string& expected);
  void ExpectOperator(std::string_view text);
  [[noreturn]] void Fail(const std::string& message) const;

 private:
  std::vector<Token> tokens_;  // The last one is kEnd.
  size_t at_ = 0;
};

// Each method parses what stands at the stream's place and throws Error.
class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& stream) : stream_(stream) {}

  ExpressionPtr Parse();
  ExpressionPtr ParseWithoutConditional();  // As in "for x in EXPRESSION if ...".

 private:
  // By binding, loosest first, as in Jinja.
  ExpressionPtr ParseAnd();
  ExpressionPtr ParseNot();
  ExpressionPtr ParseComparison();
  ExpressionPtr ParseSum();
  ExpressionPtr ParseConcatenation();
  ExpressionPtr ParseProduct();
  ExpressionPtr ParseUnary(bool with_filters);
  ExpressionPtr ParsePrimary();
  ExpressionPtr ParseName();
  ExpressionPtr ParseParentheses();
  ExpressionPtr ParseList();
  ExpressionPtr ParseDict();

  ExpressionPtr ParsePostfix(ExpressionPtr object);
  ExpressionPtr ParseMember(ExpressionPtr object);
  ExpressionPtr ParseSubscript(ExpressionPtr object);
  ExpressionPtr ParseFilters(ExpressionPtr operand);
  ExpressionPtr ParseTest(ExpressionPtr operand);

  // What stands in parentheses, after the opening one.
  std::vector<ExpressionPtr> ParseArguments();
  ExpressionPtr MakeApply(int line, const Builtin* builtin, const std::string& what,
                          ExpressionPtr operand, std::vector<ExpressionPtr> arguments);

  TokenStream& stream_;
  int recursion_ = 0;
};

}  // namespace ropeway::jinja

#endif  // ROPEWAY_TOKENIZER_JINJA_EXPRESSION_PARSER_H_
