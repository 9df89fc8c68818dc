#include "flags/program.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <map>

#include "base/output.h"
#include "base/utf8.h"
#include "base/words.h"

namespace ropeway::flags {
namespace {

constexpr size_t kMostEdits = 2;  // Between a word and the name that it may mean.

// A command and what CLI11 knows about it.
struct Node {
  const Command* command = nullptr;  // Null: the program.
  CLI::App* app = nullptr;
  std::vector<std::pair<const Flag*, CLI::Option*>> options;
};

// Reads words with CLI11. Values are left as texts: tables parse them.
class Parser {
 public:
  explicit Parser(const Program& program)
      : program_(program), root_(program.description, program.name) {
    // Commands inherit this. Which flags may be repeated, SetFlags says.
    root_.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    root_.set_help_flag("--help,-h", "");
    root_.set_help_all_flag("--help-all", "");
    root_.set_version_flag("--version", program.version);
    valued_.insert("--config");
    root_.fallthrough();  // --config and --version may stand after the command.
    config_ = root_.add_option("--config")->type_name("FILE");
    nodes_.push_back({nullptr, &root_, {}});
    AddCommands(program.commands, &root_);
  }

  StatusOr<Invocation> Parse(std::vector<std::string> words) {
    if (Status status = MakePlain(&words); !status.ok()) return Fault(status.message());
    std::reverse(words.begin(), words.end());  // As CLI11 takes them.
    try {
      root_.parse(std::move(words));
    } catch (const CLI::CallForHelp&) {
      return Help(false);
    } catch (const CLI::CallForAllHelp&) {
      return Help(true);
    } catch (const CLI::CallForVersion&) {
      return Invocation{nullptr, program_.version + "\n"};
    } catch (const CLI::ParseError& e) {
      return Fault(WhatIsWrong(e));
    }
    const Node& node = Innermost();
    if (Status status = SetFlags(node); !status.ok()) return Fault(status.message());
    return Invocation{node.command, ""};
  }

 private:
  // "-np", which CLI11 would read as "-n p".
  static bool IsOneDashed(const std::string& name) {
    return name.size() > 2 && name[0] == '-' && name[1] != '-';
  }

  // Replaces the spellings that CLI11 does not know.
  Status MakePlain(std::vector<std::string>* words) {
    if (words->empty()) return {};
    while (words->front() == "help") {
      help_command_ = true;
      words->erase(words->begin());
      words->emplace_back("--help");
    }
    for (const auto& [word, meant] : program_.aliases) {
      if (words->front() != word) continue;
      words->erase(words->begin());
      words->insert(words->begin(), meant.begin(), meant.end());
      break;
    }
    bool is_value = false;
    for (std::string& word : *words) {
      if (word == "--") break;
      const std::string name = word.substr(0, word.find('='));
      const auto known = one_dashed_.find(name);
      if (!is_value && known != one_dashed_.end()) word.replace(0, name.size(), known->second);
      for (const auto& [names, why] : program_.foreign) {
        const bool named = ("," + names + ",").find("," + name + ",") != std::string::npos;
        if (named && !is_value) return InvalidArgument("there is no flag '" + name + "': " + why);
      }
      is_value = !is_value && valued_.contains(word);
    }
    return {};
  }

  void AddCommands(const std::vector<Command>& commands, CLI::App* parent) {
    if (!commands.empty()) parent->require_subcommand(1);
    for (const Command& command : commands) {
      Node node = {&command, parent->add_subcommand(command.name, command.description), {}};
      node.app->require_subcommand(0);
      for (const FlagGroup& group : command.flags) {
        for (const Flag& flag : group.flags) {
          node.options.emplace_back(&flag, AddFlag(flag, node.app));
        }
      }
      nodes_.push_back(node);
      AddCommands(command.commands, node.app);
    }
  }

  CLI::Option* AddFlag(const Flag& flag, CLI::App* app) {
    if (flag.value.kind == ValueKind::kSwitch) return app->add_flag(flag.names);
    std::vector<std::string> names;
    for (FlagName& name : NamesOf(flag)) {
      valued_.insert(name.text);
      if (IsOneDashed(name.text)) {
        one_dashed_[name.text] = MainName(flag);
      } else {
        names.push_back(std::move(name.text));
      }
    }
    return app->add_option(fmt::format("{}", fmt::join(names, ",")))
        ->type_name(flag.value.placeholder)
        ->expected(1)
        ->allow_extra_args(flag.value.many);
  }

  // What a flag that holds one value was given, if that is one text, however often.
  static Status KeepOne(const std::string& name, std::vector<std::string>* texts) {
    const size_t times = texts->size();
    texts->erase(std::unique(texts->begin(), texts->end()), texts->end());
    if (texts->size() == 1) return {};
    return InvalidArgument(fmt::format("{} is given {} times, but takes one value", name, times));
  }

  // The flags of `node`, and of other commands what the configuration file says.
  Status SetFlags(const Node& node) const {
    std::set<const Flag*> given;
    for (const auto& [flag, option] : node.options) {
      std::vector<std::string> texts = option->results();
      const char* variable =
          flag->value.environment.empty() ? nullptr : std::getenv(flag->value.environment.c_str());
      if (texts.empty() && variable != nullptr && *variable != '\0') texts = {variable};
      if (texts.empty()) continue;
      if (!flag->value.repeated) {
        if (Status status = KeepOne(MainName(*flag), &texts); !status.ok()) return status;
      }
      given.insert(flag);
      if (Status status = flag->value.set(texts); !status.ok()) {
        return InvalidArgument(fmt::format("{}: {}", MainName(*flag), status.message()));
      }
    }
    if (std::vector<std::string> files = config_->results(); !files.empty()) {
      Status status = KeepOne("--config", &files);
      if (status.ok()) status = ReadConfigFile(program_, files.front(), &given);
      if (!status.ok()) return status;
    }
    for (const auto& [flag, option] : node.options) {
      if (flag->value.required && given.count(flag) == 0) {
        return InvalidArgument(MainName(*flag) + " is required");
      }
    }
    return {};
  }

  Status Fault(const std::string& sentence) const {
    std::string named = program_.name;
    for (const Command* command : Path()) named += " " + command->name;
    return InvalidArgument(fmt::format("{} (see {} --help)", sentence, named));
  }

  // What is wrong where a command is expected and `words` stand.
  std::string NoCommand(const std::vector<std::string>& words) const {
    std::vector<std::string> names;
    for (const CLI::App* command : Innermost().app->get_subcommands(nullptr)) {
      names.push_back(command->get_name());
    }
    const std::string list = fmt::format("{}", fmt::join(names, ", "));
    if (Innermost().app == &root_) {
      names.emplace_back("help");
      for (const auto& [word, meant] : program_.aliases) names.push_back(word);
    }
    if (words.empty()) return "expected a command: " + list;
    const std::string* const meant = base::Nearest(words.front(), names, kMostEdits);
    return meant == nullptr
               ? fmt::format("expected a command: {}, not '{}'", list, words.front())
               : fmt::format("there is no command '{}': did you mean '{}'?", words.front(), *meant);
  }

  // The help, unless what it is asked for is no command: CLI11 looks at that later.
  StatusOr<Invocation> Help(bool all) const {
    std::vector<std::string> extra = root_.remaining(true);
    if (help_command_) {  // Behind it stand commands alone.
      for (const auto& [flag, option] : Innermost().options) {
        if (flag->names.starts_with('-')) continue;
        extra.insert(extra.begin(), option->results().begin(), option->results().end());
      }
    }
    const bool takes_command = !Innermost().app->get_subcommands(nullptr).empty();
    if ((takes_command || help_command_) && !extra.empty() && !extra.front().starts_with('-')) {
      return Fault(takes_command ? NoCommand(extra) : TooMany(extra.front()));
    }
    return Invocation{nullptr, HelpText(program_, Path(), all)};
  }

  static std::string TooMany(const std::string& word) {
    return fmt::format("one argument too many: '{}'", word);
  }

  std::string WhatIsWrong(const CLI::ParseError& error) const {
    const std::vector<std::string> extra = root_.remaining(true);
    if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) return NoCommand(extra);
    if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !extra.empty()) {
      for (const std::string& word : extra) {
        if (word.size() > 1 && word[0] == '-') return NoFlag(word);
      }
      return TooMany(extra.front());
    }
    return error.what();
  }

  std::string NoFlag(const std::string& word) const {
    std::vector<FlagName> names;
    const auto add = [&](const Flag& flag) {
      for (FlagName& name : NamesOf(flag)) names.push_back(std::move(name));
    };
    for (const auto& [flag, option] : Innermost().options) add(*flag);
    for (const Flag& flag : CommonFlags(Innermost().command)) add(flag);
    const FlagName* const meant =
        base::Nearest(word.substr(0, word.find('=')), names, kMostEdits, &FlagName::text);
    return fmt::format("there is no flag '{}'", word) +
           (meant == nullptr ? "" : fmt::format(": did you mean '{}'?", meant->text));
  }

  // The innermost command that was named, or the program.
  const Node& Innermost() const {
    const CLI::App* at = &root_;
    while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
    return *std::find_if(nodes_.begin(), nodes_.end(),
                         [at](const Node& node) { return node.app == at; });
  }

  // The commands that were named, outermost first.
  std::vector<const Command*> Path() const {
    std::vector<const Command*> path;
    const std::vector<Command>* level = &program_.commands;
    for (const CLI::App* at = &root_; !at->get_subcommands().empty();) {
      at = at->get_subcommands().front();
      path.push_back(&*std::find_if(level->begin(), level->end(), [at](const Command& command) {
        return command.name == at->get_name();
      }));
      level = &path.back()->commands;
    }
    return path;
  }

  const Program& program_;
  CLI::App root_;
  CLI::Option* config_;
  bool help_command_ = false;  // The first word is "help".
  std::vector<Node> nodes_;
  std::set<std::string> valued_;                   // Names of flags that take a value.
  std::map<std::string, std::string> one_dashed_;  // What a long name with one dash stands for.
};

}  // namespace

StatusOr<Invocation> ParseCommandLine(const Program& program,
                                      const std::vector<std::string>& words) {
  return Parser(program).Parse(words);
}

int RunProgram(const Program& program, int argc, char** argv) {
  const StatusOr<Invocation> line = ParseCommandLine(program, {argv + 1, argv + argc});
  if (!line.ok()) return base::Fail(base::PrintableText(line.status().message()));
  if (line->command != nullptr) return line->command->run();
  base::Output output;
  output.Write(line->text);
  return output.End();
}

}  // namespace ropeway::flags
