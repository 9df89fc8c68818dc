#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"

namespace ropeway::base {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

// A reader of the log that takes nothing before it may.
class StuckSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit StuckSink(std::shared_future<void> may) : may_(std::move(may)) {}
  std::vector<std::string> lines;

 private:
  void sink_it_(const spdlog::details::log_msg& line) override {
    may_.wait();
    lines.emplace_back(line.payload.data(), line.payload.size());
  }
  void flush_() override {}

  const std::shared_future<void> may_;
};

class LogQueueTest : public testing::Test {
 protected:
  LogQueueTest() { spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", sink_)); }
  ~LogQueueTest() override { spdlog::set_default_logger(before_); }

  const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
  std::promise<void> may_;
  const std::shared_ptr<StuckSink> sink_ = std::make_shared<StuckSink>(may_.get_future().share());
};

TEST_F(LogQueueTest, NobodyWaitsForASlowReader) {
  {
    LogQueue queue;
    const auto clone = Log().clone(kMembersLogger);
    for (int i = 0; i < 10'000; ++i) clone->info("{}", i);  // More than wait.
    EXPECT_GT(queue.lost(), 1000U);
    spdlog::info("last");
    may_.set_value();
  }
  EXPECT_THAT(sink_->lines, SizeIs(testing::Ge(8192U)));
  EXPECT_EQ(sink_->lines.back(), "last") << "the oldest are lost";
}

TEST_F(LogQueueTest, WritesAllLinesBeforeItEnds) {
  may_.set_value();
  {
    LogQueue queue;
    spdlog::info("a");
    TryLog(spdlog::level::info, "b");
    EXPECT_EQ(queue.lost(), 0U);
    EXPECT_TRUE(queue.End());
  }
  spdlog::info("behind it");
  EXPECT_THAT(sink_->lines, ElementsAre("a", "b", "behind it"));
}

TEST_F(LogQueueTest, EndsWhereTheReaderTakesNothing) {
  const auto start = std::chrono::steady_clock::now();
  LogQueue queue;
  spdlog::info("a");
  EXPECT_FALSE(queue.End());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  EXPECT_TRUE(sink_->lines.empty());
  may_.set_value();  // The thread that was left behind ends.
}

TEST(EndsInTime, WaitsForWorkButNotForever) {
  bool done = false;
  EXPECT_TRUE(EndsInTime([&] { done = true; }));
  EXPECT_TRUE(done);
  const auto may = std::make_shared<std::promise<void>>();
  const auto ended = std::make_shared<std::promise<void>>();
  EXPECT_FALSE(EndsInTime([may, ended] {
    may->get_future().wait();
    ended->set_value();
  }));
  may->set_value();
  ended->get_future().wait();  // It went on.
}

}  // namespace
}  // namespace ropeway::base
