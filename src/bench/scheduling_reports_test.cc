#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "bench/figure_report.h"
#include "bench/long_prompt_report.h"
#include "bench/priorities_report.h"
#include "bench/schedulers_report.h"

namespace ropeway {
namespace {

using testing::HasSubstr;
using testing::Not;

Figure At(const std::string& part, const std::string& contestant, const std::string& x = "",
          int round = 1) {
  return {part, contestant, round, x, "", ""};
}

// Each verdict's title, and yes, no or nothing.
std::map<std::string, std::string> Met(const std::vector<Verdict>& verdicts) {
  std::map<std::string, std::string> met;
  for (const Verdict& v : verdicts) met[v.title] = !v.met() ? "" : *v.met() ? "yes" : "no";
  return met;
}

Figures SchedulerFigures(const std::string& kernels) {
  namespace s = schedulers;
  Figures figures;
  for (const auto& [contestant, rate] : {std::pair(s::kSerial, 100.0),
                                         {s::kPadded, 90.0},
                                         {s::kUnpadded, 170.0},
                                         {s::kContinuous, 250.0}}) {
    figures.Add(At(s::BatchPart(16), contestant), "output_tok_per_s", rate);
  }
  figures.Add(At(s::BatchPart(16), s::kContinuous), "kernels", kernels);
  figures.Add(At(s::BatchPart(16), s::kContinuous), "place_share", 0.9);
  figures.Add(At(s::BatchPart(16), s::kContinuous), "ttft_p99_s", 1.5);
  figures.Add(At(s::BatchPart(16), s::kContinuous), "requests", 199);
  for (const auto& [x, rate] : {std::pair("1", 100.0), {"16", 300.0}}) {
    figures.Add(At(s::kCeiling, s::kContinuous, x), "decode_tok_per_s", rate);
  }
  return figures;
}

TEST(SchedulersReport, TargetsAreTheMachines) {
  const auto vnni = Met(SchedulerVerdicts(SchedulerFigures("avx512vnni")));
  EXPECT_EQ(vnni.at("batch of 16: output tok/s, continuous over static, padded"), "yes");
  EXPECT_EQ(vnni.at("batch of 16: output tok/s, continuous over static, unpadded"), "no");
  EXPECT_EQ(vnni.at("batch of 16: output tok/s, continuous over serial"), "no");
  EXPECT_EQ(vnni.at("batch of 16: share of max_num_seqs used while requests wait"), "yes");
  EXPECT_EQ(vnni.size(), 4U);  // No users' part was run.
  const auto avx2 = Met(SchedulerVerdicts(SchedulerFigures("avx2")));
  EXPECT_EQ(avx2.at("batch of 16: output tok/s, continuous over serial"), "yes");
}

TEST(SchedulersReport, ShowsTheCeilingAndMarksFewSamples) {
  const std::string page = SchedulersReport(SchedulerFigures("avx512vnni"));
  EXPECT_THAT(page, HasSubstr("250.0 / 100.0 tok/s; ceiling 3.00: decode speed at 16 / at 1"));
  EXPECT_THAT(page, HasSubstr("1.500 *"));
  EXPECT_THAT(page, Not(HasSubstr("ITL p99")));  // Nobody has a figure.
  EXPECT_EQ(FewSamplesMark(200), "");
  EXPECT_EQ(FewSamplesMark(199), " *");
  EXPECT_EQ(FewSamplesMark(std::nullopt), " *");
}

Figures PriorityFigures() {
  namespace p = priorities;
  Figures figures;
  for (const auto& [cls, ttft] : {std::pair("high", 0.079), {"medium", 0.26}, {"low", 0.4}}) {
    figures.Add(At(p::kOpen, p::kRopeway, cls), "ttft_p99_s", ttft);
    figures.Add(At(p::kOpen, p::kRopeway, cls), "requests", 200);
  }
  figures.Add(At(p::kUnloaded, p::kRopeway), "ttft_p50_s", 0.06);
  figures.Add(At(p::kAlone, p::kRopeway), "itl_p50_s", 0.03);
  figures.Add(At(p::kAlone, p::kRopeway), "itl_p99_s", 0.05);
  figures.Add(At(p::kAlone, p::kRopeway), "work_per_s", 1000);
  figures.Add(At(p::kUrgent, p::kRopeway, "high"), "ttft_p99_s", 0.11);
  figures.Add(At(p::kUrgent, p::kRopeway, "high"), "itl_p99_s", 0.045);
  figures.Add(At(p::kUrgent, p::kRopeway, "medium"), "ttft_p99_s", 0.31);
  figures.Add(At(p::kUrgent, p::kRopeway), "work_per_s", 940);
  figures.Add(At(p::kUrgent, p::kRopeway), "recomputed_tokens", 0);
  figures.Add(At(p::kUrgent, p::kRopeway), "texts_different", 1);
  return figures;
}

TEST(PrioritiesReport, HoldsEachClassAgainstItsLimit) {
  const std::vector<Verdict> all = PriorityVerdicts(PriorityFigures(), 1);
  const auto met = Met(all);
  EXPECT_EQ(met.at("open loop: high TTFT p99, ms"), "yes");
  EXPECT_EQ(met.at("open loop: medium TTFT p99, ms"), "no");
  EXPECT_EQ(met.at("open loop: low TTFT p99, ms"), "yes");
  // 60 ms and two steps of 30 ms are more than 100 ms.
  EXPECT_EQ(met.at("low and urgent: high TTFT p99, ms"), "yes");
  EXPECT_EQ(met.at("low and urgent: medium TTFT p99, ms"), "no");
  EXPECT_EQ(
      met.at("low and urgent: high ITL p99 over the full batch's decode step (low alone, p50)"),
      "no");
  EXPECT_EQ(
      met.at("low and urgent: high ITL p99 over the full batch's step with prompts (low alone, "
             "p99)"),
      "yes");
  EXPECT_EQ(met.at("low and urgent: work (1 x prompt + 1 x output tokens) over low alone"), "no");
  EXPECT_EQ(met.at("low and urgent: tokens recomputed"), "yes");
  EXPECT_EQ(met.at("low and urgent: texts of paused requests that differ from an unloaded run's"),
            "no");
  EXPECT_EQ(Met(PriorityVerdicts(PriorityFigures(), 1.1)).at("open loop: medium TTFT p99, ms"),
            "yes");
  EXPECT_THAT(PrioritiesReport(PriorityFigures(), 1.1), HasSubstr("Limits of TTFT are times 1.1"));
}

TEST(LongPromptReport, ComparesTheStreamsGaps) {
  namespace l = long_prompt;
  Figures figures;
  figures.Add(At(l::kStreams, l::kRopeway), "itl_p99_s", 0.02);
  figures.Add(At(l::kBoth, l::kRopeway, l::kOfStreams), "itl_p99_s", 0.07);
  figures.Add(At(l::kBoth, l::kRopeway, l::kOfStreams), "itl_samples", 5000);
  for (const char* contestant : {l::kRopeway, l::kLlama}) {
    figures.Add(At(l::kBoth, contestant, l::kOfLong), "ttft_p50_s", 9);
    figures.Add(At(l::kIdle, contestant), "ttft_p50_s", 4.5);
  }
  const std::vector<Verdict> verdicts = LongPromptVerdicts(figures);
  ASSERT_EQ(verdicts.size(), 1U);
  EXPECT_EQ(verdicts[0].met(), false);
  EXPECT_EQ(verdicts[0].how, "70.0 / 20.0 ms");
  EXPECT_THAT(
      LongPromptReport(figures),
      HasSubstr("- llama-server: the long prompts' median TTFT is 9.00 s beside the streams "
                "and 4.50 s on an idle engine"));
}

TEST(PlacesTable, HasARowForEachContestantAndPlace) {
  Figures figures;
  figures.Add(At("p", "a", "1"), "m", 1);
  figures.Add(At("p", "a", "2"), "m", 2);
  figures.Add(At("p", "b", "2"), "m", 3);
  figures.Add(At("p", "b", "2"), "n", 4);
  figures.Add(At("p", "b", "3"), "n", 5);
  const std::string table =
      PlacesTable(figures, "p", "place", {{"M", "m"}, {"N", "n"}, {"none", "none"}});
  EXPECT_EQ(table,
            "| contestant | place | M   | N   |\n"
            "| ---------- | ----- | --- | --- |\n"
            "| a          | 1     | 1   |     |\n"
            "| a          | 2     | 2   |     |\n"
            "| b          | 2     | 3   | 4   |\n"
            "| b          | 3     |     | 5   |\n");
  EXPECT_EQ(PlacesTable(figures, "q", "place", {{"M", "m"}}), "");
}

}  // namespace
}  // namespace ropeway
