// Files that say what to ask: data sets (texts) and traces (lengths and arrivals).
#ifndef ROPEWAY_BENCH_WORK_FILE_H_
#define ROPEWAY_BENCH_WORK_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/prompt.h"
#include "ropeway/status.h"

namespace ropeway {

// Reads JSON lines, the first `limit` of them: {"prompt": a text or token ids} or {"messages":
// [...]} (chat only) or {"turns": [text, ...]} (MT-bench: its first turn is asked), each with
// "max_tokens" or else `max_tokens`. Other members are skipped, and so are empty lines.
// Fails with kNotFound or kInvalidArgument and the line's number.
StatusOr<std::vector<Prompt>> ReadDataset(const std::string& path, bool chat, int max_tokens,
                                          int limit);

struct TraceEntry {
  int input_tokens = 0;
  int output_tokens = 0;
  std::optional<double> arrival;  // Seconds after the first entry's.
  // Names of the prompt's consecutive blocks of equal length; equal names are equal contents.
  std::vector<uint64_t> hash_ids;
  int client = 0;  // Whose request it is, where the trace tells: 0 and above.
};

struct Trace {
  std::vector<TraceEntry> entries;
  int too_long = 0;  // Entries left out among these.
};

// Reads the first `limit` entries of at most `max_tokens` tokens (in and out together; 0: of any
// length) of a CSV file with a header, or of JSON lines. Lengths stand in the columns ContextTokens
// or num_prefill_tokens or input_tokens or input_length, and GeneratedTokens or num_decode_tokens
// or output_tokens or output_length; arrivals, where there are any, in arrival_s (seconds),
// TIMESTAMP (date and time) or timestamp (milliseconds); clients, likewise, in client. JSON lines
// may have hash_ids too. A length of 0 counts as 1.
StatusOr<Trace> ReadTrace(const std::string& path, int limit, int max_tokens);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_WORK_FILE_H_
