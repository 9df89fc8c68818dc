#include "flags/flag.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/words.h"

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

namespace {

using std::chrono::milliseconds;

// A value of one text.
FlagValue OneText(ValueKind kind, std::string placeholder,
                  std::function<Status(const std::string&)> set) {
  FlagValue value;
  value.kind = kind;
  value.placeholder = std::move(placeholder);
  value.set = [set = std::move(set)](const std::vector<std::string>& texts) {
    return set(texts.back());
  };
  return value;
}

FlagValue OneOf(std::vector<std::string> choices, std::function<void(const std::string&)> store) {
  FlagValue value =
      OneText(ValueKind::kText, fmt::format("{}", fmt::join(choices, "|")),
              [choices, store = std::move(store)](const std::string& text) {
                if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
                  return InvalidArgument(
                      fmt::format("expected one of {}, not '{}'", fmt::join(choices, ", "), text));
                }
                store(text);
                return Status();
              });
  value.choices = std::move(choices);
  return value;
}

// A number from `least` to `most`; `what` names it in messages.
template <typename T>
FlagValue Between(ValueKind kind, const char* placeholder, const char* what,
                  const std::string& bounds, T least, T most, std::function<void(T)> store) {
  FlagValue value = OneText(kind, placeholder, [=](const std::string& text) {
    const std::optional<T> number = base::ParseNumber<T>(text);
    // The negation rejects NaN.
    if (!number || !(*number >= least && *number <= most)) {
      return InvalidArgument(fmt::format("expected {}, {}, not '{}'", what, bounds, text));
    }
    store(*number);
    return Status();
  });
  value.bounds = bounds;
  return value;
}

FlagValue AboveZero(double most, std::function<void(double)> store) {
  // What is less than the least float is 0 as a float.
  return Between<double>(ValueKind::kNumber, "X", "a number", fmt::format("above 0, to {:g}", most),
                         std::numeric_limits<float>::denorm_min(), most, std::move(store));
}

// What `parse` makes of a text with a unit, at least `least`.
template <typename T>
FlagValue AtLeast(ValueKind kind, const char* placeholder, StatusOr<T> (*parse)(std::string_view),
                  std::string (*format)(T), T least, std::function<void(T)> store) {
  return OneText(kind, placeholder, [=](const std::string& text) {
    const StatusOr<T> value = parse(text);
    if (!value.ok()) return value.status();
    if (*value < least) {
      return InvalidArgument(fmt::format("expected at least {}, not '{}'", format(least), text));
    }
    store(*value);
    return Status();
  });
}

StatusOr<int64_t> ParseRate(const std::string& text) {
  if (text == "auto") return int64_t{0};
  if (text.ends_with("/s")) {
    const StatusOr<int64_t> size = ParseSize(std::string_view(text).substr(0, text.size() - 2));
    if (size.ok() && *size > 0) return size;
  }
  return InvalidArgument(
      fmt::format("expected auto, or bytes per second such as 20MiB/s, not '{}'", text));
}

}  // namespace

namespace internal {

FlagValue Int(int64_t least, int64_t most, std::function<void(int64_t)> store) {
  return Between(ValueKind::kInt, "N", "a whole number", fmt::format("{} to {}", least, most),
                 least, most, std::move(store));
}

FlagValue Number(double least, double most, std::function<void(double)> store) {
  return Between(ValueKind::kNumber, "X", "a number", fmt::format("{:g} to {:g}", least, most),
                 least, most, std::move(store));
}

FlagValue Size(int64_t least, std::function<void(int64_t)> store) {
  return AtLeast(ValueKind::kSize, "SIZE", ParseSize, FormatSize, least, std::move(store));
}

FlagValue Duration(milliseconds least, std::function<void(milliseconds)> store) {
  return AtLeast(ValueKind::kTime, "TIME", ParseDuration, FormatDuration, least, std::move(store));
}

FlagValue Parsed(std::string placeholder,
                 std::function<Status(const std::string&)> parse_and_store) {
  const ValueKind kind = placeholder == "N|auto" ? ValueKind::kIntOrAuto : ValueKind::kText;
  return OneText(kind, std::move(placeholder), std::move(parse_and_store));
}

std::string NumberText(double value) { return fmt::format("{:g}", value); }
std::string SizeText(int64_t bytes) { return FormatSize(bytes); }
std::string DurationText(milliseconds duration) { return FormatDuration(duration); }

}  // namespace internal

FlagValue FlagValue::Default(std::string text) const {
  FlagValue copy = *this;
  copy.default_text = std::move(text);
  return copy;
}

FlagValue FlagValue::Environment(std::string variable) const {
  FlagValue copy = *this;
  copy.environment = std::move(variable);
  return copy;
}

FlagValue FlagValue::Required() const {
  FlagValue copy = *this;
  copy.required = true;
  return copy;
}

FlagValue FlagValue::Words(std::string command) const {
  FlagValue copy = *this;
  copy.words = std::move(command);
  return copy;
}

FlagValue FlagValue::Table(std::string key) const {
  FlagValue copy = *this;
  copy.table_key = std::move(key);
  return copy;
}

FlagValue FlagValue::NotEmpty() const {
  FlagValue copy = *this;
  copy.set = [set = set](const std::vector<std::string>& texts) {
    if (texts.back().empty()) return InvalidArgument("expected a value, not ''");
    return set(texts);
  };
  return copy;
}

FlagTable Join(std::initializer_list<FlagTable> tables) {
  FlagTable all;
  for (const FlagTable& table : tables) all.insert(all.end(), table.begin(), table.end());
  return all;
}

FlagValue SwitchValue(bool* target) {
  return OneText(ValueKind::kSwitch, "", [target](const std::string& text) {
    if (text != "true" && text != "false") {
      return InvalidArgument(fmt::format("expected true or false, not '{}'", text));
    }
    *target = text == "true";
    return Status();
  });
}

FlagValue OnOffValue(bool* target) {
  return OneOf({"on", "off"}, [target](const std::string& text) { *target = text == "on"; })
      .Default(*target ? "on" : "off");
}

FlagValue SeedValue(std::optional<uint64_t>* target) {
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  return Between<uint64_t>(ValueKind::kInt, "N", "a whole number", fmt::format("0 to {}", kMost), 0,
                           kMost, [target](uint64_t number) { *target = number; })
      .Default("random");
}

FlagValue AboveZeroValue(float* target, double most) {
  return AboveZero(most, [target](double number) { *target = static_cast<float>(number); })
      .Default(internal::NumberText(*target));
}

FlagValue AboveZeroValue(std::optional<float>* target, double most) {
  return AboveZero(most, [target](double number) { *target = static_cast<float>(number); });
}

FlagValue RateValue(int64_t* target) {
  return ParsedValue(target, "RATE", ParseRate)
      .Default(*target == 0 ? "auto" : FormatSize(*target) + "/s");
}

FlagValue TextValue(std::string* target, const std::string& placeholder) {
  return OneText(ValueKind::kText, placeholder,
                 [target](const std::string& text) {
                   *target = text;
                   return Status();
                 })
      .Default(*target);
}

FlagValue TextsValue(std::vector<std::string>* target, const std::string& placeholder) {
  FlagValue value;
  value.placeholder = placeholder;
  value.repeated = true;
  value.set = [target](const std::vector<std::string>& texts) {
    *target = texts;
    return Status();
  };
  return value;
}

FlagValue ManyTextsValue(std::vector<std::string>* target, const std::string& placeholder) {
  FlagValue value = TextsValue(target, placeholder);
  value.many = true;
  return value;
}

FlagValue ChoiceValue(std::string* target, std::vector<std::string> choices) {
  return OneOf(std::move(choices), [target](const std::string& text) { *target = text; })
      .Default(*target);
}

std::vector<FlagName> NamesOf(const Flag& flag) {
  std::vector<FlagName> names;
  for (std::string_view rest = flag.names; !rest.empty();) {
    const size_t comma = std::min(rest.find(','), rest.size());
    std::string_view name = rest.substr(0, comma);
    const bool negated = name.starts_with('!');
    if (negated) name.remove_prefix(1);
    names.push_back({std::string(name), negated});
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return names;
}

std::string MainName(const Flag& flag) {
  const std::vector<FlagName> names = NamesOf(flag);
  for (const FlagName& name : names) {
    if (name.text.starts_with("--")) return name.text;
  }
  return names.front().text;
}

bool IsArgument(const Flag& flag) { return !flag.names.starts_with('-'); }

}  // namespace ropeway::flags
