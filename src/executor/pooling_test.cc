// Sums of last hidden states, for embeddings: the same bits for any chunks, threads, batches and
// kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "executor/test_forward_oracle.h"
#include "executor/test_runner.h"

namespace ropeway::executor::testing {
namespace {

Sequence Pooled(int prompt_len, uint64_t seed, Pooling pooling) {
  Sequence s = MakeSequence(prompt_len, 0, seed, 0.0F);
  s.spec.pooling = pooling;
  return s;
}

// Among others that generate or are scored.
std::vector<Sequence> PooledCrowd() {
  constexpr Pooling kAll[] = {Pooling::kMean, Pooling::kLast, Pooling::kFirst};
  std::vector<Sequence> crowd = Crowd();
  for (size_t i = 0; i < crowd.size(); ++i) {
    if (i % 4 == 3) continue;
    crowd[i].generate = 0;
    crowd[i].spec.pooling = kAll[i % 4];
  }
  crowd[3].spec.num_prompt_logprobs = 1;
  return crowd;
}

TEST(PoolingTest, NothingAroundASequenceChangesItsSum) {
  const auto crowd = PooledCrowd();
  const auto alone = RunAlone(TinyModel(), {}, crowd);
  for (size_t i = 0; i < crowd.size(); ++i) {
    const size_t size = crowd[i].spec.pooling ? TinyModel()->config().hidden_size : 0;
    EXPECT_EQ(alone[i].pool_sum.size(), size) << i;
  }
  for (int threads : {1, 2, 3}) {
    for (int chunk : {1, 7, 64, 1024}) {
      How how;
      how.threads = threads;
      how.chunk = chunk;
      how.max_rows = 160;
      how.shuffle = static_cast<uint32_t>(31 * threads + chunk);
      how.poison = true;
      ExpectSame(alone, RunTogether(TinyModel(), how, crowd),
                 std::to_string(threads) + " threads, chunks of " + std::to_string(chunk));
    }
  }
}

TEST(PoolingTest, EveryInstructionSetGivesTheSameBits) {
  const auto crowd = PooledCrowd();
  How how;
  how.kernels = &kernels::kReferenceKernels;
  const auto reference = RunAlone(TinyModel(), how, crowd);
  int compared = 0;
  for (const char* name : {"avx2", "avx512vnni"}) {
    how.kernels = kernels::KernelsByName(name);
    if (how.kernels == nullptr) continue;
    how.threads = 2;
    how.max_rows = 160;
    ExpectSame(reference, RunTogether(TinyModel(), how, crowd), name);
    ++compared;
  }
  if (compared == 0) GTEST_SKIP() << "needs hardware: AVX2";
}

TEST(PoolingTest, AgreesWithTheOracle) {
  model::TinyLlamaOptions exact;  // No rounding of activations to 8 bits.
  exact.weights = kernels::WeightType::kF32;
  exact.embedding = kernels::WeightType::kF16;
  const auto model = LoadTiny(exact);
  for (const Pooling pooling : {Pooling::kMean, Pooling::kLast, Pooling::kFirst}) {
    const Sequence s = Pooled(70, 3, pooling);
    const std::vector<float> sum = RunTogether(model, {}, {s})[0].pool_sum;
    const auto hidden = OracleHidden(*model, s.ids);
    const size_t begin = pooling == Pooling::kLast ? hidden.size() - 1 : 0;
    const size_t end = pooling == Pooling::kFirst ? 1 : hidden.size();
    std::vector<double> expected(sum.size());
    for (size_t row = begin; row < end; ++row) {
      for (size_t i = 0; i < expected.size(); ++i) expected[i] += hidden[row][i];
    }
    EXPECT_GT(CenteredCosine(expected, {sum.begin(), sum.end()}), 0.99999);
    double ours = 0;
    double theirs = 0;
    for (size_t i = 0; i < sum.size(); ++i) {
      ours += std::abs(double{sum[i]});
      theirs += std::abs(expected[i]);
    }
    EXPECT_NEAR(ours / theirs, 1.0, 0.01);
  }
}

}  // namespace
}  // namespace ropeway::executor::testing
