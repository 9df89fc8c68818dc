// The flags of `ropeway run`.
#ifndef ROPEWAY_CLI_RUN_FLAGS_H_
#define ROPEWAY_CLI_RUN_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/engine_flags.h"
#include "ropeway/request.h"
#include "ropeway/status.h"

namespace CLI {
class App;
}  // namespace CLI

namespace ropeway {

struct RunFlags {
  EngineFlags engine;
  std::string prompt;
  std::string prompts_file;  // "": none.
  std::string output_file;   // "": none.
  std::string system;        // The system message; "": none.
  std::string session;       // What --session names; "": no session.
  bool raw = false;          // No chat template.
  bool stats = false;
  SamplingParams sampling;
  std::optional<int32_t> max_tokens;
  std::vector<std::string> stop;
  bool ignore_eos = false;
};

// Adds the command to `app`. `flags` must outlive the parse.
CLI::App* AddRun(CLI::App* app, RunFlags* flags);

// The directory that keeps the session `named`: a path, where it has a slash, ends in ".session" or
// is there; else a folder of that name under $XDG_STATE_HOME/ropeway, or ~/.local/state/ropeway.
// kInvalidArgument for what can be neither.
StatusOr<std::string> SessionFolder(const std::string& named);

// The session's name in that directory's store, which holds no other.
inline constexpr char kRunSession[] = "run";

// Has the engine keep --session, where it is given, in its directory, with the KV blocks beside it
// (unless the disk tier has a place of its own).
Status KeepSession(const RunFlags& flags, EngineOptions* options);

// A request with all that the flags say about generation, and without a prompt.
Request MakeRequest(const RunFlags& flags);

// The prompt for one text of a user: a chat with the system message, where `begins` (it is not the
// next turn of a session), or the text as it is.
void SetPrompt(const RunFlags& flags, bool begins, std::string text, Request* request);

}  // namespace ropeway

#endif  // ROPEWAY_CLI_RUN_FLAGS_H_
