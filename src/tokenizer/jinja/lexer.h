// Cuts a template's source into tokens.
#ifndef ROPEWAY_TOKENIZER_JINJA_LEXER_H_
#define ROPEWAY_TOKENIZER_JINJA_LEXER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ropeway::jinja {

enum class TokenKind {
  kText,         // What stands between tags, after white space control.
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

// The tokens of `source`, the last one kEnd. Comments are left out, and white
// space is controlled as Jinja does with trim_blocks and lstrip_blocks, which
// is what Hugging Face renders chat templates with; a newline at the very end
// is dropped. Throws Error.
std::vector<Token> Lex(std::string_view source);

}  // namespace ropeway::jinja

#endif  // ROPEWAY_TOKENIZER_JINJA_LEXER_H_
