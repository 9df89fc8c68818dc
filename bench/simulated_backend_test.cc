#include "bench/simulated_backend.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"

namespace ropeway::bench {
namespace {

using std::chrono::milliseconds;

// Counts what it is told.
class CountingSink final : public Sink {
 public:
  bool OnDelta(RequestId, Delta delta) override {
    text += delta.text;
    return true;
  }
  void OnEnd(RequestId, const Outcome& outcome) override {
    tokens = outcome.finish.usage.completion_tokens;
    failures += outcome.status.ok() ? 0 : 1;
    ++ends;
  }

  std::string text;
  int tokens = 0;
  std::atomic<int> ends = 0;
  std::atomic<int> failures = 0;
};

// Whether each of the sinks had its one end within a time that no machine takes.
bool AllEnd(const std::vector<std::shared_ptr<CountingSink>>& sinks) {
  const base::RealClock clock;
  const base::TimePoint limit = clock.Now() + std::chrono::seconds(20);
  for (const auto& sink : sinks) {
    while (sink->ends.load() == 0) {
      if (clock.Now() > limit) return false;
      std::this_thread::sleep_for(milliseconds(1));
    }
  }
  return true;
}

TEST(SimulatedBackendTest, AnswersSoManyAtOnceInTheTimeOfACall) {
  SimulatedBackend backend(2, milliseconds(20));
  std::vector<std::shared_ptr<CountingSink>> sinks;
  const base::RealClock clock;
  const base::TimePoint begin = clock.Now();
  for (int i = 0; i < 6; ++i) {
    sinks.push_back(std::make_shared<CountingSink>());
    EXPECT_TRUE(backend.Submit(Request(), sinks.back()).ok());
  }
  ASSERT_TRUE(AllEnd(sinks));
  EXPECT_GE(clock.Now() - begin, milliseconds(60));  // Three times two of them.
  EXPECT_EQ(backend.most_at_once(), 2);
  for (const auto& sink : sinks) {
    EXPECT_EQ(sink->text, "word");
    EXPECT_EQ(sink->tokens, 1);
    EXPECT_EQ(sink->ends.load(), 1);
    EXPECT_EQ(sink->failures.load(), 0);
  }
}

TEST(SimulatedBackendTest, ACancelledRequestHasNoOutput) {
  SimulatedBackend backend(1, milliseconds(200));
  auto cancelled = std::make_shared<CountingSink>();
  auto other = std::make_shared<CountingSink>();
  const StatusOr<RequestId> first = backend.Submit(Request(), cancelled);
  ASSERT_TRUE(first.ok() && backend.Submit(Request(), other).ok());
  EXPECT_TRUE(backend.Cancel(*first).ok());
  ASSERT_TRUE(AllEnd({other}));
  EXPECT_EQ(cancelled->ends.load(), 1);
  EXPECT_EQ(cancelled->failures.load(), 1);
  EXPECT_EQ(cancelled->text, "");
  EXPECT_FALSE(backend.Cancel(*first).ok());
}

TEST(SimulatedBackendTest, TellsItsPlaces) {
  SimulatedBackend backend(3, milliseconds(1));
  int places = 0;
  backend.Probe([&places](const StatusOr<BackendFacts>& facts) {
    places = facts.value().places.value_or(0);
  });
  EXPECT_EQ(places, 3);
}

}  // namespace
}  // namespace ropeway::bench
