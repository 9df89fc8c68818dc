// Whole runs on a tiny model: what is measured, not how fast it is.
#include "bench/kernels/roofline.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ropeway {
namespace {

// `heads` KV heads of 16, shared by two queries each.
ModelShapes TinyShapes(WeightType type, int heads) {
  ModelShapes shapes;
  shapes.name = "tiny";
  shapes.hidden_size = 64;
  shapes.layers = {{"q/k/v", type, 64, {64, 40, 24}, 2, false}, {"down", type, 96, {64}, 2, false}};
  shapes.output = {"output", type, 64, {267}, 1, true};
  shapes.attention = {heads, 2, 16, 2, KvType::kF16};
  return shapes;
}

RooflineOptions Quick(WeightType type, int threads, const Kernels* kernels) {
  RooflineOptions options;
  options.kernels = kernels;
  options.model = TinyShapes(type, 3);
  options.threads = threads;
  options.rule = {.min_rows_per_worker = 8,
                  .tile_rows = 64,
                  .attention_tile_rows = 16,
                  .logits_rows = 64,
                  .greedy_floats = 16384,
                  .deferred_pairs = 2 * threads};
  options.rows = {3, 16, 128};
  options.quick = true;
  return options;
}

class RooflineTest : public ::testing::TestWithParam<WeightType> {};

TEST_P(RooflineTest, MeasuresEveryCaseWithAnyNumberOfThreads) {
  for (const int threads : {1, 2, 3}) {
    RooflineOptions options = Quick(GetParam(), threads, ChooseKernels(nullptr));
    if (threads == 3) options.model.attention.kv_type = KvType::kQ8_0;
    options.lm_head = false;  // Large, and measured as products are.
    int told = 0;
    int total = 0;
    const auto results = RunRoofline(options, [&](const std::string&, int done, int all) {
      EXPECT_EQ(done, told++);
      total = all;
    });
    ASSERT_TRUE(results.ok()) << results.status().message();
    EXPECT_EQ(told, total);
    EXPECT_TRUE(results->left_out.empty());
    EXPECT_GT(results->limits.int8_ops, 0);
    EXPECT_GT(results->limits.f32_ops, 0);
    EXPECT_GT(results->limits.bytes, 0);
    // Rows 3 and 16 of each product; quick leaves the others out.
    ASSERT_EQ(results->products.size(), 2U * 3);
    EXPECT_FALSE(results->products[0].by_rows);
    EXPECT_EQ(results->products[1].by_rows, threads == 2);  // 16 rows are 8 for each of two.
    EXPECT_FALSE(results->products[5].by_rows);             // Logits never.
    EXPECT_TRUE(results->logits.empty());
    EXPECT_EQ(results->attention.size(), 2U * 3);
    for (const MatMulResult& result : results->products) {
      EXPECT_GT(result.timing.median, 0);
      EXPECT_GT(result.reached.share, 0);
      const bool floats = GetParam() == WeightType::kF32 || GetParam() == WeightType::kF16;
      EXPECT_EQ(result.work.f32_ops > 0, floats);
      EXPECT_EQ(result.work.int8_ops > 0, !floats);
    }
    for (const AttentionResult& result : results->attention) EXPECT_GT(result.reached.share, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, RooflineTest,
                         ::testing::Values(WeightType::kF32, WeightType::kF16, WeightType::kQ4_0,
                                           WeightType::kQ4_1, WeightType::kQ8_0),
                         [](const auto& type) { return WeightTypeName(type.param); });

TEST(RooflineOptionsTest, OnlyWhatIsAskedForIsMeasuredAndWithThatTable) {
  RooflineOptions options = Quick(WeightType::kQ4_0, 2, &kReferenceKernels);
  options.attention = false;
  options.lm_head = false;
  const auto results = RunRoofline(options, {});
  ASSERT_TRUE(results.ok());
  EXPECT_EQ(results->products.size(), 6U);
  EXPECT_TRUE(results->logits.empty());
  EXPECT_TRUE(results->attention.empty());
  EXPECT_EQ(results->setting.isa, "reference");
  // The limits are those of the chosen table.
  const auto peak = std::ranges::find_if(results->peaks, [](const PeakResult& p) {
    return p.isa == "reference" && p.what == "int8" && p.threads == 2;
  });
  ASSERT_NE(peak, results->peaks.end());
  EXPECT_EQ(peak->per_second(), results->limits.int8_ops);
}

TEST(RooflineOptionsTest, WhatNeedsTooMuchMemoryIsLeftOutAndNamed) {
  RooflineOptions options = Quick(WeightType::kQ8_0, 1, ChooseKernels(nullptr));
  options.attention = false;
  options.matmul = false;
  options.memory = size_t{16} << 20;  // 49152 x 2048 in Q8_0 are 102 MiB.
  const auto results = RunRoofline(options, {});
  ASSERT_TRUE(results.ok());
  EXPECT_EQ(results->logits.size(), 2U * 2);
  ASSERT_EQ(results->left_out.size(), 2U);
  EXPECT_NE(results->left_out[0].find("2048 x 49152"), std::string::npos);
}

TEST(RooflineOptionsTest, TheSweepAndTheAttentionKeepToTheMemoryTheyAreGiven) {
  RooflineOptions options = Quick(WeightType::kQ8_0, 1, ChooseKernels(nullptr));
  options.matmul = false;
  options.lm_head = false;
  options.model.output.n = {1 << 17};  // 9 MB of weights.
  options.memory = size_t{3} << 20;    // The quick attention wants 4 MiB.
  const auto results = RunRoofline(options, {});
  ASSERT_TRUE(results.ok());
  EXPECT_TRUE(results->attention.empty());
  ASSERT_EQ(results->left_out.size(), 1U + 6);
  EXPECT_EQ(results->left_out[0],
            "the memory sweep over all weights (it read 3 MB instead) needs 8 MB of memory, 3 are "
            "free for it");
  EXPECT_NE(results->left_out[1].find("attention of 1 sequences of 1 rows, context 128"),
            std::string::npos);
}

TEST(RooflineOptionsTest, ALayerThatIsLeftOutIsMissingFromTheWeightedProducts) {
  RooflineOptions options = Quick(WeightType::kF32, 1, ChooseKernels(nullptr));
  options.attention = false;
  options.lm_head = false;
  options.rows = {3};
  options.model.layers[1] = {"down", WeightType::kF32, 1024, {1024 * 8}, 2, false};  // 32 MiB.
  options.memory = size_t{16} << 20;
  const auto results = RunRoofline(options, {});
  ASSERT_TRUE(results.ok());
  ASSERT_EQ(results->products_left_out.size(), 1U);
  EXPECT_EQ(results->products_left_out[0].shape.label, "down");
  const std::vector<WeightedShare> shares = WeightedShares(*results);
  ASSERT_EQ(shares.size(), 2U);
  EXPECT_EQ(shares[0].missing, 1);
  EXPECT_EQ(NameOf(shares[1]), "layers and output less 1");
}

TEST(RooflineOptionsTest, LogitsOfTooManyRowsAreLeftOutAndNamed) {
  RooflineOptions options = Quick(WeightType::kQ8_0, 1, ChooseKernels(nullptr));
  options.attention = false;
  options.matmul = false;
  options.rows = {65, 128};
  const auto results = RunRoofline(options, {});
  ASSERT_TRUE(results.ok());
  EXPECT_TRUE(results->logits.empty());
  ASSERT_EQ(results->left_out.size(), 1U);
  EXPECT_NE(results->left_out[0].find("at most 64 rows"), std::string::npos);
}

TEST(AttentionPoolTest, HoldsWhatIsReadBeforeItComesAgainAndAtLeastOneLayer) {
  const AttentionShape shape = {3, 2, 16, 2, KvType::kF16};
  // 8 blocks of 16 tokens of K and V of 3 heads of 16 halves.
  const size_t layer = 8 * 16 * 2 * 3 * 16 * 2;
  EXPECT_EQ(AttentionBench::LeastPoolBytes(shape, {1, 1, 128}, 1), layer);
  EXPECT_EQ(AttentionBench::LeastPoolBytes(shape, {1, 1, 128}, layer * 3 + 1), layer * 4);
}

TEST(AttentionWorkTest, CountsPairsOfPositionsAndEachKOnce) {
  const AttentionShape shape = {3, 3, 64, 30, KvType::kF16};
  const Work decode = AttentionBench::WorkOf(shape, {1, 1, 128});
  EXPECT_EQ(decode.f32_ops, 4.0 * 128 * 64 * 9);
  EXPECT_EQ(decode.bytes, 128.0 * 64 * 2 * 2 * 3);
  const Work prefill = AttentionBench::WorkOf(shape, {1, 2, 128});
  EXPECT_EQ(prefill.f32_ops, 4.0 * (129 + 130) * 64 * 9);
  EXPECT_EQ(prefill.bytes, 130.0 * 64 * 2 * 2 * 3);
  // A byte a number, and a scale of 4 bytes for K and for V.
  const AttentionShape small = {3, 3, 64, 30, KvType::kQ8_0};
  EXPECT_EQ(AttentionBench::WorkOf(small, {1, 1, 128}).bytes, 128.0 * (64 + 4) * 2 * 3);
}

}  // namespace
}  // namespace ropeway
