// What the gateway makes of backends that say what cannot be: names, usage, and more than was asked
// for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gateway/reported_facts.h"
#include "gateway/test_scripted_backend.h"

namespace ropeway::gateway {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Record = RecordingSink::Record;

constexpr int32_t kLie = std::numeric_limits<int32_t>::max();

std::shared_ptr<ScriptedBackend> Liar(const BackendScript& script) {
  return std::make_shared<ScriptedBackend>([script](const Request&) { return script; });
}

// A gateway of one backend, whose model has the names that it reports.
ScriptedGateway Nameless(const BackendFacts& facts) {
  const auto backend = std::make_shared<ScriptedBackend>();
  backend->set_facts(facts);
  return ScriptedGateway({backend}, [](GatewayConfig* config) { config->models[0].name.clear(); });
}

Request Bounded(int32_t max_tokens) {
  Request request = ScriptedRequest();
  request.max_tokens = max_tokens;
  return request;
}

TEST(GatewayLiesTest, NamesAreShownOnlyWhereTheyArePrintable) {
  BackendFacts facts;
  facts.models = {"ev\"il\n{x=\"1\"} 5\nfoo 3\r\nX: y", "\xE2\x80\xAEtfel",
                  std::string(100'000, 'a'), "good"};
  const ScriptedGateway gateway = Nameless(facts);
  const std::vector<service::ModelInfo> models = gateway.gateway->Models();
  ASSERT_EQ(models.size(), 1U);
  EXPECT_EQ(models[0].id, "good");
  EXPECT_EQ(gateway.gateway->Backends()[0].model, "good");
  EXPECT_THAT(gateway.gateway->MetricsText(), AllOf(HasSubstr("good"), Not(HasSubstr("foo 3"))));
}

TEST(GatewayLiesTest, ABackendWithManyModelsCostsItsBounds) {
  BackendFacts facts;
  for (int i = 0; i < 60'000; ++i) facts.models.push_back("m" + std::to_string(i));
  ScriptedGateway gateway = Nameless(facts);
  EXPECT_EQ(gateway->Models().size(), kMostModelNames);
  Request request = ScriptedRequest();
  request.model = "m1000";
  EXPECT_TRUE(gateway.Submit(request)->WaitEnd().finish.has_value());
  request.model = "none";
  const Status status = gateway.Submit(request)->WaitEnd().status;
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("'m7' and 1016 more"));
  EXPECT_LT(status.message().size(), 500U);
}

TEST(GatewayLiesTest, UsageBeyondWhatWasAskedForIsCutAndMarked) {
  BackendScript script{.tokens = 2};
  script.end.emplace().usage = {kLie, kLie, kLie};
  ScriptedGateway gateway({Liar(script)});
  for (const bool bounded : {true, false}) {
    const Record record = gateway.Submit(bounded ? Bounded(2) : ScriptedRequest())->WaitEnd();
    ASSERT_TRUE(record.finish.has_value());
    const Usage& usage = record.finish->usage;
    EXPECT_TRUE(usage.estimated);
    EXPECT_LE(usage.completion_tokens, bounded ? 2 : 100);
    EXPECT_GE(usage.completion_tokens, 2);
    EXPECT_LE(usage.prompt_tokens, 50);
    EXPECT_LE(usage.cached_tokens, usage.prompt_tokens);
  }
  const std::string metrics = gateway->MetricsText();
  EXPECT_THAT(metrics, Not(HasSubstr("ropeway_generation_tokens_total 2147")));
  EXPECT_THAT(metrics, Not(HasSubstr("ropeway_prompt_tokens_total 2147")));
}

TEST(GatewayLiesTest, WhatLimitCutAnAnswerIsPassedOn) {
  BackendScript script{.tokens = 2};
  script.end.emplace().reason = FinishReason::kLength;
  script.end->usage = Usage::Unknown();
  script.end->cut_by = kTokensPerMinute;
  ScriptedGateway gateway({Liar(script)});
  const Record record = gateway.Submit(Bounded(8))->WaitEnd();
  ASSERT_TRUE(record.finish.has_value());
  EXPECT_STREQ(record.finish->cut_by, kTokensPerMinute);
}

TEST(GatewayLiesTest, ASessionIsNotCountedByALie) {
  BackendScript script{.tokens = 2};
  script.end.emplace().usage = {kLie, kLie, Usage::kUnknown};
  ScriptedGateway gateway({Liar(script)});
  Request request = Bounded(2);
  request.session_id = "s";
  ASSERT_TRUE(gateway.Submit(request)->WaitEnd().finish.has_value());
  const std::vector<SessionInfo> sessions = gateway->Sessions("");
  ASSERT_EQ(sessions.size(), 1U);
  EXPECT_LE(sessions[0].tokens, 100);
}

TEST(GatewayLiesTest, TheAnswerEndsWhereMoreThanWasAskedForComes) {
  for (const bool says_tokens : {true, false}) {
    const auto backend = Liar({.tokens = 1 << 20, .says_tokens = says_tokens});
    ScriptedGateway gateway({backend});
    const Request request = Bounded(8);
    const Record record = gateway.Submit(request)->WaitEnd();
    EXPECT_TRUE(record.in_order);
    ASSERT_TRUE(record.finish.has_value()) << record.status.message();
    EXPECT_EQ(record.finish->reason, FinishReason::kLength);
    EXPECT_EQ(record.finish->usage.completion_tokens, 8);
    EXPECT_TRUE(record.finish->usage.estimated);
    EXPECT_EQ(record.tokens.size(), says_tokens ? 8U : 0U);
    // A token's text may be held back, and then it is not told.
    const std::string expected = ExpectedText(request, 8);
    EXPECT_TRUE(expected.starts_with(record.text)) << record.text;
    EXPECT_GT(record.text.size(), expected.size() / 2);
    // The rest is not waited for.
    EXPECT_TRUE(Eventually([&] { return backend->open() == 0; }));
    EXPECT_EQ(gateway->Backends()[0].completed, 1U);
  }
}

TEST(GatewayLiesTest, ATurnThatIsCutIsKept) {
  ScriptedGateway gateway({Liar({.tokens = 1 << 20, .says_tokens = false})});
  Request request = Bounded(8);
  request.session_id = "s";
  ASSERT_TRUE(gateway.Submit(request)->WaitEnd().finish.has_value());
  EXPECT_EQ(gateway->Sessions("").size(), 1U);
}

// Two replicas. The first attempt lies and breaks off. The replica that is to go on from its ids
// rejects them. Further attempts are good.
struct FalseIds {
  explicit FalseIds(std::string add_to_text) {
    std::vector<std::shared_ptr<ScriptedBackend>> backends;
    for (int i = 0; i < 2; ++i) {
      backends.push_back(
          std::make_shared<ScriptedBackend>([this, add_to_text](const Request& request) {
            BackendScript script{.tokens = 20, .checks_ids = false};
            if (attempts++ == 0) {
              script.fail_after = 7;
              script.add_to_ids = 1'000'000;
              script.add_to_text = add_to_text;
            } else if (!request.resume_ids.empty()) {
              script.fail_in_start = true;
              script.failure = Outcome::Failed(
                  FailureKind::kRejected,
                  InvalidArgument("token id 1000007 is not in the vocabulary", "resume_ids"));
            }
            return script;
          }));
      backends.back()->set_facts(ResumableFacts());
      backends.back()->set_resumes(true);
    }
    gateway.emplace(backends);
  }
  int Resumed() const { return gateway->backends[0]->resumed() + gateway->backends[1]->resumed(); }

  std::atomic<int> attempts{0};
  std::optional<ScriptedGateway> gateway;
};

TEST(GatewayLiesTest, AStreamWhoseIdsAreRejectedIsComputedAnew) {
  for (const bool logprobs : {false, true}) {
    FalseIds world("");
    Request request = ScriptedRequest();
    if (logprobs) request.logprobs = 0;
    const Record record = world.gateway->Submit(request)->WaitEnd();
    EXPECT_EQ(record.text, ExpectedText(request, 20)) << record.status.message();
    EXPECT_EQ(record.tokens.size(), 20U);
    EXPECT_TRUE(record.in_order);
    ASSERT_TRUE(record.finish.has_value());
    EXPECT_EQ(record.finish->usage.completion_tokens, 20);
    EXPECT_FALSE(record.finish->usage.estimated);
    EXPECT_EQ(world.attempts, 3);
    EXPECT_EQ(world.Resumed(), 1);
  }
}

TEST(GatewayLiesTest, NobodyIsBlamedForIdsThatAnotherBackendReported) {
  FalseIds world("x");
  const Record record = world.gateway->Submit(ScriptedRequest())->WaitEnd();
  EXPECT_FALSE(record.finish.has_value());
  EXPECT_EQ(record.status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(record.status.field(), "");
  EXPECT_THAT(record.status.message(),
              AllOf(HasSubstr("backend "), HasSubstr("it cannot continue this answer")));
  EXPECT_EQ(world.attempts, 3) << "one try without the ids";
  uint64_t broken = 0;
  for (const BackendStatus& status : (*world.gateway)->Backends()) broken += status.broken;
  EXPECT_EQ(broken, 1U) << "the one who broke off";
}

}  // namespace
}  // namespace ropeway::gateway
