// `ropeway run`.
#ifndef ROPEWAY_CLI_RUN_COMMAND_H_
#define ROPEWAY_CLI_RUN_COMMAND_H_

#include "cli/run_flags.h"

namespace ropeway {

// Answers the prompt, the file of prompts, or standard input; chats where that is a terminal.
// Replies with the exit code. Uses the public library alone.
int RunRun(const RunFlags& flags);

}  // namespace ropeway

#endif  // ROPEWAY_CLI_RUN_COMMAND_H_
