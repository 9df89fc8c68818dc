// Traces whose prompts share prefixes, made smaller for small machines.
#ifndef ROPEWAY_BENCH_PREFIX_TRACE_H_
#define ROPEWAY_BENCH_PREFIX_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "bench/work_file.h"
#include "ropeway/status.h"

namespace ropeway {

struct TraceScale {
  int block_tokens = 32;  // Of one of the trace's blocks, when scaled.
  int input_divisor = 16;
  int output_divisor = 4;
};

// One request of a scaled trace. Its prompt is the first `input_tokens` tokens of its blocks'.
struct PrefixRequest {
  double arrival = 0;  // Seconds after the trace's first.
  int input_tokens = 1;
  int output_tokens = 1;
  std::vector<uint64_t> blocks;
};

// Lengths divided, rounded up. Fails with kInvalidArgument where an entry has no arrival or its
// hash_ids are not one for each block of its input.
StatusOr<std::vector<PrefixRequest>> ScaleTrace(const Trace& trace, const TraceScale& scale);

// The token ids of a prompt: block_tokens ids for each block, made of its name alone, so that
// prompts agree exactly as far as the trace says. Ids of RandomPrompts' range.
std::vector<int32_t> PromptIds(const PrefixRequest& request, int block_tokens);

// What a cache of no bounds would find of the requests, asked one after the other.
struct InfiniteCache {
  int64_t input_tokens = 0;
  int64_t output_tokens = 0;
  int64_t hit_tokens = 0;       // In whole blocks of the trace.
  int64_t hit_kv_tokens = 0;    // In blocks of `kv_block_tokens`, and never a prompt's last token.
  int64_t distinct_tokens = 0;  // Of the prompts: what the cache holds in the end, without answers.
};
// Those before `first` are asked as well, and not counted.
InfiniteCache AskInfiniteCache(std::span<const PrefixRequest> requests, size_t first,
                               int block_tokens, int kv_block_tokens);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_PREFIX_TRACE_H_
