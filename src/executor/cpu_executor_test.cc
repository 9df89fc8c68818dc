#include "executor/cpu_executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>
#include <numeric>
#include <random>
#include <string>

#include "executor/test_forward_oracle.h"
#include "model/test_gguf_writer.h"

namespace ropeway {
namespace {

constexpr int64_t kPoolBytes = int64_t{4} << 20;

std::shared_ptr<const Model> LoadTiny(const TinyLlamaOptions& options = {}) {
  const TempFile file(TinyLlama(options).Bytes());
  auto gguf = GgufFile::Open(file.path());
  if (!gguf.ok()) throw std::runtime_error(gguf.status().message());
  auto model = Model::Load(**gguf, 1);
  if (!model.ok()) throw std::runtime_error(model.status().message());
  return std::move(*model);
}

const std::shared_ptr<const Model>& TinyModel() {
  static const auto& model = *new std::shared_ptr<const Model>(LoadTiny());
  return model;
}

// What one sequence is to do, and what came out.
struct Sequence {
  std::vector<TokenId> ids;  // The prompt; generated tokens are appended.
  int32_t prompt_len = 0;
  int32_t generate = 0;
  int32_t computed = 0;  // Positions whose K and V are written.
  int32_t joins = 0;     // At this step.
  SampleSpec spec;
  std::vector<BlockId> blocks;
  std::vector<Sampled> sampled;

  bool done() const { return static_cast<int32_t>(sampled.size()) == generate; }
};

Sequence MakeSequence(int prompt_len, int generate, uint64_t seed, float temperature) {
  Sequence sequence;
  std::mt19937 random(static_cast<uint32_t>(seed));
  for (int i = 0; i < prompt_len; ++i) {
    sequence.ids.push_back(static_cast<TokenId>(random() % kTinyVocab));
  }
  sequence.prompt_len = prompt_len;
  sequence.generate = generate;
  sequence.spec.params.temperature = temperature;
  sequence.spec.params.top_p = seed % 3 == 0 ? 0.9F : 1.0F;
  sequence.spec.params.top_k = seed % 4 == 0 ? 20 : 0;
  sequence.spec.seed = seed;
  sequence.spec.prompt_len = prompt_len;
  sequence.spec.num_logprobs = 5;
  return sequence;
}

// How to run sequences; none of it may change what comes out.
struct How {
  const Kernels* kernels = nullptr;  // nullptr: the best ones.
  int threads = 1;
  int chunk = 1024;
  int max_rows = 64;
  uint32_t shuffle = 0;  // Seed of the order of block ids.
  bool poison = false;   // The pool is full of NaN first.
};

const Kernels* Best() { return ChooseKernels(nullptr); }

// Steps all sequences to their ends in common batches. Returns the mean rows per step.
class Runner {
 public:
  Runner(std::shared_ptr<const Model> model, const How& how, int max_seqs)
      : how_(how),
        executor_(std::move(model), how.kernels != nullptr ? how.kernels : Best(), how.threads) {
    auto layout = executor_.Init(kPoolBytes, how.max_rows, max_seqs);
    if (!layout.ok()) throw std::runtime_error(layout.status().message());
    layout_ = *layout;
    free_.resize(static_cast<size_t>(layout_.num_blocks));
    std::iota(free_.begin(), free_.end(), 0);
    if (how.shuffle != 0) std::shuffle(free_.begin(), free_.end(), std::mt19937(how.shuffle));
    if (!how.poison) return;
    const std::vector<std::byte> nan(layout_.block_bytes, std::byte{0xFF});
    for (BlockId block = 0; block < layout_.num_blocks; ++block) executor_.WriteBlock(block, nan);
  }

  double Run(std::vector<Sequence>* sequences) {
    int steps = 0;
    int rows = 0;
    for (int step = 0;; ++step) {
      Batch batch;
      std::vector<Sequence*> sampling;
      bool left = false;
      int budget = how_.max_rows;
      for (Sequence& s : *sequences) {
        left = left || !s.done();
        if (s.done() || step < s.joins || budget == 0) continue;
        AddItem(&s, &budget, &batch);
        if (batch.items.back().sample) sampling.push_back(&s);
      }
      if (!left) break;
      if (batch.items.empty()) continue;
      ++steps;
      rows += batch.num_tokens();
      executor_.Launch(batch);
      auto result = executor_.Wait();
      if (!result.ok()) throw std::runtime_error(result.status().message());
      EXPECT_EQ(result->sampled.size(), sampling.size());
      for (size_t i = 0; i < sampling.size(); ++i) {
        sampling[i]->sampled.push_back(result->sampled[i]);
        sampling[i]->ids.push_back(result->sampled[i].token);
      }
    }
    return static_cast<double>(rows) / steps;
  }

  // The bytes of a sequence's full blocks, in the order of its positions.
  std::vector<std::byte> KvBytes(const Sequence& s) {
    std::vector<std::byte> all;
    for (int b = 0; b < s.computed / kBlockTokens; ++b) {
      std::vector<std::byte> bytes(layout_.block_bytes);
      executor_.ReadBlock(s.blocks[static_cast<size_t>(b)], bytes);
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    return all;
  }

  CpuExecutor& executor() { return executor_; }
  const KvLayout& layout() const { return layout_; }

 private:
  void AddItem(Sequence* s, int* budget, Batch* batch) {
    const auto left = static_cast<int32_t>(s->ids.size()) - s->computed;
    const int32_t count = std::min({left, how_.chunk, *budget});
    *budget -= count;
    BatchItem item;
    item.start = s->computed;
    item.tokens.assign(s->ids.begin() + s->computed, s->ids.begin() + s->computed + count);
    s->computed += count;
    while (static_cast<int32_t>(s->blocks.size()) * kBlockTokens < s->computed) {
      s->blocks.push_back(free_.at(next_free_++));
    }
    item.blocks = s->blocks;
    item.sample = count == left;
    item.spec = s->spec;
    batch->items.push_back(std::move(item));
  }

  const How how_;
  CpuExecutor executor_;
  KvLayout layout_;
  std::vector<BlockId> free_;
  size_t next_free_ = 0;
};

// Twelve requests of all kinds.
std::vector<Sequence> Crowd() {
  std::vector<Sequence> crowd;
  const std::vector<int> prompts = {1, 5, 16, 17, 33, 64, 90, 2, 130, 31, 48, 7};
  for (size_t i = 0; i < prompts.size(); ++i) {
    crowd.push_back(MakeSequence(prompts[i], 9, i + 1, i % 3 == 0 ? 0.0F : 0.9F));
    crowd.back().joins = static_cast<int32_t>(i / 2);
  }
  return crowd;
}

struct Outcome {
  std::vector<Sampled> sampled;
  std::vector<std::byte> kv;
};

std::vector<Outcome> RunTogether(const std::shared_ptr<const Model>& model, const How& how,
                                 std::vector<Sequence> sequences, double* mean_rows = nullptr) {
  Runner runner(model, how, static_cast<int>(sequences.size()));
  const double rows = runner.Run(&sequences);
  if (mean_rows != nullptr) *mean_rows = rows;
  std::vector<Outcome> outcomes;
  for (const Sequence& s : sequences) outcomes.push_back({s.sampled, runner.KvBytes(s)});
  return outcomes;
}

std::vector<Outcome> RunAlone(const std::shared_ptr<const Model>& model, const How& how,
                              const std::vector<Sequence>& sequences) {
  std::vector<Outcome> outcomes;
  for (Sequence s : sequences) {
    s.joins = 0;
    outcomes.push_back(RunTogether(model, how, {s})[0]);
  }
  return outcomes;
}

uint32_t Bits(float x) { return std::bit_cast<uint32_t>(x); }

// Whether tokens, log-prob bits and KV bytes are the same; says where not.
bool Same(const std::vector<Outcome>& a, const std::vector<Outcome>& b, std::string* where) {
  for (size_t s = 0; s < a.size(); ++s) {
    *where = "sequence " + std::to_string(s);
    if (a[s].sampled.size() != b[s].sampled.size()) return false;
    for (size_t t = 0; t < a[s].sampled.size(); ++t) {
      *where = "sequence " + std::to_string(s) + ", token " + std::to_string(t);
      const Sampled& x = a[s].sampled[t];
      const Sampled& y = b[s].sampled[t];
      if (x.token != y.token || Bits(x.logprob) != Bits(y.logprob)) return false;
      if (x.top_logprobs.size() != y.top_logprobs.size()) return false;
      for (size_t i = 0; i < x.top_logprobs.size(); ++i) {
        if (x.top_logprobs[i].id != y.top_logprobs[i].id) return false;
        if (Bits(x.top_logprobs[i].logprob) != Bits(y.top_logprobs[i].logprob)) return false;
      }
    }
    *where = "the KV bytes of sequence " + std::to_string(s);
    if (a[s].kv != b[s].kv) return false;
  }
  return true;
}

void ExpectSame(const std::vector<Outcome>& a, const std::vector<Outcome>& b,
                const std::string& what) {
  std::string where;
  EXPECT_TRUE(Same(a, b, &where)) << what << ": differs at " << where;
}

// Log-probs over the whole vocabulary after the last of `ids`, with `chunk` tokens a step.
std::vector<double> Distribution(const std::shared_ptr<const Model>& model,
                                 const std::vector<TokenId>& ids, const How& how) {
  Sequence s;
  s.ids = ids;
  s.generate = 1;
  s.spec.params.temperature = 0;
  s.spec.num_logprobs = model->config().vocab_size;
  std::vector<double> by_id(static_cast<size_t>(model->config().vocab_size));
  const auto outcome = RunTogether(model, how, {s})[0];
  for (const TokenLogprob& t : outcome.sampled[0].top_logprobs) {
    by_id.at(static_cast<size_t>(t.id)) = double{t.logprob};
  }
  return by_id;
}

TEST(CpuExecutorTest, AgreesWithTheOracle) {
  TinyLlamaOptions untied;
  untied.tied = false;
  untied.mixed = true;
  untied.seed = 5;
  TinyLlamaOptions exact;
  exact.weights = WeightType::kF32;
  exact.embedding = WeightType::kF16;
  for (const TinyLlamaOptions& options : {TinyLlamaOptions{}, untied, exact}) {
    const auto model = LoadTiny(options);
    const Sequence s = MakeSequence(70, 1, 3, 0.0F);
    const auto oracle = OracleLogits(*model, s.ids);
    for (size_t n : {1U, 2U, 16U, 17U, 70U}) {
      const std::vector<TokenId> ids(s.ids.begin(), s.ids.begin() + static_cast<int64_t>(n));
      const auto logprobs = Distribution(model, ids, {});
      EXPECT_GT(CenteredCosine(logprobs, oracle[n - 1]), 0.995) << n;
      double sum = 0;
      for (double l : logprobs) sum += std::exp(l);
      EXPECT_NEAR(sum, 1.0, 1e-4);
    }
  }
}

TEST(CpuExecutorTest, NothingAroundASequenceChangesIt) {
  const auto crowd = Crowd();
  const auto alone = RunAlone(TinyModel(), {}, crowd);
  for (int threads : {1, 2, 3}) {
    for (int chunk : {1, 3, 16, 1024}) {
      How how;
      how.threads = threads;
      how.chunk = chunk;
      how.max_rows = 160;
      how.shuffle = static_cast<uint32_t>(17 * threads + chunk);
      how.poison = chunk != 16;
      double mean_rows = 0;
      ExpectSame(alone, RunTogether(TinyModel(), how, crowd, &mean_rows),
                 std::to_string(threads) + " threads, chunks of " + std::to_string(chunk));
      EXPECT_GT(mean_rows, 3.0);
    }
  }
}

TEST(CpuExecutorTest, SmallStepBudgetsChangeNothing) {
  const auto crowd = Crowd();
  const auto alone = RunAlone(TinyModel(), {}, crowd);
  for (int max_rows : {1, 7, 23}) {
    How how;
    how.threads = 2;
    how.max_rows = max_rows;
    Runner runner(TinyModel(), how, static_cast<int>(crowd.size()));
    auto sequences = crowd;
    runner.Run(&sequences);
    std::vector<Outcome> outcomes;
    for (const Sequence& s : sequences) outcomes.push_back({s.sampled, runner.KvBytes(s)});
    ExpectSame(alone, outcomes, std::to_string(max_rows) + " rows");
  }
}

TEST(CpuExecutorTest, MixedWeightTypesAreInvariantToo) {
  TinyLlamaOptions options;
  options.mixed = true;
  options.tied = false;
  options.layers = 3;
  const auto model = LoadTiny(options);
  const auto crowd = Crowd();
  How how;
  how.threads = 2;
  how.chunk = 16;
  how.max_rows = 100;
  ExpectSame(RunAlone(model, {}, crowd), RunTogether(model, how, crowd), "mixed types");
}

TEST(CpuExecutorTest, EveryInstructionSetGivesTheSameBits) {
  const auto crowd = Crowd();
  How how;
  how.kernels = &kReferenceKernels;
  how.max_rows = 160;
  const auto reference = RunTogether(TinyModel(), how, crowd);
  int compared = 0;
  for (const char* name : {"avx2", "avx512vnni"}) {
    how.kernels = KernelsByName(name);
    if (how.kernels == nullptr) continue;
    how.threads = 2;
    ExpectSame(reference, RunTogether(TinyModel(), how, crowd), name);
    ++compared;
  }
  if (compared == 0) GTEST_SKIP() << "missing hardware: AVX2";
}

// A context beyond kSplitTokens: split and merged, by one worker or by several.
TEST(CpuExecutorTest, LongContextsAreSplitTheSameWay) {
  TinyLlamaOptions options;
  options.context_length = 2304;
  options.layers = 2;
  const auto model = LoadTiny(options);
  const std::vector<Sequence> sequences = {MakeSequence(2120, 6, 2, 0.7F),
                                           MakeSequence(1020, 10, 3, 0.0F)};
  How how;
  how.max_rows = 512;
  const auto one = RunAlone(model, how, sequences);
  how.threads = 3;
  ExpectSame(one, RunAlone(model, how, sequences), "3 threads, alone");
  how.max_rows = 100;
  how.shuffle = 4;
  how.poison = true;
  ExpectSame(one, RunTogether(model, how, sequences), "3 threads, together");
  // And it is right.
  std::vector<TokenId> ids = sequences[1].ids;
  for (const Sampled& s : one[1].sampled) ids.push_back(s.token);
  const auto oracle = OracleLogits(*model, ids);
  EXPECT_GT(CenteredCosine(Distribution(model, ids, how), oracle.back()), 0.995);
}

// Sums in another order where there are two rows or more: the comparison above must see it.
void ReorderedMatmul(const Matrix& w, const std::byte* packed, int rows, int panel_begin,
                     int panel_end, float* y, int64_t y_stride) {
  kReferenceKernels.matmul(w, packed, rows, panel_begin, panel_end, y, y_stride);
  if (rows < 2) return;
  for (int r = 0; r < rows; ++r) {
    const int end = std::min(panel_end * kPanelCols, w.n);
    for (int c = panel_begin * kPanelCols; c < end; ++c) {
      float& value = y[r * y_stride + c];
      value = (value + 1.0F) - 1.0F;  // Rounds as another order of sums might.
    }
  }
}

TEST(CpuExecutorTest, APlantedKernelIsCaught) {
  Kernels planted = kReferenceKernels;
  planted.matmul = ReorderedMatmul;
  std::vector<Sequence> crowd = Crowd();
  for (Sequence& s : crowd) s.generate = 3;
  How how;
  how.kernels = &planted;
  const auto together = RunTogether(TinyModel(), how, crowd);
  how.chunk = 1;
  std::string where;
  EXPECT_FALSE(Same(RunAlone(TinyModel(), how, crowd), together, &where));
}

TEST(CpuExecutorTest, CopiedBlocksGoOnAsTheOriginal) {
  Runner runner(TinyModel(), {}, 2);
  std::vector<Sequence> sequences = {MakeSequence(40, 1, 5, 0.0F)};
  runner.Run(&sequences);
  const Sequence& s = sequences[0];
  const auto step = [&](const std::vector<BlockId>& blocks, std::vector<BlockCopy> copies) {
    Batch batch;
    batch.copies = std::move(copies);
    BatchItem& item = batch.items.emplace_back();
    item.start = s.computed;
    item.tokens = {s.ids.back()};
    item.blocks = blocks;
    item.sample = true;
    item.spec = s.spec;
    runner.executor().Launch(batch);
    return runner.executor().Wait().value().sampled.at(0);
  };
  const BlockId last = runner.layout().num_blocks - 1;
  std::vector<BlockId> copied = s.blocks;
  copied.back() = last;
  const Sampled from_copy = step(copied, {{s.blocks.back(), last}});
  const Sampled from_original = step(s.blocks, {});
  EXPECT_EQ(from_copy.token, from_original.token);
  EXPECT_EQ(Bits(from_copy.logprob), Bits(from_original.logprob));
}

TEST(CpuExecutorTest, BlocksSurviveATripThroughMemory) {
  Runner runner(TinyModel(), {}, 2);
  std::vector<Sequence> sequences = {MakeSequence(40, 4, 5, 0.8F)};
  runner.Run(&sequences);
  const auto uninterrupted = sequences[0].sampled;

  std::vector<Sequence> again = {MakeSequence(40, 2, 5, 0.8F)};
  Runner first(TinyModel(), {}, 2);
  first.Run(&again);
  Runner second(TinyModel(), {}, 2);
  for (BlockId& block : again[0].blocks) {
    std::vector<std::byte> bytes(first.layout().block_bytes);
    first.executor().ReadBlock(block, bytes);
    block = second.layout().num_blocks - 1 - block;
    second.executor().WriteBlock(block, bytes);
  }
  again[0].generate = 4;
  second.Run(&again);
  ASSERT_EQ(again[0].sampled.size(), uninterrupted.size());
  for (size_t i = 0; i < uninterrupted.size(); ++i) {
    EXPECT_EQ(again[0].sampled[i].token, uninterrupted[i].token);
    EXPECT_EQ(Bits(again[0].sampled[i].logprob), Bits(uninterrupted[i].logprob));
  }
}

TEST(CpuExecutorTest, InitChecksItsArgumentsAndFillsTheBudget) {
  const size_t block_bytes = TinyModel()->config().kv_block_bytes();
  const auto init = [&](int threads, int64_t bytes, int tokens, int seqs) {
    return CpuExecutor(TinyModel(), Best(), threads).Init(bytes, tokens, seqs);
  };
  EXPECT_EQ(init(0, 1, 1, 1).status().field(), "threads");
  EXPECT_EQ(init(1, -1, 1, 1).status().field(), "kv_cache_bytes");
  EXPECT_EQ(init(1, 1, 0, 1).status().field(), "max_num_batched_tokens");
  EXPECT_EQ(init(1, 1, 1, 0).status().field(), "max_num_seqs");
  EXPECT_EQ(init(1, 0, 1, 1).value().num_blocks, 1);
  const auto layout = init(2, static_cast<int64_t>(block_bytes * 7 + 1), 8, 2);
  EXPECT_EQ(layout.value().num_blocks, 7);
  EXPECT_EQ(layout.value().block_bytes, block_bytes);
}

TEST(CpuExecutorTest, APoolThatDoesNotFitIsRefused) {
  int overcommit = 0;
  std::ifstream("/proc/sys/vm/overcommit_memory") >> overcommit;
  if (overcommit == 1) return;  // Such a system promises any memory.
  CpuExecutor executor(TinyModel(), Best(), 1);
  const Status status = executor.Init(int64_t{1} << 50, 1, 1).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(status.field(), "kv_cache_bytes");
}

TEST(CpuExecutorTest, AMalformedBatchIsRefused) {
  CpuExecutor executor(TinyModel(), Best(), 1);
  EXPECT_EQ(executor.Wait().status().code(), StatusCode::kInternal);
  const KvLayout layout = executor.Init(kPoolBytes, 4, 2).value();
  const auto refused = [&](int32_t start, std::vector<TokenId> tokens,
                           std::vector<BlockId> blocks) {
    Batch batch;
    BatchItem& item = batch.items.emplace_back();
    item.start = start;
    item.tokens = std::move(tokens);
    item.blocks = std::move(blocks);
    executor.Launch(batch);
    return !executor.Wait().ok();
  };
  EXPECT_FALSE(refused(0, {1, 2}, {0}));
  EXPECT_TRUE(refused(0, {}, {0}));
  EXPECT_TRUE(refused(-1, {1}, {0}));
  EXPECT_TRUE(refused(16, {1}, {0}));
  EXPECT_TRUE(refused(0, {1}, {layout.num_blocks}));
  EXPECT_TRUE(refused(0, {1}, {-1}));
  EXPECT_TRUE(refused(0, {kTinyVocab}, {0}));
  EXPECT_TRUE(refused(0, {-1}, {0}));
  EXPECT_TRUE(refused(0, {1, 1, 1, 1, 1}, {0}));
}

TEST(CpuExecutorTest, AnEmptyBatchSamplesNothing) {
  CpuExecutor executor(TinyModel(), Best(), 2);
  ASSERT_TRUE(executor.Init(kPoolBytes, 4, 2).ok());
  const Batch batch;
  executor.Launch(batch);
  EXPECT_TRUE(executor.Wait().value().sampled.empty());
}

}  // namespace
}  // namespace ropeway
