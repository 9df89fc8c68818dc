// `ropeway run --prompts`: many prompts at once, printed by batches.
#ifndef ROPEWAY_CLI_PROMPTS_RUN_H_
#define ROPEWAY_CLI_PROMPTS_RUN_H_

#include "cli/run_flags.h"
#include "ropeway/engine.h"

namespace ropeway {

// Answers all prompts of flags.prompts_file. Replies with the exit code: 1 where a request failed
// or the output could not be written. `engine` must be used by nobody else.
int RunPrompts(const RunFlags& flags, Engine* engine);

}  // namespace ropeway

#endif  // ROPEWAY_CLI_PROMPTS_RUN_H_
