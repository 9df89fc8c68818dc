#include "tokenizer/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/utf8.h"
#include "tokenizer/jinja/text.h"
#include "tokenizer/jinja/value.h"

namespace ropeway::tokenizer::jinja {
namespace {

bool IsNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

std::string NormaliseNewlines(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      text.push_back(source[i]);
    } else if (i + 1 == source.size() || source[i + 1] != '\n') {
      text.push_back('\n');
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  std::vector<Token> Run() {
    while (at_ < source_.size()) {
      LexText();
      if (at_ < source_.size()) LexTag();
    }
    Emit(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  std::string_view Rest() const { return std::string_view(source_).substr(at_); }
  bool At(std::string_view text) const { return Rest().starts_with(text); }

  void Advance(size_t count) {
    const std::string_view passed = Rest().substr(0, count);
    line_ += static_cast<int>(std::count(passed.begin(), passed.end(), '\n'));
    at_ += passed.size();
  }

  void Emit(TokenKind kind, std::string text, int64_t integer = 0, double number = 0) {
    tokens_.push_back({kind, std::move(text), integer, number, line_});
  }

  bool TagBeginsAt(size_t i) const {
    if (source_[i] != '{' || i + 1 == source_.size()) return false;
    return source_[i + 1] == '%' || source_[i + 1] == '{' || source_[i + 1] == '#';
  }

  // The text up to the next tag, or to the end.
  void LexText() {
    size_t end = at_;
    while (end < source_.size() && !TagBeginsAt(end)) ++end;
    std::string_view text = std::string_view(source_).substr(at_, end - at_);
    const size_t length = text.size();
    if (end < source_.size()) {
      const char kind = source_[end + 1];
      const char sign = end + 2 < source_.size() ? source_[end + 2] : ' ';
      if (sign == '-') {
        text = StripRight(text);
      } else if (sign != '+' && kind != '{') {
        text = WithoutIndentation(text);
      }
    }
    if (!text.empty()) Emit(TokenKind::kText, std::string(text));
    Advance(length);
  }

  // lstrip_blocks: without the white space between the start of a line and a tag.
  std::string_view WithoutIndentation(std::string_view text) const {
    const size_t newline = text.rfind('\n');
    if (newline == text.npos && !at_line_start_) return text;
    const size_t line = newline == text.npos ? 0 : newline + 1;
    return StripLeft(text.substr(line)).empty() ? text.substr(0, line) : text;
  }

  // The length of the tag {% word %} at `from` bytes ahead; 0 if that is another tag. `sign` is set
  // to its sign, and `strips` to whether it strips the white space after it.
  size_t MatchWordTag(size_t from, std::string_view word, char* sign, bool* strips) const {
    std::string_view rest = Rest().substr(from);
    const size_t all = rest.size();
    if (!rest.starts_with("{%")) return 0;
    rest.remove_prefix(2);
    *sign = rest.starts_with('-') || rest.starts_with('+') ? rest[0] : ' ';
    if (*sign != ' ') rest.remove_prefix(1);
    rest = StripLeft(rest);
    if (!rest.starts_with(word)) return 0;
    rest = StripLeft(rest.substr(word.size()));
    *strips = rest.starts_with('-');
    if (*strips) rest.remove_prefix(1);
    if (!rest.starts_with("%}")) return 0;
    rest.remove_prefix(2);
    if (*strips) rest = StripLeft(rest);
    return all - rest.size();
  }

  // {% raw %}: plain text until {% endraw %}. False if no such tag is here.
  bool LexRaw() {
    char sign = ' ';
    bool strips = false;
    const int line = line_;
    const size_t begin = MatchWordTag(0, "raw", &sign, &strips);
    if (begin == 0) return false;
    Advance(begin);
    at_line_start_ = source_[at_ - 1] == '\n';
    size_t end = Rest().find("{%");
    size_t tag = 0;
    while (end != std::string_view::npos) {
      tag = MatchWordTag(end, "endraw", &sign, &strips);
      if (tag != 0) break;
      end = Rest().find("{%", end + 1);
    }
    if (tag == 0) throw Error(line, "the raw block that begins here is not closed");
    std::string_view text = Rest().substr(0, end);
    if (sign == '-') text = StripRight(text);
    if (sign == ' ') text = WithoutIndentation(text);
    if (!text.empty()) Emit(TokenKind::kText, std::string(text));
    Advance(end + tag);
    if (!strips && At("\n")) Advance(1);
    at_line_start_ = source_[at_ - 1] == '\n';
    return true;
  }

  void LexTag() {
    if (LexRaw()) return;
    const char kind = source_[at_ + 1];
    const int line = line_;
    const bool sign = Rest().substr(2).starts_with('-') || Rest().substr(2).starts_with('+');
    if (kind == '{') Emit(TokenKind::kOutputBegin, "{{");
    if (kind == '%') Emit(TokenKind::kBlockBegin, "{%");
    Advance(sign ? 3 : 2);

    const std::string_view end = kind == '{' ? "}}" : kind == '%' ? "%}" : "#}";
    while (true) {
      if (kind != '#') SkipSpace();
      if (at_ >= source_.size()) throw Error(line, "the tag that begins here is not closed");
      if (brackets_.empty() && LexTagEnd(end)) break;
      if (kind == '#') {
        Advance(1);
      } else {
        LexToken();
      }
    }
  }

  // Skips `end` with its sign and the white space that it strips. False if it is not here.
  bool LexTagEnd(std::string_view end) {
    const bool minus = At("-") && Rest().substr(1).starts_with(end);
    const bool plus = end != "}}" && At("+") && Rest().substr(1).starts_with(end);
    if (!minus && !plus && !At(end)) return false;
    if (end == "}}") Emit(TokenKind::kOutputEnd, "}}");
    if (end == "%}") Emit(TokenKind::kBlockEnd, "%}");
    size_t length = end.size() + (minus || plus ? 1 : 0);
    const std::string_view after = Rest().substr(length);
    if (minus) {
      length += after.size() - StripLeft(after).size();
    } else if (!plus && end != "}}" && after.starts_with('\n')) {
      ++length;  // trim_blocks
    }
    Advance(length);
    at_line_start_ = source_[at_ - 1] == '\n';
    return true;
  }

  void SkipSpace() { Advance(Rest().size() - StripLeft(Rest()).size()); }

  void LexToken() {
    const char c = source_[at_];
    if (IsNameStart(c)) {
      size_t length = 1;
      while (at_ + length < source_.size() &&
             (IsNameStart(source_[at_ + length]) || IsDigit(source_[at_ + length]))) {
        ++length;
      }
      Emit(TokenKind::kName, std::string(Rest().substr(0, length)));
      Advance(length);
    } else if (IsDigit(c)) {
      LexNumber();
    } else if (c == '\'' || c == '"') {
      LexString(c);
    } else {
      LexOperator();
    }
  }

  // The number of digits at `from` bytes ahead.
  size_t CountDigits(size_t from) const {
    size_t count = 0;
    while (at_ + from + count < source_.size() && IsDigit(source_[at_ + from + count])) ++count;
    return count;
  }

  char CharAt(size_t ahead) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }

  void LexNumber() {
    const size_t whole = CountDigits(0);
    size_t length = whole;
    // "list.0.1" has no float.
    if (at_ == 0 || source_[at_ - 1] != '.') {
      if (CharAt(length) == '.' && IsDigit(CharAt(length + 1))) {
        length += 1 + CountDigits(length + 1);
      }
      const bool sign = CharAt(length + 1) == '+' || CharAt(length + 1) == '-';
      const size_t exponent = CountDigits(length + (sign ? 2 : 1));
      if ((CharAt(length) == 'e' || CharAt(length) == 'E') && exponent > 0) {
        length += (sign ? 2 : 1) + exponent;
      }
    }
    const std::string text(Rest().substr(0, length));
    if (IsNameStart(CharAt(length)) || (length == whole && length > 1 && text[0] == '0')) {
      throw Error(line_, "only plain decimal numbers are supported");
    }
    int64_t integer = 0;
    double number = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = length == whole ? std::from_chars(text.data(), end, integer)
                                               : std::from_chars(text.data(), end, number);
    if (error != std::errc()) throw Error(line_, "a number is too large");
    Emit(length == whole ? TokenKind::kInteger : TokenKind::kFloat, text, integer, number);
    Advance(length);
  }

  void LexString(char quote) {
    const int line = line_;
    std::string value;
    Advance(1);
    while (at_ < source_.size() && source_[at_] != quote) {
      if (source_[at_] == '\\') {
        LexEscape(value);
      } else {
        value.push_back(source_[at_]);
        Advance(1);
      }
    }
    if (at_ >= source_.size()) throw Error(line, "the string that begins here is not closed");
    Advance(1);
    tokens_.push_back({TokenKind::kString, std::move(value), 0, 0, line});
  }

  // Python's escapes; an unknown one is kept with its backslash.
  void LexEscape(std::string& value) {
    constexpr std::string_view kLetters = "ntrabfv\\'\"";
    constexpr std::string_view kMeanings = "\n\t\r\a\b\f\v\\'\"";
    const char c = at_ + 1 < source_.size() ? source_[at_ + 1] : '\0';
    if (const size_t known = kLetters.find(c); known != kLetters.npos) {
      value.push_back(kMeanings[known]);
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      AppendEscaped(digits, 2, 16, value);
      Advance(digits);
    } else if (c >= '0' && c <= '7') {
      size_t digits = 1;
      while (digits < 3 && Rest().size() > digits + 1 && Rest()[digits + 1] >= '0' &&
             Rest()[digits + 1] <= '7') {
        ++digits;
      }
      AppendEscaped(digits, 1, 8, value);
      Advance(digits - 1);
    } else if (c == 'N') {
      throw Error(line_, "named characters (\\N) are not supported");
    } else if (c != '\n') {
      value.append(Rest().substr(0, 2));
    }
    Advance(2);
  }

  void AppendEscaped(size_t digits, size_t from, int base, std::string& value) {
    const std::string_view text = Rest().substr(std::min(from, Rest().size()), digits);
    uint32_t code_point = 0;
    const auto [stop, error] =
        std::from_chars(text.data(), text.data() + text.size(), code_point, base);
    const bool surrogate = code_point >= 0xD800 && code_point < 0xE000;
    if (error != std::errc() || stop != text.data() + digits || code_point > 0x10FFFF ||
        surrogate) {
      throw Error(line_, "an escape in a string is not a valid character");
    }
    base::AppendUtf8(code_point, value);
  }

  void LexOperator() {
    constexpr std::array<std::string_view, 6> kDouble = {"==", "!=", "<=", ">=", "//", "**"};
    constexpr std::string_view kSingle = "+-*/%~<>=()[]{},.:|";
    for (const std::string_view text : kDouble) {
      if (At(text)) {
        Emit(TokenKind::kOperator, std::string(text));
        Advance(2);
        return;
      }
    }
    const char c = source_[at_];
    if (kSingle.find(c) == kSingle.npos) {
      throw Error(line_, std::string("unexpected '") + c + "' in a tag");
    }
    Balance(c);
    Emit(TokenKind::kOperator, std::string(1, c));
    Advance(1);
  }

  // Within brackets, "}}" ends two dictionaries, not the tag.
  void Balance(char c) {
    if (c == '(' || c == '[' || c == '{')
      brackets_.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    if (c == ')' || c == ']' || c == '}') {
      if (brackets_.empty() || brackets_.back() != c) {
        throw Error(line_, std::string("unexpected '") + c + "'");
      }
      brackets_.pop_back();
    }
  }

  std::string source_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int line_ = 1;
  bool at_line_start_ = true;  // Whether the last token ended a line.
  std::string brackets_;       // The expected closing brackets, innermost last.
};

}  // namespace

TokenStream::TokenStream(std::string_view source)
    : tokens_(Lexer(NormaliseNewlines(source)).Run()) {}

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
         (Is(TokenKind::kEnd) ? ", got the end of the template"
                              : ", got '" + Peek().text.substr(0, 40) + "'"));
  }
  return Take();
}

void TokenStream::ExpectOperator(std::string_view text) {
  if (!TakeOperator(text)) {
    Fail("expected '" + std::string(text) + "', got '" + Peek().text.substr(0, 40) + "'");
  }
}

void TokenStream::Fail(const std::string& message) const { throw Error(Peek().line, message); }

}  // namespace ropeway::tokenizer::jinja
