// Asks one prompt many times in the engine's own loop, amid other requests.
#ifndef ROPEWAY_BENCH_DETERMINISM_ENGINE_H_
#define ROPEWAY_BENCH_DETERMINISM_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/random.h"
#include "engine/engine_core.h"
#include "executor/weights.h"
#include "kernels/kernels.h"
#include "ropeway/status.h"

namespace ropeway::bench {

// How one round's engine is set up.
struct RoundSettings {
  const kernels::Kernels* kernels = nullptr;
  int threads = 1;
  int max_num_batched_tokens = 1;
  int max_prefill_chunk = 0;  // 0: no limit but the one above.
  int max_num_seqs = 1;
  int num_blocks = 1;
  // Else each ask's prompt is computed anew; with it, asks take what others computed.
  bool prefix_caching = true;
};

// Bounds of the company's random prompts and answers.
inline constexpr int kMaxCompanyPrompt = 128;
inline constexpr int kMaxCompanyTokens = 96;

// The tables of kernels to go through: those that this CPU runs, except for the reference, which is
// too slow; or the one that ROPEWAY_ISA forces. Best first; empty if that one cannot be had.
std::vector<const kernels::Kernels*> TablesToAsk();

// Random settings of round `round` (from 0), for requests of at most `longest` tokens on a machine
// with `cores` cores. Rounds take turns with one thread and several, with the tables, and with KV
// pools. Three in four pools are so small that sequences must give way. Half of all rounds cache
// prefixes, whatever the table and the threads.
RoundSettings DrawSettings(int round, const std::vector<const kernels::Kernels*>& tables,
                           int longest, int cores, base::Random* random);

// One of the company: random ids of random number, all kinds of sampling parameters.
core::CoreRequest DrawCompany(RequestId id, int32_t vocab_size, base::Random* random);

struct DeterminismEngineOptions {
  std::vector<TokenId> prompt;
  int asks = 1;            // At least 1.
  int output_tokens = 64;  // Of each ask; end tokens end none.
  int rounds = 1;          // At least 1; at most asks.
  double company = 1;      // Other requests per ask, on average.
  kernels::KvType kv_type = kernels::KvType::kF16;
  uint64_t seed = 1;  // Of settings, company and arrivals.
};

// What one round was really like.
struct DeterminismRound {
  RoundSettings settings;
  int asks = 0;
  int chunked = 0;      // Asks whose prompt was computed in two or more pieces.
  int most_chunks = 0;  // Pieces of the ask that had most.
  int preempted = 0;    // Asks that were preempted.
  int preemptions = 0;  // Of these asks.
  int company = 0;      // Other requests.
  int left = 0;         // Of these, those cancelled in the middle.
  int64_t steps = 0;
  int64_t rows = 0;   // Of all steps.
  int most_rows = 0;  // Of one step.
  int distinct = 0;   // Outputs so far, of all rounds.
};

// One output of the asked prompt: tokens and the bits of their log-probabilities.
struct DeterminismOutput {
  std::vector<TokenId> tokens;
  std::vector<float> logprobs;
  int count = 0;  // Asks that got it.
};

// The production loop (EngineCore, its scheduler and executor), driven step by step in this
// process, so that what happened to each ask is known: a new engine for every round, with
// DrawSettings' settings. The first ask of all is alone in its engine; the others arrive at random
// steps among other random requests, and some of these leave early. The same options give the same
// steps on every machine with the same tables and cores.
//
// Thread rule: one thread at a time.
class DeterminismEngine {
 public:
  // `tables` must not be empty.
  DeterminismEngine(std::shared_ptr<const executor::Weights> model,
                    DeterminismEngineOptions options, std::vector<const kernels::Kernels*> tables);

  // Runs all rounds; `on_round` after each one. Fails with the reason that a request or the
  // integrity check gives.
  Status Run(const std::function<void(const DeterminismRound&)>& on_round);

  // In the order in which they came first.
  const std::vector<DeterminismOutput>& outputs() const { return outputs_; }

  // Tokens of the longest request that may be drawn; the model must hold as many.
  static int LongestRequest(const DeterminismEngineOptions& options);

 private:
  const std::shared_ptr<const executor::Weights> model_;
  const DeterminismEngineOptions options_;
  const std::vector<const kernels::Kernels*> tables_;
  std::vector<DeterminismOutput> outputs_;
};

}  // namespace ropeway::bench

#endif  // ROPEWAY_BENCH_DETERMINISM_ENGINE_H_
