// Flags of the kinds that Ropeway has, on top of CLI11: each with its placeholder in the help, its
// default, its bounds, and one sentence about a value that is refused. The placeholder also says
// what a configuration file may hold (toml_config.h).
#ifndef ROPEWAY_CLI_FLAGS_H_
#define ROPEWAY_CLI_FLAGS_H_

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ropeway/status.h"

namespace ropeway {

// Placeholders: what stands for the value in the help.
inline constexpr char kIntPlaceholder[] = "N";
inline constexpr char kNumberPlaceholder[] = "X";
inline constexpr char kTimePlaceholder[] = "TIME";
inline constexpr char kSizePlaceholder[] = "SIZE";
inline constexpr char kRatePlaceholder[] = "RATE";
inline constexpr char kFilePlaceholder[] = "FILE";
inline constexpr char kFolderPlaceholder[] = "DIR";
inline constexpr char kIntOrAutoPlaceholder[] = "N|auto";

// Accepts whole numbers from `least` to `most`, or any number in that range.
CLI::Validator IntBetween(int64_t least, int64_t most);
CLI::Validator NumberBetween(double least, double most);
// Accepts any text but the empty one: a variable of the shell that is not set.
CLI::Validator NotEmpty();

// Each adds the option `name` of `app`, which writes to `*value` and shows what is there now as the
// default. `value` must outlive the parsing.
template <typename T>
CLI::Option* AddInt(CLI::App* app, const std::string& name, T* value, int64_t least, int64_t most,
                    const std::string& description) {
  return app->add_option(name, *value, description)
      ->type_name(kIntPlaceholder)
      ->check(IntBetween(least, most))
      ->capture_default_str();
}

template <typename T>
CLI::Option* AddNumber(CLI::App* app, const std::string& name, T* value, double least, double most,
                       const std::string& description) {
  return app->add_option(name, *value, description)
      ->type_name(kNumberPlaceholder)
      ->check(NumberBetween(least, most))
      ->capture_default_str();
}

// An option whose value is read by `parse`, a function from text to StatusOr, and handed to `keep`.
template <typename Parse, typename Keep>
CLI::Option* AddParsed(CLI::App* app, const std::string& name, const std::string& placeholder,
                       const std::string& description, Parse parse, Keep keep) {
  const CLI::callback_t callback = [name, parse, keep](const CLI::results_t& results) {
    auto value = parse(results.at(0));
    if (!value.ok()) throw CLI::ValidationError(name, value.status().message());
    keep(*value);
    return true;
  };
  return app->add_option(name, CLI::callback_t(callback), description)
      ->type_name(placeholder)
      ->expected(1);
}

CLI::Option* AddText(CLI::App* app, const std::string& name, std::string* value,
                     const std::string& placeholder, const std::string& description);

// May be given any number of times.
CLI::Option* AddTexts(CLI::App* app, const std::string& name, std::vector<std::string>* values,
                      const std::string& placeholder, const std::string& description);

// One of `choices`, which the description lists.
CLI::Option* AddChoice(CLI::App* app, const std::string& name, std::string* value,
                       const std::vector<std::string>& choices, const std::string& description);

// `least`: the shortest time that is accepted.
CLI::Option* AddDuration(CLI::App* app, const std::string& name, std::chrono::milliseconds* value,
                         const std::string& description,
                         std::chrono::milliseconds least = std::chrono::milliseconds(0));
CLI::Option* AddDuration(CLI::App* app, const std::string& name,
                         std::optional<std::chrono::milliseconds>* value,
                         const std::string& description,
                         std::chrono::milliseconds least = std::chrono::milliseconds(0));

CLI::Option* AddSize(CLI::App* app, const std::string& name, int64_t* value, int64_t least,
                     const std::string& description);
CLI::Option* AddSize(CLI::App* app, const std::string& name, size_t* value, int64_t least,
                     const std::string& description);

// Bytes per second: "auto" (0), or a size with "/s".
CLI::Option* AddRate(CLI::App* app, const std::string& name, int64_t* value,
                     const std::string& description);

// "on" or "off".
CLI::Option* AddOnOff(CLI::App* app, const std::string& name, bool* value,
                      const std::string& description);

// What a value is, for those who read and write values in another form.
enum class FlagKind { kSwitch, kInt, kIntOrAuto, kNumber, kTime, kSize, kText };
// Goes by the placeholder; flags that CLI11 named itself ("INT", "FLOAT") are understood as well.
FlagKind KindOf(const CLI::Option& option);

// Whether it takes more than one value.
bool IsList(const CLI::Option& option);

// The placeholder alone, without what CLI11 adds about the bounds.
std::string PlaceholderOf(const CLI::Option& option);
// What `AddChoice` was given; empty for other options.
std::vector<std::string> ChoicesOf(const CLI::Option& option);
// "1 to 64" and the like; "" where any value is taken.
std::string BoundsOf(const CLI::Option& option);

}  // namespace ropeway

#endif  // ROPEWAY_CLI_FLAGS_H_
