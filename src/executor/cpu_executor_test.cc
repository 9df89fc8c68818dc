#include "executor/cpu_executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>

#include "executor/test_forward_oracle.h"
#include "executor/test_runner.h"

namespace ropeway::executor::testing {
namespace {

// Log-probs over the whole vocabulary after the last of `ids`, with `chunk` tokens a step.
std::vector<double> Distribution(const std::shared_ptr<const Weights>& model,
                                 const std::vector<TokenId>& ids, const How& how) {
  Sequence s;
  s.ids = ids;
  s.prompt_len = static_cast<int32_t>(ids.size());
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
  model::TinyLlamaOptions untied;
  untied.tied = false;
  untied.mixed = true;
  untied.seed = 5;
  model::TinyLlamaOptions exact;
  exact.weights = kernels::WeightType::kF32;
  exact.embedding = kernels::WeightType::kF16;
  for (const model::TinyLlamaOptions& options :
       {model::TinyLlamaOptions{}, untied, exact, EveryWeightType()}) {
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

// What holds for both types of the KV cache.
class EachKvType : public ::testing::TestWithParam<kernels::KvType> {
 protected:
  EachKvType() { how_.kv_type = GetParam(); }

  How how_;  // One thread, the best kernels.
};

INSTANTIATE_TEST_SUITE_P(CpuExecutorTest, EachKvType,
                         ::testing::Values(kernels::KvType::kF16, kernels::KvType::kQ8_0),
                         [](const auto& info) {
                           return std::string(kernels::KvTypeName(info.param));
                         });

TEST_P(EachKvType, NothingAroundASequenceChangesIt) {
  const auto crowd = Crowd();
  const auto alone = RunAlone(TinyModel(), how_, crowd);
  for (int threads : {1, 2, 3}) {
    for (int chunk : {1, 3, 16, 1024}) {
      How how = how_;
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

TEST(CpuExecutorTest, NothingAroundASequenceChangesItWithAnEightBitCache) {
  const auto crowd = Crowd();
  How how;
  how.kv_type = kernels::KvType::kQ8_0;
  const auto alone = RunAlone(TinyModel(), how, crowd);
  std::string where;
  EXPECT_FALSE(Same(alone, RunAlone(TinyModel(), {}, crowd), &where));  // It has an effect.
  for (const kernels::Kernels* kernels :
       {&kernels::kReferenceKernels, kernels::KernelsByName("avx2"), Best()}) {
    if (kernels == nullptr) continue;
    how.kernels = kernels;
    how.threads = 2;
    how.chunk = 5;
    how.max_rows = 160;
    how.shuffle = 4;
    how.poison = true;
    ExpectSame(alone, RunTogether(TinyModel(), how, crowd), kernels->name);
  }
}

TEST_P(EachKvType, SmallStepBudgetsChangeNothing) {
  const auto crowd = Crowd();
  const auto alone = RunAlone(TinyModel(), how_, crowd);
  for (int max_rows : {1, 7, 23}) {
    How how = how_;
    how.threads = 2;
    how.max_rows = max_rows;
    Runner runner(TinyModel(), how, static_cast<int>(crowd.size()));
    auto sequences = crowd;
    runner.Run(&sequences);
    std::vector<Outcome> outcomes;
    for (const Sequence& s : sequences)
      outcomes.push_back({s.sampled, s.scored, runner.KvBytes(s)});
    ExpectSame(alone, outcomes, std::to_string(max_rows) + " rows");
  }
}

TEST_P(EachKvType, MixedWeightTypesAreInvariantToo) {
  const auto model = LoadTiny(EveryWeightType());
  const auto crowd = Crowd();
  How how = how_;
  how.threads = 2;
  how.chunk = 16;
  how.max_rows = 100;
  ExpectSame(RunAlone(model, how_, crowd), RunTogether(model, how, crowd), "mixed types");
}

// Half of the crowd is held by masks, which are filled while the step runs.
TEST_P(EachKvType, MaskedSequencesAreInvariantAndLeaveTheOthersAsTheyAre) {
  const auto free_crowd = Crowd();
  auto crowd = free_crowd;
  for (size_t i = 0; i < crowd.size(); i += 2) crowd[i].mask_seed = static_cast<uint32_t>(i) + 1;
  How how = how_;
  how.threads = 2;
  how.chunk = 16;
  how.max_rows = 100;
  const auto without = RunTogether(TinyModel(), how, free_crowd);
  const auto together = RunTogether(TinyModel(), how, crowd);
  ExpectSame(RunAlone(TinyModel(), how_, crowd), together, "masked");
  for (size_t i = 0; i < crowd.size(); ++i) {
    std::string where;
    EXPECT_EQ(Same({without[i]}, {together[i]}, &where), i % 2 == 1) << i << ": " << where;
    for (size_t t = 0; t < together[i].sampled.size() && i % 2 == 0; ++t) {
      const auto id = static_cast<size_t>(together[i].sampled[t].token);
      const auto mask = MaskAt(crowd[i], crowd[i].ids.size() + t);
      EXPECT_FALSE(together[i].sampled[t].invalid);
      EXPECT_NE(mask.at(id / 32) >> (id % 32) & 1U, 0U) << "sequence " << i << ", token " << t;
    }
  }
}

TEST_P(EachKvType, EveryInstructionSetGivesTheSameBits) {
  const auto crowd = Crowd();
  How how = how_;
  how.kernels = &kernels::kReferenceKernels;
  how.max_rows = 160;
  const auto reference = RunTogether(TinyModel(), how, crowd);
  int compared = 0;
  for (const char* name : {"avx2", "avx512vnni"}) {
    how.kernels = kernels::KernelsByName(name);
    if (how.kernels == nullptr) continue;
    how.threads = 2;
    ExpectSame(reference, RunTogether(TinyModel(), how, crowd), name);
    ++compared;
  }
  if (compared == 0) GTEST_SKIP() << "missing hardware: AVX2";
}

// A context beyond kSplitTokens: split and merged, by one worker at once or by several later.
TEST_P(EachKvType, LongContextsAreSplitTheSameWay) {
  model::TinyLlamaOptions options;
  options.context_length = 2304;
  options.layers = 2;
  const auto model = LoadTiny(options);
  const std::vector<Sequence> sequences = {MakeSequence(2120, 6, 2, 0.7F),
                                           MakeSequence(1020, 10, 3, 0.0F)};
  How how = how_;
  how.kernels = &kernels::kReferenceKernels;
  how.max_rows = 512;
  const auto one = RunAlone(model, how, sequences);
  for (const kernels::Kernels* kernels :
       {&kernels::kReferenceKernels, kernels::KernelsByName("avx2"), Best()}) {
    if (kernels == nullptr) continue;
    how = how_;
    how.kernels = kernels;
    how.threads = 3;
    how.max_rows = 512;
    if (kernels != &kernels::kReferenceKernels) {  // It is slow, and `one` is its run alone.
      ExpectSame(one, RunAlone(model, how, sequences), std::string(kernels->name) + ", alone");
    }
    how.max_rows = 100;
    how.shuffle = 4;
    how.poison = true;
    ExpectSame(one, RunTogether(model, how, sequences), std::string(kernels->name) + ", together");
  }
  // And it is right.
  std::vector<TokenId> ids = sequences[1].ids;
  for (const core::Sampled& s : one[1].sampled) ids.push_back(s.token);
  const auto oracle = OracleLogits(*model, ids);
  EXPECT_GT(CenteredCosine(Distribution(model, ids, how), oracle.back()), 0.995);
}

// Sums in another order where there are two rows or more: the comparison above must see it.
void ReorderedMatmul(const kernels::Matrix& w, const std::byte* packed, int rows, int panel_begin,
                     int panel_end, float* y, int64_t y_stride) {
  kernels::kReferenceKernels.matmul(w, packed, rows, panel_begin, panel_end, y, y_stride);
  if (rows < 2) return;
  for (int r = 0; r < rows; ++r) {
    const int end = std::min(panel_end * kernels::kPanelCols, w.n);
    for (int c = panel_begin * kernels::kPanelCols; c < end; ++c) {
      float& value = y[r * y_stride + c];
      value = (value + 1.0F) - 1.0F;  // Rounds as another order of sums might.
    }
  }
}

TEST(CpuExecutorTest, APlantedKernelIsCaught) {
  kernels::Kernels planted = kernels::kReferenceKernels;
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

TEST_P(EachKvType, BlocksSurviveATripThroughMemory) {
  Runner runner(TinyModel(), how_, 2);
  std::vector<Sequence> sequences = {MakeSequence(40, 4, 5, 0.8F)};
  runner.Run(&sequences);
  const auto uninterrupted = sequences[0].sampled;

  std::vector<Sequence> again = {MakeSequence(40, 2, 5, 0.8F)};
  Runner first(TinyModel(), how_, 2);
  first.Run(&again);
  Runner second(TinyModel(), how_, 2);
  for (core::BlockId& block : again[0].blocks) {
    std::vector<std::byte> bytes(first.layout().block_bytes);
    first.executor().ReadBlock(block, bytes);
    ASSERT_TRUE(first.executor().FinishReads().ok());
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
  const size_t block_bytes = TinyModel()->config().kv_block_bytes(kernels::KvType::kF16);
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

TEST(CpuExecutorTest, APoolThatDoesNotFitIsRejected) {
  int overcommit = 0;
  std::ifstream("/proc/sys/vm/overcommit_memory") >> overcommit;
  if (overcommit == 1) return;  // Such a system promises any memory.
  CpuExecutor executor(TinyModel(), Best(), 1);
  const Status status = executor.Init(int64_t{1} << 50, 1, 1).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(status.field(), "kv_cache_bytes");
  EXPECT_THAT(status.message(), ::testing::StartsWith("--kv-cache-size: "));
}

TEST(CpuExecutorTest, ItsProfileIsASmallCpus) {
  CpuExecutor executor(TinyModel(), Best(), 1);
  const KvLayout layout = executor.Init(kPoolBytes, 4, 2).value();
  EXPECT_EQ(layout.device.mixed_prefill_budget, 32);
  EXPECT_EQ(layout.device.longest_step, std::chrono::milliseconds(100));
  EXPECT_DOUBLE_EQ(layout.device.attention_weight, 1.0 / 700);
  EXPECT_DOUBLE_EQ(layout.device.decode_ratio, 3.0);
  EXPECT_DOUBLE_EQ(layout.device.spare, 16);
  EXPECT_EQ(layout.device.telling_rows, 32);
  EXPECT_DOUBLE_EQ(layout.device.efficient_step, 64);
  EXPECT_DOUBLE_EQ(layout.device.speed_range, 32);
  EXPECT_EQ(layout.device.urgent_prompt, 128);
  EXPECT_EQ(static_cast<size_t>(layout.device.memory_bytes),
            static_cast<size_t>(layout.num_blocks) * layout.block_bytes);
}

TEST(CpuExecutorTest, AMalformedBatchIsRejected) {
  CpuExecutor executor(TinyModel(), Best(), 1);
  EXPECT_EQ(executor.Wait().status().code(), StatusCode::kInternal);
  const KvLayout layout = executor.Init(kPoolBytes, 4, 2).value();
  const auto rejected = [&](int32_t start, const std::vector<TokenId>& tokens,
                            const std::vector<core::BlockId>& blocks) {
    core::Batch batch;
    core::BatchItem& item = batch.items.emplace_back();
    item.start = start;
    item.tokens = tokens;
    item.blocks = blocks;
    executor.Launch(batch);
    return !executor.Wait().ok();
  };
  EXPECT_FALSE(rejected(0, {1, 2}, {0}));
  EXPECT_TRUE(rejected(0, {}, {0}));
  EXPECT_TRUE(rejected(-1, {1}, {0}));
  EXPECT_TRUE(rejected(16, {1}, {0}));
  EXPECT_TRUE(rejected(0, {1}, {layout.num_blocks}));
  EXPECT_TRUE(rejected(0, {1}, {-1}));
  EXPECT_TRUE(rejected(0, {model::kTinyVocab}, {0}));
  EXPECT_TRUE(rejected(0, {-1}, {0}));
  EXPECT_TRUE(rejected(0, {1, 1, 1, 1, 1}, {0}));
}

TEST(CpuExecutorTest, AnEmptyBatchSamplesNothing) {
  CpuExecutor executor(TinyModel(), Best(), 2);
  ASSERT_TRUE(executor.Init(kPoolBytes, 4, 2).ok());
  const core::Batch batch;
  executor.Launch(batch);
  EXPECT_TRUE(executor.Wait().value().sampled.empty());
}

}  // namespace
}  // namespace ropeway::executor::testing
