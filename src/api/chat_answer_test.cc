// Answers of chats that think and call tools, whole and as streams.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "api/dialects.h"
#include "api/test_events.h"

namespace ropeway::api {
namespace {

using nlohmann::json;

std::unique_ptr<ApiFormat> StartedAnswer(const std::string& fields) {
  std::unique_ptr<ApiFormat> format = MakeOpenAiChat();
  const Status status =
      format->Parse(R"({"messages":[{"role":"user","content":"u"}])" + fields + "}", {});
  EXPECT_TRUE(status.ok()) << status.message();
  AnswerHead head;
  head.id = "1";
  format->Start(std::move(head));
  return format;
}

Finish EndOf(FinishReason reason = FinishReason::kStop) {
  Finish finish;
  finish.reason = reason;
  finish.usage = {.prompt_tokens = 3, .completion_tokens = 9, .reasoning_tokens = 4};
  return finish;
}

OutputToken TokenOf(TokenId id) {
  OutputToken token;
  token.id = id;
  return token;
}

Delta CallDelta(int32_t index, std::string id, std::string name, std::string arguments) {
  Delta delta;
  delta.tokens.push_back(TokenOf(1));
  delta.tool_calls.push_back({index, std::move(id), std::move(name), std::move(arguments)});
  return delta;
}

json FirstOf(const std::string& events) {
  const std::vector<std::string> all = Events(events);
  EXPECT_FALSE(all.empty());
  return all.empty() ? json() : json::parse(all[0]);
}

json ChoiceOf(const std::string& events) {
  const std::vector<std::string> all = Events(events);
  EXPECT_EQ(all.size(), 1U) << events;
  return FirstOf(events)["choices"][0];
}

TEST(ChatAnswer, AWholeAnswerHasThoughtsAndCalls) {
  const auto format = StartedAnswer("");
  ChoiceOutput output;
  output.reasoning = "hm\"";
  output.tool_calls = {{"call_1", "add", R"({"a": 1})"}, {"call_2", "now", "{}"}};
  output.finish = EndOf();
  json answer = json::parse(format->Whole({output}));
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "tool_calls");
  EXPECT_EQ(answer["choices"][0]["message"], json::parse(R"({"role":"assistant","content":null,
      "refusal":null,"reasoning_content":"hm\"","tool_calls":[
        {"id":"call_1","type":"function","function":{"name":"add","arguments":"{\"a\": 1}"}},
        {"id":"call_2","type":"function","function":{"name":"now","arguments":"{}"}}]})"));
  EXPECT_EQ(answer["usage"]["completion_tokens_details"], json::parse(R"({"reasoning_tokens":4})"));
  output.finish = EndOf(FinishReason::kLength);
  output.text = "So";
  answer = json::parse(format->Whole({output}));
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(answer["choices"][0]["message"]["content"], "So");
}

// A client would act on it.
TEST(ChatAnswer, ACallThatIsNotWholeIsNoReason) {
  for (const auto& [arguments, reason] : std::vector<std::pair<std::string, std::string>>{
           {"", "stop"},
           {"{", "stop"},
           {R"({"a":"}\"}")", "stop"},
           {R"({"a":{"b":[1]})", "stop"},
           {"{}", "tool_calls"},
           {R"({"a":"{\"","b":[{}]})", "tool_calls"}}) {
    const auto whole = StartedAnswer("");
    ChoiceOutput output;
    output.tool_calls = {{"c0", "f", "{}"}, {"c1", "f", arguments}};
    output.finish = EndOf();
    EXPECT_EQ(json::parse(whole->Whole({output}))["choices"][0]["finish_reason"], reason);
    output.finish = EndOf(FinishReason::kLength);
    EXPECT_EQ(json::parse(whole->Whole({output}))["choices"][0]["finish_reason"], "length");
    const auto stream = StartedAnswer(R"(,"stream":true)");
    Delta first = CallDelta(0, "c0", "f", "{}");
    Delta second = CallDelta(1, "c1", "f", "");
    stream->OnDelta(0, std::move(first));
    stream->OnDelta(0, std::move(second));
    for (const char c : arguments) {
      Delta more = CallDelta(1, "", "", std::string(1, c));
      stream->OnDelta(0, std::move(more));
    }
    EXPECT_EQ(ChoiceOf(stream->OnEnd(0, EndOf()))["finish_reason"], reason) << arguments;
  }
}

TEST(ChatAnswer, CallsAreStreamedAsOpenAiDoes) {
  const auto format = StartedAnswer(R"(,"stream":true,"stream_options":{"include_usage":true})");
  Delta thought;
  thought.tokens.push_back(TokenOf(0));
  thought.reasoning = "hm";
  EXPECT_EQ(ChoiceOf(format->OnDelta(0, thought))["delta"],
            json::parse(R"({"reasoning_content":"hm"})"));
  EXPECT_EQ(ChoiceOf(format->OnDelta(0, CallDelta(0, "call_1", "add", "")))["delta"],
            json::parse(R"({"tool_calls":[{"index":0,"id":"call_1","type":"function",
                                           "function":{"name":"add","arguments":""}}]})"));
  EXPECT_EQ(ChoiceOf(format->OnDelta(0, CallDelta(0, "", "", "{\"a")))["delta"],
            json::parse(R"({"tool_calls":[{"index":0,"function":{"arguments":"{\"a"}}]})"));
  EXPECT_EQ(ChoiceOf(format->OnDelta(0, CallDelta(1, "call_2", "now", "{}")))["delta"],
            json::parse(R"({"tool_calls":[{"index":1,"id":"call_2","type":"function",
                                           "function":{"name":"now","arguments":"{}"}}]})"));
  EXPECT_EQ(ChoiceOf(format->OnEnd(0, EndOf()))["finish_reason"], "tool_calls");
  EXPECT_EQ(FirstOf(format->Done())["usage"]["completion_tokens_details"]["reasoning_tokens"], 4);
}

// A token that says nothing has no event, unless its log-probabilities or ids are to be told.
TEST(ChatAnswer, WhatSaysNothingHasNoEvent) {
  const auto format = StartedAnswer(R"(,"stream":true)");
  Delta silent;
  silent.tokens.push_back(TokenOf(0));
  EXPECT_EQ(format->OnDelta(0, silent), "");
  EXPECT_EQ(ChoiceOf(format->OnEnd(0, EndOf()))["finish_reason"], "stop");
}

// For a gateway what comes without a token stands in the last chunk.
TEST(ChatAnswer, AGatewayGetsTheRestWithTheEnd) {
  const auto format = StartedAnswer(R"(,"stream":true,"ropeway_gateway":{"ids":true})");
  Delta rest = CallDelta(0, "call_1", "add", "{}");
  rest.tokens.clear();
  rest.text = "so";
  rest.reasoning = "hm";
  EXPECT_EQ(format->OnDelta(0, rest), "");
  const json choice = ChoiceOf(format->OnEnd(0, EndOf()));
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["delta"]["content"], "so");
  EXPECT_EQ(choice["delta"]["reasoning_content"], "hm");
  EXPECT_EQ(choice["delta"]["tool_calls"][0]["function"]["name"], "add");
}

}  // namespace
}  // namespace ropeway::api
