#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>

#include "base/output.h"

namespace ropeway::base {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(RepeatedLineTest, OnePerPeriodWithTheNumberSince) {
  RepeatedLine line(seconds(10));
  TimePoint now{};
  EXPECT_EQ(line.Count(now), 1) << "the first at once, even at time 0";
  int64_t lines = 0;
  int64_t counted = 0;
  for (int i = 0; i < 1000; ++i) {  // 20 a second.
    now += milliseconds(50);
    const int64_t count = line.Count(now);
    lines += count > 0 ? 1 : 0;
    counted += count;
  }
  EXPECT_EQ(lines, 5);
  EXPECT_EQ(counted, 1000);
  now += seconds(100);
  EXPECT_EQ(line.Count(now), 1);
}

TEST(LogTest, EachLineIsOneJsonObjectWhateverTheMessageHolds) {
  std::ostringstream out;
  const auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(out);
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", sink));
  SetLogFormat(true);
  const std::string hostile = "a\"b\\\n{}\x01\xff\xe2\x82\xac \u2028";
  spdlog::info("{}", hostile);
  spdlog::error("{}", hostile);
  EXPECT_EQ(Fail(hostile), 1);
  spdlog::logger(kMembersLogger, sink).info(R"("status":200)");
  SetLogFormat(false);
  spdlog::set_default_logger(before);

  std::istringstream lines(out.str());
  std::string line;
  for (const char* level : {"info", "error", "critical"}) {
    ASSERT_TRUE(std::getline(lines, line));
    const auto json = nlohmann::json::parse(line);
    EXPECT_EQ(json.size(), 3U);
    EXPECT_EQ(json["level"], level);
    EXPECT_EQ(json["message"], "a\"b\\\n{}\x01\xef\xbf\xbd\xe2\x82\xac \u2028");
    EXPECT_THAT(json["time"].get<std::string>(),
                testing::MatchesRegex(R"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{3}Z)"));
  }
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(nlohmann::json::parse(line)["status"], 200);
  EXPECT_FALSE(std::getline(lines, line));
}

}  // namespace
}  // namespace ropeway::base
