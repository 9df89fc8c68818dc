#include "bench/fairness_figures.h"

#include <gtest/gtest.h>

#include "bench/fairness_report.h"

namespace ropeway {
namespace {

TEST(AddFairnessFigures, AreByClientAndOfAll) {
  FairnessCase of;
  of.places = 4;
  of.half_window = 2;
  of.light = {false, true};
  std::vector<RequestRecord> records;
  for (int i = 0; i < 10; ++i) {
    of.requests.push_back({1.0 * i, i % 5 == 0 ? 1 : 0, 10, 5});
    RequestRecord& record = records.emplace_back();
    record.due = i;
    record.ttft = i % 5 == 0 ? 0.5 : 8;
    record.latency = *record.ttft + 2;
    record.gaps = {0.5F, 0.5F, 0.5F, 0.5F};
    record.input_tokens = 10;
    record.output_tokens = 5;
  }
  const Figure where{.part = "p", .contestant = "c", .x = "", .metric = "", .value = ""};
  Figures figures;
  AddFairnessFigures(records, of, where, &figures);
  const auto value = [&](const char* x, const char* metric) {
    return figures.Median("p", "c", x, metric);
  };
  EXPECT_EQ(value("", "requests"), 10);
  EXPECT_EQ(value("", "wall_s"), 19);
  EXPECT_NEAR(*value("", "tok_per_s"), 150.0 / 19, 1e-4);
  EXPECT_EQ(value("", "offered_work"), 200);
  EXPECT_EQ(value("light", "requests"), 2);
  EXPECT_EQ(value("light", "ttft_p50_s"), 0.5);
  EXPECT_EQ(value("heavy", "ttft_p50_s"), 8);
  EXPECT_EQ(value("client 1", "offered_work"), 40);
  // Only one client ever waited for long.
  EXPECT_EQ(value("", "gap_windows"), 0);
  EXPECT_FALSE(value("", "service_gap"));
  EXPECT_EQ(value("", "gap_bound"), 2 * 2 * 4 * 15);
  EXPECT_EQ(VtcBound(of), 240);
}

Figures Pairs() {
  Figures figures;
  const auto at = [](const char* contestant, int round, const char* x) {
    return Figure{fairness::kMeasured, contestant, round, x, "", ""};
  };
  for (const auto& [round, fair] : {std::pair(1, 96.0), {2, 101.0}, {3, 98.0}}) {
    figures.Add(at(fairness::kFair, round, ""), "tok_per_s", fair);
    figures.Add(at(fairness::kFcfs, round, ""), "tok_per_s", 100);
    figures.Add(at(fairness::kFair, round, "light"), "ttft_p50_s", 0.2);
    figures.Add(at(fairness::kFcfs, round, "light"), "ttft_p50_s", 1.9);
    figures.Add(at(fairness::kFair, round, "light"), "requests", 150);
  }
  figures.Add(at(fairness::kFair, 1, ""), "service_gap", 90);
  figures.Add(at(fairness::kFair, 1, ""), "gap_bound", 100);
  figures.Add(at(fairness::kFair, 1, ""), "gap_windows", 3);
  return figures;
}

TEST(FairnessReport, JudgesTheMedianPairAndSaysTheSpread) {
  const std::vector<Verdict> verdicts = FairnessVerdicts(Pairs());
  ASSERT_EQ(verdicts.size(), 4U);
  EXPECT_EQ(verdicts[0].met(), false);  // 9.5 times.
  EXPECT_EQ(verdicts[0].how, "1.900 / 0.200 s, 150 requests *");
  EXPECT_EQ(verdicts[1].met(), std::nullopt);
  EXPECT_EQ(verdicts[2].met(), true);
  EXPECT_DOUBLE_EQ(*verdicts[2].measured, 0.98);
  EXPECT_EQ(verdicts[2].how, "3 pairs, from 0.9600 to 1.0100 (fewer than 7 pairs)");
  EXPECT_EQ(verdicts[3].met(), true);
  EXPECT_NE(FairnessReport(Pairs()).find("| light"), std::string::npos);
}

}  // namespace
}  // namespace ropeway
