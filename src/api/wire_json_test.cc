#include "api/wire_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "api/parameter_json.h"
#include "api/test_wire.h"

namespace ropeway::api::wire {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(WireJson, CountsAreIntegersInRange) {
  EXPECT_EQ(Count(json(0)), 0);
  EXPECT_EQ(Count(json(2147483647)), 2147483647);
  EXPECT_EQ(Count(json(3.0)), 3);
  for (const char* text : {"-1", "2147483648", "1.5", "\"1\"", "null", "true", "[1]"}) {
    const json wrong = json::parse(text);
    EXPECT_FALSE(Count(wrong).has_value()) << wrong;
  }
}

TEST(WireJson, MembersAndTextsOfAnythingElseAreEmpty) {
  const json list = {1, 2};
  EXPECT_TRUE(Member(list, "a").is_null());
  EXPECT_TRUE(Member(Member(json::object(), "a"), "b").is_null());
  EXPECT_EQ(Text(json(7)), "");
  EXPECT_EQ(Text(Member(json{{"a", "b"}}, "c")), "");
}

TEST(WireJson, FindsErrorsInTheShapesInUse) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"error":{"message":"openai","type":"x"}})", "openai"},
      {R"({"error":"ollama"})", "ollama"},
      {R"({"object":"error","message":"vllm"})", "vllm"},
      {R"({"detail":"fastapi"})", "fastapi"},
      {R"({"detail":[{"loc":["body"],"msg":"field required"}]})", "field required"},
      {R"({"status":"unavailable","reason":"ropeway"})", "ropeway"},
      {R"({"choices":[]})", ""},
      {R"("text")", ""},
      {R"({"detail":[]})", ""},
  };
  for (const auto& [text, words] : cases) EXPECT_EQ(ErrorText(json::parse(text)), words) << text;
}

TEST(WireJson, AnErrorOfHttpIsOfTheRequestTheBackendOrTheGateway) {
  using Kind = FailureKind;
  for (const int status : {400, 413, 422}) EXPECT_EQ(FailureKindOf(status), Kind::kRejected);
  for (const int status : {429, 503}) EXPECT_EQ(FailureKindOf(status), Kind::kBusy);
  for (const int status : {302, 401, 403, 404, 408, 500, 502, 504}) {
    EXPECT_EQ(FailureKindOf(status), Kind::kBroken) << status;
  }
  EXPECT_EQ(HttpFailure(400, "{}").status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(HttpFailure(429, "").status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(HttpFailure(500, "").status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(HttpFailure(400, R"({"error":{"message":"too long"}})").status.message(), "too long");
  EXPECT_EQ(HttpFailure(502, "<html>Bad Gateway</html>").status.message(),
            "it answered with HTTP 502");
  EXPECT_EQ(HttpFailure(500, "plain words").status.message(),
            "it answered with HTTP 500: plain words");
  EXPECT_EQ(HttpFailure(401, R"({"error":"bad key sk-12****"})").status.message().find("sk-"),
            std::string::npos);
}

TEST(WireJson, ARejectionKeepsItsParamAndACodeThatClientsKnow) {
  struct Case {
    const char* body;
    const char* param;
    const char* code;
  };
  const Case cases[] = {
      {R"({"error":{"message":"no","param":"temperature","code":"invalid_value"}})", "temperature",
       "invalid_value"},
      {R"({"error":{"message":"no","param":null,"code":"context_length_exceeded"}})", "",
       "context_length_exceeded"},
      {R"({"error":{"message":"no","code":400,"type":"exceed_context_size_error"}})", "",
       "context_length_exceeded"},
      {R"({"object":"error","message":"no","param":"prompt","type":"BadRequestError"})", "prompt",
       ""},
      {R"({"detail":[{"loc":["body","max_tokens"],"msg":"no"}]})", "max_tokens", ""},
      {R"([{"error":{"message":"no","param":"stop","code":"sk-secret"}}])", "stop", ""},
      {R"({"error":{"message":"no","param":7,"code":[]}})", "", ""},
      {R"({"error":"no"})", "", ""},
      {"no", "", ""},
  };
  for (const Case& one : cases) {
    const Status status = HttpFailure(400, one.body).status;
    EXPECT_EQ(status.field(), one.param) << one.body;
    EXPECT_STREQ(status.api_code(), one.code) << one.body;
    EXPECT_THAT(status.message(), HasSubstr("no")) << one.body;
    EXPECT_EQ(HttpFailure(500, one.body).status.field(), "") << "it is not the request's fault";
  }
  const Outcome failure = ErrorFailure(
      "", json::parse(R"({"error":{"message":"no","type":"invalid_request_error","param":"n"}})"));
  EXPECT_EQ(failure.kind, FailureKind::kRejected);
  EXPECT_EQ(failure.status.field(), "n");
}

TEST(WireJson, SumsSamplesOfAMetric) {
  const std::string text =
      "# HELP a:b words\na:b{x=\"1\"} 1.5\na:b{x=\"} 9\"} 2\na:b_total 100\na:bc 7\n"
      "a:nan NaN\na:last 4";
  EXPECT_EQ(MetricSum(text, "a:b"), 3.5);
  EXPECT_EQ(MetricSum(text, "a:last"), 4);
  EXPECT_FALSE(MetricSum(text, "a:nan").has_value());
  EXPECT_FALSE(MetricSum(text, "a").has_value());
  EXPECT_FALSE(MetricSum("a:b{", "a:b").has_value());
  EXPECT_FALSE(MetricSum("", "a").has_value());
  EXPECT_EQ(MetricCount("a 3.0\n", "a"), 3);
  EXPECT_FALSE(MetricCount("a -1\n", "a").has_value());
}

TEST(WireJson, SeedsFitAndDiffer) {
  EXPECT_EQ(ShortSeed(7), 7);
  EXPECT_EQ(ShortSeed(0x7FFFFFFF), 0x7FFFFFFF);
  for (const uint64_t seed : {uint64_t{0x80000000}, std::numeric_limits<uint64_t>::max()}) {
    EXPECT_GE(ShortSeed(seed), 0);
  }
  Request request = CompletionRequest();
  EXPECT_FALSE(SeedOf(request).has_value());
  request.sampling.seed = 0;
  std::set<uint64_t> seeds;
  for (request.choice = 0; request.choice < 100; ++request.choice) seeds.insert(*SeedOf(request));
  EXPECT_EQ(seeds.size(), 100u);
  EXPECT_TRUE(seeds.contains(0)) << "the first choice is that of a request for one";
}

TEST(WireJson, TenantsOfOneServerShareNoCache) {
  Request request = CompletionRequest();
  EXPECT_EQ(SharedCacheSalt(request), "");
  std::set<std::string> salts;
  const auto add = [&](const char* tenant, const char* scope, const char* salt) {
    request.tenant = tenant;
    request.cache_scope = scope;
    request.cache_salt = salt;
    salts.insert(SharedCacheSalt(request));
  };
  add("a", "", "");
  add("b", "", "");
  add("a", "", "b");
  add("", "a", "");
  add("", "", "a");
  add("a 1", "", "");
  EXPECT_EQ(salts.size(), 6u);
  for (const std::string& salt : salts) EXPECT_EQ(salt.size(), 64u);
  add("x", "a", "");  // It has the scope of a request above.
  EXPECT_EQ(salts.size(), 6u);
}

TEST(WireJson, ABodyIsUtf8WhateverThePromptIs) {
  const std::string body = MakeOpenAi({})->Write(CompletionRequest("a\xff"))->body;
  EXPECT_THAT(body, HasSubstr("\"a\xEF\xBF\xBD\""));
}

}  // namespace
}  // namespace ropeway::api::wire
