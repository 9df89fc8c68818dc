// A program made of commands: reads its command line, its environment and its configuration file.
#ifndef ROPEWAY_FLAGS_PROGRAM_H_
#define ROPEWAY_FLAGS_PROGRAM_H_

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "flags/flag.h"
#include "ropeway/status.h"

namespace ropeway::flags {

struct Program {
  std::string name;
  std::string version;
  std::string description;
  std::string footer;
  std::vector<Command> commands;
  // Words that stand for others where they are the first: {"ls", {"models", "list"}}.
  std::vector<std::pair<std::string, std::vector<std::string>>> aliases = {};
  // Flags of similar programs, "-ngl,--n-gpu-layers", and why they are none here.
  std::vector<std::pair<std::string, std::string>> foreign = {};
};

// What a command line asks for.
struct Invocation {
  const Command* command = nullptr;  // Its flags are set; null where `text` is asked for.
  std::string text;                  // The output of --help, --help-all or --version.
};

// `help COMMAND` is `COMMAND --help`.
//
// Sets the flags of the command that `words` (without the program's name) names: from the words, or
// else from the environment, or else from the file of --config. kInvalidArgument: one sentence that
// names the word, or the file and the line, and says what was expected.
StatusOr<Invocation> ParseCommandLine(const Program& program,
                                      const std::vector<std::string>& words);

// Parses the command line and runs the command. Returns the exit code: 1, after one sentence on
// standard error, for a command line that cannot be understood.
int RunProgram(const Program& program, int argc, char** argv);

// Sets flags of all commands from a TOML file:
//
//   [serve]
//   port = 9000
//   kv-cache-size = "2GiB"
//   api-key = ["one", "two"]
//   [[gateway.backend]]        # Stands for --backend URL,weight=2 (see FlagValue::table_key).
//   url = "http://127.0.0.1:8081"
//   weight = 2
//   [bench.serve]
//   users = 16
//
// Flags in `given` have a value already, which wins; those that the file sets are added to it. All
// sections are checked. kInvalidArgument with file, line and what was expected.
Status ReadConfigFile(const Program& program, const std::string& file,
                      std::set<const Flag*>* given);

// What --help prints for the command at the end of `path`; for an empty path, for the program.
// `all`: what --help-all does.
std::string HelpText(const Program& program, const std::vector<const Command*>& path,
                     bool all = true);

// --help, --config, and some more for `command`, or null for the program: flags that no table has.
std::vector<Flag> CommonFlags(const Command* command);

// The script that completes commands and flags in `shell`: "bash", "zsh" or "fish".
std::string CompletionScript(const Program& program, const std::string& shell);

// `completion`, which prints that script. `program` and `shell` must outlive the command.
Command CompletionCommand(const Program* program, std::string* shell);

}  // namespace ropeway::flags

#endif  // ROPEWAY_FLAGS_PROGRAM_H_
