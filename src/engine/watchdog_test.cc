#include "engine/watchdog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "engine/llm_engine.h"
#include "engine/test_fakes.h"

namespace ropeway::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

TEST(WatchdogTest, CountsEachStallOnceHoweverLong) {
  base::Metrics metrics;
  base::Counter* stalls = metrics.AddCounter("stalls_total", "");
  std::atomic<bool> stuck{false};
  std::atomic<int> looks{0};
  Watchdog dog(
      [&] {
        ++looks;
        return stuck ? Status(StatusCode::kInternal, "stuck") : Status();
      },
      stalls, milliseconds(1));
  const auto look = [&] {
    const int before = looks;
    return Eventually([&] { return looks > before + 3; });
  };
  EXPECT_TRUE(look());
  EXPECT_EQ(stalls->Value(), 0);
  stuck = true;
  EXPECT_TRUE(look());
  EXPECT_EQ(stalls->Value(), 1);
  stuck = false;
  EXPECT_TRUE(look());
  stuck = true;
  EXPECT_TRUE(look());
  EXPECT_EQ(stalls->Value(), 2);
}

TEST(WatchdogTest, ACheckThatThrowsEndsNothing) {
  base::Metrics metrics;
  std::atomic<int> looks{0};
  Watchdog dog(
      [&]() -> Status {
        ++looks;
        throw std::bad_alloc();
      },
      metrics.AddCounter("stalls_total", ""), milliseconds(1));
  EXPECT_TRUE(Eventually([&] { return looks > 3; }));
}

TEST(WatchdogTest, SleepsMostOfTheTimeAndStopsAtOnce) {
  base::Metrics metrics;
  const auto begin = std::chrono::steady_clock::now();
  {
    Watchdog dog([] { return Status(); }, metrics.AddCounter("stalls_total", ""), seconds(1000));
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(100));
}

// The engine thread hangs inside a step: the executor does not answer.
TEST(WatchdogTest, AHangingStepIsCountedWithItsAgeAndARequest) {
  TestEngine test;
  test.watchdog_period = milliseconds(2);
  test.Start();
  test.control->CloseGate();
  auto sink = std::make_shared<TestSink>();
  const RequestId id = test.Submit("abc", 3, sink);
  ASSERT_TRUE(Eventually([&] {
    const auto all = test.engine->Requests();
    return all.size() == 1 && test.control->step_gate.waiting() > 0;
  }));
  EXPECT_THAT(test.engine->MetricsText(), HasSubstr("ropeway_engine_stalls_total 0\n"));
  // In small pieces: what passes while the watchdog's own thread does not run is a pause.
  EXPECT_TRUE(Eventually([&] {
    test.clock.skipped += 1;
    return test.engine->MetricsText().find("ropeway_engine_stalls_total 1\n") != std::string::npos;
  }));
  const service::Health health = test.engine->GetHealth();
  EXPECT_FALSE(health.live);
  EXPECT_THAT(health.reason, HasSubstr("step 1 has run for "));
  EXPECT_THAT(health.reason, HasSubstr("the oldest request is " + std::to_string(id)));
  test.control->OpenGate();
  EXPECT_EQ(sink->WaitEnd().text, "abc");
  EXPECT_TRUE(Eventually([&] { return test.engine->GetHealth().live; }));
  EXPECT_THAT(test.engine->MetricsText(), HasSubstr("ropeway_engine_stalls_total 1\n"));
}

// As after SIGSTOP: no thread ran, so the engine could not either. Neither the watchdog nor a probe
// that comes before it takes that for a stall.
TEST(WatchdogTest, APausedProcessIsNoStalledEngine) {
  for (const base::Duration period :
       {base::Duration(seconds(1000)), base::Duration(milliseconds(2))}) {
    TestEngine test;
    test.watchdog_period = period;
    test.Start();
    test.control->CloseGate();
    auto sink = std::make_shared<TestSink>();
    test.Submit("abc", 3, sink);
    ASSERT_TRUE(Eventually([&] { return test.control->step_gate.waiting() > 0; }));
    test.clock.skipped += 100;
    for (int i = 0; i < 20; ++i) {
      EXPECT_TRUE(test.engine->GetHealth().live) << i;
      std::this_thread::sleep_for(milliseconds(2));
    }
    EXPECT_THAT(test.engine->MetricsText(), HasSubstr("ropeway_engine_stalls_total 0\n"));
    test.control->OpenGate();
    EXPECT_EQ(sink->WaitEnd().text, "abc");
  }
}

// What a pause took is no stall, but what comes after it counts again.
TEST(WatchdogTest, AStallAfterAPauseIsSeen) {
  TestEngine test;
  test.watchdog_period = milliseconds(2);
  test.Start();
  test.control->CloseGate();
  auto sink = std::make_shared<TestSink>();
  test.Submit("abc", 3, sink);
  ASSERT_TRUE(Eventually([&] { return test.control->step_gate.waiting() > 0; }));
  test.clock.skipped += 1000;
  int skipped = 0;
  EXPECT_TRUE(Eventually([&] {
    ++skipped;
    test.clock.skipped += 1;
    return !test.engine->GetHealth().live;
  }));
  // The pause counts as much as any time between two looks.
  EXPECT_GE(skipped, 10);
  EXPECT_THAT(test.engine->GetHealth().reason, HasSubstr("step 1 has run for "));
  test.control->OpenGate();
  EXPECT_EQ(sink->WaitEnd().text, "abc");
}

}  // namespace
}  // namespace ropeway::engine
