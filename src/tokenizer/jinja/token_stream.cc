#include "tokenizer/jinja/token_stream.h"

#include <algorithm>
#include <array>

#include "tokenizer/jinja/error.h"

namespace ropeway::jinja {

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

}  // namespace ropeway::jinja
