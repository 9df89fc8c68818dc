// What `ropeway run` is told, and what its requests and its session are by that.
#ifndef ROPEWAY_CLI_RUN_FLAGS_H_
#define ROPEWAY_CLI_RUN_FLAGS_H_

#include <filesystem>
#include <string>

#include "cli/engine_flags.h"
#include "flags/flag.h"
#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway::cli {

struct RunFlags {
  RunFlags();  // Sets what differs from the engine's defaults.

  EngineFlags engine;
  std::string first_word;  // A model or, where no second word follows, the prompt.
  std::string prompt;
  bool yes = false;          // Pull the model without a question.
  std::string prompts_file;  // "": none.
  std::string output_file;   // "": none.
  std::string system;        // The system message; "": none.
  std::string session;       // The value of --session; "": no session.
  bool raw = false;          // No chat template.
  bool stats = false;
  bool history = true;    // Chats remember what was said in earlier ones.
  bool word_wrap = true;  // In a terminal.
  // What they say about generation. What engine.options.model.sampling and the model say about it
  // goes before.
  Request request;
};

// Where chats are kept: $XDG_STATE_HOME/ropeway or ~/.local/state/ropeway.
std::filesystem::path StateFolder();

// The directory of the session `named`: a path, where it has a slash, ends in ".session" or exists;
// otherwise a folder of that name in StateFolder().
// kInvalidArgument for a text that can be neither.
StatusOr<std::string> SessionFolder(const std::string& named);

// The session's name in that directory's store, which holds no other.
inline constexpr char kRunSession[] = "run";

// A request with all that the flags say about generation, and without a prompt.
Request MakeRequest(const RunFlags& flags);

// Sets the prompt for one text of the user: the text as it is (--raw), or a chat, with the system
// message if `begins` (it is not the next turn of a session).
void SetPrompt(const RunFlags& flags, bool begins, std::string text, Request* request);

// The command. `flags` must outlive it.
flags::Command RunCommand(RunFlags* flags);

}  // namespace ropeway::cli

#endif  // ROPEWAY_CLI_RUN_FLAGS_H_
