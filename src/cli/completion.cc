#include "cli/completion.h"

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "cli/flags.h"
#include "cli/output.h"

namespace ropeway {
namespace {

// What may follow a flag.
enum class Value { kNone, kFile, kChoice, kOther };

struct FlagEntry {
  std::vector<std::string> names;  // With their dashes.
  Value value = Value::kNone;
  std::vector<std::string> choices;
  std::string description;
};

// The long names: what is offered.
std::vector<std::string> LongNames(const FlagEntry& flag) {
  std::vector<std::string> names;
  for (const std::string& name : flag.names) {
    if (name.rfind("--", 0) == 0) names.push_back(name);
  }
  return names;
}

struct WordEntry {
  std::string name;
  std::string description;
};

// One command. `path` is all the words before it, each after a space: " bench serve", "" for the
// program itself.
struct CommandEntry {
  std::string path;
  std::vector<WordEntry> words;  // The commands below it, or what its argument may be.
  std::vector<FlagEntry> flags;
  bool takes_file = false;  // Its argument is a file.
};

bool TakesPath(const CLI::Option& option) {
  const std::string placeholder = PlaceholderOf(option);
  return placeholder == kFilePlaceholder || placeholder == kFolderPlaceholder;
}

FlagEntry DescribeFlag(const CLI::Option& option) {
  FlagEntry entry;
  for (const std::string& name : option.get_snames()) entry.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) entry.names.push_back("--" + name);
  entry.description = option.get_description();
  entry.choices = ChoicesOf(option);
  if (KindOf(option) == FlagKind::kSwitch) {
    entry.value = Value::kNone;
  } else if (TakesPath(option)) {
    entry.value = Value::kFile;
  } else {
    entry.value = entry.choices.empty() ? Value::kOther : Value::kChoice;
  }
  return entry;
}

void Walk(const CLI::App& app, const CLI::Option* config, const std::string& path,
          std::vector<CommandEntry>* entries) {
  CommandEntry entry;
  entry.path = path;
  for (const CLI::Option* option : app.get_options()) {
    if (option->nonpositional()) {
      entry.flags.push_back(DescribeFlag(*option));
      continue;
    }
    entry.takes_file = entry.takes_file || TakesPath(*option);
    for (const std::string& choice : ChoicesOf(*option)) entry.words.push_back({choice, ""});
  }
  if (!path.empty() && config != nullptr) entry.flags.push_back(DescribeFlag(*config));
  const auto commands = app.get_subcommands(nullptr);
  for (const CLI::App* command : commands) {
    entry.words.push_back({command->get_name(), command->get_description()});
  }
  entries->push_back(std::move(entry));
  for (const CLI::App* command : commands) {
    Walk(*command, config, path + " " + command->get_name(), entries);
  }
}

std::vector<CommandEntry> Describe(const CLI::App& root) {
  std::vector<CommandEntry> entries;
  Walk(root, root.get_config_ptr(), "", &entries);
  return entries;
}

// In single quotes; `quote` stands for a quote inside of them.
std::string Quoted(std::string_view text, std::string_view quote) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') {
      quoted += quote;
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::string ForSh(std::string_view text) { return Quoted(text, "'\\''"); }

// The quoted paths of all commands but the program itself, as alternatives of a `case`.
std::string Paths(const std::vector<CommandEntry>& entries, const char* between) {
  std::vector<std::string> paths;
  for (const CommandEntry& entry : entries) {
    if (!entry.path.empty()) paths.push_back(ForSh(entry.path));
  }
  return fmt::format("{}", fmt::join(paths, between));
}

// The shell code that offers what may follow the flag, for bash and zsh.
using OfferFn = std::string (*)(const FlagEntry&);

std::string ValueCases(const std::vector<CommandEntry>& entries, OfferFn offer) {
  std::string text;
  for (const CommandEntry& entry : entries) {
    for (const FlagEntry& flag : entry.flags) {
      if (flag.value == Value::kNone) continue;
      std::vector<std::string> patterns;
      for (const std::string& name : flag.names) patterns.push_back(ForSh(entry.path + " " + name));
      text += fmt::format("    {})\n      {}return ;;\n", fmt::join(patterns, " | "), offer(flag));
    }
  }
  return text;
}

std::string OfferInBash(const FlagEntry& flag) {
  if (flag.value == Value::kFile) return "mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n      ";
  if (flag.value == Value::kOther) return "";
  return fmt::format("mapfile -t COMPREPLY < <(compgen -W {} -- \"$cur\")\n      ",
                     ForSh(fmt::format("{}", fmt::join(flag.choices, " "))));
}

std::string Bash(const std::vector<CommandEntry>& entries) {
  std::string commands;
  for (const CommandEntry& entry : entries) {
    std::vector<std::string> words;
    for (const WordEntry& word : entry.words) words.push_back(word.name);
    for (const FlagEntry& flag : entry.flags) {
      for (const std::string& name : LongNames(flag)) words.push_back(name);
    }
    commands += fmt::format("    {}) words={}{} ;;\n", ForSh(entry.path),
                            ForSh(fmt::format("{}", fmt::join(words, " "))),
                            entry.takes_file ? "; files=1" : "");
  }
  return fmt::format(
      R"(# bash completion for ropeway: source <(ropeway completion bash)
_ropeway() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD - 1]}} at='' files='' words i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$at ${{COMP_WORDS[i]}}" in
      {}) at+=" ${{COMP_WORDS[i]}}" ;;
    esac
  done
  case "$at $prev" in
{}  esac
  case "$at" in
{}  esac
  mapfile -t COMPREPLY < <(
    compgen -W "$words" -- "$cur"
    if [ -n "$files" ]; then compgen -f -- "$cur"; fi
  )
}}
complete -o filenames -F _ropeway ropeway
)",
      Paths(entries, " | "), ValueCases(entries, OfferInBash), commands);
}

std::string OfferInZsh(const FlagEntry& flag) {
  if (flag.value == Value::kFile) return "_files\n      ";
  if (flag.value == Value::kOther) return "";
  return fmt::format("compadd -- {}\n      ", fmt::join(flag.choices, " "));
}

std::string Zsh(const std::vector<CommandEntry>& entries) {
  std::string commands;
  for (const CommandEntry& entry : entries) {
    commands += fmt::format("    {})\n      offers=(\n", ForSh(entry.path));
    for (const WordEntry& word : entry.words) {
      commands += fmt::format("        {}\n", ForSh(word.name + ":" + word.description));
    }
    for (const FlagEntry& flag : entry.flags) {
      for (const std::string& name : LongNames(flag)) {
        commands += fmt::format("        {}\n", ForSh(name + ":" + flag.description));
      }
    }
    commands += fmt::format("      )\n{}      ;;\n", entry.takes_file ? "      _files\n" : "");
  }
  return fmt::format(
      R"(#compdef ropeway
# zsh completion for ropeway: a file named _ropeway in a folder of $fpath, or sourced.
_ropeway() {{
  local at='' i
  local -a offers
  for ((i = 2; i < CURRENT; i++)); do
    case "$at $words[i]" in
      {}) at+=" $words[i]" ;;
    esac
  done
  case "$at $words[CURRENT-1]" in
{}  esac
  case "$at" in
{}  esac
  _describe 'ropeway' offers
}}
if [ "$funcstack[1]" = _ropeway ]; then
  _ropeway "$@"
else
  compdef _ropeway ropeway
fi
)",
      Paths(entries, " | "), ValueCases(entries, OfferInZsh), commands);
}

std::string ForFish(std::string_view text) { return Quoted(text, "\\'"); }

std::string FishFlag(const std::string& condition, const FlagEntry& flag) {
  std::string line = "complete -c ropeway -n " + condition;
  for (const std::string& name : flag.names) {
    const bool is_long = name.rfind("--", 0) == 0;
    line += is_long ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  switch (flag.value) {
    case Value::kNone:
      break;
    case Value::kFile:
      line += " -r -F";
      break;
    case Value::kChoice:
      line += " -x -a " + ForFish(fmt::format("{}", fmt::join(flag.choices, " ")));
      break;
    case Value::kOther:
      line += " -x";
      break;
  }
  return line + " -d " + ForFish(flag.description) + "\n";
}

std::string Fish(const std::vector<CommandEntry>& entries) {
  std::string text = fmt::format(
      R"(# fish completion for ropeway: ropeway completion fish | source
function __ropeway_at
  set -l at ''
  for word in (commandline -opc)[2..-1]
    switch "$at $word"
      case {}
        set at "$at $word"
    end
  end
  test "$at" = "$argv[1]"
end
complete -c ropeway -f
)",
      Paths(entries, " "));
  for (const CommandEntry& entry : entries) {
    const std::string condition = ForFish(fmt::format("__ropeway_at \"{}\"", entry.path));
    for (const WordEntry& word : entry.words) {
      text += fmt::format("complete -c ropeway -n {} -a {} -d {}\n", condition, word.name,
                          ForFish(word.description));
    }
    if (entry.takes_file) text += fmt::format("complete -c ropeway -n {} -F\n", condition);
    for (const FlagEntry& flag : entry.flags) text += FishFlag(condition, flag);
  }
  return text;
}

}  // namespace

CLI::App* AddCompletion(CLI::App* app, CompletionFlags* flags) {
  CLI::App* completion = app->add_subcommand(
      "completion", "Print a script that completes commands and flags in a shell");
  AddChoice(completion, "SHELL", &flags->shell, {"bash", "zsh", "fish"}, "bash, zsh or fish")
      ->required();
  completion->footer("Example:\n  source <(ropeway completion bash)");
  return completion;
}

std::string CompletionScript(const CLI::App& root, const std::string& shell) {
  const std::vector<CommandEntry> entries = Describe(root);
  if (shell == "bash") return Bash(entries);
  return shell == "zsh" ? Zsh(entries) : Fish(entries);
}

int RunCompletion(const CLI::App& root, const CompletionFlags& flags) {
  Output output;
  output.Write(CompletionScript(root, flags.shell));
  return output.End();
}

}  // namespace ropeway
