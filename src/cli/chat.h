// Answers that are streamed to the terminal: a single one, or a chat.
#ifndef ROPEWAY_CLI_CHAT_H_
#define ROPEWAY_CLI_CHAT_H_

#include <string>

#include "cli/line_editor.h"
#include "cli/run_flags.h"
#include "ropeway/engine.h"

namespace ropeway::cli {

// Writes the answer to `prompt` while it is generated. Returns the exit code.
int AnswerOne(const RunFlags& flags, std::string prompt, Engine* engine);

// Chats on the terminal until Ctrl-D or /exit; Ctrl-C stops an answer. Returns the exit code.
// REQUIRES: SIGINT is caught (CaughtSignals).
int ChatInTerminal(const RunFlags& flags, LineEditor* lines, Engine* engine);

// ": queue 0.1 ms, formation 0.0 ms, prefill 8.1 ms, decode 99.0 ms, output 0.2 ms"
std::string PhasesText(const PhaseTimes& times);

}  // namespace ropeway::cli

#endif  // ROPEWAY_CLI_CHAT_H_
