#include "base/split_name.h"

#include <fmt/format.h>

namespace ropeway::base {
namespace {

constexpr size_t kNumberDigits = 5;

// Takes a number of five digits off the end; nullopt if there is none.
std::optional<uint32_t> TakeNumber(std::string_view* text) {
  if (text->size() < kNumberDigits) return std::nullopt;
  const std::string_view digits = text->substr(text->size() - kNumberDigits);
  uint32_t number = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return std::nullopt;
    number = number * 10 + static_cast<uint32_t>(c - '0');
  }
  text->remove_suffix(kNumberDigits);
  return number;
}

bool TakeEnding(std::string_view* text, std::string_view ending) {
  if (!text->ends_with(ending)) return false;
  text->remove_suffix(ending.size());
  return true;
}

}  // namespace

std::string SplitName::Part(uint32_t part) const {
  return fmt::format("{}-{:05}-of-{:05}{}", prefix, part, count, extension);
}

std::optional<SplitName> ParseSplitName(std::string_view path) {
  SplitName name;
  name.extension = ".gguf";
  if (!TakeEnding(&path, name.extension)) return std::nullopt;
  const std::optional<uint32_t> count = TakeNumber(&path);
  if (!count || !TakeEnding(&path, "-of-")) return std::nullopt;
  const std::optional<uint32_t> number = TakeNumber(&path);
  if (!number || !TakeEnding(&path, "-")) return std::nullopt;
  if (*number < 1 || *number > *count) return std::nullopt;
  name.prefix = path;
  name.number = *number;
  name.count = *count;
  return name;
}

}  // namespace ropeway::base
