// What a gateway says of a request in both dialects, and the token ids that it gets in streams.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "api/dialects.h"
#include "api/test_events.h"
#include "api/test_request_bodies.h"

namespace ropeway::api {
namespace {

using nlohmann::json;

constexpr char kGatewayField[] = "ropeway_gateway";
constexpr char kGatewayStream[] = R"({"stream":true,"seed":1,"prompt":"p","ropeway_gateway":)";
constexpr char kGatewayChat[] =
    R"({"stream":true,"seed":1,"messages":[{"role":"user","content":"c"}],"ropeway_gateway":)";

TEST(GatewayFields, BothDialectsReadThem) {
  const std::string fields =
      R"({"tenant":"team.a-1","cache_scope":"shared","weight":2.5,"choice":7,"ids":true,
          "resume_ids":[5,0,9]}})";
  for (const auto& api : {Completion(kGatewayStream + fields), ChatBody(kGatewayChat + fields)}) {
    ASSERT_TRUE(api.ok()) << api.status().message();
    ASSERT_TRUE(api->gateway.has_value());
    EXPECT_EQ(api->gateway->tenant, "team.a-1");
    EXPECT_EQ(api->gateway->cache_scope, "shared");
    EXPECT_EQ(api->gateway->weight, 2.5);
    EXPECT_TRUE(api->gateway->ids);
    EXPECT_EQ(api->request.choice, 7U);
    EXPECT_EQ(api->request.resume_ids, (std::vector<TokenId>{5, 0, 9}));
  }
}

TEST(GatewayFields, AllMayBeAbsent) {
  for (const char* fields : {"{}", R"({"tenant":null,"resume_ids":null,"ids":null})"}) {
    const auto api = CompletionWith(kGatewayField, fields);
    ASSERT_TRUE(api.ok()) << api.status().message();
    ASSERT_TRUE(api->gateway.has_value());
    EXPECT_EQ(api->gateway->tenant, "");
    EXPECT_FALSE(api->gateway->ids);
    EXPECT_FALSE(api->gateway->weight.has_value());
    EXPECT_EQ(api->request.choice, 0U);
    EXPECT_TRUE(api->request.resume_ids.empty());
  }
  EXPECT_FALSE(CompletionWith(kGatewayField, "null")->gateway.has_value());
  EXPECT_FALSE(ChatWith("seed", "1")->gateway.has_value());
}

TEST(GatewayFields, WhatIsWrongIsNamed) {
  for (const auto& [fields, field] :
       {std::tuple("true", "ropeway_gateway"),
        {"[]", "ropeway_gateway"},
        {R"({"tenants":"a"})", "ropeway_gateway.tenants"},
        {R"({"tenant":""})", "ropeway_gateway.tenant"},
        {R"({"tenant":"a b"})", "ropeway_gateway.tenant"},
        {R"({"tenant":7})", "ropeway_gateway.tenant"},
        {R"({"cache_scope":"/"})", "ropeway_gateway.cache_scope"},
        {R"({"weight":0})", "ropeway_gateway.weight"},
        {R"({"weight":101})", "ropeway_gateway.weight"},
        {R"({"choice":-1})", "ropeway_gateway.choice"},
        {R"({"choice":2147483648})", "ropeway_gateway.choice"},
        {R"({"ids":1})", "ropeway_gateway.ids"},
        {R"({"resume_ids":"5"})", "ropeway_gateway.resume_ids"},
        {R"({"resume_ids":[5,-1]})", "ropeway_gateway.resume_ids"},
        {R"({"resume_ids":[2147483648]})", "ropeway_gateway.resume_ids"},
        {R"({"resume_ids":[1.0]})", "ropeway_gateway.resume_ids"}}) {
    for (const auto& api :
         {CompletionWith(kGatewayField, fields), ChatWith(kGatewayField, fields)}) {
      EXPECT_EQ(api.status().code(), StatusCode::kInvalidArgument) << fields;
      EXPECT_EQ(api.status().field(), field) << fields;
    }
  }
}

TEST(GatewayFields, IdsAreOfOneStreamedAnswer) {
  for (const auto& [body, field] :
       {std::tuple(R"({"prompt":"p","ropeway_gateway":{"ids":true}})", kGatewayField),
        {R"({"prompt":"p","ropeway_gateway":{"resume_ids":[1]}})", kGatewayField},
        {R"({"prompt":"p","n":2,"ropeway_gateway":{"choice":1}})", kGatewayField},
        {R"({"prompt":["p","q"],"stream":true,"ropeway_gateway":{"resume_ids":[1]}})",
         kGatewayField},
        {R"({"prompt":"p","stream":true,"echo":true,"ropeway_gateway":{"resume_ids":[1]}})",
         "echo"}}) {
    const auto api = Completion(body);
    EXPECT_EQ(api.status().code(), StatusCode::kInvalidArgument) << body;
    EXPECT_EQ(api.status().field(), field) << body;
  }
  // Several choices have ids, too, and none to go on from is no list of them.
  EXPECT_TRUE(Completion(R"({"prompt":["p","q"],"n":2,"stream":true,
                             "ropeway_gateway":{"ids":true,"resume_ids":[],"choice":0}})")
                  .ok());
}

// --- Streams.

std::unique_ptr<ApiFormat> StartGatewayStream(ApiFormatMaker make, const std::string& fields) {
  std::unique_ptr<ApiFormat> format = make();
  const std::string prompt =
      make == MakeOpenAiChat ? R"("messages":[{"role":"user","content":"u"}])" : R"("prompt":"p")";
  const Status status = format->Parse("{\"stream\":true," + prompt + fields + "}", {});
  EXPECT_TRUE(status.ok()) << status.message();
  format->Start({.id = "1", .created = 1, .model = "m", .prompt_texts = {}});
  return format;
}

Delta GatewayDelta(const std::string& text, std::vector<std::pair<TokenId, uint64_t>> tokens) {
  Delta delta;
  delta.text = text;
  for (const auto& [id, offset] : tokens) {
    OutputToken& token = delta.tokens.emplace_back();
    token.id = id;
    token.bytes = "t";
    token.logprob = -1.0F;
    token.text_offset = offset;
  }
  return delta;
}

// The choice of the one event in `bytes`.
json GatewayChoice(const std::string& bytes) {
  const std::vector<std::string> events = Events(bytes);
  EXPECT_EQ(events.size(), 1U) << bytes;
  return events.empty() ? json() : json::parse(events[0])["choices"][0];
}

std::string TextOf(const json& choice) {
  return choice.contains("delta") ? choice["delta"].value("content", "-")
                                  : choice.value("text", "");
}

TEST(GatewayStream, EachTokenHasAnEventThatNamesIt) {
  for (const ApiFormatMaker make : {MakeOpenAiChat, MakeOpenAiCompletions}) {
    const auto format = StartGatewayStream(make, R"(,"ropeway_gateway":{"ids":true})");
    json choice = GatewayChoice(format->OnDelta(0, GatewayDelta("ab", {{7, 0}, {8, 1}})));
    EXPECT_EQ(TextOf(choice), "ab");
    EXPECT_EQ(choice["ropeway_ids"], json::parse("[7,8]"));
    EXPECT_FALSE(choice.contains("ropeway_offsets"));
    EXPECT_EQ(choice["finish_reason"], nullptr);
    // No text yet, or none at all.
    choice = GatewayChoice(format->OnDelta(0, GatewayDelta("", {{9, 2}})));
    EXPECT_EQ(TextOf(choice), "");
    EXPECT_EQ(choice["ropeway_ids"], json::parse("[9]"));
  }
}

// With log-probabilities each token's place in the text is exact, whatever was held back.
TEST(GatewayStream, OffsetsAreInBytes) {
  for (const ApiFormatMaker make : {MakeOpenAiChat, MakeOpenAiCompletions}) {
    const std::string logprobs = make == MakeOpenAiChat ? "true" : "1";
    const auto format =
        StartGatewayStream(make, R"(,"ropeway_gateway":{"ids":true},"logprobs":)" + logprobs);
    const json choice = GatewayChoice(format->OnDelta(
        0, GatewayDelta("\u00e9", {{7, 1'000'000'000'000}, {8, 1'000'000'000'002}})));
    EXPECT_EQ(choice["ropeway_ids"], json::parse("[7,8]"));
    EXPECT_EQ(choice["ropeway_offsets"], json::parse("[1000000000000,1000000000002]"));
    EXPECT_NE(choice["logprobs"], nullptr);
  }
}

// A stream that is cut before its end is resumed from its tokens: text that comes behind them would
// come twice.
TEST(GatewayStream, WhatComesBehindTheLastTokenComesWithTheEnd) {
  for (const ApiFormatMaker make : {MakeOpenAiChat, MakeOpenAiCompletions}) {
    const auto format = StartGatewayStream(make, R"(,"ropeway_gateway":{"ids":true})");
    GatewayChoice(format->OnDelta(0, GatewayDelta("a", {{7, 0}})));
    EXPECT_EQ(format->OnDelta(0, GatewayDelta("E", {})), "");
    EXPECT_EQ(format->OnDelta(0, GatewayDelta("N", {})), "");
    const json choice = GatewayChoice(
        format->OnEnd(0, {.reason = FinishReason::kLength, .usage = {}, .times = {}}));
    EXPECT_EQ(TextOf(choice), "EN");
    EXPECT_EQ(choice["finish_reason"], "length");
    EXPECT_FALSE(choice.contains("ropeway_ids"));
  }
}

TEST(GatewayStream, OthersSeeNothingOfIt) {
  for (const char* fields : {"", R"(,"ropeway_gateway":{"tenant":"a"})"}) {
    for (const ApiFormatMaker make : {MakeOpenAiChat, MakeOpenAiCompletions}) {
      const auto format = StartGatewayStream(make, fields);
      const json choice = GatewayChoice(format->OnDelta(0, GatewayDelta("a", {{7, 0}})));
      EXPECT_FALSE(choice.contains("ropeway_ids"));
      EXPECT_EQ(format->OnDelta(0, GatewayDelta("", {{8, 1}})), "");
      EXPECT_EQ(TextOf(GatewayChoice(format->OnDelta(0, GatewayDelta("E", {})))), "E");
      const json end = GatewayChoice(
          format->OnEnd(0, {.reason = FinishReason::kStop, .usage = {}, .times = {}}));
      EXPECT_TRUE(TextOf(end) == "-" || TextOf(end) == "");
    }
  }
}

}  // namespace
}  // namespace ropeway::api
