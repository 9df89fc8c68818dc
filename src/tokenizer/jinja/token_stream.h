// A place in a template's tokens.
#ifndef ROPEWAY_TOKENIZER_JINJA_TOKEN_STREAM_H_
#define ROPEWAY_TOKENIZER_JINJA_TOKEN_STREAM_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/jinja/lexer.h"

namespace ropeway::jinja {

// Whether a name is a word of the language, not of a variable.
bool IsReserved(std::string_view name);

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

  // Takes a token of the kind, or throws Error: `expected` says what should
  // stand here.
  const Token& Expect(TokenKind kind, const std::string& expected);
  void ExpectOperator(std::string_view text);
  [[noreturn]] void Fail(const std::string& message) const;

 private:
  std::vector<Token> tokens_;  // The last one is kEnd.
  size_t at_ = 0;
};

}  // namespace ropeway::jinja

#endif  // ROPEWAY_TOKENIZER_JINJA_TOKEN_STREAM_H_
