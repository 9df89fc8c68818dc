#include "flags/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

namespace ropeway::flags {
namespace {

constexpr double kMaxMilliseconds = 1000.0 * 3600 * 1000;
constexpr double kMaxBytes = 1152921504606846976.0;  // 2^60

using Unit = std::pair<std::string_view, double>;

constexpr std::array<Unit, 4> kTimeUnits = {{{"ms", 1}, {"s", 1e3}, {"m", 6e4}, {"h", 3.6e6}}};
constexpr std::array<Unit, 11> kSizeUnits = {{{"", 1},
                                              {"B", 1},
                                              {"K", 1024},
                                              {"KiB", 1024},
                                              {"KB", 1e3},
                                              {"M", 1048576},
                                              {"MiB", 1048576},
                                              {"MB", 1e6},
                                              {"G", 1073741824},
                                              {"GiB", 1073741824},
                                              {"GB", 1e9}}};

// The number times its unit; nullopt for what is neither or does not lie in 0 .. `most`.
template <size_t n>
std::optional<double> Parse(std::string_view text, const std::array<Unit, n>& units, double most) {
  double number = 0;
  const auto [rest, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(number) || std::signbit(number)) return std::nullopt;
  const std::string_view unit = text.substr(static_cast<size_t>(rest - text.data()));
  if (unit.empty() && number == 0) return 0;
  for (const auto& [name, factor] : units) {
    if (name == unit && number * factor <= most) return number * factor;
  }
  return std::nullopt;
}

}  // namespace

StatusOr<std::chrono::milliseconds> ParseDuration(std::string_view text) {
  const std::optional<double> value = Parse(text, kTimeUnits, kMaxMilliseconds);
  if (value) return std::chrono::milliseconds(std::llround(*value));
  return InvalidArgument(
      fmt::format("expected a time with its unit, such as 500ms, 30s or 2m, not '{}'", text));
}

std::string FormatDuration(std::chrono::milliseconds duration) {
  const int64_t count = duration.count();
  if (count == 0) return "0";
  if (count % 3600000 == 0) return fmt::format("{}h", count / 3600000);
  if (count % 60000 == 0) return fmt::format("{}m", count / 60000);
  if (count % 1000 == 0) return fmt::format("{}s", count / 1000);
  return fmt::format("{}ms", count);
}

StatusOr<int64_t> ParseSize(std::string_view text) {
  const std::optional<double> value = Parse(text, kSizeUnits, kMaxBytes);
  if (value) return static_cast<int64_t>(std::llround(*value));
  return InvalidArgument(fmt::format(
      "expected a size in bytes or with its unit, such as 48MiB or 4GiB, not '{}'", text));
}

std::string FormatSize(int64_t bytes) {
  for (const auto& [name, shift] : {std::pair("GiB", 30), {"MiB", 20}, {"KiB", 10}}) {
    if (bytes > 0 && bytes % (int64_t{1} << shift) == 0) {
      return fmt::format("{}{}", bytes >> shift, name);
    }
  }
  return fmt::format("{}", bytes);
}

}  // namespace ropeway::flags
