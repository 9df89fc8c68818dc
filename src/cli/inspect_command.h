// `ropeway inspect`.
#ifndef ROPEWAY_CLI_INSPECT_COMMAND_H_
#define ROPEWAY_CLI_INSPECT_COMMAND_H_

#include <string>

namespace CLI {
class App;
}  // namespace CLI

namespace ropeway {

struct InspectFlags {
  std::string file;
};

// Adds the command to `app`. `flags` must outlive the parse.
CLI::App* AddInspect(CLI::App* app, InspectFlags* flags);

// Describes the file on standard output; replies with the exit code.
int RunInspect(const InspectFlags& flags);

}  // namespace ropeway

#endif  // ROPEWAY_CLI_INSPECT_COMMAND_H_
