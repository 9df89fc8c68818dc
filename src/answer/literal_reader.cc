#include "answer/literal_reader.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "answer/json_calls.h"

namespace ropeway::answer {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Removes digits from the front; whether there were any.
bool TakeDigits(std::string_view* text) {
  size_t count = 0;
  while (count < text->size() && IsDigit((*text)[count])) ++count;
  text->remove_prefix(count);
  return count > 0;
}

bool IsJsonNumber(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  if (text.size() > 1 && text[0] == '0' && IsDigit(text[1])) return false;
  if (!TakeDigits(&text)) return false;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    if (!TakeDigits(&text)) return false;
  }
  if (text.starts_with('e') || text.starts_with('E')) {
    text.remove_prefix(1);
    if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
    if (!TakeDigits(&text)) return false;
  }
  return text.empty();
}

// A whole number behind 0x, 0o or 0b.
std::optional<std::string> OfBase(std::string_view digits, int base) {
  uint64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [at, error] = std::from_chars(digits.data(), end, value, base);
  if (digits.empty() || at != end || error != std::errc()) return std::nullopt;
  return std::to_string(value);
}

// Python's numbers: 1_000, +1, .5, 5., 0x1F.
std::optional<std::string> JsonNumber(std::string_view word) {
  if (IsJsonNumber(word)) return std::string(word);
  std::string sign;
  if (word.starts_with('-') || word.starts_with('+')) {
    if (word[0] == '-') sign = "-";
    word.remove_prefix(1);
  }
  if (word.empty() || (!IsDigit(word[0]) && word[0] != '.')) return std::nullopt;
  std::string digits;
  for (size_t i = 0; i < word.size(); ++i) {
    if (word[i] != '_') {
      digits += word[i];
    } else if (i + 1 == word.size() || word[i + 1] == '_') {
      return std::nullopt;
    }
  }
  if (digits.size() > 2 && digits[0] == '0') {
    const size_t kind = std::string_view("xXoObB").find(digits[1]);
    if (kind != std::string_view::npos) {
      const auto value = OfBase(std::string_view(digits).substr(2), kind < 2   ? 16
                                                                    : kind < 4 ? 8
                                                                               : 2);
      return value ? std::optional(sign + *value) : std::nullopt;
    }
  }
  const size_t point = digits.find('.');
  if (point != digits.npos && digits.size() > 1) {
    if (point + 1 == digits.size() || !IsDigit(digits[point + 1])) digits.insert(point + 1, "0");
    if (point == 0) digits.insert(0, "0");
  }
  digits.insert(0, sign);
  return IsJsonNumber(digits) ? std::optional(digits) : std::nullopt;
}

}  // namespace

std::string QuotedText(std::string_view text) {
  std::string json = "\"";
  for (const char c : text) AppendJsonChar(c, &json);
  return json + '"';
}

std::string JsonOfWord(std::string_view word) {
  if (word == "True" || word == "true") return "true";
  if (word == "False" || word == "false") return "false";
  if (word == "None" || word == "null") return "null";
  return JsonNumber(word).value_or(QuotedText(word));
}

bool LiteralReader::Begins(char c) {
  return c == '"' || c == '\'' || c == '[' || c == '{' || c == '+' ||
         (IsNameChar(c) || (static_cast<unsigned char>(c) >= 0x80 && c != kControl));
}

bool LiteralReader::IsWordChar(char c) const {
  if (loose_) {
    return c != ',' && c != ']' && c != '}' && c != '[' && c != '{' && c != kControl &&
           (c != ':' || !key_);
  }
  return IsNameChar(c) || c == '+' || (static_cast<unsigned char>(c) >= 0x80 && c != kControl);
}

LiteralReader::Step LiteralReader::Put(char c, std::string* json) {
  switch (state_) {
    case State::kValue:
    case State::kElement:
    case State::kKey:
      return PutValue(c, json);
    case State::kColon:
      if (IsSpace(c)) return Step::kInside;
      if (c != ':') return Step::kInvalid;
      *json += ':';
      state_ = State::kValue;
      return Step::kInside;
    case State::kAfter:
      if (IsSpace(c)) return Step::kInside;
      if (c == ']' || c == '}') return Close(c, json);
      if (c != ',') return Step::kInvalid;
      comma_ = true;
      state_ = open_.back() == '{' ? State::kKey : State::kElement;
      return Step::kInside;
    case State::kString:
      switch (string_.Put(c, json)) {
        case PythonString::Step::kInside:
          return Step::kInside;
        case PythonString::Step::kEnd:
          *json += '"';
          return EndPart(Step::kEnd);
        case PythonString::Step::kBehind:
          *json += '"';
          if (EndPart(Step::kBehind) == Step::kBehind) return Step::kBehind;
          return Put(c, json);
      }
      return Step::kInvalid;
    case State::kQuoted: {
      std::string passed;
      const bool ends = quote_.Put(c, &passed) >= 0;
      for (const char each : passed) AppendJsonChar(each, json);
      if (!ends) return Step::kInside;
      *json += '"';
      return EndPart(Step::kEnd);
    }
    case State::kWord:
      return PutWord(c, json);
  }
  return Step::kInvalid;
}

LiteralReader::Step LiteralReader::PutValue(char c, std::string* json) {
  if (loose_) {
    // The mark that opens a string. It ends no word, so that all of what it held is the word's
    // beginning, if it is one.
    std::string passed;
    if (quote_.Put(c, &passed) >= 0) {
      WriteComma(json);
      *json += '"';
      key_ = state_ == State::kKey;
      state_ = State::kQuoted;
      return Step::kInside;
    }
    if (quote_.holds() && passed.empty()) return Step::kInside;
    if (passed.size() > 1 || quote_.holds()) {
      passed += quote_.Take();
      WriteComma(json);
      key_ = state_ == State::kKey;
      state_ = State::kWord;
      word_ = passed.substr(0, passed.size() - 1);
      if (passed[0] != kControl) return PutWord(passed.back(), json);
      Finish(json);
      return Step::kInvalid;
    }
  }
  if (IsSpace(c)) return Step::kInside;
  if ((c == ']' && state_ == State::kElement) || (c == '}' && state_ == State::kKey)) {
    return Close(c, json);
  }
  const bool key = state_ == State::kKey;
  if (c == '[' || c == '{') return key ? Step::kInvalid : Open(c, json);
  key_ = key;
  if (c == '"' || c == '\'') {
    WriteComma(json);
    *json += '"';
    string_ = PythonString(c);
    state_ = State::kString;
    return Step::kInside;
  }
  if (!IsWordChar(c) || c == ':') return Step::kInvalid;
  WriteComma(json);
  state_ = State::kWord;
  word_ = c;
  return Step::kInside;
}

LiteralReader::Step LiteralReader::PutWord(char c, std::string* json) {
  const bool held = word_.size() <= kMostHeld;
  if (held && IsWordChar(c)) {
    word_ += c;
    return Step::kInside;
  }
  if (!held || (!IsSpace(c) && c != ',' && c != ':' && c != ']' && c != '}' && c != ')')) {
    Finish(json);
    return Step::kInvalid;
  }
  while (!word_.empty() && IsSpace(word_.back())) word_.pop_back();
  *json += key_ ? QuotedText(word_) : JsonOfWord(word_);
  word_.clear();
  if (EndPart(Step::kBehind) == Step::kBehind) return Step::kBehind;
  return Put(c, json);
}

LiteralReader::Step LiteralReader::Open(char c, std::string* json) {
  WriteComma(json);
  *json += c;
  open_ += c;
  comma_ = false;
  state_ = c == '{' ? State::kKey : State::kElement;
  return Step::kInside;
}

LiteralReader::Step LiteralReader::Close(char c, std::string* json) {
  if (open_.back() != (c == '}' ? '{' : '[')) return Step::kInvalid;
  open_.pop_back();
  *json += c;
  key_ = false;
  return EndPart(Step::kEnd);
}

LiteralReader::Step LiteralReader::EndPart(Step end) {
  comma_ = false;
  state_ = key_ ? State::kColon : State::kAfter;
  return open_.empty() ? end : Step::kInside;
}

void LiteralReader::WriteComma(std::string* json) {
  if (comma_) *json += ',';
  comma_ = false;
}

void LiteralReader::Finish(std::string* json) {
  for (const char c : quote_.Take()) AppendJsonChar(c, json);
  *json += std::exchange(word_, {});
}

}  // namespace ropeway::answer
