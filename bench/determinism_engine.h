// Asks one prompt many times in the engine's own loop, amid other requests.
#ifndef ROPEWAY_BENCH_DETERMINISM_ENGINE_H_
#define ROPEWAY_BENCH_DETERMINISM_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "bench/answer_tally.h"
#include "bench/determinism_rounds.h"
#include "model/model.h"
#include "ropeway/status.h"

namespace ropeway {

struct DeterminismEngineOptions {
  std::vector<TokenId> prompt;
  int asks = 1;            // At least 1.
  int output_tokens = 64;  // Of each ask; end tokens end none.
  int rounds = 1;          // At least 1; at most asks.
  double company = 1;      // Other requests per ask, on average.
  KvType kv_type = KvType::kF16;
  uint64_t seed = 1;  // Of settings, company and arrivals.
};

// What one round was really like.
struct DeterminismRound {
  RoundSettings settings;
  int asks = 0;
  int chunked = 0;      // Asks whose prompt was computed in two or more pieces.
  int most_chunks = 0;  // Pieces of the ask that had most.
  int preempted = 0;    // Asks that gave way at least once.
  int preemptions = 0;  // How often they did.
  int company = 0;      // Other requests.
  int left = 0;         // Of these, those cancelled in the middle.
  int64_t steps = 0;
  int64_t rows = 0;   // Of all steps.
  int most_rows = 0;  // Of one step.
  int distinct = 0;   // Outputs so far, this round included.
};

// The production loop (EngineCore, its scheduler and executor), driven step by step in this
// process, so that what happened to each ask is known: a new engine for every round, with
// DrawSettings' settings. The first ask of all is alone in its engine; the others arrive at random
// steps among random company, of which some leave early. The same options give the same steps on
// every machine with the same tables and cores.
// Thread rule: one thread at a time.
class DeterminismEngine {
 public:
  // Answers are ids and log-probs. `tables` must not be empty.
  DeterminismEngine(std::shared_ptr<const Model> model, DeterminismEngineOptions options,
                 std::vector<const Kernels*> tables);

  // Runs all rounds; `on_round` after each one. Fails with the reason that a request or the
  // integrity check gives.
  Status Run(const std::function<void(const DeterminismRound&)>& on_round);

  const AnswerTally& tally() const { return tally_; }

  // Tokens of the longest request that may be drawn; the model must hold as many.
  static int LongestRequest(const DeterminismEngineOptions& options);

 private:
  const std::shared_ptr<const Model> model_;
  const DeterminismEngineOptions options_;
  const std::vector<const Kernels*> tables_;
  AnswerTally tally_;
};

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_DETERMINISM_ENGINE_H_
