#include "bench/sameness_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <set>

#include "net/test_fake_server.h"

namespace ropeway {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

constexpr char kPrompt[] = "Say \"when\"";

bool IsAsk(const FakeRequest& request) {
  return request.method == "POST" && Json::parse(request.body)["prompt"] == kPrompt;
}

FakeReply AnswerOf(const std::string& token, double logprob) {
  const Json reply = {
      {"choices",
       {{{"text", token},
         {"logprobs", {{"tokens", {"x", token}}, {"token_logprobs", {-0.25, logprob}}}}}}}};
  return JsonReply(reply.dump());
}

SamenessServerOptions Options(const FakeServer& server) {
  SamenessServerOptions options;
  options.base_url = server.url();
  options.prompt = kPrompt;
  options.asks = 30;
  options.output_tokens = 7;
  options.concurrency = 4;
  return options;
}

void Ignore(int) {}

TEST(SamenessServer, AsksSoOftenAmidOtherRequests) {
  const FakeServer server([](const FakeRequest& request) {
    return IsAsk(request) ? AnswerOf("y", -1.0) : WellBehaved(request);
  });
  int last = 0;
  const auto result = AskServer(Options(server), [&](int answered) { last = answered; });
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(last, 30);
  EXPECT_EQ(result->model, "fake");
  EXPECT_EQ(result->tally.answers(), 30);
  EXPECT_EQ(result->tally.distinct(), 1);
  EXPECT_EQ(result->tally.distinct_with_logprobs(), 1);
  EXPECT_TRUE(result->ignore_eos);
  int asks = 0;
  std::set<std::string> others;
  for (const FakeRequest& request : server.requests()) {
    if (request.method != "POST") continue;
    const Json body = Json::parse(request.body);
    if (!IsAsk(request)) {
      others.insert(request.body);
      continue;
    }
    ++asks;
    EXPECT_EQ(body["temperature"], 0);
    EXPECT_EQ(body["max_tokens"], 7);
    EXPECT_EQ(body["ignore_eos"], true);
    EXPECT_EQ(body["logprobs"], 1);
  }
  EXPECT_EQ(asks, 30);
  EXPECT_GT(result->company, 5);
  EXPECT_GE(static_cast<int>(others.size()), result->company);  // And the probe; no two alike.
}

TEST(SamenessServer, CountsWhatDiffers) {
  std::atomic<int> asked = 0;
  const FakeServer server([&](const FakeRequest& request) {
    if (!IsAsk(request)) return WellBehaved(request);
    const int n = asked++;
    return AnswerOf(n % 10 == 3 ? "z" : "y", n % 10 == 4 ? -1.5 : -1.0);
  });
  const auto result = AskServer(Options(server), Ignore);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->tally.distinct(), 2);
  EXPECT_EQ(result->tally.distinct_with_logprobs(), 3);
  EXPECT_EQ(result->tally.ByTokens()[0].count, 27);
}

TEST(SamenessServer, StopsWhenItsTimeIsOver) {
  const FakeServer server([](const FakeRequest& request) {
    return IsAsk(request) ? AnswerOf("y", -1.0) : WellBehaved(request);
  });
  SamenessServerOptions options = Options(server);
  options.asks = 1'000'000;
  options.max_seconds = 0.3;
  const auto result = AskServer(options, Ignore);
  ASSERT_TRUE(result.ok());
  EXPECT_GE(result->tally.answers(), 1);
  EXPECT_LT(result->tally.answers(), 1'000'000);
}

TEST(SamenessServer, WithoutCompanyEveryRequestIsAnAsk) {
  const FakeServer server([](const FakeRequest& request) {
    return IsAsk(request) ? AnswerOf("y", -1.0) : WellBehaved(request);
  });
  SamenessServerOptions options = Options(server);
  options.company = 0;
  const auto result = AskServer(options, Ignore);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->company, 0);
  EXPECT_EQ(result->tally.answers(), 30);
}

TEST(SamenessServer, AnAskIsTriedAgainAndThenTheRunFails) {
  std::atomic<int> asked = 0;
  const FakeServer flaky([&](const FakeRequest& request) {
    if (!IsAsk(request)) return WellBehaved(request);
    return asked++ < 2 ? JsonReply("{}", 503) : AnswerOf("y", -1.0);
  });
  const auto result = AskServer(Options(flaky), Ignore);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->tally.answers(), 30);

  const FakeServer broken([&](const FakeRequest& request) {
    return IsAsk(request) ? JsonReply(R"({"error":"sick"})", 500) : WellBehaved(request);
  });
  const auto failed = AskServer(Options(broken), Ignore);
  ASSERT_FALSE(failed.ok());
  EXPECT_THAT(failed.status().message(), HasSubstr("HTTP 500: {\"error\":\"sick\"}"));
}

TEST(SamenessServer, NobodyThereIsSaid) {
  SamenessServerOptions options;
  const ClosedPort closed;
  options.base_url = closed.url();
  EXPECT_FALSE(AskServer(options, Ignore).ok());
  options.base_url = "nonsense";
  const auto wrong = AskServer(options, Ignore);
  ASSERT_FALSE(wrong.ok());
  EXPECT_THAT(wrong.status().message(), HasSubstr("--base-url"));
}

}  // namespace
}  // namespace ropeway
