// The flags of `ropeway run`.
#ifndef ROPEWAY_CLI_RUN_FLAGS_H_
#define ROPEWAY_CLI_RUN_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/engine_flags.h"
#include "ropeway/request.h"

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
  bool raw = false;          // No chat template.
  bool stats = false;
  SamplingParams sampling;
  std::optional<int32_t> max_tokens;
  std::vector<std::string> stop;
  bool ignore_eos = false;
};

// Adds the command to `app`. `flags` must outlive the parse.
CLI::App* AddRun(CLI::App* app, RunFlags* flags);

// A request with all that the flags say about generation, and without a prompt.
Request MakeRequest(const RunFlags& flags);

// The prompt for one text of a user: a chat with the system message, or the text as it is.
void SetPrompt(const RunFlags& flags, std::string text, Request* request);

}  // namespace ropeway

#endif  // ROPEWAY_CLI_RUN_FLAGS_H_
