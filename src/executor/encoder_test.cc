// An encoder (BERT) on a tiny random model: each input is computed as a whole, its rows see all of
// it, and nothing around an input changes a bit of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "executor/test_forward_oracle.h"
#include "executor/test_runner.h"
#include "model/test_tiny_models.h"

namespace ropeway::executor::testing {
namespace {

std::shared_ptr<const Weights> Bert(kernels::WeightType weights = kernels::WeightType::kF32) {
  return LoadGguf(model::TinyModel("bert", weights));
}

Sequence Input(int length, uint64_t seed, Pooling pooling = Pooling::kMean) {
  Sequence s = MakeSequence(length, 0, seed, 0.0F);
  s.spec.pooling = pooling;
  return s;
}

// Each input must fit into a step.
How Large() {
  How how;
  how.max_rows = 1000;
  return how;
}

// Inputs of lengths around the edges of blocks, softmax groups and attention units.
std::vector<Sequence> Inputs() {
  std::vector<Sequence> inputs;
  for (const int length : {1, 2, 15, 16, 17, 31, 33, 63, 64, 65, 90, 130, 200}) {
    const auto seed = static_cast<uint64_t>(length);
    const Pooling pooling = length % 5 == 0   ? Pooling::kFirst
                            : length % 3 == 0 ? Pooling::kLast
                                              : Pooling::kMean;
    inputs.push_back(Input(length, seed, pooling));
    inputs.back().joins = length / 40;
  }
  return inputs;
}

std::vector<double> OracleSum(const Weights& weights, const Sequence& s) {
  const auto hidden = OracleHidden(weights, s.ids);
  const size_t begin = *s.spec.pooling == Pooling::kLast ? hidden.size() - 1 : 0;
  const size_t end = *s.spec.pooling == Pooling::kFirst ? 1 : hidden.size();
  std::vector<double> sum(hidden[0].size());
  for (size_t row = begin; row < end; ++row) {
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += hidden[row][i];
  }
  return sum;
}

TEST(EncoderTest, AgreesWithTheOracle) {
  const auto model = Bert();
  for (const Sequence& s : Inputs()) {
    const std::vector<float> sum = RunTogether(model, Large(), {s})[0].pool_sum;
    const std::vector<double> expected = OracleSum(*model, s);
    ASSERT_EQ(sum.size(), expected.size());
    double worst = 0;
    for (size_t i = 0; i < sum.size(); ++i) {
      worst = std::max(worst, std::abs(double{sum[i]} - expected[i]));
    }
    const int rows = *s.spec.pooling == Pooling::kMean ? s.prompt_len : 1;
    EXPECT_LT(worst / rows, 1e-3) << s.prompt_len << " ids";
    EXPECT_GT(CenteredCosine(expected, {sum.begin(), sum.end()}), 0.999999) << s.prompt_len;
  }
}

// In 8 bits, which round the activations too.
TEST(EncoderTest, QuantisedItIsNearTheOracle) {
  const auto model = Bert(kernels::WeightType::kQ8_0);
  for (const Sequence& s : Inputs()) {
    const std::vector<float> sum = RunTogether(model, Large(), {s})[0].pool_sum;
    EXPECT_GT(CenteredCosine(OracleSum(*model, s), {sum.begin(), sum.end()}), 0.999)
        << s.prompt_len;
  }
}

TEST(EncoderTest, NothingAroundAnInputChangesIt) {
  for (const kernels::WeightType weights :
       {kernels::WeightType::kF32, kernels::WeightType::kQ8_0}) {
    const auto model = Bert(weights);
    const auto inputs = Inputs();
    for (const kernels::KvType kv_type : {kernels::KvType::kF16, kernels::KvType::kQ8_0}) {
      How how = Large();
      how.kv_type = kv_type;
      const auto alone = RunAlone(model, how, inputs);
      for (const int threads : {1, 2, 3}) {
        for (const int rows : {200, 321, 1000}) {
          how.threads = threads;
          how.max_rows = rows;
          how.shuffle = static_cast<uint32_t>(threads * rows);
          how.poison = true;
          ExpectSame(alone, RunTogether(model, how, inputs),
                     std::to_string(threads) + " threads, steps of " + std::to_string(rows));
        }
      }
    }
  }
}

TEST(EncoderTest, EveryInstructionSetGivesTheSameBits) {
  const auto inputs = Inputs();
  int compared = 0;
  for (const kernels::WeightType weights :
       {kernels::WeightType::kF32, kernels::WeightType::kF16, kernels::WeightType::kQ8_0}) {
    const auto model = Bert(weights);
    How how = Large();
    how.kernels = &kernels::kReferenceKernels;
    const auto reference = RunTogether(model, how, inputs);
    how.threads = 2;
    for (const char* name : {"avx2", "avx512vnni"}) {
      how.kernels = kernels::KernelsByName(name);
      if (how.kernels == nullptr) continue;
      ExpectSame(reference, RunTogether(model, how, inputs),
                 std::string(name) + ", " + kernels::WeightTypeName(weights));
      ++compared;
    }
  }
  if (compared == 0) GTEST_SKIP() << "needs hardware: AVX2";
}

// Beyond kSplitTokens, where the partial results of single rows may be merged later.
TEST(EncoderTest, InputsOfSeveralSplits) {
  model::GgufWriter writer = model::TinyModel("bert");
  writer.SetUint32("bert.context_length", 1100);
  writer.SetTensor("position_embd.weight", {64, 1100}, kernels::WeightType::kF32,
                   std::vector<float>(size_t{64} * 1100, 0.0F));
  const auto model = LoadGguf(writer);
  const std::vector<Sequence> inputs = {Input(1090, 3, Pooling::kLast),
                                        Input(1030, 4, Pooling::kFirst)};
  How how;
  how.max_rows = 1100;
  const auto one = RunAlone(model, how, inputs);
  const std::vector<double> expected = OracleSum(*model, inputs[1]);
  EXPECT_GT(CenteredCosine(expected, {one[1].pool_sum.begin(), one[1].pool_sum.end()}), 0.999999);
  for (const int threads : {2, 3}) {
    how.threads = threads;
    how.max_rows = threads * 1100;
    ExpectSame(one, RunTogether(model, how, inputs), std::to_string(threads) + " threads");
  }
}

// Later tokens change the first one's hidden state.
TEST(EncoderTest, TheFirstRowSeesTheLastId) {
  const auto model = Bert();
  Sequence s = Input(20, 1, Pooling::kFirst);
  const auto before = RunTogether(model, Large(), {s});
  s.ids.back() = s.ids.back() == 0 ? 1 : 0;
  EXPECT_NE(before[0].pool_sum, RunTogether(model, Large(), {s})[0].pool_sum);
}

TEST(EncoderTest, PartsOfAnInputAreRejected) {
  const auto model = Bert();
  CpuExecutor executor(model, Best(), 1);
  ASSERT_TRUE(executor.Init(kPoolBytes, 64, 1).ok());
  const Sequence s = Input(40, 1);
  std::vector<core::BlockId> blocks(3);
  std::iota(blocks.begin(), blocks.end(), 0);
  core::Batch batch;
  core::BatchItem& item = batch.items.emplace_back();
  item.blocks = blocks;
  item.start = 16;
  item.tokens = std::span<const TokenId>(s.ids).subspan(16);
  executor.Launch(batch);
  EXPECT_EQ(executor.Wait().status().code(), StatusCode::kInternal);
  item.start = 0;
  item.tokens = s.ids;
  item.sample = true;
  executor.Launch(batch);
  EXPECT_EQ(executor.Wait().status().code(), StatusCode::kInternal);
}

}  // namespace
}  // namespace ropeway::executor::testing
