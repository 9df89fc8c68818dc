#include "answer/argument_value.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "answer/answer_format.h"
#include "answer/call_reader.h"
#include "answer/literal_reader.h"

namespace ropeway::answer {
namespace {

// What a text may be that begins with the character, besides a string.
JsonTypes TypeOfFirst(char c) {
  switch (c) {
    case '{':
      return kObjectType;
    case '[':
      return kArrayType;
    case 't':
    case 'f':
    case 'T':
    case 'F':
      return kBooleanType;
    case 'n':
    case 'N':
      return kNullType;
    case '"':
      return kQuotedType;
    default:
      break;
  }
  return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' ? kNumberType : 0;
}

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && IsSpace(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsSpace(text.back())) text.remove_suffix(1);
  return text;
}

// A list or an object in Python's syntax, which templates show where they print a value as it is.
std::optional<std::string> JsonOfLiteral(std::string_view text) {
  if (text.front() != '[' && text.front() != '{') return std::nullopt;
  LiteralReader reader("");
  std::string json;
  for (size_t i = 0; i < text.size(); ++i) {
    const LiteralReader::Step step = reader.Put(text[i], &json);
    if (step == LiteralReader::Step::kInside) continue;
    const bool whole = step == LiteralReader::Step::kEnd && i + 1 == text.size();
    return whole && nlohmann::json::accept(json) ? std::optional(json) : std::nullopt;
  }
  return std::nullopt;
}

std::optional<std::string> JsonOfPython(std::string_view text) {
  std::string word = JsonOfWord(text);
  return word.front() != '"' ? std::optional(std::move(word)) : JsonOfLiteral(text);
}

}  // namespace

void ArgumentValue::Put(char c, std::string* json) {
  if (c == kControl) return;  // The text of the token is meant.
  const bool first = std::exchange(first_, false);
  if (!lines_ || c != '\n') {
    if (std::exchange(break_, false)) Add('\n', json);
    return Add(c, json);
  }
  if (first) return;
  if (std::exchange(break_, true)) Add('\n', json);
}

void ArgumentValue::Add(char c, std::string* json) {
  if (kind_ == Kind::kString) return AppendJsonChar(c, json);
  held_ += c;
  if (kind_ == Kind::kOther || IsSpace(c)) return;
  kind_ = Kind::kOther;
  if ((types_ & kStringType) == 0 || (types_ & TypeOfFirst(c)) != 0) return;
  kind_ = Kind::kString;
  *json += '"';
  for (const char each : std::exchange(held_, {})) AppendJsonChar(each, json);
}

void ArgumentValue::End(std::string* json) {
  switch (kind_) {
    case Kind::kString:
      *json += '"';
      return;
    case Kind::kUnknown:
      *json += QuotedText(held_);
      return;
    case Kind::kOther:
      break;
  }
  const std::string_view text = Trimmed(held_);
  if (nlohmann::json::accept(text)) {
    *json += text;
    return;
  }
  const bool python = (types_ & kStringType) == 0;
  *json += (python ? JsonOfPython(text) : std::nullopt).value_or(QuotedText(held_));
}

void ArgumentValue::Cut(std::string* json) {
  if (kind_ == Kind::kOther) *json += held_;
}

}  // namespace ropeway::answer
