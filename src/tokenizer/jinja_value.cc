#include "tokenizer/jinja_value.h"

#include <algorithm>
#include <stdexcept>

#include "base/utf8.h"

namespace ropeway::jinja {
namespace {

// Python's str.isspace().
bool IsSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

}  // namespace

Value Value::Of(std::string value) {
  return Value(Data(std::make_shared<const std::string>(std::move(value))));
}

// Values are freed and compared by recursion, so how deep they lie must be bounded.
void Value::CheckDepth(int depth) {
  if (depth > kMaxDepth) throw std::length_error("lists lie too deep within each other");
}

Value Value::Of(List items) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.Depth());
  CheckDepth(depth + 1);
  return Value(Data(std::make_shared<const ListData>(ListData{std::move(items), depth + 1})));
}

Value Value::Of(Dict entries) {
  int depth = 0;
  for (const auto& [key, value] : entries) depth = std::max(depth, value.Depth());
  CheckDepth(depth + 1);
  return Value(Data(std::make_shared<const DictData>(DictData{std::move(entries), depth + 1})));
}

int Value::Depth() const {
  if (is_list()) return std::get<ListPtr>(data_)->depth;
  if (is_dict()) return std::get<DictPtr>(data_)->depth;
  return 0;
}

int64_t Value::number() const {
  return is_bool() ? static_cast<int64_t>(std::get<bool>(data_)) : std::get<int64_t>(data_);
}

bool Value::Truth() const {
  if (is_number()) return number() != 0;
  if (is_string()) return !string().empty();
  if (is_list()) return !list().empty();
  if (is_dict()) return !dict().empty();
  return false;
}

bool Value::operator==(const Value& other) const {
  if (is_number() && other.is_number()) return number() == other.number();
  if (data_.index() != other.data_.index()) return false;
  if (is_string()) return string() == other.string();
  if (is_list()) return list() == other.list();
  if (!is_dict()) return true;
  if (dict().size() != other.dict().size()) return false;
  return std::all_of(dict().begin(), dict().end(), [&](const auto& entry) {
    const Value* value = other.Find(entry.first);
    return value != nullptr && entry.second == *value;
  });
}

const Value* Value::Find(std::string_view key) const {
  for (const auto& [name, value] : dict()) {
    if (name == key) return &value;
  }
  return nullptr;
}

const char* Value::TypeName() const {
  if (is_undefined()) return "undefined";
  if (is_none()) return "none";
  if (is_bool()) return "a boolean";
  if (is_integer()) return "an integer";
  if (is_string()) return "a string";
  return is_list() ? "a list" : "a dictionary";
}

std::vector<std::string_view> Characters(std::string_view text) {
  std::vector<std::string_view> characters;
  for (size_t at = 0; at < text.size();) {
    const size_t length = StepUtf8(text, at).length;
    characters.push_back(text.substr(at, length));
    at += length;
  }
  return characters;
}

std::string_view StripLeft(std::string_view text) {
  while (!text.empty()) {
    const Utf8Step step = StepUtf8(text, 0);
    if (step.kind != Utf8Kind::kValid || !IsSpace(step.code_point)) break;
    text.remove_prefix(step.length);
  }
  return text;
}

std::string_view StripRight(std::string_view text) {
  while (!text.empty()) {
    size_t at = text.size() - 1;
    while (at > 0 && text.size() - at < 4 && (static_cast<uint8_t>(text[at]) & 0xC0U) == 0x80U)
      --at;
    const Utf8Step step = StepUtf8(text, at);
    const bool whole = step.kind == Utf8Kind::kValid && at + step.length == text.size();
    if (!whole || !IsSpace(step.code_point)) break;
    text.remove_suffix(step.length);
  }
  return text;
}

}  // namespace ropeway::jinja
