#include "bench/csv_writer.h"

#include <gtest/gtest.h>

#include <sstream>

namespace ropeway {
namespace {

TEST(CsvWriter, WritesARowPerRequest) {
  RequestRecord good;
  good.run_num = 1;
  good.seq = 0;
  good.status = 200;
  good.due = 0.25;
  good.latency = 2;
  good.ttft = 0.5;
  good.input_tokens = 3;
  good.output_tokens = 4;
  good.batch_num = 17;
  good.output = "a \"b\"";
  RequestRecord bad;
  bad.run_num = 1;
  bad.seq = 1;
  bad.latency = 1;
  bad.error_kind = http_error::kTimeout;
  bad.error = "no answer, within 1 s";
  std::vector<RunResult> runs(1);
  runs[0].records = {good, bad};
  std::ostringstream out;
  WriteCsv(
      runs, [](int run, int seq) { return "p" + std::to_string(run) + "," + std::to_string(seq); },
      std::nullopt, &out);
  EXPECT_EQ(
      out.str(),
      "run_num,seq,status,batch_num,input_tokens,output_tokens,total_tokens,latency,ttft,"
      "tokens_per_sec,prompt,output_prompt,error,error_kind,due,tpot,tokens_estimated,"
      "queue_time,formation_time,prefill_time,decode_time,output_time\r\n"
      "1,0,200,17,3,4,7,2.000000,0.500000,2.000,\"p1,0\",\"a \"\"b\"\"\",,,0.250000,0.500000,"
      "0,,,,,\r\n"
      "1,1,0,,0,0,0,1.000000,,,\"p1,1\",,\"no answer, within 1 s\",timeout,0.000000,,0,,,,,\r\n");
}

TEST(CsvWriter, EveryRowHasItsRunsPhaseTimes) {
  std::vector<RunResult> runs(2);
  for (RunResult& run : runs) run.records.resize(1);
  runs[1].phases.emplace();
  runs[1].phases->sums[0][0] = {.seconds = 6, .count = 4};
  runs[1].phases->sums[2][0] = {.seconds = 4, .count = 1};
  runs[1].phases->sums[2][4] = {.seconds = 0.5, .count = 2};
  const auto rows = [&](std::optional<Priority> priority) {
    std::ostringstream out;
    WriteCsv(
        runs, [](int, int) { return "p"; }, priority, &out);
    return out.str();
  };
  EXPECT_NE(rows(std::nullopt).find(",0,,,,,\r\n"), std::string::npos);
  EXPECT_TRUE(rows(std::nullopt).ends_with(",0,2.000000,,,,0.250000\r\n"));
  EXPECT_TRUE(rows(Priority::kHigh).ends_with(",0,1.500000,,,,\r\n"));
}

}  // namespace
}  // namespace ropeway
