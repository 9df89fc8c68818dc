#include "server/key_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
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

  // A request of one choice, whose prompt is estimated rightly.
  static KeyDemand One(int64_t prompt, int64_t max_tokens) {
    return {.prompt_tokens = prompt, .max_tokens = max_tokens};
  }
  static KeyDemand Choices(size_t prompts, size_t n) { return {.prompts = prompts, .n = n}; }

  // One request that takes so many tokens.
  void Use(const std::string& tenant, int32_t prompt, int32_t generated) {
    KeyLimits::Grant grant = limits_->Take(tenant, One(prompt, generated));
    ASSERT_TRUE(grant.status.ok()) << grant.status.message();
    EXPECT_TRUE(grant.tickets[0].Admitted(prompt).ok());
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
      KeyLimits::Grant grant = limits_->Take(tenant, Choices(2, 3));
      ASSERT_TRUE(grant.status.ok());
      ASSERT_EQ(grant.tickets.size(), 6U);
      for (KeyTicket& ticket : grant.tickets) {
        EXPECT_TRUE(ticket.Admitted(1'000'000).ok());
        EXPECT_TRUE(ticket.Generated(1'000'000));
        kept.push_back(std::move(ticket));
      }
    }
    EXPECT_TRUE(limits_->Headers(tenant).empty());
  }
}

TEST_F(KeyLimitsTest, RequestsUnderWayAreCountedUntilTheyEnd) {
  KeyLimits::Grant first = limits_->Take("two", Choices(1, 1));
  KeyLimits::Grant second = limits_->Take("two", Choices(1, 1));
  ASSERT_TRUE(first.status.ok());
  ASSERT_TRUE(second.status.ok());
  const KeyLimits::Grant third = limits_->Take("two", Choices(1, 1));
  EXPECT_EQ(third.status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(third.status.message(), HasSubstr("at most 2 requests under way"));
  EXPECT_STREQ(third.limit, "requests");
  EXPECT_TRUE(third.tickets.empty());
  EXPECT_TRUE(
      limits_->Take("slow", Choices(1, 1)).status.ok());  // Other keys' requests do not count.
  first.tickets[0].End(7);
  EXPECT_TRUE(limits_->Take("two", Choices(1, 1)).status.ok());
  first.tickets[0].End(7);  // The second call has no effect.
  second.tickets.clear();   // Destroyed without an end.
  KeyLimits::Grant both = limits_->Take("two", Choices(1, 2));
  EXPECT_TRUE(both.status.ok());
  EXPECT_FALSE(limits_->Take("two", Choices(1, 1)).status.ok());
  KeyTicket moved = std::move(both.tickets[0]);
  both.tickets.clear();
  EXPECT_TRUE(limits_->Take("two", Choices(1, 1)).status.ok());
  EXPECT_FALSE(limits_->Take("two", Choices(1, 2)).status.ok());
  moved = KeyTicket();
  EXPECT_TRUE(limits_->Take("two", Choices(2, 1)).status.ok());
}

TEST_F(KeyLimitsTest, AllOfARequestsChoicesAreAdmittedOrNone) {
  const KeyLimits::Grant one = limits_->Take("two", Choices(1, 1));
  EXPECT_EQ(limits_->Take("two", Choices(2, 1)).status.code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(limits_->Take("two", Choices(1, 1)).status.ok());  // The rejected ones took nothing.
  // Retrying would never help these.
  for (const auto& [prompts, n] : {std::pair<size_t, size_t>(1, 3), {3, 1}, {2, 2}}) {
    const Status status = limits_->Take("two", Choices(prompts, n)).status;
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(status.field(), "n");
  }
}

TEST_F(KeyLimitsTest, InputsToEmbedAreOneRequestUntilTheLastHasEnded) {
  KeyDemand many = Choices(5, 1);
  many.as_one = true;
  KeyLimits::Grant first = limits_->Take("two", many);
  ASSERT_TRUE(first.status.ok());
  ASSERT_EQ(first.tickets.size(), 5U);
  const KeyLimits::Grant second = limits_->Take("two", Choices(1, 1));
  EXPECT_TRUE(second.status.ok());
  for (int i = 0; i < 4; ++i) first.tickets[static_cast<size_t>(i)].End(0);
  EXPECT_EQ(limits_->Take("two", many).status.code(), StatusCode::kResourceExhausted);
  first.tickets[4].End(0);
  EXPECT_TRUE(limits_->Take("two", many).status.ok());
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
  KeyLimits::Grant grant = limits_->Take("slow", Choices(1, 2));
  ASSERT_TRUE(grant.status.ok());
  for (KeyTicket& ticket : grant.tickets) EXPECT_TRUE(ticket.Admitted(100).ok());
  EXPECT_EQ(Rest("slow"), "500");
  for (KeyTicket& ticket : grant.tickets) {
    ticket.RefundPrompt();
    ticket.End(0);
    ticket.RefundPrompt();
  }
  EXPECT_EQ(Rest("slow"), "600");
}

// As many requests may start as the bucket has shares for; what they do not use is given back.
TEST_F(KeyLimitsTest, WhatRequestsMayNeedIsPutAside) {
  std::vector<KeyLimits::Grant> grants;
  while (true) {
    KeyLimits::Grant grant = limits_->Take("slow", One(41, 5000));
    if (!grant.status.ok()) {
      EXPECT_EQ(grant.retry_after_seconds, 5) << "50 tokens, 10 of them a second";
      EXPECT_STREQ(grant.limit, "tokens");
      EXPECT_THAT(grant.status.message(), HasSubstr("600 tokens per minute"));
      break;
    }
    grants.push_back(std::move(grant));
  }
  EXPECT_EQ(grants.size(), 12U) << "of 41 and a 64th of 600 tokens each";
  EXPECT_EQ(Rest("slow"), "0");
  grants.resize(6);
  EXPECT_EQ(Rest("slow"), "300");
  for (KeyLimits::Grant& grant : grants) {
    EXPECT_TRUE(grant.tickets[0].Admitted(20).ok());
    grant.tickets[0].End(2);
  }
  EXPECT_EQ(Rest("slow"), "468");
}

// A request goes on beyond its share while there are tokens that are not put aside.
TEST_F(KeyLimitsTest, ARequestEndsWhereTheKeysTokensDo) {
  KeyLimits::Grant first = limits_->Take("slow", One(100, 5000));
  KeyLimits::Grant second = limits_->Take("slow", One(100, 5000));
  ASSERT_TRUE(first.status.ok() && second.status.ok());
  EXPECT_TRUE(first.tickets[0].Admitted(100).ok());
  int generated = 1;
  while (first.tickets[0].Generated(1)) ++generated;
  EXPECT_EQ(generated, 391) << "all but the prompts and the share of the second";
  EXPECT_TRUE(second.tickets[0].Admitted(100).ok());
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(second.tickets[0].Generated(1)) << i;
  EXPECT_FALSE(second.tickets[0].Generated(1));
  EXPECT_FALSE(limits_->Take("slow", One(1, 1)).status.ok());
  first.tickets[0].End(391);
  second.tickets[0].End(9);
  EXPECT_EQ(Rest("slow"), "0");
  clock_->Advance(milliseconds(200));
  EXPECT_TRUE(limits_->Take("slow", One(1, 1)).status.ok());
}

// What a prompt has beyond its estimate is looked for when it is known.
TEST_F(KeyLimitsTest, APromptThatTheKeyHasNoTokensForEnds) {
  KeyLimits::Grant other = limits_->Take("slow", One(300, 1));
  KeyLimits::Grant long_prompt = limits_->Take("slow", One(10, 1));
  ASSERT_TRUE(long_prompt.status.ok());
  const Status later = long_prompt.tickets[0].Admitted(400);
  EXPECT_EQ(later.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(later.retry_after_seconds(), 11) << "389 more, of 288: 101 of them are missing";
  const Status never = long_prompt.tickets[0].Admitted(601);
  EXPECT_EQ(never.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(never.field(), "prompt");
  EXPECT_TRUE(long_prompt.tickets[0].Admitted(299).ok());
  long_prompt.tickets[0].RefundPrompt();
  long_prompt.tickets.clear();
  other.tickets.clear();
  EXPECT_EQ(Rest("slow"), "600");
}

TEST_F(KeyLimitsTest, WhatGeneratesNothingReservesItsPromptsAlone) {
  const KeyLimits::Grant grant =
      limits_->Take("slow", {.prompts = 50, .prompt_tokens = 100, .max_tokens = 0, .as_one = true});
  EXPECT_TRUE(grant.status.ok());
  EXPECT_EQ(Rest("slow"), "500");
}

// Whatever the requests, however many at once: the limit and one burst.
TEST_F(KeyLimitsTest, NoKeyGetsMoreThanItsTokensOverTime) {
  int64_t used = 0;
  std::vector<KeyTicket> running;
  for (int step = 0; step < 36'000; ++step) {  // An hour.
    KeyLimits::Grant grant =
        limits_->Take("slow", {.n = 2, .prompt_tokens = 10, .max_tokens = 2000});
    for (KeyTicket& ticket : grant.tickets) {
      if (&ticket == &grant.tickets.front()) {
        if (!ticket.Admitted(40).ok()) break;
        used += 40;  // The two share a prompt.
      }
      running.push_back(std::move(ticket));
    }
    std::vector<KeyTicket> left;
    for (size_t i = 0; i < running.size(); ++i) {
      ++used;
      const bool ends = (static_cast<size_t>(step) + i) % 50 == 0;
      if (running[i].Generated(1) && !ends) left.push_back(std::move(running[i]));
    }
    running = std::move(left);
    clock_->Advance(milliseconds(100));
    // Each of those that run may generate one more in the step that finds nothing left.
    ASSERT_LE(used, 600 + (step + 1) + 64) << step;
  }
  EXPECT_GE(used, 600 * 60);
}

// As the attack did: 20 requests of 2,000 tokens at once.
TEST_F(KeyLimitsTest, ABurstOfLongRequestsIsBounded) {
  std::vector<KeyTicket> running;
  int64_t used = 0;
  for (int i = 0; i < 20; ++i) {
    KeyLimits::Grant grant = limits_->Take("slow", One(10, 2000));
    if (!grant.status.ok()) break;
    ASSERT_TRUE(grant.tickets[0].Admitted(10).ok());
    used += 10;
    running.push_back(std::move(grant.tickets[0]));
  }
  EXPECT_EQ(running.size(), 20U);
  for (int step = 0; step < 660; ++step) {  // 66 s.
    std::vector<KeyTicket> left;
    for (KeyTicket& ticket : running) {
      ++used;
      if (ticket.Generated(1)) left.push_back(std::move(ticket));
    }
    running = std::move(left);
    clock_->Advance(milliseconds(100));
  }
  EXPECT_LE(used, 600 + 660 + 20);
}

TEST_F(KeyLimitsTest, WhatOneRequestGeneratesDoesNotOverflow) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  KeyLimits::Grant grant = limits_->Take("free", One(1, 1));
  ASSERT_TRUE(grant.status.ok());
  EXPECT_TRUE(grant.tickets[0].Generated(kMost));
  EXPECT_TRUE(grant.tickets[0].Generated(kMost));
  grant.tickets[0].End(2 * kMost + 5);
  EXPECT_EQ(limits_->Usage()[0].generated_tokens, 2 * kMost + 5);
}

TEST_F(KeyLimitsTest, APromptWithSeveralChoicesCountsOnce) {
  KeyLimits::Grant grant = limits_->Take("slow", Choices(2, 3));
  ASSERT_EQ(grant.tickets.size(), 6U);
  for (KeyTicket& ticket : grant.tickets) EXPECT_TRUE(ticket.Admitted(10).ok());
  for (KeyTicket& ticket : grant.tickets) ticket.End(5);
  EXPECT_EQ(Rest("slow"), "550");
}

TEST_F(KeyLimitsTest, ShowsWhatEachKeyUsed) {
  Use("slow", 100, 20);
  Use("free", 7, 3);
  KeyLimits::Grant running = limits_->Take("two", Choices(1, 2));
  const std::vector<KeyUsage> usage = limits_->Usage();
  ASSERT_EQ(usage.size(), 3U);
  EXPECT_EQ(usage[0].name, "free");
  EXPECT_EQ(usage[0].prompt_tokens, 7);
  EXPECT_EQ(usage[0].generated_tokens, 3);
  EXPECT_EQ(usage[1].name, "slow");
  EXPECT_EQ(usage[1].prompt_tokens, 100);
  EXPECT_EQ(usage[1].requests, 0);
  EXPECT_EQ(usage[2].name, "two");
  EXPECT_EQ(usage[2].requests, 2);
}

TEST_F(KeyLimitsTest, TicketsOutliveTheLimits) {
  KeyLimits::Grant grant = limits_->Take("slow", Choices(1, 2));
  limits_.reset();
  EXPECT_TRUE(grant.tickets[0].Admitted(3).ok());
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
        const KeyLimits::Grant grant = limits_->Take("two", Choices(1, 1));
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
  EXPECT_TRUE(limits_->Take("two", Choices(1, 2)).status.ok());  // All of them were released.
}

// What is counted of a name outlives a change of the keys.
TEST_F(KeyLimitsTest, ANameThatStaysKeepsWhatItHasUsed) {
  Use("slow", 100, 200);
  EXPECT_EQ(Rest("slow"), "300");
  KeyLimits::Grant running = limits_->Take("two", Choices(1, 2));
  ASSERT_TRUE(running.status.ok());
  ApiKey renewed = Key("slow", 0, 600);
  renewed.key = "another-secret";
  limits_->Replace({renewed, Key("two", 2, 0), Key("new", 1, 0)});
  EXPECT_EQ(Rest("slow"), "300");
  EXPECT_EQ(limits_->Take("two", One(1, 1)).status.code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(limits_->Has("new"));
  EXPECT_FALSE(limits_->Has("free"));
  running.tickets.clear();
  EXPECT_TRUE(limits_->Take("two", One(1, 1)).status.ok());

  // Nor does it come back empty-handed.
  limits_->Replace({Key("two", 2, 0)});
  EXPECT_FALSE(limits_->Has("slow"));
  limits_->Replace({Key("two", 2, 0), Key("slow", 0, 600)});
  EXPECT_EQ(Rest("slow"), "300");
  for (const KeyUsage& usage : limits_->Usage()) {
    if (usage.name == "slow") {
      EXPECT_EQ(usage.generated_tokens, 200);
    }
  }
}

// Names that come and go take no more and more memory.
TEST_F(KeyLimitsTest, TheLongestWithoutAKeyAreForgotten) {
  constexpr size_t kMost = KeyLimits::kMostWithoutKey;
  Use("free", 1, 2);
  Use("slow", 100, 200);
  KeyLimits::Grant running = limits_->Take("two", One(1, 1));
  for (size_t i = 0; i < kMost + 10; ++i) {
    limits_->Replace({Key("name-" + std::to_string(i), 0, i % 2 == 0 ? 600 : 0)});
    EXPECT_LE(limits_->Usage().size(), kMost + 1);
  }
  EXPECT_FALSE(limits_->Remembers("free"));
  EXPECT_FALSE(limits_->Remembers("name-0"));
  EXPECT_TRUE(limits_->Remembers("name-100"));
  // What is owed is not forgotten, nor what is under way.
  EXPECT_EQ(Rest("slow"), "300");
  EXPECT_TRUE(limits_->Remembers("two"));
  limits_->Replace({Key("two", 1, 0), Key("slow", 0, 600), Key("free", 0, 600)});
  EXPECT_EQ(limits_->Take("two", One(1, 1)).limit, std::string("requests"));
  EXPECT_EQ(Rest("free"), "600") << "as a new one";

  running.tickets.clear();
  clock_->Advance(seconds(60));
  for (size_t i = 0; i < kMost; ++i) limits_->Replace({Key("other-" + std::to_string(i), 0, 0)});
  limits_->Replace({Key("last", 0, 0)});
  EXPECT_FALSE(limits_->Remembers("slow"));
  EXPECT_FALSE(limits_->Remembers("two"));
  EXPECT_EQ(limits_->Usage().size(), kMost + 1);
}

TEST_F(KeyLimitsTest, NewLimitsCountFromTheChangeOn) {
  Use("slow", 100, 200);  // 300 are left.
  limits_->Replace({Key("slow", 0, 1200)});
  EXPECT_EQ(Rest("slow"), "300");
  clock_->Advance(seconds(30));
  EXPECT_EQ(Rest("slow"), "900");
  limits_->Replace({Key("slow", 0, 60)});
  EXPECT_EQ(Rest("slow"), "60");

  // Tokens used before there was a limit are not owed, and what runs then is bounded too.
  Use("free", 5000, 5000);
  KeyLimits::Grant running = limits_->Take("free", One(10, 1000));
  limits_->Replace({Key("free", 1, 60)});
  EXPECT_EQ(Rest("free"), "60");
  EXPECT_EQ(limits_->Take("free", One(1, 1)).limit, std::string("requests"));
  EXPECT_TRUE(running.tickets[0].Generated(59));
  EXPECT_FALSE(running.tickets[0].Generated(1));
  limits_->Replace({Key("free", 0, 0)});
  EXPECT_EQ(Rest("free"), "");
  EXPECT_TRUE(limits_->Take("free", One(1'000'000, 1)).status.ok());
}

}  // namespace
}  // namespace ropeway::server
