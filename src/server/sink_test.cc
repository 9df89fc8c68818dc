#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "server/submission.h"

namespace ropeway::server {
namespace {

struct Wakes {
  int plain = 0;
  int overflow = 0;     // For either reason.
  int over_budget = 0;  // A part of overflow.
  ServerSink::WakeFn Fn() {
    return [this](ServerSink::Wake why) {
      ++(why == ServerSink::Wake::kNews ? plain : overflow);
      if (why == ServerSink::Wake::kOverBudget) ++over_budget;
    };
  }
};

Delta TextOnly(const std::string& text) {
  Delta delta;
  delta.text = text;
  return delta;
}

TEST(StreamSink, HandsOverInOrderAndOnce) {
  Wakes wakes;
  StreamSink sink(1 << 20, 100, wakes.Fn());
  sink.OnAdmitted(1, {.prompt_tokens = 3});
  EXPECT_TRUE(sink.OnDelta(1, TextOnly("a")));
  EXPECT_TRUE(sink.OnDelta(1, TextOnly("b")));
  EXPECT_EQ(wakes.plain, 1);  // One wake until something is taken.
  ServerSink::Output output = sink.Take();
  EXPECT_TRUE(output.admitted);
  ASSERT_EQ(output.deltas.size(), 2U);
  EXPECT_EQ(output.deltas[1].text, "b");
  EXPECT_FALSE(output.end.has_value());
  Finish finish;
  finish.reason = FinishReason::kLength;
  sink.OnEnd(1, Outcome::Ended(finish));
  EXPECT_EQ(wakes.plain, 2);
  output = sink.Take();
  EXPECT_TRUE(output.admitted);
  EXPECT_TRUE(output.deltas.empty());
  ASSERT_TRUE(output.end.has_value());
  EXPECT_EQ(output.end->finish.reason, FinishReason::kLength);
}

TEST(StreamSink, BoundsEventsAndBytes) {
  Wakes wakes;
  StreamSink events(1 << 20, 3, wakes.Fn());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(events.OnDelta(1, TextOnly("x")));
  EXPECT_FALSE(events.OnDelta(1, TextOnly("x")));
  EXPECT_EQ(wakes.overflow, 1);
  EXPECT_FALSE(events.OnDelta(1, TextOnly("x")));  // It stays rejected.
  EXPECT_EQ(wakes.overflow, 1);

  StreamSink bytes(10'000, 1000, wakes.Fn());
  EXPECT_TRUE(bytes.OnDelta(1, TextOnly(std::string(50'000, 'x'))));  // One alone is taken.
  bytes.Take();
  EXPECT_TRUE(bytes.OnDelta(1, TextOnly(std::string(6'000, 'x'))));
  EXPECT_FALSE(bytes.OnDelta(1, TextOnly(std::string(6'000, 'x'))));
}

// Small outputs are free; what is held goes back when it is taken.
TEST(StreamSink, ATenantsBudgetBoundsAllOfItsStreams) {
  const auto budget = std::make_shared<base::SharedBudget>(400'000);
  Wakes wakes;
  StreamSink one(1 << 20, 1000, wakes.Fn());
  StreamSink two(1 << 20, 1000, wakes.Fn());
  StreamSink others(1 << 20, 1000, wakes.Fn());
  one.SetBudget(budget, "a");
  two.SetBudget(budget, "a");
  others.SetBudget(budget, "b");
  EXPECT_TRUE(one.OnDelta(1, TextOnly("small")));
  EXPECT_EQ(budget->used(), 0);
  EXPECT_TRUE(one.OnDelta(1, TextOnly(std::string(150'000, 'x'))));
  EXPECT_TRUE(two.OnDelta(1, TextOnly(std::string(10'000, 'x'))));
  EXPECT_GE(budget->held("a"), 150'000);
  EXPECT_FALSE(two.OnDelta(1, TextOnly(std::string(80'000, 'x'))));
  EXPECT_EQ(wakes.over_budget, 1);
  EXPECT_TRUE(others.OnDelta(1, TextOnly(std::string(80'000, 'x'))));
  {
    const ServerSink::Output output = one.Take();
    EXPECT_EQ(output.deltas.size(), 2U);
    EXPECT_GE(budget->held("a"), 150'000);
  }
  EXPECT_EQ(budget->held("a"), 0);
  others.Close();
  EXPECT_EQ(budget->used(), 0) << "what nobody will read takes nothing";
}

// Nothing was sent of it, so its client can be told.
TEST(CollectorSink, BeyondTheTenantsBudgetItEndsWithAnError) {
  const auto budget = std::make_shared<base::SharedBudget>(100'000);
  Wakes wakes;
  CollectorSink sink(false, wakes.Fn());
  sink.SetBudget(budget, "a");
  sink.OnAdmitted(1, {.prompt_tokens = 3});
  int taken = 0;
  while (sink.OnDelta(1, TextOnly(std::string(1000, 'x')))) ++taken;
  EXPECT_EQ(taken, 50) << "alone it may have all, and strings grow by doubling";
  EXPECT_EQ(budget->used(), 0);
  EXPECT_TRUE(sink.ended_early());
  EXPECT_TRUE(sink.Look().failed);
  const ServerSink::Output output = sink.Take();
  EXPECT_EQ(output.end->status.code(), StatusCode::kUnavailable);
  sink.OnEnd(1, Outcome::Ended(Finish()));  // The cancel's end; its client was told one already.
  EXPECT_FALSE(sink.Take().end.has_value());
}

TEST(StreamSink, TakingMakesRoom) {
  Wakes wakes;
  StreamSink sink(2'000, 2, wakes.Fn());
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(sink.OnDelta(1, TextOnly(std::string(500, 'x')))) << i;
    sink.Take();
  }
}

TEST(StreamSink, ClosedAsksForCancelAndDoesNotWake) {
  Wakes wakes;
  StreamSink sink(1 << 20, 100, wakes.Fn());
  sink.Close();
  EXPECT_FALSE(sink.OnDelta(1, TextOnly("a")));
  sink.OnEnd(1, Outcome::Ended(Finish()));
  EXPECT_EQ(wakes.plain + wakes.overflow, 0);
}

// A prompt's tokens arrive at once, so they do not count against a slow reader, now or later.
TEST(StreamSink, TokensOfThePromptAreTakenBesides) {
  Wakes wakes;
  StreamSink sink(10'000, 3, wakes.Fn());
  for (int i = 0; i < 100; ++i) {
    Delta delta;
    delta.prompt_tokens.resize(100);
    EXPECT_TRUE(sink.OnDelta(1, std::move(delta)));
  }
  EXPECT_EQ(sink.Take().deltas.size(), 100U);
  EXPECT_TRUE(sink.OnDelta(1, TextOnly("x")));
}

TEST(ServerSink, LookTellsWithoutTaking) {
  Wakes wakes;
  StreamSink sink(1 << 20, 100, wakes.Fn());
  EXPECT_FALSE(sink.Look().admitted);
  sink.OnAdmitted(1, {.prompt_tokens = 3});
  EXPECT_TRUE(sink.OnDelta(1, TextOnly("a")));
  EXPECT_TRUE(sink.Look().admitted);
  EXPECT_FALSE(sink.Look().ended);
  sink.OnEnd(1, Outcome::Failed({StatusCode::kInternal, "why"}));
  EXPECT_TRUE(sink.Look().ended);
  EXPECT_TRUE(sink.Look().failed);
  EXPECT_EQ(sink.Take().deltas.size(), 1U);

  StreamSink other(1 << 20, 100, wakes.Fn());
  other.OnEnd(2, Outcome::Ended(Finish()));
  EXPECT_TRUE(other.Look().ended);
  EXPECT_FALSE(other.Look().failed);
}

TEST(CollectorSink, CollectsUntilTheEnd) {
  for (bool keep_tokens : {false, true}) {
    Wakes wakes;
    CollectorSink sink(keep_tokens, wakes.Fn());
    for (const char* text : {"a", "b", "c"}) {
      Delta delta = TextOnly(text);
      delta.tokens.resize(2);
      delta.prompt_tokens.resize(3);
      EXPECT_TRUE(sink.OnDelta(1, delta));
    }
    EXPECT_EQ(wakes.plain, 0);
    EXPECT_FALSE(sink.Look().ended);
    sink.OnEnd(1, Outcome::Failed({StatusCode::kInternal, "why"}));
    EXPECT_EQ(wakes.plain, 1);
    EXPECT_TRUE(sink.Look().ended);
    ServerSink::Output output = sink.Take();
    ASSERT_EQ(output.deltas.size(), 1U);
    EXPECT_EQ(output.deltas[0].text, "abc");
    EXPECT_EQ(output.deltas[0].tokens.size(), keep_tokens ? 6U : 0U);
    EXPECT_EQ(output.deltas[0].prompt_tokens.size(), 9U);
    EXPECT_EQ(output.end->status.message(), "why");
  }
}

// Look must not swallow the wake for the end.
TEST(CollectorSink, WakesForTheEndAfterAdmission) {
  Wakes wakes;
  CollectorSink sink(false, wakes.Fn());
  sink.OnAdmitted(1, {.prompt_tokens = 3});
  EXPECT_EQ(wakes.plain, 1);
  EXPECT_FALSE(sink.Look().ended);
  sink.OnEnd(1, Outcome::Ended(Finish()));
  EXPECT_EQ(wakes.plain, 2);
}

}  // namespace
}  // namespace ropeway::server
