// How `ropeway run` answers: a file of prompts, printed by batches, one prompt, or a chat in the
// terminal.
#ifndef ROPEWAY_CLI_PROMPTS_H_
#define ROPEWAY_CLI_PROMPTS_H_

#include <cstdint>
#include <istream>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "cli/line_editor.h"
#include "cli/run_flags.h"
#include "ropeway/engine.h"
#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway::cli {

struct PromptLine {
  std::string text;  // The prompt as written in the file.
  Request request;
};

// Reads all lines of `input`; empty ones are left out. Where the first one is a JSON object, each
// line must be one: {"prompt": "..."} and, where they differ from the flags, system and parameters
// as a body of the HTTP API has them. At most a million prompts, of 1 MiB each.
// kInvalidArgument: one sentence with `name` (the file's) and the line.
StatusOr<std::vector<PromptLine>> ReadPrompts(std::istream& input, const std::string& name,
                                              const RunFlags& flags);

// Finds out when all requests of a batch have ended. A batch is complete when none of its requests
// that have a token still runs and a later batch has begun. With the scheduler "continuous" a
// request whose first token comes later than that is reported as a second part of its batch.
//
// Thread-safe.
class BatchTracker {
 public:
  // A delta of request `id`, which started in batch `batch`. In the order of the engine's calls.
  void OnDelta(RequestId id, uint64_t batch);

  // `id` ended; `batch` is 0 if it never started.
  void OnEnd(RequestId id, uint64_t batch);

  // The batches that are complete since the last call, by number, each with its ids. Requests that
  // never started are batch 0. `all`: nothing more will come, so all batches are complete.
  std::map<uint64_t, std::set<RequestId>> TakeComplete(bool all = false);

 private:
  std::mutex mu_;
  uint64_t newest_ = 0;                              // The newest batch with a delta.
  std::map<uint64_t, std::set<RequestId>> running_;  // With a delta and without an end, by batch.
  std::map<uint64_t, std::set<RequestId>> ended_;
};

// Answers all prompts of flags.prompts_file. Returns the exit code: 1 if a request failed or the
// output could not be written. `engine` must have no other user, and
// keep its results for PollFinished.
int RunPrompts(const RunFlags& flags, Engine* engine);

// Writes the answer to `prompt` while it is generated. Returns the exit code.
int AnswerOne(const RunFlags& flags, std::string prompt, Engine* engine);

// Chats on the terminal until Ctrl-D or /exit; Ctrl-C stops an answer. Returns the exit code.
// REQUIRES: SIGINT is caught (CaughtSignals).
int ChatInTerminal(const RunFlags& flags, LineEditor* lines, Engine* engine);

// ": queue 0.1 ms, formation 0.0 ms, prefill 8.1 ms, decode 99.0 ms, output 0.2 ms"
std::string PhasesText(const PhaseTimes& times);

}  // namespace ropeway::cli

#endif  // ROPEWAY_CLI_PROMPTS_H_
