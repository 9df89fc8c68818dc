#include "cli/toml_config.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include "cli/flags.h"

namespace ropeway {
namespace {

constexpr size_t kMaxFileBytes = 1 << 20;

// Walks one file's tables; throws at the first thing that is wrong.
class Reader {
 public:
  explicit Reader(std::string file) : file_(std::move(file)) {}

  // `section`: as written in the file, "serve" or "bench.serve"; "" at the top.
  void ReadTable(CLI::App* command, const std::string& section, const toml::table& table) const {
    for (const auto& [key, value] : table) {
      const std::string name(key.str());
      if (const toml::table* inner = value.as_table()) {
        ReadTable(Command(command, section, key), section.empty() ? name : section + "." + name,
                  *inner);
      } else {
        SetFlag(Flag(command, section, key), name, value);
      }
    }
  }

 private:
  [[noreturn]] void Fail(const toml::source_region& place, const std::string& what) const {
    throw CLI::ConfigError(fmt::format("{}:{}: {}", file_, place.begin.line, what),
                           CLI::ExitCodes::ConfigError);
  }

  CLI::App* Command(CLI::App* parent, const std::string& section, const toml::key& key) const {
    const std::string name(key.str());
    std::vector<std::string> names;
    for (CLI::App* command : parent->get_subcommands(nullptr)) {
      if (command->get_name() == name) return command;
      names.push_back(
          fmt::format("[{}{}]", section.empty() ? "" : section + ".", command->get_name()));
    }
    Fail(key.source(),
         names.empty() ? fmt::format("unknown section '{}' in [{}], which has none", name, section)
                       : fmt::format("unknown section '{}'; expected one of {}", name,
                                     fmt::join(names, ", ")));
  }

  CLI::Option* Flag(CLI::App* command, const std::string& section, const toml::key& key) const {
    const std::string name(key.str());
    CLI::Option* option = name.empty() ? nullptr : command->get_option_no_throw("--" + name);
    if (option != nullptr && option->get_configurable()) return option;
    if (section.empty()) {
      Fail(key.source(), fmt::format("unknown key '{}' outside of a section; expected a section "
                                     "with a command's name before it, such as [serve]",
                                     name));
    }
    std::string dashed = name;
    std::replace(dashed.begin(), dashed.end(), '_', '-');
    const CLI::Option* meant = command->get_option_no_throw("--" + dashed);
    Fail(key.source(),
         meant != nullptr && meant->get_configurable()
             ? fmt::format("unknown key '{}' in [{}]; expected '{}'", name, section, dashed)
             : fmt::format("unknown key '{}' in [{}]; expected a flag of `{}` without its dashes",
                           name, section, SpelledOut(section)));
  }

  static std::string SpelledOut(const std::string& section) {
    std::string words = section;
    std::replace(words.begin(), words.end(), '.', ' ');
    return "ropeway " + words;
  }

  void SetFlag(CLI::Option* option, const std::string& name, const toml::node& value) const {
    std::vector<std::string> texts;
    if (const toml::array* array = value.as_array()) {
      if (!IsList(*option)) Fail(value.source(), Expected(*option, "an array"));
      for (const toml::node& element : *array) texts.push_back(Text(*option, element));
    } else {
      texts.push_back(Text(*option, value));
    }
    if (option->count() > 0 || InEnvironment(*option) || texts.empty()) return;
    if (KindOf(*option) == FlagKind::kSwitch) {
      // Some have a name for yes and one for no.
      texts.front() = option->get_flag_value(name, texts.front());
    }
    try {
      for (std::string& text : texts) option->add_result(std::move(text));
      option->run_callback();
    } catch (const CLI::Error& e) {
      Fail(value.source(), e.what());
    }
  }

  // The value as the command line would give it.
  std::string Text(const CLI::Option& option, const toml::node& value) const {
    const FlagKind kind = KindOf(option);
    if (const auto* truth = value.as_boolean()) {
      if (kind == FlagKind::kSwitch) return truth->get() ? "true" : "false";
    } else if (const auto* whole = value.as_integer()) {
      if (kind == FlagKind::kInt || kind == FlagKind::kIntOrAuto || kind == FlagKind::kNumber ||
          kind == FlagKind::kSize) {
        return fmt::format("{}", whole->get());
      }
    } else if (const auto* number = value.as_floating_point()) {
      if (kind == FlagKind::kNumber) return fmt::format("{}", number->get());
    } else if (const auto* text = value.as_string()) {
      if (kind == FlagKind::kText || kind == FlagKind::kTime || kind == FlagKind::kSize ||
          kind == FlagKind::kIntOrAuto) {
        return text->get();
      }
    }
    Fail(value.source(), Expected(option, TypeName(value)));
  }

  static std::string TypeName(const toml::node& value) {
    switch (value.type()) {
      case toml::node_type::string:
        return "a string";
      case toml::node_type::integer:
        return "an integer";
      case toml::node_type::floating_point:
        return "a float";
      case toml::node_type::boolean:
        return "a boolean";
      case toml::node_type::array:
        return "an array";
      case toml::node_type::table:
        return "a table";
      default:
        return "a date or time";
    }
  }

  static const char* Wanted(FlagKind kind) {
    switch (kind) {
      case FlagKind::kSwitch:
        return "true or false";
      case FlagKind::kInt:
        return "an integer";
      case FlagKind::kIntOrAuto:
        return "an integer, or \"auto\"";
      case FlagKind::kNumber:
        return "a number";
      case FlagKind::kTime:
        return "a string such as \"30s\"";
      case FlagKind::kSize:
        return "a string such as \"48MiB\", or an integer";
      case FlagKind::kText:
        break;
    }
    return "a string";
  }

  static std::string Expected(const CLI::Option& option, const std::string& found) {
    std::string wanted = Wanted(KindOf(option));
    if (IsList(option)) wanted += " or an array of strings";
    return fmt::format("'{}' must be {}, not {}", option.get_lnames().front(), wanted, found);
  }

  static bool InEnvironment(const CLI::Option& option) {
    if (option.get_envname().empty()) return false;
    const char* value = std::getenv(option.get_envname().c_str());
    return value != nullptr && *value != '\0';
  }

  const std::string file_;
};

std::string ReadBounded(std::istream& input, const std::string& file) {
  std::string text(kMaxFileBytes + 1, '\0');
  input.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(input.gcount()));
  if (text.size() <= kMaxFileBytes) return text;
  throw CLI::ConfigError(
      fmt::format("{}: a configuration file has at most {} bytes", file, kMaxFileBytes),
      CLI::ExitCodes::ConfigError);
}

}  // namespace

std::vector<CLI::ConfigItem> TomlConfig::from_config(std::istream& input) const {
  const auto file = app_->get_config_ptr()->as<std::string>();
  const std::string text = ReadBounded(input, file);
  try {
    Reader(file).ReadTable(app_, "", toml::parse(text, file));
  } catch (const toml::parse_error& e) {
    throw CLI::ConfigError(
        fmt::format("{}:{}: not valid TOML: {}", file, e.source().begin.line, e.description()),
        CLI::ExitCodes::ConfigError);
  }
  return {};
}

}  // namespace ropeway
