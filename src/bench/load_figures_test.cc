#include "bench/load_figures.h"

#include <gtest/gtest.h>

namespace ropeway {
namespace {

RequestRecord Record(double ttft, std::vector<float> gaps, int64_t batch, int64_t size) {
  RequestRecord record;
  record.ttft = ttft;
  record.latency = ttft;
  for (const float gap : gaps) record.latency += gap;
  record.gaps = std::move(gaps);
  record.input_tokens = 10;
  record.output_tokens = 1 + static_cast<int64_t>(record.gaps.size());
  record.batch = batch;
  record.batch_size = size;
  return record;
}

TEST(AddLoadFigures, PutsRunsTogether) {
  RunResult one;
  one.wall_seconds = 2;
  one.cpu_seconds = 0.4;
  one.records = {Record(0.1, {0.5F, 0.7F}, 1, 2), Record(0.3, {0.6F}, 1, 2)};
  RunResult two;
  two.wall_seconds = 3;
  two.records = {Record(0.2, {}, 1, 5)};
  two.records.emplace_back().error_kind = "timeout";
  const Figure where{.part = "p", .contestant = "c", .x = "", .metric = "", .value = ""};
  Figures figures;
  AddLoadFigures({&one, &two}, 2, where, &figures);
  const auto value = [&](const char* metric) { return *figures.Median("p", "c", "", metric); };
  EXPECT_EQ(value("requests"), 3);
  EXPECT_EQ(value("failed"), 1);
  EXPECT_DOUBLE_EQ(value("output_tok_per_s"), 6.0 / 5);
  EXPECT_DOUBLE_EQ(value("requests_per_s"), 3.0 / 5);
  EXPECT_DOUBLE_EQ(value("ttft_p50_s"), 0.2);
  EXPECT_NEAR(value("itl_p50_s"), 0.6, 1e-6);
  EXPECT_EQ(value("itl_samples"), 3);
  EXPECT_EQ(value("batches"), 2);  // Each run counts its own.
  EXPECT_DOUBLE_EQ(value("batch_size"), 3);
  EXPECT_DOUBLE_EQ(value("generator_cpu_share"), 0.4 / (5 * 2));
}

}  // namespace
}  // namespace ropeway
