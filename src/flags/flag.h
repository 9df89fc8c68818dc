// Commands and their flags as plain tables. A row of a table is all that a flag needs: parsing,
// configuration files, --help, shell completion and docs/flags.md come from it.
//
//   FlagTable ServerFlags(ServerOptions* server) {
//     return {{"Server",
//              {{"--host", TextValue(&server->host, "ADDRESS"), "Address to listen on"},
//               {"--port,-p", IntValue(&server->port, 0, 65535), "Port; 0 for any free one"}}}};
//   }
#ifndef ROPEWAY_FLAGS_FLAG_H_
#define ROPEWAY_FLAGS_FLAG_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ropeway/status.h"

namespace ropeway::flags {

// Times and sizes are read and shown as people write them: 30s, 500ms, 48MiB.

// A whole or decimal number with its unit, ms, s, m or h: "500ms", "1.5s"; or "0". At most 1,000
// hours. kInvalidArgument for a number without a unit: reader and writer may think of different
// ones.
StatusOr<std::chrono::milliseconds> ParseDuration(std::string_view text);

// The shortest text that ParseDuration reads back: "0", "1500ms", "30s", "2m".
std::string FormatDuration(std::chrono::milliseconds duration);

// Bytes: "1048576", "512KiB", "48MiB", "4GiB" (powers of 1024; K, M and G mean the same), "10MB"
// (powers of 1000). At most 2^60.
StatusOr<int64_t> ParseSize(std::string_view text);

// The shortest text that ParseSize reads back: "512", "48MiB".
std::string FormatSize(int64_t bytes);

// How a value is written, which decides what a configuration file may hold for it.
enum class ValueKind { kSwitch, kInt, kIntOrAuto, kNumber, kTime, kSize, kText };

// What a flag takes and where it is stored. Made by the functions below; each shows the target's
// present value as the default, and the target must outlive the parse.
struct FlagValue {
  ValueKind kind = ValueKind::kText;
  std::string placeholder;           // Stands for the value in the help, such as "N"; "": a switch.
  std::string bounds;                // As the help shows them, such as "1 to 64"; "": none.
  std::vector<std::string> choices;  // The only words it takes; empty: no such list.
  std::string default_text;          // As the help shows it; "": none.
  // The program's own words that print, a line each, what it may be, such as "models list --names":
  // shells offer that too. "": none.
  std::string words;
  std::string environment;  // The variable that gives it where the command line does not; "": none.
  bool required = false;
  bool repeated = false;  // May be given several times.
  bool many = false;      // Repeated, and several texts may follow one name.
  // For a repeated flag whose text is "VALUE,key=value,...": a configuration file may have a table
  // instead of the text, with the VALUE under this key. "": no table.
  std::string table_key;
  // Stores the value that the texts mean; one text unless `repeated`. kInvalidArgument, with what
  // was expected, for a text that means none.
  std::function<Status(const std::vector<std::string>& texts)> set;

  // Copies with one field changed.
  FlagValue Default(std::string text) const;
  FlagValue Environment(std::string variable) const;
  FlagValue Required() const;
  FlagValue NotEmpty() const;  // Rejects "", such as a shell variable that is not set.
  FlagValue Words(std::string command) const;
  FlagValue Table(std::string key) const;  // Sets table_key. REQUIRES: it is repeated.
};

struct Flag {
  // "--port,-p", and "-np" as other programs write some; for a switch also a name that turns it
  // off, "--stream,!--no-stream"; without dashes the command's argument: "PROMPT".
  std::string names;
  FlagValue value;
  std::string help;  // One sentence without a full stop.
};

// Groups of one name are shown as one, where the first stands.
struct FlagGroup {
  std::string name;  // The heading in the help; "" for arguments.
  std::vector<Flag> flags;
};

using FlagTable = std::vector<FlagGroup>;

FlagTable Join(std::initializer_list<FlagTable> tables);

struct Command {
  std::string name;
  std::string description;
  FlagTable flags;
  std::string footer;  // Shown below the flags: remarks and an example.
  std::function<int()> run =
      nullptr;  // Returns the exit code. Null where `commands` hold the work.
  std::vector<Command> commands = {};
  // The names of the flags that --help shows; the others --help-all shows. Empty: it shows all.
  std::vector<std::string> first = {};
};

namespace internal {
template <typename T>
struct ValueOf {
  using Type = T;
  static constexpr bool kOptional = false;
};
template <typename T>
struct ValueOf<std::optional<T>> {
  using Type = T;
  static constexpr bool kOptional = true;
};

FlagValue Int(int64_t least, int64_t most, std::function<void(int64_t)> store);
FlagValue Number(double least, double most, std::function<void(double)> store);
FlagValue Size(int64_t least, std::function<void(int64_t)> store);
FlagValue Duration(std::chrono::milliseconds least,
                   std::function<void(std::chrono::milliseconds)> store);
FlagValue Parsed(std::string placeholder,
                 std::function<Status(const std::string&)> parse_and_store);
std::string NumberText(double value);
std::string SizeText(int64_t bytes);
std::string DurationText(std::chrono::milliseconds duration);
}  // namespace internal

// A switch: given or not. A configuration file says true or false.
FlagValue SwitchValue(bool* target);
// "on" or "off".
FlagValue OnOffValue(bool* target);

// A whole number from `least` to `most`. T: any integer type, or an optional of one.
template <typename T>
FlagValue IntValue(T* target, int64_t least, int64_t most) {
  using Of = internal::ValueOf<T>;
  FlagValue value = internal::Int(
      least, most, [target](int64_t number) { *target = static_cast<typename Of::Type>(number); });
  if constexpr (!Of::kOptional) value.default_text = std::to_string(*target);
  return value;
}

// A number from `least` to `most`. T: float, double, or an optional of one.
template <typename T>
FlagValue NumberValue(T* target, double least, double most) {
  using Of = internal::ValueOf<T>;
  FlagValue value = internal::Number(
      least, most, [target](double number) { *target = static_cast<typename Of::Type>(number); });
  if constexpr (!Of::kOptional) value.default_text = internal::NumberText(*target);
  return value;
}

// Any seed: 0 to 2^64 - 1. Without one it is random.
FlagValue SeedValue(std::optional<uint64_t>* target);

// A number above 0 and at most `most`.
FlagValue AboveZeroValue(float* target, double most);
FlagValue AboveZeroValue(std::optional<float>* target, double most);

// A time with its unit, at least `least`. T: a std::chrono::duration, or an optional of one; times
// that it cannot hold exactly are rounded up.
template <typename T>
FlagValue DurationValue(T* target, std::chrono::milliseconds least = std::chrono::milliseconds(0)) {
  using Of = internal::ValueOf<T>;
  FlagValue value = internal::Duration(least, [target](std::chrono::milliseconds time) {
    *target = std::chrono::ceil<typename Of::Type>(time);
  });
  if constexpr (!Of::kOptional) {
    value.default_text =
        internal::DurationText(std::chrono::duration_cast<std::chrono::milliseconds>(*target));
  }
  return value;
}

// Bytes, with or without a unit, at least `least`. T: int64_t or size_t.
template <typename T>
FlagValue SizeValue(T* target, int64_t least) {
  FlagValue value =
      internal::Size(least, [target](int64_t bytes) { *target = static_cast<T>(bytes); });
  value.default_text = internal::SizeText(static_cast<int64_t>(*target));
  return value;
}

// Bytes per second: "auto" (0), or a size with "/s".
FlagValue RateValue(int64_t* target);

// Any text. The placeholders "FILE" and "DIR" have the shell complete paths.
FlagValue TextValue(std::string* target, const std::string& placeholder);
// Any texts: the flag may be repeated.
FlagValue TextsValue(std::vector<std::string>* target, const std::string& placeholder);
// Any texts: the flag may be repeated, and several texts may follow it.
FlagValue ManyTextsValue(std::vector<std::string>* target, const std::string& placeholder);
// One of `choices`, which the help sentence names.
FlagValue ChoiceValue(std::string* target, std::vector<std::string> choices);

// What `parse` makes of the text: a function from const std::string& to StatusOr<V>, where V can be
// assigned to T. Shows no default; a placeholder of "N|auto" takes integers in configuration files.
template <typename T, typename Parse>
FlagValue ParsedValue(T* target, std::string placeholder, Parse parse) {
  return internal::Parsed(std::move(placeholder), [target, parse](const std::string& text) {
    auto value = parse(text);
    if (value.ok()) *target = *std::move(value);
    return value.status();
  });
}

// One of a flag's names.
struct FlagName {
  std::string text;      // With its dashes.
  bool negated = false;  // It turns the switch off.
};
std::vector<FlagName> NamesOf(const Flag& flag);
// The long name with its dashes, or the argument's name: how messages call the flag.
std::string MainName(const Flag& flag);
bool IsArgument(const Flag& flag);

}  // namespace ropeway::flags

#endif  // ROPEWAY_FLAGS_FLAG_H_
