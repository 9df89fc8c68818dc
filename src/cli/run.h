// `ropeway run`: one prompt, a file of prompts, or a chat in the terminal.
#ifndef ROPEWAY_CLI_RUN_H_
#define ROPEWAY_CLI_RUN_H_

#include "cli/run_flags.h"
#include "flags/flag.h"

namespace ropeway::cli {

// The command. `flags` must outlive it.
flags::Command RunCommand(RunFlags* flags);

}  // namespace ropeway::cli

#endif  // ROPEWAY_CLI_RUN_H_
