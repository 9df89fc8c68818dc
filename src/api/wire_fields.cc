#include "api/wire_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/json.h"
#include "base/utf8.h"
#include "base/words.h"

namespace ropeway::api::wire {
namespace {

using Json = nlohmann::json;

const Json& Nothing() { return base::Member(Json(), ""); }

const char* KindOf(const Json& value) {
  if (value.is_string()) return "a string";
  if (value.is_number()) return "a number";
  if (value.is_boolean()) return "a boolean";
  if (value.is_null()) return "null";
  return value.is_array() ? "a list" : "an object";
}

// The members that hold the text of a part of this type, and whether the model thinks there;
// nothing: it is of no known type.
struct PartText {
  std::string_view type;
  const char* member;
  bool thought;
};
constexpr PartText kParts[] = {
    {"text", "text", false},
    {"output_text", "text", false},
    {"", "text", false},
    {"refusal", "refusal", false},
    {"thinking", "thinking", true},
    {"reasoning", "reasoning", true},
    {"reasoning_text", "text", true},
};

constexpr bool IsFirstHalf(char32_t code) { return code >= 0xD800 && code < 0xDC00; }
constexpr bool IsSecondHalf(char32_t code) { return code >= 0xDC00 && code < 0xE000; }

// A half is marked as one of the last characters of the last private plane. There are as many marks
// as halves.
constexpr char32_t kFirstMark = 0x10F800;
constexpr std::string_view kMarksBegin = "\xF4\x8F";

// The code of the escape "\uXXXX" at `at`; nothing: there is none.
std::optional<char32_t> EscapeAt(std::string_view text, size_t at) {
  constexpr size_t kLength = 6;
  if (text.size() < kLength || at > text.size() - kLength) return std::nullopt;
  if (text[at] != '\\' || text[at + 1] != 'u') return std::nullopt;
  uint32_t code = 0;
  const char* const digits = text.data() + at + 2;
  const auto [end, error] = std::from_chars(digits, digits + 4, code, 16);
  if (error != std::errc() || end != digits + 4) return std::nullopt;
  return code;
}

// `document` with replace(code) in place of each half that stands alone; nothing: it has none.
template <typename Replace>
std::optional<std::string> WithoutHalves(std::string_view document, Replace replace) {
  constexpr size_t kLength = 6;
  std::optional<std::string> out;
  size_t copied = 0;
  for (size_t at = document.find('\\'); at < document.size(); at = document.find('\\', at)) {
    const std::optional<char32_t> code = EscapeAt(document, at);
    if (!code || *code < 0xD800 || *code >= 0xE000) {
      at += 2;  // The second backslash of "\\u" begins no escape.
      continue;
    }
    const std::optional<char32_t> next = EscapeAt(document, at + kLength);
    if (IsFirstHalf(*code) && next && IsSecondHalf(*next)) {
      at += 2 * kLength;
      continue;
    }
    if (!out) out.emplace();
    out->append(document.substr(copied, at - copied));
    base::AppendUtf8(replace(*code), *out);
    copied = at += kLength;
  }
  if (out) out->append(document.substr(copied));
  return out;
}

}  // namespace

void FieldReader::Wrong(const Json& value, const char* name) {
  Fault(name, fmt::format("as {}", KindOf(value)));
}

void FieldReader::Fault(const char* name, std::string_view what) {
  if (fault_.empty()) fault_ = fmt::format("sent the field '{}' {}", name, what);
}

const Json& FieldReader::Object(const Json& value, const char* name) {
  if (value.is_object()) return value;
  if (!value.is_null() && !(value.is_array() && value.empty())) Wrong(value, name);
  return Nothing();
}

const Json& FieldReader::List(const Json& value, const char* name) {
  if (value.is_array()) return value;
  if (!value.is_null()) Wrong(value, name);
  return Nothing();
}

std::string_view FieldReader::Text(const Json& value, const char* name) {
  if (!value.is_string() && !value.is_null()) Wrong(value, name);
  return base::Text(value);
}

void FieldReader::Said(const Json& value, const char* name, std::string* text,
                       std::string* thoughts) {
  if (value.is_null()) return;
  if (value.is_string()) {
    *text += base::Text(value);
  } else if (value.is_array()) {
    for (const Json& part : value) Said(part, name, text, thoughts);
  } else if (value.is_object()) {
    const std::string_view type = Text(base::Member(value, "type"), name);
    const auto* const part = std::find_if(std::begin(kParts), std::end(kParts),
                                          [&](const PartText& one) { return one.type == type; });
    if (part != std::end(kParts) && (!type.empty() || value.contains(part->member))) {
      Said(base::Member(value, part->member), name, part->thought ? thoughts : text, thoughts);
    } else {
      Fault(name, fmt::format("with a part of the unknown type '{}'", type));
    }
  } else {
    Wrong(value, name);
  }
}

std::optional<int32_t> FieldReader::Count(const Json& value, const char* name) {
  double number = -1;
  if (value.is_number()) {
    number = value.get<double>();  // Exact for every number in the range.
  } else if (const std::string_view text = base::Text(value); !text.empty()) {
    const std::optional<double> parsed = base::ParseNumber<double>(text);
    if (!parsed) {
      Wrong(value, name);
      return std::nullopt;
    }
    number = *parsed;
  } else if (!value.is_null()) {
    Wrong(value, name);
  }
  constexpr double kMost = std::numeric_limits<int32_t>::max();
  if (!(number >= 0 && number <= kMost) || number != std::floor(number)) return std::nullopt;
  return static_cast<int32_t>(number);
}

std::optional<uint64_t> FieldReader::Integer(const Json& value, const char* name) {
  if (value.is_number_unsigned()) return value.get<uint64_t>();
  if (!value.is_null()) Wrong(value, name);
  return std::nullopt;
}

std::optional<double> FieldReader::Number(const Json& value, const char* name) {
  if (value.is_number()) return value.get<double>();
  if (!value.is_null()) Wrong(value, name);
  return std::nullopt;
}

std::optional<bool> FieldReader::Flag(const Json& value, const char* name) {
  if (value.is_boolean()) return value.get<bool>();
  if (value == 1 || value == "true") return true;
  if (value == 0 || value == "false") return false;
  if (!value.is_null()) Wrong(value, name);
  return std::nullopt;
}

std::optional<std::string> ReplaceHalves(std::string_view document) {
  return WithoutHalves(document, [](char32_t) -> char32_t { return 0xFFFD; });
}

std::optional<std::string> MarkHalves(std::string_view document) {
  return WithoutHalves(document, [](char32_t half) { return kFirstMark + (half - 0xD800); });
}

std::string HalfJoiner::Join(std::string text, bool marked) {
  if (text.empty()) return text;
  const bool has_marks = marked && text.find(kMarksBegin) != std::string::npos;
  std::string out;
  if (!has_marks) {
    Flush(&out);
    return out.empty() ? std::move(text) : out + text;
  }
  for (size_t at = 0; at < text.size();) {
    const base::Utf8Step step = base::StepUtf8(text, at);
    if (step.kind == base::Utf8Kind::kValid && step.code_point >= kFirstMark) {
      TakeHalf(0xD800 + (step.code_point - kFirstMark), &out);
    } else {
      Flush(&out);
      out.append(text, at, step.length);
    }
    at += step.length;
  }
  return out;
}

std::string HalfJoiner::Rest() {
  std::string out;
  Flush(&out);
  return out;
}

void HalfJoiner::TakeHalf(char32_t half, std::string* out) {
  if (first_ != 0 && IsSecondHalf(half)) {
    base::AppendUtf8(0x10000 + ((first_ - 0xD800) << 10U) + (half - 0xDC00), *out);
    first_ = 0;
    return;
  }
  Flush(out);
  if (IsFirstHalf(half)) {
    first_ = half;
  } else {
    *out += base::kReplacementCharacter;
  }
}

void HalfJoiner::Flush(std::string* out) {
  if (std::exchange(first_, 0) != 0) *out += base::kReplacementCharacter;
}

}  // namespace ropeway::api::wire
