// A file of prompts: one a line, or JSON lines with fields.
#ifndef ROPEWAY_CLI_PROMPTS_FILE_H_
#define ROPEWAY_CLI_PROMPTS_FILE_H_

#include <istream>
#include <string>
#include <vector>

#include "cli/run_flags.h"
#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway {

struct PromptLine {
  std::string text;  // The prompt as it stands in the file.
  Request request;
};

// Reads all lines of `input`; empty ones are left out. Where the first one is a JSON object, each
// line must be one: {"prompt": "..."} and, where they differ from the flags, system, max_tokens,
// temperature, top_p, top_k, min_p, seed and stop. `name` is the file's, for the error: one
// sentence with the line. At most a million prompts, of 1 MiB each.
StatusOr<std::vector<PromptLine>> ReadPrompts(std::istream& input, const std::string& name,
                                              const RunFlags& flags);

}  // namespace ropeway

#endif  // ROPEWAY_CLI_PROMPTS_FILE_H_
