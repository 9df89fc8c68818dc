#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "base/log.h"
#include "http/access_record.h"

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

}  // namespace
}  // namespace ropeway::http
