#include "server/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/utf8.h"

namespace ropeway::server {
namespace {

using nlohmann::json;

constexpr size_t kMaxShown = 64;  // Bytes of a client's text in an error message.

// The library's description of a syntax error, without its prefix and bounded, as it quotes the
// input.
std::string Detail(const char* what) {
  std::string_view text = what;
  for (std::string_view mark : {"] ", ": "}) {
    size_t at = text.find(mark);
    if (at != std::string_view::npos) text.remove_prefix(at + mark.size());
  }
  constexpr size_t kMost = 120;
  return text.size() <= kMost ? std::string(text) : std::string(text.substr(0, kMost)) + "...";
}

// Builds a document from parse events. The library's parser keeps its own stack on the heap, one
// bit a level, so events are all that nesting costs until `max_depth` stops it.
class Builder final : public nlohmann::json_sax<json> {
 public:
  explicit Builder(const JsonBounds& bounds) : bounds_(bounds) {}

  bool null() override { return Put(nullptr) != nullptr; }
  bool boolean(bool value) override { return Put(value) != nullptr; }
  bool number_integer(number_integer_t value) override { return Put(value) != nullptr; }
  bool number_unsigned(number_unsigned_t value) override { return Put(value) != nullptr; }
  bool number_float(number_float_t value, const string_t&) override {
    return Put(value) != nullptr;
  }
  bool string(string_t& value) override { return Put(std::move(value)) != nullptr; }
  bool binary(binary_t&) override { return Fail("Binary values are not JSON"); }

  bool start_object(std::size_t) override { return Open(json::object()); }
  bool end_object() override { return Close(); }
  bool start_array(std::size_t) override { return Open(json::array()); }
  bool end_array() override { return Close(); }

  bool key(string_t& name) override {
    if (!Count()) return false;
    json& object = *open_.back();
    if (object.contains(name)) {
      return Fail("The key '" + name.substr(0, 64) + "' is given twice in one object");
    }
    key_slot_ = &object[name];
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    return Fail("The body is not valid JSON at byte " + std::to_string(position) + ": " +
                Detail(error.what()));
  }

  json TakeRoot() { return std::move(root_); }
  const std::string& failure() const { return failure_; }

 private:
  bool Fail(std::string why) {
    failure_ = std::move(why);
    return false;
  }

  bool Count() {
    if (++values_ <= bounds_.max_values) return true;
    return Fail("The body holds more than " + std::to_string(bounds_.max_values) + " JSON values");
  }

  json* Put(json value) {
    if (!Count()) return nullptr;
    json* slot = &root_;
    if (!open_.empty() && open_.back()->is_array()) {
      open_.back()->push_back(nullptr);
      slot = &open_.back()->back();
    } else if (!open_.empty()) {
      slot = key_slot_;
    }
    *slot = std::move(value);
    return slot;
  }

  // Addresses in open_ stay valid: a container grows only while it is the innermost one.
  bool Open(json container) {
    if (static_cast<int>(open_.size()) >= bounds_.max_depth) {
      return Fail("The body is nested deeper than " + std::to_string(bounds_.max_depth) +
                  " levels");
    }
    json* slot = Put(std::move(container));
    if (slot == nullptr) return false;
    open_.push_back(slot);
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  const JsonBounds bounds_;
  json root_;
  std::vector<json*> open_;
  json* key_slot_ = nullptr;  // Where the value of the last key goes.
  size_t values_ = 0;
  std::string failure_;
};

// A value as an error message shows it: scalars by their text (of strings the beginning), the rest
// by their type.
std::string Shown(const json& value) {
  if (value.is_number() || value.is_boolean()) return value.dump();
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array";
  if (value.is_null()) return "null";
  const auto& text = value.get_ref<const std::string&>();
  return fmt::format("\"{}\"{}", ShownName(text), text.size() > kMaxShown ? "..." : "");
}

}  // namespace

StatusOr<json> ReadJson(std::string_view text, const JsonBounds& bounds) {
  // The library takes a NUL byte for the end of its input, and would ignore what follows.
  const size_t nul = text.find('\0');
  if (nul != std::string_view::npos) {
    return InvalidArgument("The body is not valid JSON at byte " + std::to_string(nul + 1) +
                           ": a NUL byte");
  }
  Builder builder(bounds);
  if (!json::sax_parse(text.begin(), text.end(), &builder)) {
    return InvalidArgument(base::ReplaceInvalidUtf8(builder.failure()));
  }
  return builder.TakeRoot();
}

std::string ShownName(const std::string& name) {
  return base::ReplaceInvalidUtf8(name.substr(0, kMaxShown));
}

Status UnknownField(const std::string& path) {
  return InvalidArgument(fmt::format("Unknown field '{}'.", path), path);
}

Status Mismatch(const json& value, const std::string& field, const std::string& expected) {
  return InvalidArgument(fmt::format("'{}' must be {}, but is {}.", field, expected, Shown(value)),
                         field);
}

StatusOr<bool> ReadBool(const json& value, const std::string& field) {
  if (!value.is_boolean()) return Mismatch(value, field, "true or false");
  return value.get<bool>();
}

StatusOr<std::string> ReadString(const json& value, const std::string& field) {
  if (!value.is_string()) return Mismatch(value, field, "a string");
  return value.get<std::string>();
}

StatusOr<int32_t> ReadInt32(const json& value, const std::string& field, int32_t low,
                            int32_t high) {
  // Read as int64_t, an unsigned value beyond its range would turn negative.
  const bool huge = value.is_number_unsigned() &&
                    value.get<uint64_t>() > uint64_t{std::numeric_limits<int32_t>::max()};
  if (value.is_number_integer() && !huge) {
    const auto n = value.get<int64_t>();
    if (n >= low && n <= high) return static_cast<int32_t>(n);
  }
  return Mismatch(value, field, fmt::format("an integer from {} to {}", low, high));
}

StatusOr<std::vector<TokenId>> ReadTokenIds(const json& list, const std::string& field) {
  std::vector<TokenId> ids;
  ids.reserve(list.size());
  for (const json& item : list) {
    StatusOr<int32_t> id = ReadInt32(item, field, 0, std::numeric_limits<TokenId>::max());
    if (!id.ok()) return id.status();
    ids.push_back(*id);
  }
  return ids;
}

StatusOr<double> ReadNumber(const json& value, const std::string& field, double low, double high,
                            bool above_low) {
  if (value.is_number()) {
    double x = value.get<double>();
    if (x <= high && (above_low ? x > low : x >= low)) return x;
  }
  return Mismatch(
      value, field,
      fmt::format("a number {} {} and at most {}", above_low ? "above" : "of at least", low, high));
}

Status Unsupported(const std::string& field, const std::string& where) {
  return {StatusCode::kUnimplemented, fmt::format("'{}' is not supported{}.", field, where), field};
}

Status SupportsOnly(const std::string& field, const std::string& value) {
  return {StatusCode::kUnimplemented, fmt::format("'{}' supports only {}.", field, value), field};
}

Status IgnoreString(const json& value, const std::string& field, const void*) {
  return value.is_string() ? Status() : Mismatch(value, field, "a string");
}

Status IgnoreBool(const json& value, const std::string& field, const void*) {
  return value.is_boolean() ? Status() : Mismatch(value, field, "true or false");
}

Status Reject(const json&, const std::string& field, const void*) { return Unsupported(field); }

Status RejectUnlessEmpty(const json& value, const std::string& field, const void*) {
  const bool empty = (value.is_array() || value.is_object()) && value.empty();
  return empty ? Status() : Unsupported(field);
}

Status RejectUnlessFalse(const json& value, const std::string& field, const void*) {
  StatusOr<bool> on = ReadBool(value, field);
  if (!on.ok()) return on.status();
  return *on ? SupportsOnly(field, "false") : Status();
}

Status RejectUnlessTrue(const json& value, const std::string& field, const void*) {
  StatusOr<bool> on = ReadBool(value, field);
  if (!on.ok()) return on.status();
  return *on ? Status() : SupportsOnly(field, "true");
}

std::string DumpJson(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void AppendJsonString(std::string_view text, std::string* out) {
  std::string repaired;
  const bool ascii = std::none_of(text.begin(), text.end(), [](char c) { return (c & 0x80) != 0; });
  if (!ascii && !base::IsValidUtf8(text)) {
    repaired = base::ReplaceInvalidUtf8(text);
    text = repaired;
  }
  out->push_back('"');
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out->push_back('\\');
      out->push_back(c);
    } else if (c == '\n') {
      out->append("\\n");
    } else if (byte < 0x20 || byte == 0x7F) {
      fmt::format_to(std::back_inserter(*out), "\\u{:04x}", byte);
    } else {
      out->push_back(c);
    }
  }
  out->push_back('"');
}

}  // namespace ropeway::server
