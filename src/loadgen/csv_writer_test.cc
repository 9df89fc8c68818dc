#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "loadgen/report.h"
#include "net/http_client.h"

namespace ropeway::loadgen {
namespace {

std::string PromptOfTest(const RequestRecord& r) {
  return "p" + std::to_string(r.run_num) + "," + std::to_string(r.seq);
}

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
  good.phases = {0.001, 0.0, 0.25, std::nullopt, 0.5};
  good.output = "a \"b\"";
  RequestRecord bad;
  bad.run_num = 1;
  bad.seq = 1;
  bad.latency = 1;
  bad.error_kind = net::http_error::kTimeout;
  bad.error = "no answer, within 1 s";
  std::vector<RunResult> runs(1);
  runs[0].records = {good, bad};
  std::ostringstream out;
  WriteCsv(runs, PromptOfTest, &out);
  EXPECT_EQ(
      out.str(),
      "run_num,seq,status,batch_num,input_tokens,output_tokens,total_tokens,latency,ttft,"
      "tokens_per_sec,prompt,output_prompt,error,error_kind,due,tpot,tokens_estimated,"
      "queue_time,formation_time,prefill_time,decode_time,output_time\r\n"
      "1,0,200,17,3,4,7,2.000000,0.500000,2.000,\"p1,0\",\"a \"\"b\"\"\",,,0.250000,0.500000,"
      "0,0.001000,0.000000,0.250000,,0.500000\r\n"
      "1,1,0,,0,0,0,1.000000,,,\"p1,1\",,\"no answer, within 1 s\",timeout,0.000000,,0,,,,,\r\n");
}

TEST(CsvWriter, RecordsHaveAllThatIsKnown) {
  std::vector<RunResult> runs(1);
  runs[0].begin = std::chrono::milliseconds(2500);
  runs[0].wall_seconds = 4;
  RequestRecord& record = runs[0].records.emplace_back();
  record.run_num = 1;
  record.conversation = 3;
  record.turn = 1;
  record.ttft = 0.5;
  record.latency = 0.75;
  record.gaps = {0.25F};
  record.cached_tokens = 16;
  record.phases[0] = 0.125;
  record.tries = 2;
  record.promised = 3;
  record.waited = 3.25;
  record.output = "text";
  std::ostringstream out;
  WriteRecords(runs, PromptOfTest, &out);
  std::istringstream lines(out.str());
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(nlohmann::json::parse(line),
            nlohmann::json::parse(
                R"({"run":1,"begin":2.5,"wall_s":4.0,"cpu_s":0.0,"interrupted":false})"));
  ASSERT_TRUE(std::getline(lines, line));
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json["conversation"], 3);
  EXPECT_EQ(json["turn"], 1);
  EXPECT_EQ(json["ttft"], 0.5);
  EXPECT_EQ(json["gaps"], nlohmann::json::array({0.25}));
  EXPECT_EQ(json["cached_tokens"], 16);
  EXPECT_EQ(json["batch_num"], nullptr);
  EXPECT_EQ(json["times"], nlohmann::json::object({{"queue", 0.125}}));
  EXPECT_EQ(json["tries"], 2);
  EXPECT_EQ(json["promised"], 3.0);
  EXPECT_EQ(json["waited"], 3.25);
  EXPECT_EQ(json["prompt"], "p1,0");
  EXPECT_EQ(json["output"], "text");
  EXPECT_FALSE(std::getline(lines, line));
}

}  // namespace
}  // namespace ropeway::loadgen
