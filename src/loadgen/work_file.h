// Workload files: data sets (texts), traces (lengths and arrivals), conversations.
#ifndef ROPEWAY_LOADGEN_WORK_FILE_H_
#define ROPEWAY_LOADGEN_WORK_FILE_H_

#include <string>
#include <vector>

#include "loadgen/prompt.h"
#include "ropeway/status.h"

namespace ropeway::loadgen {

// Reads JSON lines, the first `limit` of them: {"prompt": a text or token ids} or {"messages":
// [...]} (chat only) or {"turns": [text, ...]} (MT-bench: its first turn is sent), each with
// "max_tokens" or else `max_tokens`, and all or none with "arrival_s". Other members are skipped,
// and so are empty lines. Fails with kNotFound or kInvalidArgument and the line's number.
StatusOr<std::vector<Prompt>> ReadDataset(const std::string& path, bool chat, int max_tokens,
                                          int limit);

struct Trace {
  std::vector<Prompt> entries;  // Random ones; arrivals are seconds after the first one's.
  int too_long = 0;             // Entries left out among these.
};

// Reads the first `limit` entries of at most `max_tokens` tokens (in and out together; 0: of any
// length) of a CSV file with a header, or of JSON lines. Lengths stand in the columns ContextTokens
// or num_prefill_tokens or input_tokens or input_length, and GeneratedTokens or num_decode_tokens
// or output_tokens or output_length; arrivals, if any, in arrival_s (seconds), TIMESTAMP (date and
// time) or timestamp (milliseconds); clients in client; classes in priority. A length
// of 0 counts as 1.
StatusOr<Trace> ReadTrace(const std::string& path, int limit, int max_tokens);

// Reads JSON lines, the first `limit` of them: {"turns": [{"user": text, "max_tokens": n,
// "assistant": text}, ...], "first_turn": n}. "assistant" may be absent where it is the server's
// answer, "first_turn" where it is 0. Fails as ReadDataset does.
StatusOr<std::vector<Conversation>> ReadConversations(const std::string& path, int limit);

}  // namespace ropeway::loadgen

#endif  // ROPEWAY_LOADGEN_WORK_FILE_H_
