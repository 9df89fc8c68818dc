#include "loadgen/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ropeway::loadgen {
namespace {

using testing::HasSubstr;
using testing::Not;

Report Example() {
  RunResult run;
  for (int i = 0; i < 2; ++i) {
    RequestRecord record;
    record.status = 200;
    record.latency = 2;
    record.ttft = 0.5;
    record.gaps = {0.25F};
    record.input_tokens = 10;
    record.output_tokens = 4;
    run.records.push_back(record);
  }
  RequestRecord failure;
  failure.error_kind = "HTTP 429";
  failure.error = "full";
  run.records.push_back(failure);
  run.wall_seconds = 4;
  run.cpu_seconds = 0.1;

  Report report;
  report.url = "http://h/v1";
  report.endpoint = "/completions";
  report.model = "m";
  report.load = "closed loop, 2 users";
  report.goodput.ttft = 1;
  report.all = Summarize({&run}, report.goodput, 2);
  report.runs = {report.all};
  report.cpus = 2;
  return report;
}

TEST(Report, SaysWhatWasMeasured) {
  const std::string text = ReportText(Example());
  EXPECT_THAT(text, HasSubstr("http://h/v1/completions, model m\nclosed loop, 2 users"));
  EXPECT_THAT(text, HasSubstr("requests              2 succeeded, 1 failed\n"
                              "  1 x HTTP 429: full\n"));
  EXPECT_THAT(text, HasSubstr("output tokens         8 (2.0/s); 4 to 4 a request\n"));
  EXPECT_THAT(text, HasSubstr("goodput               0.50 requests/s: 2 of 3 within TTFT <= 1000"));
  EXPECT_THAT(text, HasSubstr("time to first token       500.00    500.00    500.00    500.00\n"));
  EXPECT_THAT(text, HasSubstr("time per output token     500.00"));
  EXPECT_THAT(text, HasSubstr("generator's own CPU   1.25 % of 2 CPUs (0.100 CPU seconds)\n"));
  EXPECT_THAT(text, Not(HasSubstr("run 1:")));
}

TEST(Report, LeavesOutWhatWasNotMeasured) {
  Report report = Example();
  report.all = {};
  report.runs = {{}, {}};
  const std::string text = ReportText(report);
  EXPECT_THAT(text, HasSubstr("0 succeeded, 0 failed"));
  EXPECT_THAT(text, Not(HasSubstr("time to first token")));
  EXPECT_THAT(text, HasSubstr("run 2:"));
  EXPECT_TRUE(nlohmann::json::parse(ReportJson(report))["all"]["ttft_s"].is_null());
}

TEST(Report, ShowsTheServersPhasesByClass) {
  EXPECT_THAT(ReportText(Example()), Not(HasSubstr("server's mean")));
  EXPECT_TRUE(
      nlohmann::json::parse(ReportJson(Example()))["all"]["server_phase_means_s"].is_null());
  Report report = Example();
  report.all.server.emplace();
  report.all.server->phases[1][0] = {.seconds = 3, .count = 2};
  report.all.server->phases[1][4] = {.seconds = 0.01, .count = 2};
  EXPECT_THAT(
      ReportText(report),
      HasSubstr("server's mean (ms)         queue formation   prefill    decode    output\n"
                "medium (2)               1500.00                                    5.00\n\n"));
  const auto json = nlohmann::json::parse(ReportJson(report))["all"]["server_phase_means_s"];
  EXPECT_EQ(json.size(), 1U);
  EXPECT_EQ(json["medium"]["count"], 2);
  EXPECT_EQ(json["medium"]["queue"], 1.5);
  EXPECT_TRUE(json["medium"]["decode"].is_null());
}

TEST(Report, IsJsonForMachines) {
  const auto json = nlohmann::json::parse(ReportJson(Example()));
  EXPECT_EQ(json["all"]["output_tokens_per_s"], 2.0);
  EXPECT_EQ(json["all"]["errors"]["HTTP 429"], 1);
  EXPECT_EQ(json["all"]["good_requests"], 2);
  EXPECT_EQ(json["all"]["itl_s"]["p50"], 0.25);
  EXPECT_EQ(json["runs"].size(), 1U);
  EXPECT_DOUBLE_EQ(json["all"]["generator_cpu_share"], 0.0125);
}

}  // namespace
}  // namespace ropeway::loadgen
