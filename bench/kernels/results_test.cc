// Shares, tables and CSV of given measurements.
#include "bench/kernels/results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "bench/kernels/csv.h"
#include "bench/kernels/matmul_bench.h"
#include "bench/kernels/report.h"

namespace ropeway {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr Limits kResultLimits = {.int8_ops = 800e9, .f32_ops = 200e9, .bytes = 40e9};

Timing Took(double seconds) { return {seconds, seconds * 0.9, seconds * 1.2, 9, 10}; }

// A product that took `seconds`, of `rows` rows.
MatMulResult Product(const std::string& label, int n, int count, bool logits, int rows,
                     double seconds) {
  MatMulResult result;
  result.model = "a model, small";
  result.shape = {label, WeightType::kQ4_1, 1024, {n, n}, count, logits};
  result.rows = rows;
  result.conditions = {68, 36e9};
  result.timing = Took(seconds);
  result.work = MatMulBench::WorkOf(result.shape, rows);
  result.reached = Compare(result.work, seconds, kResultLimits);
  return result;
}

// Least times: a 1024-row product of 1024 x 2 * 1024 takes 4.29e9 operations / 800e9 = 5.37 ms.
Results Example() {
  Results results;
  results.setting = {"a CPU, fast", "avx2", "a model, small", 2, true};
  results.limits = kResultLimits;
  results.peaks = {{"int8", "avx2", 1, 400e6, Took(1e-3), 65},
                   {"int8", "avx2", 2, 800e6, Took(1e-3), 64},
                   {"sweep", "avx2", 2, 80e6, Took(2e-3), 70}};
  results.products = {Product("q/k", 1024, 30, false, 1, 50e-6),
                      Product("q/k", 1024, 30, false, 1024, 10e-3),
                      Product("output", 4096, 1, true, 1, 200e-6)};
  results.attention = {{"a model, small",
                        {3, 3, 64, 30, KvType::kQ8_0},
                        {1, 1, 128},
                        {66, 30e9},
                        Took(1e-4),
                        {.f32_ops = 2e6, .bytes = 2e6},
                        {Bound::kMemory, 0.5}},
                       {"a model, small",
                        {3, 3, 64, 30, KvType::kQ8_0},
                        {1, 256, 128},
                        {260, 44e9},
                        Took(1e-3),
                        {.f32_ops = 1e8, .bytes = 2e6},
                        {Bound::kF32, 0.5}}};
  return results;
}

TEST(WeightedSharesTest, EachProductCountsAsOftenAsItOccurs) {
  const Results results = Example();
  const std::vector<WeightedShare> shares = WeightedShares(results);
  ASSERT_EQ(shares.size(), 3U);  // 1 row without and with output, 1024 without.
  EXPECT_EQ(shares[0].rows, 1);
  EXPECT_FALSE(shares[0].with_output);
  EXPECT_NEAR(shares[0].ops_per_second, 2.0 * 1024 * 2048 / 50e-6, 1);
  EXPECT_NEAR(shares[0].bound_share, 1024 * 2048 * 20 / 32 / 40e9 / 50e-6, 1e-9);
  EXPECT_TRUE(shares[1].with_output);
  // 30 times 2048 outputs and once 8192, in 30 times 50 us and once 200 us.
  EXPECT_NEAR(shares[1].ops_per_second, 2.0 * 1024 * (30 * 2048 + 8192) / (30 * 50e-6 + 200e-6), 1);
  EXPECT_EQ(shares[2].rows, 1024);
  EXPECT_NEAR(shares[2].peak_share, 2.0 * 1024 * 1024 * 2048 / 800e9 / 10e-3, 1e-9);
  EXPECT_NEAR(shares[2].bound_share, shares[2].peak_share, 1e-9);
}

TEST(ReportTest, SaysWhatAPersonNeedsToReadIt) {
  const std::string text = FormatReport(Example());
  EXPECT_THAT(
      text,
      HasSubstr("CPU a CPU, fast; kernels avx2; threads 2; barrier 68 ns (mostly 64 to 260)\n"));
  EXPECT_THAT(text, HasSubstr("800 GOPS"));
  EXPECT_THAT(text, HasSubstr("40.0 GB/s"));
  EXPECT_THAT(text, HasSubstr("30.0 to 44.0 GB/s, but at most 50"));
  EXPECT_THAT(text,
              HasSubstr("differ by 30% in the median, mostly by less than 30%: something else"));
  EXPECT_THAT(text, HasSubstr("q/k 1024 x 1024+1024"));
  EXPECT_THAT(text, HasSubstr("Q4_1, 30 times"));
  EXPECT_THAT(text, HasSubstr("66%m"));
  EXPECT_THAT(text, HasSubstr("54%i"));
  EXPECT_THAT(text, HasSubstr("a model, small, q8_0 KV cache, 3 KV heads of 64"));
  EXPECT_THAT(text, HasSubstr("decode, 1 sequence"));
  EXPECT_THAT(text, HasSubstr("prefill, 256 rows"));
  EXPECT_THAT(text, Not(HasSubstr("quick")));
  EXPECT_THAT(text, Not(HasSubstr("Logits by vocabulary")));
}

TEST(ReportTest, SaysWhatItsFiguresAreNotWorth) {
  Results results = Example();
  results.setting.cold = false;
  results.left_out = {"lm_head needs 9 MB"};
  const std::string text = FormatReport(results);
  EXPECT_THAT(text, HasSubstr("quick"));
  EXPECT_THAT(text, HasSubstr("left out: lm_head needs 9 MB\n"));
}

TEST(ReportTest, SaysThatTheWeightedProductsAreNotAll) {
  Results results = Example();
  EXPECT_THAT(FormatReport(results), HasSubstr("\nAll products of a forward pass, weighted"));
  results.products_left_out = {{"a model, small", results.products[0].shape},
                               {"another", results.products[0].shape}};
  const std::string text = FormatReport(results);
  EXPECT_THAT(text, HasSubstr("\nProducts of a forward pass without 1 left out above, weighted"));
  EXPECT_THAT(text, HasSubstr("layers and output less 1 "));
  EXPECT_THAT(text, Not(HasSubstr("All products")));
}

TEST(WeightedSharesTest, WithoutAnyLayerThereIsOnlyTheOutput) {
  Results results = Example();
  results.products = {Product("output", 4096, 1, true, 1, 200e-6)};
  const std::vector<WeightedShare> shares = WeightedShares(results);
  ASSERT_EQ(shares.size(), 1U);
  EXPECT_TRUE(shares[0].with_output);
}

TEST(ReportTest, OnlyTheLimitsAreATable) {
  Results results = Example();
  results.products.clear();
  results.attention.clear();
  EXPECT_THAT(FormatReport(results), Not(HasSubstr("Matrix products")));
  EXPECT_THAT(FormatReport(results), Not(HasSubstr("Attention")));
}

TEST(CsvTest, EveryLineHasTheHeadersColumns) {
  std::istringstream lines(FormatCsv(Example()));
  std::string line;
  std::vector<std::vector<std::string>> table;
  while (std::getline(lines, line)) {
    std::vector<std::string>& fields = table.emplace_back(1);
    bool quoted = false;
    for (const char c : line) {
      if (c == '"') quoted = !quoted;
      if (c == ',' && !quoted) {
        fields.emplace_back();
      } else if (c != '"') {
        fields.back() += c;
      }
    }
  }
  ASSERT_EQ(table.size(), 1U + 3 + 3 + 3 + 2);
  for (const std::vector<std::string>& fields : table) {
    EXPECT_EQ(fields.size(), table[0].size()) << fields[4];
  }
  const auto at = [&](size_t row, const std::string& column) {
    const auto found = std::ranges::find(table[0], column);
    return table[row][static_cast<size_t>(found - table[0].begin())];
  };
  EXPECT_EQ(at(1, "cpu"), "a CPU, fast");
  EXPECT_EQ(at(1, "section"), "peak");
  EXPECT_EQ(at(1, "gops"), "444.444");
  EXPECT_EQ(at(3, "name"), "sweep");
  EXPECT_EQ(at(3, "gb_per_s"), "40.000");
  EXPECT_EQ(at(1, "barrier_ns"), "65");
  EXPECT_EQ(at(1, "sweep_gb_per_s"), "");
  EXPECT_EQ(at(4, "section"), "matmul");
  EXPECT_EQ(at(4, "barrier_ns"), "68");
  EXPECT_EQ(at(4, "sweep_gb_per_s"), "36.000");
  EXPECT_EQ(at(4, "n"), "1024+1024");
  EXPECT_EQ(at(4, "count"), "30");
  EXPECT_EQ(at(4, "median_us"), "50.000");
  EXPECT_EQ(at(4, "spread"), "0.3000");
  EXPECT_EQ(at(4, "bound"), "memory");
  EXPECT_EQ(at(5, "share"), "0.5369");
  EXPECT_EQ(at(7, "section"), "weighted");
  EXPECT_EQ(at(7, "rows"), "1");
  EXPECT_EQ(at(9, "share"), "0.5369");
  EXPECT_EQ(at(11, "name"), "prefill");
  EXPECT_EQ(at(11, "type"), "q8_0");
  EXPECT_EQ(at(11, "rows"), "256");
  EXPECT_EQ(at(11, "context"), "128");
  EXPECT_EQ(at(11, "bound"), "f32");
}

}  // namespace
}  // namespace ropeway
