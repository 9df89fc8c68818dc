// Runs requests through EngineCore and CpuExecutor, on the default model or another one, alone or
// in a crowd, and records what the batches really looked like.
#ifndef ROPEWAY_TESTS_DETERMINISM_HARNESS_H_
#define ROPEWAY_TESTS_DETERMINISM_HARNESS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "core/batch.h"
#include "core/sequence_state.h"
#include "engine/engine_core.h"
#include "executor/weights.h"
#include "kernels/kernels.h"
#include "kvcache/kv_tier.h"

namespace ropeway::test::testing {

// One request's output, to the bit.
struct Output {
  std::vector<TokenId> tokens;
  std::vector<uint32_t> logprob_bits;  // Of each token, then of its top log-probs.
  std::vector<TokenId> scored;         // With prompt log-probs: the prompt.
  std::vector<uint32_t> scored_bits;
  bool operator==(const Output&) const = default;
};

// The longest request, prompt and output, that the harness's engines take.
inline constexpr int kMaxModelLen = 768;

struct CrowdOptions {
  std::shared_ptr<const executor::Weights> model = nullptr;  // Null: TestModel().
  int chunk = 512;                                           // Largest prefill chunk.
  int threads = 1;
  int pool_blocks = 1024;
  int max_num_seqs = 30;
  kernels::KvType kv_type = kernels::KvType::kF16;
  uint64_t arrival_seed = 0;  // 0: all arrive before the first step; else at random steps.
  bool one_by_one = false;    // Each arrives when the one before it has ended.
  int max_model_len = kMaxModelLen;
  bool prefix_caching = true;
  bool checkpoint_always = false;
  kvcache::KvTier* tier = nullptr;
  int max_steps = 0;  // The engine is destroyed after so many steps, whatever runs; 0: at the end.
  // Planted: does something to each block's bytes before they are written to the pool.
  std::function<void(std::span<std::byte>)> spoil_write = nullptr;
};

// What the steps of a run were made of.
struct RunShape {
  int steps = 0;
  int64_t rows = 0;
  int mixed_steps = 0;   // Prefill chunks and decodes in one pass.
  std::set<int> chunks;  // Sizes of prefill chunks seen.
  uint64_t preemptions = 0;
  int64_t written_blocks = 0;  // Into the pool, from a tier.
  double mean_rows() const { return steps == 0 ? 0 : static_cast<double>(rows) / steps; }
};

struct RunResult {
  std::map<RequestId, Output> outputs;
  std::map<RequestId, int32_t> cached_tokens;  // As reported at the end of each request.
  RunShape shape;
  engine::CoreStats stats;  // After the last step, and after all background work.
  core::TransitionCounts transitions{};

  uint64_t moves(core::SequenceState from, core::SequenceEvent event) const {
    return transitions[static_cast<size_t>(from)][static_cast<size_t>(event)];
  }
};

// The model of ROPEWAY_DETERMINISM_MODEL (its first layers, made by short_model.py), or else the
// default model; loaded once. REQUIRES: ROPEWAY_TEST_MODEL names the default model.
std::shared_ptr<const executor::Weights> TestModel();

// `count` different requests: short and long prompts (two of over 512 tokens), greedy and sampled,
// with and without log-probs, with every sampling parameter, some with log-probs of their prompts
// (one with nothing else). Ids 1 .. count.
std::vector<core::CoreRequest> DifferentRequests(int count);

// The choices 0 .. n - 1 of one request (OpenAI's n), with ids from its own on.
std::vector<core::CoreRequest> ChoicesOf(core::CoreRequest request, uint32_t n);

// Runs all requests to their ends in one engine. Its clock stands still, so that no cost is ever
// measured, and what a tier has is read.
RunResult RunCrowd(const std::vector<core::CoreRequest>& requests, const CrowdOptions& options,
                   const kernels::Kernels* kernels);

// Runs each request in an engine of its own, which caches nothing. `model`: as in CrowdOptions.
std::map<RequestId, Output> RunAlone(
    const std::vector<core::CoreRequest>& requests, const kernels::Kernels* kernels,
    kernels::KvType kv_type = kernels::KvType::kF16,
    const std::shared_ptr<const executor::Weights>& model = nullptr);

}  // namespace ropeway::test::testing

#endif  // ROPEWAY_TESTS_DETERMINISM_HARNESS_H_
