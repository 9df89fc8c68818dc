// `ropeway completion`: scripts that complete the program's commands and flags in a shell.
#ifndef ROPEWAY_CLI_COMPLETION_H_
#define ROPEWAY_CLI_COMPLETION_H_

#include <string>

namespace CLI {
class App;
}  // namespace CLI

namespace ropeway {

struct CompletionFlags {
  std::string shell;  // "bash", "zsh" or "fish".
};

// Adds the command to `app`. `flags` must outlive the parse.
CLI::App* AddCompletion(CLI::App* app, CompletionFlags* flags);

// The script for `shell`, made from the tree of commands below `root`.
// REQUIRES: shell is one of bash, zsh, fish.
std::string CompletionScript(const CLI::App& root, const std::string& shell);

// Prints the script; replies with the exit code.
int RunCompletion(const CLI::App& root, const CompletionFlags& flags);

}  // namespace ropeway

#endif  // ROPEWAY_CLI_COMPLETION_H_
