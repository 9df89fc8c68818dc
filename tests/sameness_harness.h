// Runs requests through EngineCore and CpuExecutor on the default model, alone or in a crowd, and
// records what the batches really looked like.
#ifndef ROPEWAY_TESTS_SAMENESS_HARNESS_H_
#define ROPEWAY_TESTS_SAMENESS_HARNESS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "core/batch.h"
#include "engine/engine_core.h"
#include "kernels/kernels.h"
#include "model/model.h"

namespace ropeway::testing {

// One request's output, to the bit.
struct Output {
  std::vector<TokenId> tokens;
  std::vector<uint32_t> logprob_bits;  // Of each token, then of its top log-probs.
  std::vector<TokenId> scored;         // With prompt log-probs: the prompt, and likewise the bits.
  std::vector<uint32_t> scored_bits;
  bool operator==(const Output&) const = default;
};

struct CrowdOptions {
  int chunk = 512;  // Largest prefill chunk.
  int threads = 1;
  int pool_blocks = 1024;
  int max_num_seqs = 30;
  KvType kv_type = KvType::kF16;
  uint64_t arrival_seed = 0;  // 0: all arrive before the first step; else at random steps.
};

// What the steps of a run were made of.
struct RunShape {
  int steps = 0;
  int64_t rows = 0;
  int mixed_steps = 0;   // Prefill chunks and decodes in one pass.
  std::set<int> chunks;  // Sizes of prefill chunks seen.
  uint64_t preemptions = 0;
  double mean_rows() const { return steps == 0 ? 0 : static_cast<double>(rows) / steps; }
};

struct RunResult {
  std::map<RequestId, Output> outputs;
  RunShape shape;
};

// The default model, loaded once. REQUIRES: ROPEWAY_TEST_MODEL names it.
std::shared_ptr<const Model> TestModel();

// `count` different requests: short and long prompts (two of over 512 tokens), greedy and sampled,
// with and without log-probs, with every sampling parameter, some with log-probs of their prompts
// (one with nothing else). Ids 1 .. count.
std::vector<CoreRequest> DifferentRequests(int count);

// The choices 0 .. n - 1 of one request (OpenAI's n), with ids from its own on.
std::vector<CoreRequest> ChoicesOf(CoreRequest request, uint32_t n);

// Runs all requests to their ends in one engine.
RunResult RunCrowd(const std::vector<CoreRequest>& requests, const CrowdOptions& options,
                   const Kernels* kernels);

// Runs each request in an engine of its own.
std::map<RequestId, Output> RunAlone(const std::vector<CoreRequest>& requests,
                                     const Kernels* kernels, KvType kv_type = KvType::kF16);

}  // namespace ropeway::testing

#endif  // ROPEWAY_TESTS_SAMENESS_HARNESS_H_
