#include "server/key_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace ropeway::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

class KeyLimitsTest : public testing::Test {
 protected:
  static ApiKey Key(const std::string& name, int requests, int64_t tokens) {
    ApiKey key = {name, "secret-of-" + name};
    key.max_concurrent_requests = requests;
    key.tokens_per_minute = tokens;
    return key;
  }

  // The remaining tokens by the header.
  std::string Rest(const std::string& tenant) {
    for (const auto& [name, value] : limits_->Headers(tenant)) {
      if (name == "x-ratelimit-remaining-tokens") return value;
    }
    return "";
  }

  // One request that takes so many tokens.
  void Use(const std::string& tenant, int32_t prompt, int32_t generated) {
    KeyLimits::Grant grant = limits_->Take(tenant, 1, 1);
    ASSERT_TRUE(grant.status.ok()) << grant.status.message();
    grant.tickets[0].Admitted(prompt);
    grant.tickets[0].End(generated);
  }

  const std::shared_ptr<base::VirtualClock> clock_ = std::make_shared<base::VirtualClock>();
  std::unique_ptr<KeyLimits> limits_ = std::make_unique<KeyLimits>(
      std::vector<ApiKey>{Key("free", 0, 0), Key("two", 2, 0), Key("slow", 0, 600)}, clock_);
};

TEST_F(KeyLimitsTest, AKeyWithoutLimitsHasNone) {
  for (const char* tenant : {"free", "", "unknown"}) {
    std::vector<KeyTicket> kept;
    for (int i = 0; i < 1000; ++i) {
      KeyLimits::Grant grant = limits_->Take(tenant, 2, 3);
      ASSERT_TRUE(grant.status.ok());
      ASSERT_EQ(grant.tickets.size(), 6U);
      for (KeyTicket& ticket : grant.tickets) {
        ticket.Admitted(1'000'000);
        kept.push_back(std::move(ticket));
      }
    }
    EXPECT_TRUE(limits_->Headers(tenant).empty());
  }
}

TEST_F(KeyLimitsTest, RequestsUnderWayAreCountedUntilTheyEnd) {
  KeyLimits::Grant first = limits_->Take("two", 1, 1);
  KeyLimits::Grant second = limits_->Take("two", 1, 1);
  ASSERT_TRUE(first.status.ok());
  ASSERT_TRUE(second.status.ok());
  const KeyLimits::Grant third = limits_->Take("two", 1, 1);
  EXPECT_EQ(third.status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(third.status.message(), HasSubstr("at most 2 requests under way"));
  EXPECT_STREQ(third.limit, "requests");
  EXPECT_TRUE(third.tickets.empty());
  EXPECT_TRUE(limits_->Take("slow", 1, 1).status.ok());  // Other keys' requests do not count.
  first.tickets[0].End(7);
  EXPECT_TRUE(limits_->Take("two", 1, 1).status.ok());
  first.tickets[0].End(7);  // The second call has no effect.
  second.tickets.clear();   // Destroyed without an end.
  KeyLimits::Grant both = limits_->Take("two", 1, 2);
  EXPECT_TRUE(both.status.ok());
  EXPECT_FALSE(limits_->Take("two", 1, 1).status.ok());
  KeyTicket moved = std::move(both.tickets[0]);
  both.tickets.clear();
  EXPECT_TRUE(limits_->Take("two", 1, 1).status.ok());
  EXPECT_FALSE(limits_->Take("two", 1, 2).status.ok());
  moved = KeyTicket();
  EXPECT_TRUE(limits_->Take("two", 2, 1).status.ok());
}

TEST_F(KeyLimitsTest, AllOfARequestsChoicesAreAdmittedOrNone) {
  const KeyLimits::Grant one = limits_->Take("two", 1, 1);
  EXPECT_EQ(limits_->Take("two", 2, 1).status.code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(limits_->Take("two", 1, 1).status.ok());  // The rejected ones took nothing.
  // Retrying would never help these.
  for (const auto& [prompts, n] : {std::pair<size_t, size_t>(1, 3), {3, 1}, {2, 2}}) {
    const Status status = limits_->Take("two", prompts, n).status;
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(status.field(), "n");
  }
}

TEST_F(KeyLimitsTest, TokensFillUpSteadily) {
  EXPECT_EQ(limits_->Headers("slow")[0],
            (std::pair<std::string, std::string>("x-ratelimit-limit-tokens", "600")));
  EXPECT_EQ(Rest("slow"), "600");
  Use("slow", 100, 150);
  EXPECT_EQ(Rest("slow"), "350");
  clock_->Advance(milliseconds(500));  // 10 tokens a second.
  EXPECT_EQ(Rest("slow"), "355");
  clock_->Advance(std::chrono::hours(1));
  EXPECT_EQ(Rest("slow"), "600");  // At most one minute's, however long the key was idle.
}

TEST_F(KeyLimitsTest, WhatNeverRanIsGivenBack) {
  KeyLimits::Grant grant = limits_->Take("slow", 1, 2);
  ASSERT_TRUE(grant.status.ok());
  for (KeyTicket& ticket : grant.tickets) ticket.Admitted(100);
  EXPECT_EQ(Rest("slow"), "500");
  for (KeyTicket& ticket : grant.tickets) {
    ticket.RefundPrompt();
    ticket.End(0);
    ticket.RefundPrompt();
  }
  EXPECT_EQ(Rest("slow"), "600");
}

TEST_F(KeyLimitsTest, WhoUsedMoreWaitsForWhatIsMissing) {
  Use("slow", 100, 1000);  // 500 more than there were.
  EXPECT_EQ(Rest("slow"), "0");
  KeyLimits::Grant rejected = limits_->Take("slow", 1, 1);
  EXPECT_EQ(rejected.status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(rejected.status.message(), HasSubstr("600 tokens per minute"));
  EXPECT_THAT(rejected.status.message(), HasSubstr("again in 51 s"));
  EXPECT_STREQ(rejected.limit, "tokens");
  EXPECT_EQ(rejected.retry_after_seconds, 51);
  clock_->Advance(seconds(50));
  EXPECT_EQ(limits_->Take("slow", 1, 1).retry_after_seconds, 1);
  clock_->Advance(seconds(1));
  EXPECT_TRUE(limits_->Take("slow", 1, 1).status.ok());
}

// Whatever the requests, in the long run a key gets its tokens per minute plus at most one bucket.
TEST_F(KeyLimitsTest, NoKeyGetsMoreThanItsTokensOverTime) {
  int64_t used = 0;
  for (int step = 0; step < 36'000; ++step) {  // An hour.
    KeyLimits::Grant grant = limits_->Take("slow", 1, 2);
    for (KeyTicket& ticket : grant.tickets) {
      ticket.Admitted(40);
      ticket.End(step % 50);
      used += step % 50;
    }
    if (!grant.tickets.empty()) used += 40;  // The two share a prompt.
    clock_->Advance(milliseconds(100));
  }
  EXPECT_LE(used, 600 * 60 + 600 + 200);
  EXPECT_GE(used, 600 * 60);
}

TEST_F(KeyLimitsTest, APromptWithSeveralChoicesCountsOnce) {
  KeyLimits::Grant grant = limits_->Take("slow", 2, 3);
  ASSERT_EQ(grant.tickets.size(), 6U);
  for (KeyTicket& ticket : grant.tickets) ticket.Admitted(10);
  EXPECT_EQ(Rest("slow"), "580");
  for (KeyTicket& ticket : grant.tickets) ticket.End(5);
  EXPECT_EQ(Rest("slow"), "550");
}

TEST_F(KeyLimitsTest, TicketsOutliveTheLimits) {
  KeyLimits::Grant grant = limits_->Take("slow", 1, 2);
  limits_.reset();
  grant.tickets[0].Admitted(3);
  grant.tickets[0].End(4);
}

TEST_F(KeyLimitsTest, ThreadsNeverGetMoreThanTheLimit) {
  std::atomic<int> running{0};
  std::atomic<int> most{0};
  std::atomic<int> admitted{0};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 2000; ++k) {
        const KeyLimits::Grant grant = limits_->Take("two", 1, 1);
        if (!grant.status.ok()) continue;
        const int now = ++running;
        int before = most;
        while (before < now && !most.compare_exchange_weak(before, now)) {
        }
        ++admitted;
        --running;
      }
    });
  }
  threads.clear();
  EXPECT_LE(most, 2);
  EXPECT_GT(admitted, 0);
  EXPECT_TRUE(limits_->Take("two", 1, 2).status.ok());  // All of them were released.
}

}  // namespace
}  // namespace ropeway::server
