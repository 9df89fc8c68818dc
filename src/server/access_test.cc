#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

#include "server/api_keys.h"

namespace ropeway::server {
namespace {

using testing::HasSubstr;

const std::vector<ApiKey> kKeys = {{"team-a", "sk-team-a-1", "shared"}, {"team-b", "sk-team-b-2"}};

int StatusOf(const Access& access, http::Rights rights, const std::string& authorization) {
  const http::Verdict verdict = access.Check(rights, authorization);
  return verdict.rejection ? verdict.rejection->status : 200;
}

TEST(Access, WithoutKeysTheApiIsOpen) {
  const Access access({}, "");
  for (const http::Rights rights :
       {http::Rights::kKey, http::Rights::kKeyOrAdmin, http::Rights::kOpen}) {
    EXPECT_EQ(StatusOf(access, rights, ""), 200);
    EXPECT_EQ(StatusOf(access, rights, "Bearer anything"), 200);
  }
  EXPECT_EQ(access.Check(http::Rights::kKey, "Bearer anything").caller.tenant, "");
}

TEST(Access, TheKeysNameIsTheTenant) {
  const Access access(kKeys, "admin-key-3");
  EXPECT_EQ(access.Check(http::Rights::kKey, "Bearer sk-team-a-1").caller.tenant, "team-a");
  EXPECT_EQ(access.Check(http::Rights::kKey, "bearer  sk-team-b-2 ").caller.tenant, "team-b");
}

TEST(Access, OtherKeysTakeTheirPlaceAtOnce) {
  Access access(kKeys, "admin-key-3");
  access.Replace(
      Access::TableOf({{"team-b", "sk-team-b-4"}, {"team-c", "sk-team-c-5"}}, "admin-key-6"));
  EXPECT_EQ(StatusOf(access, http::Rights::kKey, "Bearer sk-team-a-1"), 401);
  EXPECT_EQ(StatusOf(access, http::Rights::kKey, "Bearer sk-team-b-2"), 401);
  EXPECT_EQ(access.Check(http::Rights::kKey, "Bearer sk-team-b-4").caller.tenant, "team-b");
  EXPECT_EQ(access.Check(http::Rights::kKey, "Bearer sk-team-c-5").caller.tenant, "team-c");
  EXPECT_EQ(StatusOf(access, http::Rights::kAdmin, "Bearer admin-key-3"), 401);
  EXPECT_EQ(StatusOf(access, http::Rights::kAdmin, "Bearer admin-key-6"), 200);
}

TEST(Access, KeysAreReplacedWhileOthersAreChecked) {
  Access access(kKeys, "");
  std::atomic<bool> stop{false};
  std::thread replacing([&] {
    for (int i = 0; i < 200; ++i)
      access.Replace(Access::TableOf(kKeys, i % 2 == 0 ? "admin-key-3" : ""));
    stop = true;
  });
  while (!stop) {
    EXPECT_EQ(access.Check(http::Rights::kKey, "Bearer sk-team-b-2").caller.tenant, "team-b");
  }
  replacing.join();
}

TEST(Access, TheKeysCacheScopeGoesWithIt) {
  const Access access(kKeys, "admin-key-3");
  EXPECT_EQ(access.Check(http::Rights::kKey, "Bearer sk-team-a-1").caller.cache_scope, "shared");
  EXPECT_EQ(access.Check(http::Rights::kKey, "Bearer sk-team-b-2").caller.cache_scope, "");
  EXPECT_EQ(access.Check(http::Rights::kKey, "Bearer sk-team-a-2").caller.cache_scope, "");
  EXPECT_EQ(access.Check(http::Rights::kKeyOrAdmin, "Bearer admin-key-3").caller.cache_scope, "");
}

TEST(Access, TheKeysClassAndWeightGoWithIt) {
  ApiKey key = {"team-c", "sk-team-c-3"};
  key.priority = Priority::kLow;
  key.priority_ceiling = Priority::kMedium;
  key.weight = 2.5;
  const Access access({key}, "");
  const http::Caller caller = access.Check(http::Rights::kKey, "Bearer sk-team-c-3").caller;
  EXPECT_EQ(caller.priority, Priority::kLow);
  EXPECT_EQ(caller.priority_ceiling, Priority::kMedium);
  EXPECT_EQ(caller.weight, 2.5);
  const http::Caller anyone = Access({}, "").Check(http::Rights::kKey, "").caller;
  EXPECT_EQ(anyone.priority, Priority::kMedium);
  EXPECT_EQ(anyone.priority_ceiling, Priority::kHigh);
  EXPECT_EQ(anyone.weight, 1.0);
}

// What a gateway sends it sends for all.
TEST(Access, AGatewaysKeySeesAllNumbers) {
  std::vector<ApiKey> keys = kKeys;
  keys[1].gateway = true;
  const Access access(keys, "");
  for (const http::Rights rights : {http::Rights::kKeyOrAdmin, http::Rights::kOpen}) {
    EXPECT_FALSE(access.Check(rights, "Bearer sk-team-a-1").caller.sees_all);
    EXPECT_TRUE(access.Check(rights, "Bearer sk-team-b-2").caller.sees_all);
  }
  EXPECT_FALSE(access.Check(http::Rights::kKey, "Bearer sk-team-a-1").caller.gateway);
  EXPECT_TRUE(access.Check(http::Rights::kKey, "Bearer sk-team-b-2").caller.gateway);
  EXPECT_FALSE(access.Check(http::Rights::kKey, "Bearer sk-team-b-2").caller.admin);
}

TEST(Access, AKeyForMetricsOpensThemAlone) {
  std::vector<ApiKey> keys = {kKeys[0], {"scraper", "sk-scraper-9"}};
  keys[1].metrics_only = true;
  const Access access(keys, "admin-key-3");
  const http::Verdict metrics = access.Check(http::Rights::kMetrics, "Bearer sk-scraper-9");
  EXPECT_FALSE(metrics.rejection.has_value());
  EXPECT_TRUE(metrics.caller.sees_all);
  EXPECT_FALSE(metrics.caller.admin);
  for (const http::Rights rights :
       {http::Rights::kKey, http::Rights::kKeyOrAdmin, http::Rights::kAdmin}) {
    EXPECT_EQ(StatusOf(access, rights, "Bearer sk-scraper-9"), 403);
  }
  EXPECT_EQ(StatusOf(access, http::Rights::kOpen, "Bearer sk-scraper-9"), 200);
  EXPECT_EQ(StatusOf(access, http::Rights::kMetrics, "Bearer admin-key-3"), 200);
  EXPECT_EQ(StatusOf(access, http::Rights::kMetrics, ""), 401);
  // It sends no requests, so the other key is alone.
  EXPECT_TRUE(access.Check(http::Rights::kMetrics, "Bearer sk-team-a-1").caller.sees_all);
  keys.push_back(kKeys[1]);
  const Access two(keys, "");
  EXPECT_FALSE(two.Check(http::Rights::kMetrics, "Bearer sk-team-a-1").caller.sees_all);
  EXPECT_TRUE(two.Check(http::Rights::kMetrics, "Bearer sk-scraper-9").caller.sees_all);
  EXPECT_FALSE(two.Check(http::Rights::kOpen, "Bearer sk-scraper-9").caller.sees_all)
      << "elsewhere it is as good as none";
}

// Its body, which may name another class, is not read yet.
TEST(Access, AHelpersJobHasTheKeysClassAndWeight) {
  ApiKey key = {"team-c", "sk-team-c-3"};
  key.priority = Priority::kLow;
  key.weight = 2.5;
  const Access access({key}, "");
  const base::Flow flow =
      http::FlowOf(access.Check(http::Rights::kKey, "Bearer sk-team-c-3").caller);
  EXPECT_EQ(flow.tenant, "team-c");
  EXPECT_EQ(flow.cls, 2);
  EXPECT_EQ(flow.weight, 2.5);
  EXPECT_EQ(http::FlowOf(http::Caller{}).cls, 1);
}

TEST(Access, TheQueueOpensToKeysAndToTheAdmin) {
  const Access access(kKeys, "admin-key-3");
  EXPECT_EQ(StatusOf(access, http::Rights::kKeyOrAdmin, ""), 401);
  const http::Caller team = access.Check(http::Rights::kKeyOrAdmin, "Bearer sk-team-a-1").caller;
  EXPECT_EQ(team.tenant, "team-a");
  EXPECT_FALSE(team.admin);
  EXPECT_EQ(StatusOf(access, http::Rights::kKeyOrAdmin, "Bearer admin-key-3"), 200);
  EXPECT_TRUE(access.Check(http::Rights::kKeyOrAdmin, "Bearer admin-key-3").caller.admin);
}

TEST(Access, EverythingButHealthNeedsAKey) {
  const Access access(kKeys, "");
  for (const http::Rights rights : {http::Rights::kKey, http::Rights::kKeyOrAdmin}) {
    EXPECT_EQ(StatusOf(access, rights, "Bearer sk-team-b-2"), 200);
    for (const char* wrong : {"", "Bearer", "Bearer ", "Bearer sk-team-a-", "Bearer sk-team-a-12",
                              "Basic sk-team-a-1", "sk-team-a-1", "Bearer SK-TEAM-A-1",
                              "Bearer sk-team-a-1 sk-team-a-1", "Bearersk-team-a-1"}) {
      EXPECT_EQ(StatusOf(access, rights, wrong), 401) << wrong;
    }
  }
  EXPECT_EQ(StatusOf(access, http::Rights::kOpen, ""), 200);
}

TEST(Access, EitherHeaderPresentsTheKey) {
  const Access access(kKeys, "admin-key-3");
  const auto check = [&](http::Rights rights, const char* authorization, const char* api_key) {
    const http::Verdict verdict = access.Check(rights, authorization, api_key);
    return verdict.rejection ? std::to_string(verdict.rejection->status) : verdict.caller.tenant;
  };
  EXPECT_EQ(check(http::Rights::kKey, "", "sk-team-b-2"), "team-b");
  EXPECT_EQ(check(http::Rights::kKey, "Basic dXNlcg==", "sk-team-b-2"), "team-b") << "a proxy's";
  EXPECT_EQ(check(http::Rights::kKey, "Bearer", "sk-team-b-2"), "team-b");
  EXPECT_EQ(check(http::Rights::kKey, "Bearer sk-team-b-2", "sk-team-b-2"), "team-b");
  EXPECT_EQ(check(http::Rights::kAdmin, "", "admin-key-3"), "");
  EXPECT_EQ(check(http::Rights::kAdmin, "", "sk-team-a-1"), "403");
  EXPECT_EQ(check(http::Rights::kKey, "", "admin-key-3"), "401");
  for (const char* wrong : {"sk-team-b-", "sk-team-b-22", "SK-TEAM-B-2", "Bearer sk-team-b-2",
                            "sk-team-b-2, sk-team-b-2", " sk-team-b-2"}) {
    EXPECT_EQ(check(http::Rights::kKey, "", wrong), "401") << wrong;
  }
}

// Which of them is good is not told.
TEST(Access, TwoDifferentKeysAreRejected) {
  const Access access(kKeys, "admin-key-3");
  for (const char* other : {"sk-team-b-2", "wrong-key", "admin-key-3", "sk-team-a-"}) {
    for (const http::Rights rights :
         {http::Rights::kKey, http::Rights::kKeyOrAdmin, http::Rights::kAdmin}) {
      const http::Verdict verdict = access.Check(rights, "Bearer sk-team-a-1", other);
      ASSERT_TRUE(verdict.rejection.has_value());
      EXPECT_EQ(verdict.rejection->status, 400);
      EXPECT_THAT(verdict.rejection->error->message, testing::Not(HasSubstr("team")));
    }
    const http::Verdict health = access.Check(http::Rights::kOpen, "Bearer sk-team-a-1", other);
    EXPECT_FALSE(health.rejection.has_value()) << "a probe is answered, as anybody's";
    EXPECT_FALSE(health.caller.sees_all);
  }
  EXPECT_FALSE(Access({}, "").Check(http::Rights::kKey, "Bearer a", "b").rejection.has_value());
}

TEST(Access, RejectionsSayHowAndShowNoKey) {
  const Access access(kKeys, "");
  for (const char* header : {"", "Bearer sk-team-a-0"}) {
    const http::HttpReply reply = *access.Check(http::Rights::kKey, header).rejection;
    EXPECT_EQ(reply.error->code, "invalid_api_key");
    EXPECT_EQ(reply.error->type, "invalid_request_error");
    EXPECT_THAT(reply.error->message, testing::Not(HasSubstr("sk-team")));
    ASSERT_EQ(reply.headers.size(), 1U);
    EXPECT_EQ(reply.headers[0].first, "WWW-Authenticate");
    EXPECT_THAT(reply.headers[0].second, HasSubstr("Bearer"));
  }
}

TEST(Access, AdminPathsTakeTheAdminKeyAlone) {
  const Access access(kKeys, "admin-key-3");
  EXPECT_EQ(StatusOf(access, http::Rights::kAdmin, "Bearer admin-key-3"), 200);
  EXPECT_EQ(StatusOf(access, http::Rights::kAdmin, ""), 401);
  EXPECT_EQ(StatusOf(access, http::Rights::kAdmin, "Bearer admin-key-4"), 401);
  EXPECT_EQ(StatusOf(access, http::Rights::kAdmin, "Bearer sk-team-a-1"), 403);
  EXPECT_EQ(StatusOf(access, http::Rights::kKeyOrAdmin, "Bearer admin-key-3"), 200);
  EXPECT_EQ(StatusOf(access, http::Rights::kKey, "Bearer admin-key-3"), 401);
}

TEST(Access, WithoutAnAdminKeyTheAdminPathsSayHowToOpenThem) {
  for (const auto& keys : {std::vector<ApiKey>(), kKeys}) {
    const Access access(keys, "");
    for (const char* header : {"", "Bearer ", "Bearer sk-team-a-1"}) {
      const http::Verdict verdict = access.Check(http::Rights::kAdmin, header);
      ASSERT_TRUE(verdict.rejection.has_value());
      EXPECT_EQ(verdict.rejection->status, 403);
      EXPECT_THAT(verdict.rejection->error->message, HasSubstr("--admin-key"));
    }
  }
}

}  // namespace
}  // namespace ropeway::server
