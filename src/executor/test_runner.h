// For tests: sequences stepped through a CpuExecutor over a tiny model in common batches, without
// engine and scheduler, and what came out compared to the bit.
#ifndef ROPEWAY_EXECUTOR_TEST_RUNNER_H_
#define ROPEWAY_EXECUTOR_TEST_RUNNER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "executor/cpu_executor.h"
#include "model/test_gguf_writer.h"

namespace ropeway::executor::testing {

inline constexpr int64_t kPoolBytes = int64_t{4} << 20;

// Loads a model that TinyLlama makes; TinyModel has the default options and is loaded once.
std::shared_ptr<const Weights> LoadTiny(const model::TinyLlamaOptions& options = {});
std::shared_ptr<const Weights> LoadGguf(const model::GgufWriter& writer);
const std::shared_ptr<const Weights>& TinyModel();

// Each matrix of another type of weights, all of them in three layers.
model::TinyLlamaOptions EveryWeightType();

// The best kernels of this machine.
const kernels::Kernels* Best();

// What one sequence is to do, and what came out.
struct Sequence {
  std::vector<TokenId> ids;  // The prompt; generated tokens are appended.
  int32_t prompt_len = 0;
  int32_t generate = 0;
  int32_t computed = 0;  // Positions whose K and V are written.
  int32_t joins = 0;     // At this step.
  core::SampleSpec spec;
  uint32_t mask_seed = 0;  // Not 0: each token is held by MaskAt.
  core::TokenMask mask;
  std::vector<uint32_t> mask_words;
  std::vector<core::BlockId> blocks;  // [block][group of layers]
  std::vector<core::Sampled> sampled;
  std::vector<core::Scored>
      scored;  // With spec.num_prompt_logprobs >= 0: of the prompt from position 1.
  std::vector<float> pool_sum;  // With spec.pooling.

  bool done() const {
    return static_cast<int32_t>(sampled.size()) == generate &&
           (generate > 0 || computed == prompt_len);
  }
};

// A random prompt; the seed also decides about top_k and top_p.
Sequence MakeSequence(int prompt_len, int generate, uint64_t seed, float temperature);

// The mask of the token that follows `num_ids` ids: about a quarter of the vocabulary.
std::vector<uint32_t> MaskAt(const Sequence& s, size_t num_ids);

// Twelve requests of all kinds.
std::vector<Sequence> Crowd();

struct How;
using MakeExecutorFn = std::unique_ptr<Executor> (*)(const std::shared_ptr<const Weights>&,
                                                     const How&);

std::unique_ptr<Executor> MakeCpuExecutor(const std::shared_ptr<const Weights>& model,
                                          const How& how);

// How to run sequences; none of it may change what comes out.
struct How {
  MakeExecutorFn make = MakeCpuExecutor;
  const kernels::Kernels* kernels = nullptr;  // nullptr: the best ones.
  int threads = 1;
  int chunk = 1024;
  int max_rows = 64;
  uint32_t shuffle = 0;      // Seed of the order of block ids.
  bool poison = false;       // The pool is full of NaN first.
  bool drop_unseen = false;  // Blocks that no row sees leave the table, and are full of NaN then.
  kernels::KvType kv_type = kernels::KvType::kF16;  // These may.
  std::vector<TokenId> absent = {};
};

// Steps sequences to their ends in common batches.
class Runner {
 public:
  // Throws std::runtime_error where the executor fails.
  Runner(std::shared_ptr<const Weights> model, const How& how, int max_seqs);

  // Returns the mean rows per step.
  double Run(std::vector<Sequence>* sequences);

  // The bytes of a sequence's full blocks that its next row sees, in the order of its positions.
  std::vector<std::byte> KvBytes(const Sequence& s);

  Executor& executor() { return *executor_; }
  const KvLayout& layout() const { return layout_; }

 private:
  void AddItem(Sequence* s, int* budget, core::Batch* batch);
  void DropUnseen(Sequence* s);
  // The first block that a row at `position` sees in the group's layers.
  int FirstBlock(size_t group, int position) const {
    return FirstSeen(layout_.windows[group], position) / base::kBlockTokens;
  }
  void Take(const core::StepResult& result, const std::vector<Sequence*>& in_batch,
            const core::Batch& batch);

  const How how_;
  const int32_t long_rope_above_;
  const bool causal_;
  const std::unique_ptr<Executor> executor_;
  KvLayout layout_;
  std::vector<core::BlockId> free_;
  size_t next_free_ = 0;
};

struct Outcome {
  std::vector<core::Sampled> sampled;
  std::vector<core::Scored> scored;
  std::vector<std::byte> kv;
  std::vector<float> pool_sum = {};
};

std::vector<Outcome> RunTogether(const std::shared_ptr<const Weights>& model, const How& how,
                                 std::vector<Sequence> sequences, double* mean_rows = nullptr);
// Each in an executor of its own.
std::vector<Outcome> RunAlone(const std::shared_ptr<const Weights>& model, const How& how,
                              const std::vector<Sequence>& sequences);

uint32_t Bits(float x);

// Whether tokens, log-prob bits, scores and KV bytes are the same; says where not.
bool Same(const std::vector<Outcome>& a, const std::vector<Outcome>& b, std::string* where);
void ExpectSame(const std::vector<Outcome>& a, const std::vector<Outcome>& b,
                const std::string& what);

}  // namespace ropeway::executor::testing

#endif  // ROPEWAY_EXECUTOR_TEST_RUNNER_H_
