// Splits a template's source into tokens.
#ifndef ROPEWAY_TOKENIZER_JINJA_LEXER_H_
#define ROPEWAY_TOKENIZER_JINJA_LEXER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ropeway::tokenizer::jinja {

enum class TokenKind {
  kText,         // Text between tags, after white space control.
  kBlockBegin,   // {%
  kBlockEnd,     // %}
  kOutputBegin,  // {{
  kOutputEnd,    // }}
  kName,
  kInteger,
  kFloat,
  kString,  // Its value, without quotes and escapes.
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;
  int64_t integer = 0;  // For kInteger.
  double number = 0;    // For kFloat.
  int line = 1;
};

// Whether a name is a keyword.
bool IsReserved(std::string_view name);

// A position in the tokens of a template.
class TokenStream {
 public:
  // Comments are dropped, and white space is controlled as Jinja does with trim_blocks and
  // lstrip_blocks, the options that Hugging Face renders chat templates with; a newline at the very
  // end is dropped. Throws Error.
  explicit TokenStream(std::string_view source);

  // The token `ahead` of the next one; past the end, kEnd.
  const Token& Peek(size_t ahead = 0) const;
  const Token& Take();
  bool Is(TokenKind kind) const { return Peek().kind == kind; }
  bool IsOperator(std::string_view text) const;
  bool IsName(std::string_view text) const;

  // Take the next token if it is this one.
  bool TakeOperator(std::string_view text);
  bool TakeName(std::string_view text);

  // Takes a token of the kind, or throws Error; `expected` names the token in the message.
  const Token& Expect(TokenKind kind, const std::string& expected);
  void ExpectOperator(std::string_view text);
  [[noreturn]] void Fail(const std::string& message) const;

 private:
  std::vector<Token> tokens_;  // The last one is kEnd.
  size_t at_ = 0;
};

}  // namespace ropeway::tokenizer::jinja

#endif  // ROPEWAY_TOKENIZER_JINJA_LEXER_H_
