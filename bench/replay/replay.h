// Replays requests through the real engine core, scheduler and KV cache in virtual time.
#ifndef ROPEWAY_BENCH_REPLAY_REPLAY_H_
#define ROPEWAY_BENCH_REPLAY_REPLAY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "core/batch.h"
#include "kvcache/block_pool.h"
#include "policy/scheduling_policy.h"
#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway::bench {

// The time of a device's step: a straight line, so much for the step, for each sequence that
// decodes, for each token of a prefill chunk, and for each position that one of these attends to.
// The defaults are those of two Zen 4 cores and SmolLM2-135M (docs/performance.md).
struct StepTime {
  base::Duration step = std::chrono::microseconds(1000);
  base::Duration decode = std::chrono::microseconds(650);
  base::Duration decode_position = std::chrono::nanoseconds(750);
  base::Duration prefill = std::chrono::microseconds(385);
  base::Duration prefill_position = std::chrono::nanoseconds(240);

  // Of positions [start, start + tokens) of one sequence.
  base::Duration OfChunk(int64_t start, int64_t tokens) const;
  base::Duration OfDecode(int64_t position) const;
  base::Duration OfBatch(const core::Batch& batch) const;
  // The time of a whole request alone, with `cached` tokens of its prompt there; without `step`.
  base::Duration OfRequest(int64_t prompt, int64_t cached, int64_t output) const;
};

// A block of 16 tokens of SmolLM2-135M (360 KiB) from a disk of 200 MB/s: what the tier reports for
// a read, to be weighed against computing the block.
inline constexpr base::Duration kReplayBlockRead = std::chrono::microseconds(1843);

// Prompts have lower ids than what is generated.
inline constexpr TokenId kFirstGeneratedId = 1 << 20;

struct ReplayRequest {
  base::TimePoint arrival{};
  std::vector<TokenId> prompt;
  int32_t output_tokens = 1;
  std::string tenant = {};
  Priority priority = Priority::kMedium;
};

struct ReplayOptions {
  int32_t pool_blocks = 0;
  bool caching = true;
  kvcache::EvictionPolicy eviction = kvcache::EvictionPolicy::kCost;
  size_t tier_blocks = 0;  // Of a tier that reads at once and evicts the LRU block; 0: none.
  int max_num_seqs = 64;
  int max_num_batched_tokens = 512;
  // Budgets, shares of classes, aging and learned costs as `ropeway serve` has them by default.
  // Otherwise none of these.
  bool as_served = false;
  // A closed loop beside the requests with an arrival: `users` of its `loop_count` requests are in
  // flight at any time, until the last one with an arrival came, if there are any.
  int users = 0;
  size_t loop_count = 0;
  StepTime cost;
  policy::SchedulingPolicy* policy =
      nullptr;  // Null: first come, first served. Must outlive the replay.
  // Called when a request arrives, and with each token of its answer: with the number of the
  // request, from 0, and the time. Empty: not called.
  std::function<void(size_t request, base::TimePoint at)> on_arrival = nullptr;
  std::function<void(size_t request, base::TimePoint at)> on_token = nullptr;
};

struct ReplayResult {
  int64_t requests = 0;
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // Prompt tokens that were found in the pool or the tier.
  int64_t tier_tokens = 0;    // Cached tokens read from the tier, also for preempted requests.
  int64_t output_tokens = 0;
  int64_t computed_rows = 0;
  int64_t steps = 0;
  int64_t preemptions = 0;
  base::Duration makespan{};    // Virtual.
  base::Duration work{};        // What all prompts cost to compute.
  base::Duration saved_work{};  // The part of `work` that was found in caches.

  double hit_share() const {
    return prompt_tokens > 0 ? static_cast<double>(cached_tokens) / prompt_tokens : 0;
  }
  double saved_share() const {
    return work > base::Duration{} ? base::ToSeconds(saved_work) / base::ToSeconds(work) : 0;
  }
};

// Asks `request_of(0)`, `request_of(1)`, ... `count` of them, each when it arrives, and runs until
// all have ended. The requests of the closed loop are `request_of(count)` and the next ones; their
// arrival is when the loop sends them. No KV bytes are kept. Fails where a request cannot fit the
// pool or is rejected, and where the core's integrity check fails in the end.
// REQUIRES: arrivals do not fall; prompts have ids below kFirstGeneratedId.
StatusOr<ReplayResult> Replay(const ReplayOptions& options, size_t count,
                              const std::function<ReplayRequest(size_t)>& request_of);

}  // namespace ropeway::bench

#endif  // ROPEWAY_BENCH_REPLAY_REPLAY_H_
