// `ropeway tokenize`.
#ifndef ROPEWAY_CLI_TOKENIZE_COMMAND_H_
#define ROPEWAY_CLI_TOKENIZE_COMMAND_H_

#include <string>

#include "cli/engine_flags.h"

namespace ropeway {

struct TokenizeFlags {
  std::string model = kDefaultModel;
  std::string text;
  bool batch = false;
};

// Adds the command to `app`. `flags` must outlive the parse.
CLI::App* AddTokenize(CLI::App* app, TokenizeFlags* flags);

// Prints token ids on standard output; replies with the exit code.
int RunTokenize(const TokenizeFlags& flags);

}  // namespace ropeway

#endif  // ROPEWAY_CLI_TOKENIZE_COMMAND_H_
