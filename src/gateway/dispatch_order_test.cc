#include "gateway/dispatch_order.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "gateway/test_dispatch_parts.h"

namespace ropeway::gateway {
namespace {

using std::chrono::seconds;

class DispatchOrderTest : public DispatchPartsTest {
 protected:
  DispatchOrderTest() : DispatchPartsTest(Options()) {}

  static DispatchOptions Options() {
    DispatchOptions options;
    options.queue.policy = "fair";
    options.queue.max_wait = seconds(30);
    options.replicas = {{.name = "a", .max_concurrency = 4}};
    options.rules.tenants = 3;
    return options;
  }

  DispatchEntry* Add(const std::string& tenant, std::vector<uint64_t> blocks = {}) {
    DispatchRequest request;
    request.tenant = tenant;
    request.prompt_tokens = 40;
    request.blocks = std::move(blocks);
    return Queue(std::move(request));
  }
  // The ids of those that wait, in order.
  std::string Order() const {
    std::string ids(entries_.waiting().size(), '?');
    for (const service::RequestInfo& info : order_.Requests(now_)) {
      const auto id = static_cast<char>('0' + info.id);
      if (info.queue_position >= 0) ids[static_cast<size_t>(info.queue_position)] = id;
    }
    return ids;
  }
};

TEST_F(DispatchOrderTest, TheTenantWithTheLeastServiceGoesFirst) {
  DispatchEntry* const first = Add("a");
  Add("a");
  Add("b");
  EXPECT_TRUE(order_.has_fresh());
  order_.BeginStep(now_);
  EXPECT_FALSE(order_.has_fresh());
  EXPECT_EQ(order_.step_began(), now_);
  EXPECT_EQ(Order(), "123");
  order_.ChargeStart(first);
  EXPECT_EQ(Order(), "312");
  EXPECT_EQ(order_.PositionOf(1), 1);
  EXPECT_EQ(order_.PositionOf(99), -1);
}

TEST_F(DispatchOrderTest, AFirstTokenIsChargedOnce) {
  DispatchEntry* const entry = Add("a");
  order_.BeginStep(now_);
  order_.ChargeStart(entry);
  const int64_t before = order_.policy()->ServiceOf(*entry);
  order_.Charge(entry, 0, 1);
  EXPECT_EQ(order_.policy()->ServiceOf(*entry), before);
  order_.Charge(entry, 0, 1);
  EXPECT_EQ(order_.policy()->ServiceOf(*entry), 2 * before);
  DispatchEntry* const none = Add("b");
  none->request.max_tokens = 0;
  order_.ChargeStart(none);
  EXPECT_EQ(order_.policy()->ServiceOf(*none), 0);
}

TEST_F(DispatchOrderTest, WhatWaitsForLongGoesFirst) {
  DispatchEntry* const old = Add("a");
  now_ += seconds(29);
  Add("b");
  order_.set_limit(4);
  order_.BeginStep(now_);
  order_.Charge(old, 100, 0);
  EXPECT_EQ(Order(), "21");
  now_ += seconds(1);
  order_.BeginStep(now_);
  EXPECT_EQ(Order(), "12");
}

TEST_F(DispatchOrderTest, WhoHasItsShareOfThePlacesGoesBehind) {
  DispatchEntry* const runs = Add("a");
  Add("a");
  order_.BeginStep(now_);
  Add("b");
  entries_.StopWaiting(runs);
  entries_.Send(runs, 0);
  order_.set_limit(2);
  EXPECT_EQ(Order(), "32") << "a place each";
  order_.set_limit(4);
  EXPECT_EQ(Order(), "23") << "two places each";
}

TEST_F(DispatchOrderTest, KnowsWhatIsCachedOfThoseThatWait) {
  replicas_.NoteSent(std::vector<uint64_t>{11, 22}, 0);
  EXPECT_EQ(Add("a", {11, 22})->sched.cached_hint, 2 * kTokensPerPrefixBlock);
  DispatchEntry* const later = Add("a", {33, 44});
  EXPECT_EQ(later->sched.cached_hint, 0);
  replicas_.NoteSent(std::vector<uint64_t>{33}, 0);
  order_.BeginStep(now_);
  EXPECT_EQ(later->sched.cached_hint, kTokensPerPrefixBlock) << "looked up anew";
}

}  // namespace
}  // namespace ropeway::gateway
