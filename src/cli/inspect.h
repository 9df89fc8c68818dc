// `ropeway inspect` and `ropeway tokenize`: look into a model file.
#ifndef ROPEWAY_CLI_INSPECT_H_
#define ROPEWAY_CLI_INSPECT_H_

#include <string>

#include "cli/engine_flags.h"
#include "flags/flag.h"

namespace ropeway::cli {

struct InspectFlags {
  std::string file;
  std::string quantize;
};

// Prints a description of a model file. `flags` must outlive the command.
flags::Command InspectCommand(InspectFlags* flags);

struct TokenizeFlags {
  std::string model = DefaultModelName();
  std::string text;
  bool batch = false;
};

// Prints the token ids of texts. `flags` must outlive the command.
flags::Command TokenizeCommand(TokenizeFlags* flags);

}  // namespace ropeway::cli

#endif  // ROPEWAY_CLI_INSPECT_H_
