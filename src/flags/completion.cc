#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>

#include "base/output.h"
#include "flags/program.h"

namespace ropeway::flags {
namespace {

struct WordEntry {
  std::string name;
  std::string description;
};

// One command. `path` is all the words before it, each after a space: " bench serve", "" for the
// program itself.
struct CommandEntry {
  std::string path;
  std::vector<WordEntry> words;  // The commands below it, or what its argument may be.
  std::vector<Flag> flags;
  bool takes_file = false;  // Its argument is a file.
  std::string command;      // FlagValue::words of its argument.
};

bool TakesPath(const Flag& flag) {
  return flag.value.placeholder == "FILE" || flag.value.placeholder == "DIR";
}

bool TakesValue(const Flag& flag) { return flag.value.kind != ValueKind::kSwitch; }

// The long names: what is offered.
std::vector<std::string> LongNames(const Flag& flag) {
  std::vector<std::string> names;
  for (const FlagName& name : NamesOf(flag)) {
    if (name.text.starts_with("--")) names.push_back(name.text);
  }
  return names;
}

// `command`: null for the program itself.
void Walk(const std::string& path, const Command* command, const std::vector<Command>& commands,
          std::vector<CommandEntry>* entries) {
  CommandEntry entry;
  entry.path = path;
  const std::vector<Flag> common = CommonFlags(command);
  entry.flags.push_back(common.front());  // --help.
  for (const FlagGroup& group : command == nullptr ? FlagTable() : command->flags) {
    for (const Flag& flag : group.flags) {
      if (!IsArgument(flag)) {
        entry.flags.push_back(flag);
        continue;
      }
      entry.takes_file = entry.takes_file || TakesPath(flag);
      if (!flag.value.words.empty()) entry.command = flag.value.words;
      for (const std::string& choice : flag.value.choices) entry.words.push_back({choice, ""});
    }
  }
  entry.flags.insert(entry.flags.end(), common.begin() + 1, common.end());
  for (const Command& inner : commands) entry.words.push_back({inner.name, inner.description});
  entries->push_back(std::move(entry));
  for (const Command& inner : commands) {
    Walk(path + " " + inner.name, &inner, inner.commands, entries);
  }
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
using OfferFn = std::string (*)(const Flag&);

std::string ValueCases(const std::vector<CommandEntry>& entries, OfferFn offer) {
  std::string text;
  for (const CommandEntry& entry : entries) {
    for (const Flag& flag : entry.flags) {
      if (!TakesValue(flag)) continue;
      std::vector<std::string> patterns;
      for (const FlagName& name : NamesOf(flag)) {
        patterns.push_back(ForSh(entry.path + " " + name.text));
      }
      text += fmt::format("    {})\n      {}return ;;\n", fmt::join(patterns, " | "), offer(flag));
    }
  }
  return text;
}

// What the program itself prints; it is called as in the line that is completed. Never by `compgen
// -W`, which expands its words: a name such as $(command) would be run.
std::string PrintedInBash(const std::string& command) { return "_ropeway_printed " + command; }

std::string OfferInBash(const Flag& flag) {
  if (!flag.value.words.empty()) {
    const std::string files = TakesPath(flag) ? "; compgen -f -- \"$cur\"" : "";
    return fmt::format("mapfile -t COMPREPLY < <({}{})\n      ", PrintedInBash(flag.value.words),
                       files);
  }
  if (TakesPath(flag)) return "mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n      ";
  if (flag.value.choices.empty()) return "";
  return fmt::format("mapfile -t COMPREPLY < <(compgen -W {} -- \"$cur\")\n      ",
                     ForSh(fmt::format("{}", fmt::join(flag.value.choices, " "))));
}

std::string Bash(const std::vector<CommandEntry>& entries) {
  std::string commands;
  for (const CommandEntry& entry : entries) {
    std::vector<std::string> words;
    for (const WordEntry& word : entry.words) words.push_back(word.name);
    for (const Flag& flag : entry.flags) {
      for (const std::string& name : LongNames(flag)) words.push_back(name);
    }
    const std::string printed =
        entry.command.empty() ? "" : "; printed=" + ForSh(PrintedInBash(entry.command));
    commands += fmt::format("    {}) words={}{}{} ;;\n", ForSh(entry.path),
                            ForSh(fmt::format("{}", fmt::join(words, " "))), printed,
                            entry.takes_file ? "; files=1" : "");
  }
  return fmt::format(
      R"(# bash completion for ropeway: source <(ropeway completion bash)
_ropeway_printed() {{
  local line
  while IFS= read -r line; do
    if [[ $line == "$cur"* ]]; then printf '%s\n' "$line"; fi
  done < <("${{COMP_WORDS[0]}}" "$@" 2>/dev/null)
}}
_ropeway() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD - 1]}} at='' files='' i
  local words='' printed=''
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
    $printed
    if [ -n "$files" ]; then compgen -f -- "$cur"; fi
  )
}}
complete -o filenames -F _ropeway ropeway
)",
      Paths(entries, " | "), ValueCases(entries, OfferInBash), commands);
}

std::string PrintedInZsh(const std::string& command) {
  return fmt::format("${{(f)\"$($words[1] {} 2>/dev/null)\"}}", command);
}

std::string OfferInZsh(const Flag& flag) {
  if (!flag.value.words.empty()) {
    return fmt::format("offers=({})\n      (( $#offers )) && compadd -- $offers\n      {}",
                       PrintedInZsh(flag.value.words), TakesPath(flag) ? "_files\n      " : "");
  }
  if (TakesPath(flag)) return "_files\n      ";
  if (flag.value.choices.empty()) return "";
  return fmt::format("compadd -- {}\n      ", fmt::join(flag.value.choices, " "));
}

std::string Zsh(const std::vector<CommandEntry>& entries) {
  std::string commands;
  for (const CommandEntry& entry : entries) {
    commands += fmt::format("    {})\n      offers=(\n", ForSh(entry.path));
    for (const WordEntry& word : entry.words) {
      commands += fmt::format("        {}\n", ForSh(word.name + ":" + word.description));
    }
    for (const Flag& flag : entry.flags) {
      for (const std::string& name : LongNames(flag)) {
        commands += fmt::format("        {}\n", ForSh(name + ":" + flag.help));
      }
    }
    commands += "      )\n";
    if (!entry.command.empty()) {
      commands += fmt::format("      offers+=({})\n", PrintedInZsh(entry.command));
    }
    commands += fmt::format("{}      ;;\n", entry.takes_file ? "      _files\n" : "");
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

std::string PrintedInFish(const std::string& command) {
  return fmt::format("(ropeway {} 2>/dev/null)", command);
}

std::string FishFlag(const std::string& condition, const Flag& flag) {
  std::string line = "complete -c ropeway -n " + condition;
  for (const FlagName& name : NamesOf(flag)) {
    const bool is_long = name.text.starts_with("--");
    const char* const kind = is_long ? " -l " : name.text.size() > 2 ? " -o " : " -s ";
    line += kind + name.text.substr(is_long ? 2 : 1);
  }
  const std::vector<std::string>& choices = flag.value.choices;
  if (!flag.value.words.empty()) {
    line += TakesPath(flag) ? " -r -F" : " -x";
    line += " -a " + ForFish(PrintedInFish(flag.value.words));
  } else if (TakesPath(flag)) {
    line += " -r -F";
  } else if (TakesValue(flag)) {
    line += " -x";
    if (!choices.empty()) line += " -a " + ForFish(fmt::format("{}", fmt::join(choices, " ")));
  }
  return line + " -d " + ForFish(flag.help) + "\n";
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
    if (!entry.command.empty()) {
      text += fmt::format("complete -c ropeway -n {} -a {}\n", condition,
                          ForFish(PrintedInFish(entry.command)));
    }
    for (const Flag& flag : entry.flags) text += FishFlag(condition, flag);
  }
  return text;
}

}  // namespace

std::string CompletionScript(const Program& program, const std::string& shell) {
  std::vector<CommandEntry> entries;
  Walk("", nullptr, program.commands, &entries);
  entries.front().words.push_back({"help", "Show the help of a command"});
  for (const auto& [word, meant] : program.aliases) {
    entries.front().words.push_back({word, fmt::format("{}", fmt::join(meant, " "))});
  }
  if (shell == "bash") return Bash(entries);
  return shell == "zsh" ? Zsh(entries) : Fish(entries);
}

Command CompletionCommand(const Program* program, std::string* shell) {
  const auto run = [program, shell] {
    base::Output output;
    output.Write(CompletionScript(*program, *shell));
    return output.End();
  };
  return {
      "completion",
      "Print a script that completes commands and flags in a shell",
      {{"",
        {{"SHELL", ChoiceValue(shell, {"bash", "zsh", "fish"}).Required(), "bash, zsh or fish"}}}},
      "Example:\n  source <(ropeway completion bash)",
      run};
}

}  // namespace ropeway::flags
