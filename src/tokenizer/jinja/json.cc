#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <vector>

#include "base/utf8.h"
#include "tokenizer/jinja/text.h"

namespace ropeway::tokenizer::jinja {
namespace {

class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, Context& context)
      : style_(style), context_(context), text_(&context) {}

  Str Run(const Value& value) {
    Write(value, 0);
    return text_.Take();
  }

 private:
  void Append(std::string_view part) {
    context_.Charge(part.size());
    text_.Add(part);
  }
  void Append(const Str& str) {
    context_.Charge(str.text.size());
    text_.Add(str);
  }

  void Write(const Value& value, size_t level) {
    if (value.is_string()) {
      WriteString(value.str());
    } else if (value.is_list()) {
      WriteList(value.list(), level);
    } else if (value.is_dict()) {
      WriteDict(value.dict(), level);
    } else {
      Append(Scalar(value));
    }
  }

  static std::string Scalar(const Value& value) {
    if (value.is_none()) return "null";
    if (value.is_bool()) return value.Truth() ? "true" : "false";
    if (value.is_integer()) return std::to_string(value.integer());
    if (value.is_float() && std::isnan(value.number())) return "NaN";
    if (value.is_float() && std::isinf(value.number()))
      return value.number() < 0 ? "-Infinity" : "Infinity";
    if (value.is_float()) return FloatText(value.number());
    if (value.is_undefined()) Reject(value.why());
    Reject(std::string("cannot write ") + value.TypeName() + " as JSON");
  }

  void NewLine(size_t level) {
    if (!style_.indent) return;
    Append("\n");
    for (size_t i = 0; i < level; ++i) Append(*style_.indent);
  }

  void WriteList(const List& items, size_t level) {
    Append("[");
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) Append(style_.item_separator);
      NewLine(level + 1);
      Write(items[i], level + 1);
    }
    if (!items.empty()) NewLine(level);
    Append("]");
  }

  void WriteDict(const Dict& entries, size_t level) {
    std::vector<const std::pair<Value, Value>*> order;
    for (const auto& entry : entries) order.push_back(&entry);
    if (style_.sort_keys) Sort(order);
    Append("{");
    for (size_t i = 0; i < order.size(); ++i) {
      if (i > 0) Append(style_.item_separator);
      NewLine(level + 1);
      const Value& key = order[i]->first;
      WriteString(key.is_string() ? key.str() : Str{Scalar(key)});
      Append(style_.key_separator);
      Write(order[i]->second, level + 1);
    }
    if (!order.empty()) NewLine(level);
    Append("}");
  }

  static void Sort(std::vector<const std::pair<Value, Value>*>& order) {
    for (const auto* entry : order) {
      if (!entry->first.is_string()) {
        Reject("sort_keys supports only keys that are strings");
      }
    }
    std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
      return a->first.string() < b->first.string();
    });
  }

  static void AppendEscape(uint32_t unit, std::string* text) {
    std::array<char, 8> buffer{};
    std::snprintf(buffer.data(), buffer.size(), "\\u%04x", unit & 0xFFFFU);
    *text += buffer.data();
  }

  void WriteString(const Str& str) {
    const std::string_view value = str.text;
    const auto keep = [&](std::string_view part) {
      context_.Charge(part.size());
      text_.AddPart(str, part);
    };
    Append("\"");
    size_t plain = 0;  // The beginning of the text that needs no escape.
    for (size_t at = 0; at < value.size();) {
      const base::Utf8Step step = base::StepUtf8(value, at);
      const char32_t c = step.code_point;
      const bool escapes =
          step.kind == base::Utf8Kind::kValid &&
          (c < 0x20 || c == '"' || c == '\\' || (style_.ensure_ascii && c >= 0x7F));
      if (escapes) {
        keep(value.substr(plain, at - plain));
        const std::string escape = EscapeOf(c);
        context_.Charge(escape.size());
        text_.Add(escape, AnyQuoted(str, value.substr(at, step.length)));
        plain = at + step.length;
      }
      at += step.length;
    }
    keep(value.substr(plain));
    Append("\"");
  }

  static std::string EscapeOf(char32_t c) {
    constexpr std::string_view kPlain = "\"\\\n\r\t\f\b";
    constexpr std::string_view kLetters = "\"\\nrtfb";
    const size_t known = c < 0x80 ? kPlain.find(static_cast<char>(c)) : kPlain.npos;
    std::string escape;
    if (known != kPlain.npos) {
      escape = {'\\', kLetters[known]};
    } else if (c > 0xFFFF) {
      AppendEscape(0xD800U + ((c - 0x10000U) >> 10U), &escape);
      AppendEscape(0xDC00U + ((c - 0x10000U) & 0x3FFU), &escape);
    } else {
      AppendEscape(c, &escape);
    }
    return escape;
  }

  const JsonStyle& style_;
  Context& context_;
  StrBuilder text_;
};

// The memory of a parsed value per byte of its text, at most.
constexpr size_t kBytesPerJsonByte = 32;

// Builds the value while the parser reads. As in Python, a repeated key keeps its position and
// takes the later value.
class JsonReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  // `quoted`: what its strings are.
  explicit JsonReader(bool quoted) : quoted_(quoted) {}

  Value Take() { return std::move(result_); }

  bool null() override { return Add(Value()); }
  bool boolean(bool value) override { return Add(Value::Of(value)); }
  bool number_integer(int64_t value) override { return Add(Value::Of(value)); }
  bool number_unsigned(uint64_t value) override {
    if (value > static_cast<uint64_t>(INT64_MAX)) {
      Reject("an integer is too large");
    }
    return Add(Value::Of(static_cast<int64_t>(value)));
  }
  bool number_float(double value, const std::string&) override { return Add(Value::Of(value)); }
  bool string(std::string& value) override { return Add(StringValue(std::move(value))); }
  bool binary(nlohmann::json::binary_t&) override { return false; }

  bool start_object(size_t) override { return Open(); }
  bool key(std::string& name) override {
    Level& level = levels_.back();
    const auto [position, is_new] = level.positions.try_emplace(name, level.entries.size());
    if (is_new) level.entries.emplace_back(StringValue(std::move(name)), Value());
    level.at = position->second;
    return true;
  }
  bool end_object() override {
    Value value = Value::Of(std::move(levels_.back().entries));
    levels_.pop_back();
    return Add(std::move(value));
  }
  bool start_array(size_t) override {
    Open();
    levels_.back().is_list = true;
    return true;
  }
  bool end_array() override {
    Value value = Value::Of(std::move(levels_.back().items));
    levels_.pop_back();
    return Add(std::move(value));
  }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception&) override {
    return false;
  }

 private:
  // A list or dictionary that is open.
  struct Level {
    bool is_list = false;
    List items;
    Dict entries;
    std::unordered_map<std::string, size_t> positions;  // The entries' positions, by key.
    size_t at = 0;                                      // The entry of the next value.
  };

  bool Open() {
    if (levels_.size() >= Value::kMaxDepth) Reject("from_json: the JSON is nested too deeply");
    levels_.emplace_back();
    return true;
  }

  Value StringValue(std::string text) const {
    Str str{std::move(text)};
    if (quoted_) AddSpan(0, str.text.size(), &str.quoted);
    return Value::Of(std::move(str));
  }

  bool Add(Value value) {
    if (levels_.empty()) {
      result_ = std::move(value);
    } else if (levels_.back().is_list) {
      levels_.back().items.push_back(std::move(value));
    } else {
      levels_.back().entries[levels_.back().at].second = std::move(value);
    }
    return true;
  }

  const bool quoted_;
  Value result_;
  std::vector<Level> levels_;
};

}  // namespace

Value FromJson(const Str& text, Context& context) {
  context.Charge(text.text.size() * kBytesPerJsonByte);
  JsonReader reader(!text.quoted.empty());
  if (!nlohmann::json::sax_parse(text.text, &reader)) {
    Reject("from_json: the string is not valid JSON");
  }
  return reader.Take();
}

Str ToJson(const Value& value, const JsonStyle& style, Context& context) {
  return JsonWriter(style, context).Run(value);
}

}  // namespace ropeway::tokenizer::jinja
