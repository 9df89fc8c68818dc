#include "server/json_fields.h"

#include <fmt/format.h>

#include <limits>

#include "base/utf8.h"

namespace ropeway {
namespace {

using nlohmann::json;

// A value as an error message shows it: scalars by their text, the rest by their type.
std::string Shown(const json& value) {
  if (value.is_number() || value.is_boolean()) return value.dump();
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array";
  if (value.is_null()) return "null";
  return "a string";
}

}  // namespace

std::string ShownName(const std::string& name) { return ReplaceInvalidUtf8(name.substr(0, 64)); }

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

StatusOr<int64_t> ReadInt(const json& value, const std::string& field, int64_t low, int64_t high) {
  bool fits = false;
  if (value.is_number_unsigned()) {
    uint64_t n = value.get<uint64_t>();
    fits = high >= 0 && n <= static_cast<uint64_t>(high) &&
           (low <= 0 || n >= static_cast<uint64_t>(low));
  } else if (value.is_number_integer()) {
    int64_t n = value.get<int64_t>();
    fits = n >= low && n <= high;
  }
  if (!fits) return Mismatch(value, field, fmt::format("an integer from {} to {}", low, high));
  return value.get<int64_t>();
}

StatusOr<int32_t> ReadInt32(const json& value, const std::string& field, int32_t low,
                            int32_t high) {
  StatusOr<int64_t> read = ReadInt(value, field, low, high);
  if (!read.ok()) return read.status();
  return static_cast<int32_t>(*read);
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

}  // namespace ropeway
