#include "cli/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iostream>
#include <memory>

#include "cli/help_formatter.h"
#include "cli/output.h"
#include "cli/toml_config.h"

namespace ropeway {

CommandLine::CommandLine(const std::string& program, const std::string& description,
                         const std::string& example)
    : app_(description, program) {
  // Inherited, so before the commands: of a flag that is given twice the last one counts.
  app_.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app_.formatter(std::make_shared<HelpFormatter>());
  app_.set_help_flag("--help,-h", "Show this help");
  app_.set_version_flag("--version", ROPEWAY_VERSION, "Show the version")->group("Other");
  app_.set_config("--config", "",
                  "TOML file of flags: a section per command, such as [serve], and in it port = "
                  "8080 for --port 8080; the command line and the environment win over it")
      ->type_name("FILE")
      ->group("Other")
      ->configurable(false);
  app_.config_formatter(std::make_shared<TomlConfig>(&app_));
  app_.require_subcommand(1);
  app_.fallthrough();  // Inherited: --config and --version may stand after the command.
  footer_ = fmt::format("`{0} COMMAND --help` lists a command's flags.\n\nExample:\n  {0} {1}",
                        program, example);
}

CLI::App* CommandLine::AddGroup(const std::string& name, const std::string& description) {
  CLI::App* group = app_.add_subcommand(name, description);
  group->require_subcommand(1);
  return group;
}

void CommandLine::Add(CLI::App* command, std::function<int()> run) {
  commands_.emplace_back(command, std::move(run));
}

void CommandLine::Add(CLI::App* parent, const Command& command) {
  CLI::App* app = parent->add_subcommand(command.name, command.description);
  app->footer(command.footer);
  for (const FlagGroup& group : command.flags) {
    for (const Flag& flag : group.flags) {
      const FlagValue& value = flag.value;
      CLI::Option* option;
      if (value.kind == ValueKind::kSwitch) {
        option = app->add_flag_function(
            flag.names,
            [set = value.set](int64_t count) { (void)set({count > 0 ? "true" : "false"}); },
            flag.help);
      } else {
        const CLI::callback_t store = [set = value.set, name = MainName(flag)](const auto& texts) {
          if (Status status = set(texts); !status.ok()) {
            throw CLI::ValidationError(name, status.message());
          }
          return true;
        };
        const std::string bounds =
            value.choices.empty() ? value.bounds : fmt::format("{}", fmt::join(value.choices, "|"));
        option = app->add_option(flag.names, store, flag.help)
                     ->type_name(value.placeholder)
                     ->check([](const std::string&) { return ""; }, bounds)
                     ->expected(1)
                     ->default_str(value.default_text)
                     ->required(value.required)
                     ->envname(value.environment);
        if (value.repeated) {
          option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->allow_extra_args(value.many);
        }
      }
      if (!group.name.empty()) option->group(group.name);
    }
  }
  Add(app, command.run);
}

int CommandLine::Main(int argc, char** argv) {
  // Now, since commands would inherit it.
  app_.footer(footer_);
  try {
    app_.parse(argc, argv);
  } catch (const CLI::Success& e) {
    app_.exit(e);  // --help and --version.
    return EndStandardOutput();
  } catch (const CLI::ParseError& e) {
    return Fail(fmt::format("{} (see {}{} --help)", Fault(e), app_.get_name(), Named()));
  }
  for (const auto& [command, run] : commands_) {
    if (command->parsed()) return run();
  }
  return Fail("no such command");  // Not reached: a command is required, and all are in the list.
}

std::string CommandLine::Fault(const CLI::ParseError& error) const {
  if (dynamic_cast<const CLI::FileError*>(&error) != nullptr) {
    return fmt::format("--config: {}", error.what());
  }
  const CLI::App* at = Innermost();
  std::vector<std::string> strange = app_.remaining(true);
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr &&
      at->get_require_subcommand_min() > 0) {
    std::string names;
    for (const CLI::App* command : at->get_subcommands(nullptr)) {
      names += (names.empty() ? "" : ", ") + command->get_name();
    }
    const std::string given = strange.empty() ? "" : fmt::format(", not '{}'", strange.front());
    return fmt::format("expected a command: {}{}", names, given);
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !strange.empty()) {
    const auto flag = std::find_if(strange.begin(), strange.end(), [](const std::string& word) {
      return word.size() > 1 && word[0] == '-';
    });
    if (flag != strange.end()) return fmt::format("there is no flag '{}'", *flag);
    return fmt::format("one argument too many: '{}'", strange.front());
  }
  return error.what();
}

const CLI::App* CommandLine::Innermost() const {
  const CLI::App* at = &app_;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  return at;
}

std::string CommandLine::Named() const {
  std::string words;
  for (const CLI::App* at = &app_; !at->get_subcommands().empty();) {
    at = at->get_subcommands().front();
    words += " " + at->get_name();
  }
  return words;
}

}  // namespace ropeway
