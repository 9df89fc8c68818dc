#include "answer/literal_reader.h"
#include "base/utf8.h"

namespace ropeway::answer {
namespace {

constexpr char32_t kReplacementCode = 0xFFFD;

}  // namespace

void AppendJsonChar(char c, std::string* json) {
  constexpr char kHex[] = "0123456789abcdef";
  switch (c) {
    case '"':
      *json += "\\\"";
      return;
    case '\\':
      *json += "\\\\";
      return;
    case '\n':
      *json += "\\n";
      return;
    case '\t':
      *json += "\\t";
      return;
    case '\r':
      *json += "\\r";
      return;
    default:
      break;
  }
  const auto byte = static_cast<unsigned char>(c);
  if (byte >= 0x20) {
    *json += c;
    return;
  }
  *json += "\\u00";
  *json += kHex[byte >> 4U];
  *json += kHex[byte & 15U];
}

PythonString::Step PythonString::Put(char c, std::string* json) {
  if (opening_) {
    if (c == quote_ && ++run_ < 3) return Step::kInside;
    if (c != quote_ && run_ == 2) return Step::kBehind;
    opening_ = false;
    triple_ = run_ == 3;
    run_ = 0;
    if (triple_) return Step::kInside;
  }
  if (base_ != 0) {
    if (PutDigit(c, json)) return Step::kInside;
  } else if (escaped_) {
    BeginEscape(c, json);
    return Step::kInside;
  }
  if (c == quote_ && ++run_ == (triple_ ? 3 : 1)) {
    EndPair(json);
    return Step::kEnd;
  }
  if (c == quote_) return Step::kInside;
  for (; run_ > 0; --run_) PutContent(quote_, json);
  if (c == '\\') {
    escaped_ = true;
  } else {
    PutContent(c, json);
  }
  return Step::kInside;
}

void PythonString::PutContent(char c, std::string* json) {
  EndPair(json);
  AppendJsonChar(c, json);
}

void PythonString::BeginEscape(char c, std::string* json) {
  escaped_ = false;
  escape_ = {'\\', c};
  code_ = 0;
  switch (c) {
    case '\n':  // The line goes on.
      return;
    case 'x':
      base_ = 16;
      digits_ = 2;
      return;
    case 'u':
      base_ = 16;
      digits_ = 4;
      return;
    case 'U':
      base_ = 16;
      digits_ = 8;
      return;
    default:
      break;
  }
  if (c >= '0' && c <= '7') {
    base_ = 8;
    digits_ = 2;
    code_ = static_cast<uint32_t>(DigitOf(c));
    return;
  }
  constexpr std::string_view kLetters = "\\'\"abfnrtv";
  constexpr std::string_view kMeant = "\\'\"\a\b\f\n\r\t\v";
  if (const size_t at = kLetters.find(c); at != kLetters.npos) return PutContent(kMeant[at], json);
  // Others have no meaning.
  PutContent('\\', json);
  PutContent(c, json);
}

bool PythonString::PutDigit(char c, std::string* json) {
  if (const int digit = DigitOf(c); digit < base_) {
    escape_ += c;
    code_ = code_ * static_cast<uint32_t>(base_) + static_cast<uint32_t>(digit);
    if (--digits_ == 0) AppendCode(json);
    return true;
  }
  if (base_ == 8) {
    AppendCode(json);
  } else {
    // It is none, and stays as it is.
    base_ = 0;
    for (const char each : escape_) PutContent(each, json);
  }
  return false;
}

void PythonString::AppendCode(std::string* json) {
  base_ = 0;
  const bool low = code_ >= 0xDC00 && code_ < 0xE000;
  if (high_ != 0 && low) {
    base::AppendUtf8(0x10000 + ((high_ - 0xD800) << 10U) + (code_ - 0xDC00), *json);
    high_ = 0;
    return;
  }
  EndPair(json);
  if (code_ >= 0xD800 && code_ < 0xDC00) {
    high_ = code_;
  } else if (code_ < 0x80) {
    AppendJsonChar(static_cast<char>(code_), json);
  } else {
    base::AppendUtf8(low || code_ > 0x10FFFF ? kReplacementCode : code_, *json);
  }
}

void PythonString::EndPair(std::string* json) {
  if (high_ != 0) *json += base::kReplacementCharacter;
  high_ = 0;
}

}  // namespace ropeway::answer
