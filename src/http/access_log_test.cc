#include "http/access_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <future>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>

#include "base/log.h"

namespace ropeway::http {
namespace {

using testing::HasSubstr;

// While it lives, base::Log writes to `sink`.
class LogTo {
 public:
  explicit LogTo(const spdlog::sink_ptr& sink) {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", sink));
  }
  ~LogTo() { spdlog::set_default_logger(before_); }

 private:
  const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
};

AccessRecord Numbered(int status) {
  AccessRecord record;
  record.status = status;
  return record;
}

TEST(AccessLogTest, WritesAllLinesBeforeItEnds) {
  std::ostringstream out;
  const LogTo log(std::make_shared<spdlog::sinks::ostream_sink_mt>(out));
  {
    AccessLog access;
    for (int i = 0; i < 100; ++i) access.Write(Numbered(i));
  }
  for (int i = 0; i < 100; ++i) {
    EXPECT_THAT(out.str(), HasSubstr("[access] [info] request status=" + std::to_string(i) + " "));
  }
  out.str("");
  base::SetLogFormat(true);
  { AccessLog().Write(Numbered(7)); }
  base::SetLogFormat(false);
  const auto json = nlohmann::json::parse(out.str());
  EXPECT_EQ(json["message"], "request");
  EXPECT_EQ(json["status"], 7);
}

TEST(AccessLogTest, WritesNothingAboveItsLevel) {
  std::ostringstream out;
  const LogTo log(std::make_shared<spdlog::sinks::ostream_sink_mt>(out));
  spdlog::set_level(spdlog::level::warn);
  {
    AccessLog access;
    EXPECT_FALSE(access.on());
    access.Write(Numbered(7));
  }
  spdlog::set_level(spdlog::level::info);
  EXPECT_EQ(out.str(), "");
}

// A reader of the log that takes nothing before it may.
class StuckSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit StuckSink(std::shared_future<void> may) : may_(std::move(may)) {}
  std::string last;

 private:
  void sink_it_(const spdlog::details::log_msg& line) override {
    may_.wait();
    last = std::string(line.payload.data(), line.payload.size());
  }
  void flush_() override {}

  const std::shared_future<void> may_;
};

TEST(AccessLogTest, NobodyWaitsForASlowReader) {
  std::promise<void> may;
  const auto sink = std::make_shared<StuckSink>(may.get_future().share());
  const LogTo log(sink);
  {
    AccessLog access;
    for (int i = 0; i < 10'000; ++i) access.Write(Numbered(i));  // More than wait.
    may.set_value();
  }
  EXPECT_THAT(sink->last, testing::MatchesRegex("[0-9]+ lines about requests were lost"));
}

}  // namespace
}  // namespace ropeway::http
