#include "gateway/gateway_inbox.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include "base/clock.h"
#include "engine/test_failing_new.h"

namespace ropeway::gateway {
namespace {

constexpr size_t kMostWaiting = 1024;

std::shared_ptr<ClientRequest> AttemptedOnce() {
  auto client = std::make_shared<ClientRequest>(SinkRequest());
  client->attempt = 1;
  return client;
}

Delta Text(std::string text) {
  Delta delta;
  delta.text = std::move(text);
  return delta;
}

class GatewayInboxTest : public testing::Test {
 protected:
  std::shared_ptr<AttemptSink> MakeSink() {
    return std::make_shared<AttemptSink>(inbox_, client_, 1, std::chrono::seconds(1), &clock_);
  }
  std::list<GatewayMessage> TakeAll() { return inbox_->WaitAll(std::chrono::nanoseconds(0)); }

  base::VirtualClock clock_;
  const std::shared_ptr<GatewayInbox> inbox_ = std::make_shared<GatewayInbox>();
  const std::shared_ptr<ClientRequest> client_ = AttemptedOnce();
};

TEST_F(GatewayInboxTest, AnAttemptsOutputComesInOrder) {
  const auto sink = MakeSink();
  EXPECT_TRUE(sink->OnDelta(1, Text("a")));
  EXPECT_TRUE(sink->OnDelta(1, Text("b")));
  sink->OnEnd(1, Outcome::Failed(FailureKind::kBusy, {StatusCode::kUnavailable, "no"}));
  std::string seen;
  for (GatewayMessage& message : TakeAll()) {
    const auto& said = std::get<AttemptSays>(message);
    EXPECT_EQ(said.client, client_);
    EXPECT_EQ(said.attempt, 1U);
    if (const auto* delta = std::get_if<Delta>(&said.what)) {
      seen += delta->text;
    } else {
      const auto& outcome = std::get<Outcome>(said.what);
      EXPECT_EQ(outcome.kind, FailureKind::kBusy);
      seen += outcome.status.message();
    }
  }
  EXPECT_EQ(seen, "abno");
}

TEST_F(GatewayInboxTest, AnAttemptThatWasGivenUpSaysNothingMore) {
  const auto sink = MakeSink();
  client_->attempt = 2;
  EXPECT_FALSE(sink->OnDelta(1, Text("a")));
  sink->OnAlive(1);
  {
    const engine::FailingNew failing(1, 1000);  // Nor does it take memory.
    sink->OnEnd(1, Outcome());
  }
  EXPECT_TRUE(TakeAll().empty());
}

TEST_F(GatewayInboxTest, SignsOfLifeArePassedOnNowAndThen) {
  const auto sink = MakeSink();
  clock_.Advance(std::chrono::seconds(10));
  for (int i = 0; i < 9; ++i) sink->OnAlive(1);
  EXPECT_EQ(TakeAll().size(), 1U);
  clock_.Advance(std::chrono::seconds(1));
  for (int i = 0; i < 9; ++i) sink->OnAlive(1);
  EXPECT_EQ(TakeAll().size(), 1U);
}

TEST_F(GatewayInboxTest, OutputWaitsWhileTheGatewayIsBehindAndNothingElseDoes) {
  const auto sink = MakeSink();
  for (size_t i = 0; i < kMostWaiting; ++i) sink->OnDelta(1, Text("a"));
  inbox_->Send(CancelAsked{client_});
  std::atomic<bool> sent{false};
  std::thread backend([&] {
    sink->OnDelta(1, Text("b"));
    sent = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(sent);
  EXPECT_EQ(TakeAll().size(), kMostWaiting + 1);
  backend.join();
  EXPECT_EQ(TakeAll().size(), 1U);
}

TEST_F(GatewayInboxTest, TheGatewaysOwnThreadNeverWaits) {
  EXPECT_TRUE(TakeAll().empty());  // That is this thread.
  const auto sink = MakeSink();
  for (size_t i = 0; i < 2 * kMostWaiting; ++i) sink->OnDelta(1, Text("a"));
  EXPECT_EQ(TakeAll().size(), 2 * kMostWaiting);
}

TEST_F(GatewayInboxTest, OnceItIsClosedNobodyWaitsAndNothingIsKept) {
  const auto sink = MakeSink();
  for (size_t i = 0; i < kMostWaiting; ++i) sink->OnDelta(1, Text("a"));
  std::thread backend([&] { sink->OnDelta(1, Text("b")); });
  inbox_->Close();
  backend.join();
  EXPECT_EQ(TakeAll().size(), kMostWaiting);
  inbox_->Send(CancelAsked{client_});
  EXPECT_TRUE(TakeAll().empty());
}

TEST_F(GatewayInboxTest, NoEndIsLostForWantOfMemory) {
  const auto sink = MakeSink();
  const Outcome outcome =
      Outcome::Failed({StatusCode::kInternal, "a sentence that is too long for the string itself"});
  {
    const engine::FailingNew failing(1, 3);
    sink->OnEnd(1, outcome);
  }
  const std::list<GatewayMessage> messages = TakeAll();
  ASSERT_EQ(messages.size(), 1U);
  const auto& said = std::get<AttemptSays>(messages.front());
  EXPECT_EQ(std::get<Outcome>(said.what).status.code(), StatusCode::kInternal);
}

TEST_F(GatewayInboxTest, AllSinksAreWaitedFor) {
  std::shared_ptr<AttemptSink> sink = MakeSink();
  std::atomic<bool> let_go{false};
  std::thread backend([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    let_go = true;
    sink.reset();
  });
  inbox_->WaitNoSinks();
  EXPECT_TRUE(let_go);
  backend.join();
  EXPECT_EQ(client_.use_count(), 1);
}

}  // namespace
}  // namespace ropeway::gateway
