#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "flags/program.h"

namespace ropeway::flags {
namespace {

constexpr size_t kColumn = 30;  // Where descriptions begin.
constexpr size_t kWidth = 100;
constexpr char kLastGroup[] = "Other";

// "  left      words of the description, wrapped to their column".
std::string Entry(const std::string& left, const std::string& description) {
  std::string text = "  " + left;
  size_t used = text.size();
  const std::string new_line = "\n" + std::string(kColumn, ' ');
  if (used + 2 > kColumn) {
    text += new_line;
  } else {
    text.append(kColumn - used, ' ');
  }
  used = kColumn;
  std::istringstream words(description);
  for (std::string word; words >> word;) {
    if (used > kColumn && used + 1 + word.size() > kWidth) {
      text += new_line;
      used = kColumn;
    } else if (used > kColumn) {
      text += ' ';
      ++used;
    }
    text += word;
    used += word.size();
  }
  return text + "\n";
}

// In brackets behind the sentence: default, bounds, environment.
std::string Remarks(const FlagValue& value) {
  std::vector<std::string> remarks;
  if (value.required) remarks.emplace_back("required");
  if (!value.default_text.empty()) remarks.push_back("default: " + value.default_text);
  if (!value.bounds.empty()) remarks.push_back(value.bounds);
  if (value.repeated) remarks.emplace_back("may be repeated");
  if (!value.environment.empty()) remarks.push_back("environment: " + value.environment);
  return remarks.empty() ? "" : fmt::format(" [{}]", fmt::join(remarks, "; "));
}

std::string FlagLine(const Flag& flag) {
  std::string shorts;
  std::string longs;
  for (const FlagName& name : NamesOf(flag)) {
    (name.text.starts_with("--") ? longs : shorts) += name.text + ", ";
  }
  std::string left = (shorts.empty() ? "    " : shorts) + longs;
  left.resize(left.size() - 2);
  if (!flag.value.placeholder.empty()) left += " " + flag.value.placeholder;
  return Entry(left, flag.help + Remarks(flag.value));
}

std::string Section(const std::string& heading, const std::string& entries) {
  return entries.empty() ? "" : "\n" + heading + ":\n" + entries;
}

std::string Usage(const std::string& name, const FlagTable& flags, bool commands) {
  std::string usage = "Usage: " + name + (commands ? " COMMAND" : "") + " [FLAGS]";
  for (const FlagGroup& group : flags) {
    for (const Flag& flag : group.flags) {
      if (IsArgument(flag))
        usage += flag.value.required ? " " + flag.names : " [" + flag.names + "]";
    }
  }
  return usage + "\n";
}

std::string Commands(const std::vector<Command>& commands) {
  std::string entries;
  for (const Command& command : commands) entries += Entry(command.name, command.description);
  return Section("Commands", entries);
}

// The arguments, then the groups in the order of their first rows; "Other" is the last. `shown`:
// no other flags than these; empty: all.
std::string Flags(const Command* command, const std::vector<std::string>& shown) {
  std::string arguments;
  std::vector<std::pair<std::string, std::string>> groups;
  std::vector<Flag> common = CommonFlags(command);
  std::string other = FlagLine(common.front());  // --help.
  for (const FlagGroup& group : command == nullptr ? FlagTable() : command->flags) {
    for (const Flag& flag : group.flags) {
      const bool hidden =
          !shown.empty() && std::find(shown.begin(), shown.end(), MainName(flag)) == shown.end();
      if (IsArgument(flag)) {
        arguments += Entry(flag.names, flag.help);
      } else if (hidden) {
        continue;
      } else if (group.name == kLastGroup) {
        other += FlagLine(flag);
      } else {
        auto known = std::find_if(groups.begin(), groups.end(),
                                  [&](const auto& one) { return one.first == group.name; });
        if (known == groups.end()) known = groups.insert(groups.end(), {group.name, ""});
        known->second += FlagLine(flag);
      }
    }
  }
  for (size_t i = 1; i < common.size(); ++i) other += FlagLine(common[i]);
  std::string text = Section("Arguments", arguments);
  for (const auto& [name, entries] : groups) text += Section(name, entries);
  return text + Section(kLastGroup, other);
}

}  // namespace

std::vector<Flag> CommonFlags(const Command* command) {
  FlagValue file;
  file.placeholder = "FILE";
  FlagValue none;
  none.kind = ValueKind::kSwitch;
  std::vector<Flag> flags = {{"--help,-h", none, "Show this help"}};
  if (command == nullptr) flags.push_back({"--version", none, "Show the version"});
  if (command != nullptr && !command->first.empty()) {
    flags.push_back({"--help-all", none, "Show all flags"});
  }
  flags.push_back({"--config", file,
                   "TOML file with flags: one section per command, such as [serve], with port = "
                   "8080 for --port 8080; the command line and the environment override it"});
  return flags;
}

std::string HelpText(const Program& program, const std::vector<const Command*>& path, bool all) {
  if (path.empty()) {
    return program.description + "\n\n" + Usage(program.name, {}, true) +
           Commands(program.commands) + Flags(nullptr, {}) +
           (program.footer.empty() ? "" : "\n" + program.footer + "\n");
  }
  std::string name = program.name;
  for (const Command* command : path) name += " " + command->name;
  const Command& command = *path.back();
  const std::vector<std::string> shown = all ? std::vector<std::string>() : command.first;
  // The usage and the arguments, then the commands, then the groups.
  return command.description + "\n\n" + Usage(name, command.flags, !command.commands.empty()) +
         Commands(command.commands) + Flags(&command, shown) +
         (shown.empty()
              ? ""
              : "\nThese are the most common flags; " + name + " --help-all shows all\n") +
         (command.footer.empty() ? "" : "\n" + command.footer + "\n");
}

}  // namespace ropeway::flags
