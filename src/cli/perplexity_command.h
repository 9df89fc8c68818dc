// `ropeway perplexity`.
#ifndef ROPEWAY_CLI_PERPLEXITY_COMMAND_H_
#define ROPEWAY_CLI_PERPLEXITY_COMMAND_H_

#include <string>

#include "cli/engine_flags.h"

namespace CLI {
class App;
}  // namespace CLI

namespace ropeway {

struct PerplexityFlags {
  EngineFlags engine;
  std::string file;
  int context = 512;
  int stride = 0;  // 0: half of the context.
};

// Adds the command to `app`. `flags` must outlive the parse.
CLI::App* AddPerplexity(CLI::App* app, PerplexityFlags* flags);

// Prints the perplexity of the file's text; replies with the exit code.
int RunPerplexity(const PerplexityFlags& flags);

}  // namespace ropeway

#endif  // ROPEWAY_CLI_PERPLEXITY_COMMAND_H_
