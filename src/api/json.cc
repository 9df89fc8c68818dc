#include "api/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/utf8.h"

namespace ropeway::api {
namespace {

using nlohmann::json;

constexpr size_t kMaxShown = 64;  // Bytes of a client's text in an error message.

// A value as an error message shows it: scalars by their text (of strings the beginning), the rest
// by their type.
std::string Shown(const json& value) {
  if (value.is_number() || value.is_boolean()) return value.dump();
  if (value.is_object()) return "an object";
  if (value.is_array()) return value.empty() ? "an empty array" : "an array";
  if (value.is_null()) return "null";
  const auto& text = value.get_ref<const std::string&>();
  return fmt::format("\"{}\"{}", ShownName(text), text.size() > kMaxShown ? "..." : "");
}

}  // namespace

StatusOr<json> ReadJson(std::string_view text, const base::JsonBounds& bounds) {
  return base::ReadJson(text, bounds, "The body");
}

std::string ShownName(const std::string& name) {
  return base::ReplaceInvalidUtf8(name.substr(0, kMaxShown));
}

Status UnknownField(const std::string& path) {
  return InvalidArgument(fmt::format("Unknown field '{}'.", path), path);
}

Status AtEntry(const Status& fault, const std::string& field) {
  return InvalidArgument(fault.message(), field);
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
    if (!id.ok()) {
      const std::string at = fmt::format("{}[{}]", field, ids.size());
      id = ReadInt32(item, at, 0, std::numeric_limits<TokenId>::max());
      return AtEntry(id.status(), field);
    }
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

}  // namespace ropeway::api
