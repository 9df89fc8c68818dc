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
class CountingRemoteSink final : public RemoteSink {
 public:
  void OnDelta(Delta delta) override { text += delta.text; }
  void OnEnd(const BackendEnd& end) override {
    tokens = end.completion_tokens.value_or(0);
    ++ends;
  }
  void OnFailure(BackendFailure /*failure*/) override { ++failures; }

  std::string text;
  int tokens = 0;
  std::atomic<int> ends = 0;
  std::atomic<int> failures = 0;
};

// Whether each of the sinks had its one end within a time that no machine takes.
bool AllEnd(const std::vector<std::shared_ptr<CountingRemoteSink>>& sinks) {
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
  std::vector<std::shared_ptr<CountingRemoteSink>> sinks;
  std::vector<std::unique_ptr<RemoteCall>> calls;
  const base::RealClock clock;
  const base::TimePoint begin = clock.Now();
  for (int i = 0; i < 6; ++i) {
    sinks.push_back(std::make_shared<CountingRemoteSink>());
    calls.push_back(backend.Start(Request(), nullptr, sinks.back()));
  }
  ASSERT_TRUE(AllEnd(sinks));
  EXPECT_GE(clock.Now() - begin, milliseconds(60));  // Three times two of them.
  EXPECT_EQ(backend.most_at_once(), 2);
  calls.clear();
  for (const auto& sink : sinks) {
    EXPECT_EQ(sink->text, "word");
    EXPECT_EQ(sink->tokens, 1);
    EXPECT_EQ(sink->ends.load(), 1);
    EXPECT_EQ(sink->failures.load(), 0);
  }
}

TEST(SimulatedBackendTest, ACancelledCallIsSilent) {
  SimulatedBackend backend(1, milliseconds(200));
  auto cancelled = std::make_shared<CountingRemoteSink>();
  auto other = std::make_shared<CountingRemoteSink>();
  auto first = backend.Start(Request(), nullptr, cancelled);
  const auto second = backend.Start(Request(), nullptr, other);
  first.reset();
  EXPECT_EQ(cancelled.use_count(), 1);
  ASSERT_TRUE(AllEnd({other}));
  EXPECT_EQ(cancelled->ends.load(), 0);
  EXPECT_EQ(cancelled->text, "");
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
