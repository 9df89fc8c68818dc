// Whole runs on a tiny model: what is measured, not how fast it is.
#include "bench/kernels/measure_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "bench/kernels/attention_bench.h"

namespace ropeway::bench {
namespace {

using ::testing::HasSubstr;

// `heads` KV heads of 16, shared by two queries each.
ModelShapes TinyShapes(kernels::WeightType type, int heads) {
  ModelShapes shapes;
  // Whole stored blocks.
  const bool wide = kernels::WeightBlockElements(type) == 256;
  const int hidden = wide ? 256 : 64;
  const int ffn = wide ? 512 : 96;
  shapes.name = "tiny";
  shapes.hidden_size = hidden;
  shapes.layers = {{"q/k/v", type, hidden, {64, 40, 24}, 2, false},
                   {"down", type, ffn, {64}, 2, false}};
  shapes.output = {"output", type, hidden, {267}, 1, true};
  shapes.attention = {heads, 2, 16, 2, kernels::KvType::kF16};
  return shapes;
}

KernelsOptions Quick(kernels::WeightType type, int threads, const kernels::Kernels* kernels) {
  KernelsOptions options;
  options.kernels = kernels;
  options.model = TinyShapes(type, 3);
  options.threads = threads;
  options.rows = {3, 16, 128};
  options.quick = true;
  return options;
}

// The rows of one run.
struct Measured {
  Status status;
  std::map<std::string, std::map<std::string, std::string>> cells;  // "part,system,1,x" -> metrics.
  std::vector<std::string> left_out;

  // Cells whose name contains `text`.
  std::vector<std::map<std::string, std::string>> Of(const std::string& text) const {
    std::vector<std::map<std::string, std::string>> found;
    for (const auto& [name, metrics] : cells) {
      if (name.find(text) != std::string::npos && !metrics.contains("left_out")) {
        found.push_back(metrics);
      }
    }
    return found;
  }
};

Measured Measure(const KernelsOptions& options,
                 const std::function<void(const std::string&, int, int)>& progress = {}) {
  Measured measured;
  std::string text;
  Rows rows([&text](const std::string& lines) { text += lines; });
  measured.status = MeasureKernels(options, &rows, progress);
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, "part,system,round,x,metric,value");
  while (std::getline(lines, line)) {
    if (const size_t quote = line.find(",left_out,\""); quote != std::string::npos) {
      measured.left_out.push_back(line.substr(quote + 11));
      continue;
    }
    const size_t value = line.rfind(',');
    const size_t metric = line.rfind(',', value - 1);
    measured.cells[line.substr(0, metric)][line.substr(metric + 1, value - metric - 1)] =
        line.substr(value + 1);
  }
  return measured;
}

class KernelsTest : public ::testing::TestWithParam<kernels::WeightType> {};

TEST_P(KernelsTest, MeasuresEveryCaseWithAnyNumberOfThreads) {
  for (const int threads : {1, 2, 3}) {
    KernelsOptions options = Quick(GetParam(), threads, kernels::ChooseKernels(nullptr));
    if (threads == 3) options.model.attention.kv_type = kernels::KvType::kQ8_0;
    options.lm_head = false;  // Large, and measured as products are.
    int told = 0;
    int total = 0;
    const Measured measured = Measure(options, [&](const std::string&, int done, int all) {
      EXPECT_EQ(done, told++);
      total = all;
    });
    ASSERT_TRUE(measured.status.ok()) << measured.status.message();
    EXPECT_EQ(told, total);
    EXPECT_TRUE(measured.left_out.empty());
    for (const char* what : {"what=int8", "what=f32", "what=sweep"}) {
      for (const auto& metrics : measured.Of(what)) EXPECT_GT(stod(metrics.at("per_second")), 0);
      EXPECT_FALSE(measured.Of(what).empty());
    }
    // Rows 3 and 16 of each product; quick leaves the others out.
    EXPECT_EQ(measured.Of("matmul,").size(), 2U * 3);
    EXPECT_EQ(measured.Of("name=q/k/v").at(1).at("dealt"), "columns");
    // 16 rows are 8 for each of two.
    EXPECT_EQ(measured.Of("name=q/k/v").at(0).at("dealt"), threads == 2 ? "rows" : "columns");
    for (const auto& metrics : measured.Of("name=output")) {
      EXPECT_EQ(metrics.at("dealt"), "columns");
    }
    EXPECT_TRUE(measured.Of("lm-head,").empty());
    EXPECT_EQ(measured.Of("attention,").size(), 2U * 3);
    for (const auto& metrics : measured.Of("matmul,")) {
      EXPECT_GT(stod(metrics.at("median_us")), 0);
      EXPECT_GT(stod(metrics.at("bytes")), 0);
      EXPECT_GT(stod(metrics.at("sweep_bytes_per_s")), 0);
      const bool floats = kernels::WeightBlockElements(GetParam()) == 1;
      EXPECT_EQ(metrics.contains("f32_ops"), floats);
      EXPECT_EQ(metrics.contains("int8_ops"), !floats);
    }
    for (const auto& metrics : measured.Of("attention,")) {
      EXPECT_LE(stod(metrics.at("min_us")), stod(metrics.at("median_us")));
      EXPECT_LE(stod(metrics.at("median_us")), stod(metrics.at("max_us")));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, KernelsTest,
                         ::testing::Values(kernels::WeightType::kF32, kernels::WeightType::kF16,
                                           kernels::WeightType::kQ4_0, kernels::WeightType::kQ4_1,
                                           kernels::WeightType::kQ8_0, kernels::WeightType::kBF16,
                                           kernels::WeightType::kQ4_K, kernels::WeightType::kQ6_K,
                                           kernels::WeightType::kMXFP4),
                         [](const auto& type) { return kernels::WeightTypeName(type.param); });

TEST(KernelsOptionsTest, OnlyWhatIsAskedForIsMeasuredAndWithThatTable) {
  KernelsOptions options = Quick(kernels::WeightType::kQ4_0, 2, &kernels::kReferenceKernels);
  options.attention = false;
  options.lm_head = false;
  const Measured measured = Measure(options);
  ASSERT_TRUE(measured.status.ok());
  EXPECT_EQ(measured.Of("matmul,reference,").size(), 6U);
  EXPECT_TRUE(measured.Of("lm-head,").empty());
  EXPECT_TRUE(measured.Of("attention,").empty());
  EXPECT_EQ(measured.Of("peak,reference,1,what=int8; threads=2").size(), 1U);
}

TEST(KernelsOptionsTest, WhatNeedsTooMuchMemoryIsLeftOutAndNamed) {
  KernelsOptions options = Quick(kernels::WeightType::kQ8_0, 1, kernels::ChooseKernels(nullptr));
  options.attention = false;
  options.matmul = false;
  options.memory = size_t{16} << 20;  // 49152 x 2048 in Q8_0 are 102 MiB.
  const Measured measured = Measure(options);
  ASSERT_TRUE(measured.status.ok());
  EXPECT_EQ(measured.Of("lm-head,").size(), 2U * 2);
  ASSERT_EQ(measured.left_out.size(), 2U);
  EXPECT_THAT(measured.left_out[0], HasSubstr("2048 x 49152"));
}

TEST(KernelsOptionsTest, TheSweepAndTheAttentionKeepToTheMemoryTheyAreGiven) {
  KernelsOptions options = Quick(kernels::WeightType::kQ8_0, 1, kernels::ChooseKernels(nullptr));
  options.matmul = false;
  options.lm_head = false;
  options.model.output.n = {1 << 17};  // 9 MB of weights.
  options.memory = size_t{3} << 20;    // The quick attention wants 4 MiB.
  const Measured measured = Measure(options);
  ASSERT_TRUE(measured.status.ok());
  EXPECT_TRUE(measured.Of("attention,").empty());
  ASSERT_EQ(measured.left_out.size(), 1U + 6);
  EXPECT_THAT(measured.left_out[0],
              HasSubstr("the memory sweep over all weights (it read 3 MB instead) needs 8 MB of "
                        "memory, 3 are free for it"));
  EXPECT_THAT(measured.left_out[1], HasSubstr("attention of 1 sequences of 1 rows, context 128"));
}

TEST(KernelsOptionsTest, ALayerThatIsLeftOutIsNamedAmongTheProducts) {
  KernelsOptions options = Quick(kernels::WeightType::kF32, 1, kernels::ChooseKernels(nullptr));
  options.attention = false;
  options.lm_head = false;
  options.rows = {3};
  options.model.layers[1] = {"down", kernels::WeightType::kF32, 1024, {1024 * 8}, 2,
                             false};  // 32 MiB.
  options.memory = size_t{16} << 20;
  const Measured measured = Measure(options);
  ASSERT_TRUE(measured.status.ok());
  EXPECT_EQ(measured.Of("matmul,").size(), 2U);
  const auto left_out = std::ranges::find_if(
      measured.cells, [](const auto& cell) { return cell.second.contains("left_out"); });
  ASSERT_NE(left_out, measured.cells.end());
  EXPECT_THAT(left_out->first, HasSubstr("model=tiny; name=down; "));
}

TEST(KernelsOptionsTest, LogitsOfTooManyRowsAreLeftOutAndNamed) {
  KernelsOptions options = Quick(kernels::WeightType::kQ8_0, 1, kernels::ChooseKernels(nullptr));
  options.attention = false;
  options.matmul = false;
  options.rows = {65, 128};
  const Measured measured = Measure(options);
  ASSERT_TRUE(measured.status.ok());
  EXPECT_TRUE(measured.Of("lm-head,").empty());
  ASSERT_EQ(measured.left_out.size(), 1U);
  EXPECT_THAT(measured.left_out[0], HasSubstr("at most 64 rows"));
}

TEST(AttentionPoolTest, HoldsWhatIsReadBeforeItComesAgainAndAtLeastOneLayer) {
  const AttentionShape shape = {3, 2, 16, 2, kernels::KvType::kF16};
  // 8 blocks of 16 tokens of K and V of 3 heads of 16 halves.
  const size_t layer = 8 * 16 * 2 * 3 * 16 * 2;
  EXPECT_EQ(AttentionBench::LeastPoolBytes(shape, {1, 1, 128}, 1), layer);
  EXPECT_EQ(AttentionBench::LeastPoolBytes(shape, {1, 1, 128}, layer * 3 + 1), layer * 4);
}

TEST(AttentionWorkTest, CountsPairsOfPositionsAndEachKOnce) {
  const AttentionShape shape = {3, 3, 64, 30, kernels::KvType::kF16};
  const Work decode = AttentionBench::WorkOf(shape, {1, 1, 128});
  EXPECT_EQ(decode.f32_ops, 4.0 * 128 * 64 * 9);
  EXPECT_EQ(decode.bytes, 128.0 * 64 * 2 * 2 * 3);
  const Work prefill = AttentionBench::WorkOf(shape, {1, 2, 128});
  EXPECT_EQ(prefill.f32_ops, 4.0 * (129 + 130) * 64 * 9);
  EXPECT_EQ(prefill.bytes, 130.0 * 64 * 2 * 2 * 3);
  // A byte a number, and a scale of 4 bytes for K and for V.
  const AttentionShape small = {3, 3, 64, 30, kernels::KvType::kQ8_0};
  EXPECT_EQ(AttentionBench::WorkOf(small, {1, 1, 128}).bytes, 128.0 * (64 + 4) * 2 * 3);
}

}  // namespace
}  // namespace ropeway::bench
