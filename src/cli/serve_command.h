// `ropeway serve`.
#ifndef ROPEWAY_CLI_SERVE_COMMAND_H_
#define ROPEWAY_CLI_SERVE_COMMAND_H_

#include "cli/serve_flags.h"

namespace ropeway {

// Serves until SIGTERM or SIGINT, drains, and replies with the exit code. Call once, before any
// thread was started.
int RunServe(const ServeFlags& flags);

}  // namespace ropeway

#endif  // ROPEWAY_CLI_SERVE_COMMAND_H_
