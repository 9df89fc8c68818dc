#include "bench/prefix_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "base/random.h"
#include "bench/random_prompts.h"

namespace ropeway {
namespace {

int DivideUp(int value, int by) { return (value + by - 1) / by; }

}  // namespace

StatusOr<std::vector<PrefixRequest>> ScaleTrace(const Trace& trace, const TraceScale& scale) {
  std::vector<PrefixRequest> requests;
  requests.reserve(trace.entries.size());
  for (const TraceEntry& entry : trace.entries) {
    PrefixRequest request;
    request.input_tokens = DivideUp(entry.input_tokens, scale.input_divisor);
    request.output_tokens = DivideUp(entry.output_tokens, scale.output_divisor);
    const int blocks = DivideUp(request.input_tokens, scale.block_tokens);
    if (!entry.arrival || static_cast<int>(entry.hash_ids.size()) != blocks) {
      return InvalidArgument(fmt::format(
          "request {} of the trace must have a timestamp and one of hash_ids for each {} of its {} "
          "input tokens, but has {} of them.",
          requests.size() + 1, scale.block_tokens * scale.input_divisor, entry.input_tokens,
          entry.hash_ids.size()));
    }
    request.arrival = *entry.arrival;
    request.blocks = entry.hash_ids;
    requests.push_back(std::move(request));
  }
  return requests;
}

std::vector<int32_t> PromptIds(const PrefixRequest& request, int block_tokens) {
  constexpr uint64_t kRange = RandomPrompts::kLastId - RandomPrompts::kFirstId + 1;
  std::vector<int32_t> ids;
  ids.reserve(static_cast<size_t>(request.input_tokens));
  for (int i = 0; i < request.input_tokens; ++i) {
    const uint64_t block = request.blocks[static_cast<size_t>(i / block_tokens)];
    const uint64_t drawn = Mix64(block, static_cast<uint64_t>(i % block_tokens));
    ids.push_back(RandomPrompts::kFirstId + static_cast<int32_t>(drawn % kRange));
  }
  return ids;
}

InfiniteCache AskInfiniteCache(std::span<const PrefixRequest> requests, size_t first,
                               int block_tokens, int kv_block_tokens) {
  InfiniteCache cache;
  std::unordered_set<uint64_t> known;
  for (const PrefixRequest& request : requests.first(first)) {
    known.insert(request.blocks.begin(), request.blocks.end());
  }
  for (const PrefixRequest& request : requests.subspan(first)) {
    const auto unknown = std::find_if(request.blocks.begin(), request.blocks.end(),
                                      [&](uint64_t block) { return !known.contains(block); });
    const int64_t found = block_tokens * (unknown - request.blocks.begin());
    cache.input_tokens += request.input_tokens;
    cache.output_tokens += request.output_tokens;
    cache.hit_tokens += std::min<int64_t>(found, request.input_tokens);
    const int64_t most = (request.input_tokens - 1) / kv_block_tokens * kv_block_tokens;
    cache.hit_kv_tokens += std::min(found / kv_block_tokens * kv_block_tokens, most);
    int64_t behind = request.input_tokens;
    for (const uint64_t block : request.blocks) {
      if (known.insert(block).second) {
        cache.distinct_tokens += std::min<int64_t>(behind, block_tokens);
      }
      behind -= block_tokens;
    }
  }
  return cache;
}

}  // namespace ropeway
