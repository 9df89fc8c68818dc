#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "model/hf_folder.h"

namespace ropeway::model {
namespace {

using nlohmann::json;

constexpr size_t kMaxListItems = 1 << 20;

}  // namespace

StatusOr<json> ReadHfFile(const std::string& folder, std::string_view name, size_t max_bytes,
                          const base::JsonBounds& bounds) {
  const std::string path = fmt::format("{}/{}", folder, name);
  const StatusOr<std::string> text = base::ReadWholeFile(path, max_bytes);
  if (!text.ok()) return text.status();
  StatusOr<json> read = base::ReadJson(*text, bounds, "the file");
  if (read.ok()) return read;
  return Status(StatusCode::kDataLoss,
                fmt::format("{}: {}", path, base::PrintableText(read.status().message())));
}

std::string HfField(std::string_view file, std::string_view key) {
  return fmt::format("{} \"{}\"", file, key);
}

HfFields::HfFields(std::string_view path, std::string_view file, const json& object)
    : path_(path), file_(file), object_(object) {
  if (object.is_object()) return;
  failures_.Add({StatusCode::kDataLoss, fmt::format("{}/{}: is not a JSON object", path, file)});
}

const json* HfFields::Find(std::string_view key) const {
  if (!object_.is_object()) return nullptr;
  const auto at = object_.find(std::string(key));
  return at == object_.end() || at->is_null() ? nullptr : &*at;
}

bool HfFields::IsNull(std::string_view key) const {
  if (!object_.is_object()) return false;
  const auto at = object_.find(std::string(key));
  return at != object_.end() && at->is_null();
}

std::string_view HfFields::Name(std::initializer_list<std::string_view> keys) const {
  for (const std::string_view key : keys) {
    if (Has(key)) return key;
  }
  return *keys.begin();
}

void HfFields::Fail(StatusCode code, std::string_view key, const std::string& what) {
  const std::string field = Field(key);
  failures_.Add({code, fmt::format("{}: {}: {}", path_, field, what), field});
}

void HfFields::Mismatch(std::string_view key, const char* expected) {
  std::string found = Find(key)->dump(-1, ' ', true, json::error_handler_t::replace);
  if (found.size() > 40) found = found.substr(0, 40) + "...";
  Fail(StatusCode::kDataLoss, key, fmt::format("expected {}, got {}", expected, found));
}

uint32_t HfFields::Uint(std::string_view key, std::optional<uint32_t> absent) {
  const json* value = Find(key);
  if (value == nullptr) {
    if (!absent) Missing(key);
    return absent.value_or(0);
  }
  // Above, GGUF's recipes bound each number further.
  constexpr uint64_t kMost = std::numeric_limits<int32_t>::max();
  if (value->is_number_unsigned() && value->get<uint64_t>() <= kMost) {
    return static_cast<uint32_t>(value->get<uint64_t>());
  }
  Mismatch(key, "a whole number from 0 to 2147483647");
  return 0;
}

double HfFields::Number(std::string_view key, std::optional<double> absent) {
  const json* value = Find(key);
  if (value == nullptr) {
    if (!absent) Missing(key);
    return absent.value_or(0.0);
  }
  if (value->is_number() && std::isfinite(value->get<double>())) return value->get<double>();
  Mismatch(key, "a number");
  return 0.0;
}

bool HfFields::Bool(std::string_view key, bool absent) {
  const json* value = Find(key);
  if (value == nullptr) return absent;
  if (value->is_boolean()) return value->get<bool>();
  Mismatch(key, "true or false");
  return absent;
}

std::string HfFields::Text(std::string_view key, const std::optional<std::string>& absent) {
  const json* value = Find(key);
  if (value == nullptr) {
    if (!absent) Missing(key);
    return absent.value_or("");
  }
  if (value->is_string()) return value->get<std::string>();
  Mismatch(key, "a string");
  return "";
}

std::vector<std::string> HfFields::Texts(std::string_view key) {
  std::vector<std::string> texts;
  const json* value = Find(key);
  if (value == nullptr) return texts;
  if (!value->is_array() || value->size() > kMaxListItems) {
    Mismatch(key, "a list of strings");
    return texts;
  }
  for (const json& item : *value) {
    if (!item.is_string()) {
      Mismatch(key, "a list of strings");
      return {};
    }
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

std::vector<float> HfFields::Numbers(std::string_view key) {
  std::vector<float> numbers;
  const json* value = Find(key);
  if (value == nullptr) return numbers;
  if (!value->is_array() || value->size() > kMaxListItems) {
    Mismatch(key, "a list of numbers");
    return numbers;
  }
  for (const json& item : *value) {
    // Also true for NaN.
    if (!item.is_number() ||
        !(std::fabs(item.get<double>()) <= double{std::numeric_limits<float>::max()})) {
      Mismatch(key, "a list of numbers");
      return {};
    }
    numbers.push_back(static_cast<float>(item.get<double>()));
  }
  return numbers;
}

const json* HfFields::Object(std::string_view key) {
  const json* value = Find(key);
  if (value == nullptr || value->is_object()) return value;
  Mismatch(key, "an object");
  return nullptr;
}

}  // namespace ropeway::model
