// The body of POST /v1/chat/completions.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "api/dialects.h"
#include "api/test_request_bodies.h"

namespace ropeway::api {
namespace {

using nlohmann::json;

TEST(ChatRequest, AllFields) {
  StatusOr<OpenAiBody> api = ChatBody(
      R"({"model":"m","messages":[{"role":"system","content":"s"},
          {"role":"developer","content":"d"},
          {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
          {"role":"assistant","content":"","refusal":null,"annotations":[],"tool_calls":null},
          {"role":"user","content":"u","name":"n"},
          {"role":"assistant","content":null,"tool_calls":[
             {"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]},
          {"role":"assistant","refusal":""},
          {"role":"tool","content":"t","tool_call_id":"c1"},
          {"role":"function","content":"f","name":"g"}],
          "max_completion_tokens":5,"logprobs":true,"top_logprobs":4,"stream":false,"n":3,
          "response_format":{"type":"text"},"tools":[],"tool_choice":"none","modalities":["text"],
          "parallel_tool_calls":true,"service_tier":"auto","metadata":{"a":"b"},
          "chat_template_kwargs":{},"add_generation_prompt":true,"echo":false})");
  ASSERT_TRUE(api.ok()) << api.status().message();
  ASSERT_EQ(api->prompts.size(), 1U);
  const auto& messages = std::get<Chat>(api->prompts[0]).messages;
  ASSERT_EQ(messages.size(), 9U);
  EXPECT_EQ(messages[1].role, "system");
  EXPECT_EQ(messages[2].content, "a\nb");
  EXPECT_EQ(messages[3].content, "");
  EXPECT_EQ(messages[4].role, "user");
  EXPECT_EQ(messages[4].name, "n");
  EXPECT_EQ(messages[5].content, "");
  EXPECT_EQ(messages[6].content, "");
  EXPECT_EQ(messages[7].role, "tool");
  EXPECT_EQ(messages[7].tool_call_id, "c1");
  EXPECT_EQ(messages[8].role, "function");
  EXPECT_EQ(messages[8].name, "g");
  EXPECT_EQ(api->request.max_tokens, 5);
  EXPECT_EQ(api->request.logprobs, 4);
  EXPECT_EQ(api->n, 3);
}

TEST(ChatRequest, Defaults) {
  StatusOr<OpenAiBody> api = ChatWith("user", "\"u\"");
  ASSERT_TRUE(api.ok());
  EXPECT_FALSE(api->request.max_tokens.has_value());  // What is left.
  EXPECT_FALSE(api->request.logprobs.has_value());
  EXPECT_EQ(ChatWith("logprobs", "true")->request.logprobs, 0);
  EXPECT_FALSE(ChatWith("logprobs", "false")->request.logprobs.has_value());
}

TEST(ChatRequest, MaxTokensHaveTwoNames) {
  EXPECT_EQ(ChatWith("max_tokens", "3")->request.max_tokens, 3);
  EXPECT_EQ(ChatWith("max_tokens", "3,\"max_completion_tokens\":3")->request.max_tokens, 3);
  EXPECT_EQ(ChatWith("max_tokens", "3,\"max_completion_tokens\":4").status().field(), "max_tokens");
}

TEST(ChatRequest, RejectsByName) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> bad = {
      {"max_completion_tokens", {"0", "-5", "1.5"}},
      {"logprobs", {"1", "\"true\""}},
      {"top_logprobs", {"21", "-1", "3"}},  // 3: without "logprobs".
      {"tools", {"1", "{}", "\"\""}},
      {"functions", {"[{}]"}},
      {"tool_choice", {"\"required\"", "{}", "1", R"({"type":"custom"})"}},
      {"modalities", {"[\"audio\"]", "[]"}},
      {"audio", {"{}"}},
      {"prediction", {"{}"}},
      {"web_search_options", {"{}"}},
      {"n", {"0", "129"}},
      {"echo", {"true"}},
      {"best_of", {"2"}},
      {"message", {"[]"}},
      {"max_tokens", {"0", "-2"}},
      {"parallel_tool_calls", {"1"}},
      {"documents", {"[{}]"}},
      {"chat_template", {"\"x\""}},
      {"mm_processor_kwargs", {"{\"a\":1}"}},
      {"function_call", {"{}", R"({"name":"f"})"}},
      {"add_generation_prompt", {"0"}},
      {"continue_final_message", {"1", "true,\"add_generation_prompt\":true"}},
      {"chat_template_kwargs", {"1", "[]", "\"{}\""}},
      {"reasoning_effort", {"1", "[]"}},
      {"enable_thinking", {"1", "\"true\""}},
      {"thinking", {"1", "{}", R"({"type":"adaptive"})"}},
      {"add_special_tokens", {"true"}},
  };
  for (const auto& [field, values] : bad) {
    for (const std::string& value : values) {
      StatusOr<OpenAiBody> api = ChatWith(field, value);
      ASSERT_FALSE(api.ok()) << field << "=" << value;
      EXPECT_EQ(api.status().field(), field) << value;
    }
  }
}

TEST(ChatRequest, RejectsBadMessagesByPosition) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"null", "messages"},
      {"[]", "messages"},
      {"\"hi\"", "messages"},
      {"{}", "messages"},
      {"[1]", "messages[0]"},
      {"[{}]", "messages[0].role"},
      {R"([{"role":1,"content":"a"}])", "messages[0].role"},
      {R"([{"role":"king","content":"a"}])", "messages[0].role"},
      {R"([{"role":"function","content":"a"}])", "messages[0].name"},
      {R"([{"role":"user","content":"a","name":1}])", "messages[0].name"},
      {R"([{"role":"user","content":"a","tool_call_id":"c"}])", "messages[0].tool_call_id"},
      {R"([{"role":"tool","content":null}])", "messages[0].content"},
      {R"([{"role":"tool","content":"a","tool_call_id":[]}])", "messages[0].tool_call_id"},
      {R"([{"role":"assistant","content":7}])", "messages[0].content"},
      {R"([{"role":"assistant","content":"a","refusal":"no"}])", "messages[0].refusal"},
      {R"([{"role":"user","content":[{"type":"text","text":"a","textt":1}]}])",
       "messages[0].content[0].textt"},
      {R"([{"role":"user"}])", "messages[0].content"},
      {R"([{"role":"user","content":null}])", "messages[0].content"},
      {R"([{"role":"user","content":"a"},{"role":"user","content":7}])", "messages[1].content"},
      {R"([{"role":"user","content":["a"]}])", "messages[0].content[0]"},
      {R"([{"role":"user","content":[{"type":"text"}]}])", "messages[0].content[0].text"},
      {R"([{"role":"user","content":[{"type":"image_url","image_url":{}}]}])",
       "messages[0].content[0].type"},
      {R"([{"role":"user","content":[{"text":"a"}]}])", "messages[0].content[0].type"},
      {R"([{"role":"assistant","content":"a","function_call":{"name":"f","arguments":"{}"}}])",
       "messages[0].function_call"},
      {R"([{"role":"assistant","content":"a","audio":{"id":"a"}}])", "messages[0].audio"},
      {R"([{"role":"assistant","content":"a","reasoning_content":[]}])",
       "messages[0].reasoning_content"},
      {R"([{"role":"assistant","content":"a","reasoning_content":"b","reasoning":"c"}])",
       "messages[0].reasoning"},
      {R"([{"role":"user","content":"a","contents":"red"}])", "messages[0].contents"},
      {R"([{"role":"user","content":"a","names":1},{"role":"user","content":"a","rol":1}])",
       "messages[0].names"},
  };
  for (const auto& [messages, field] : bad) {
    StatusOr<OpenAiBody> api = ChatBody("{\"messages\":" + messages + "}");
    ASSERT_FALSE(api.ok()) << messages;
    EXPECT_EQ(api.status().field(), field);
  }
}

TEST(ChatRequest, AllThatIsWrongIsToldAtOnce) {
  const auto message = [](const char* body) { return ChatBody(body).status().message(); };
  EXPECT_EQ(
      message(R"({"messages":[{"role":"king","content":7,"name":1},3,
                        {"role":"user","content":[{"type":"image"},"x"],"tool_call_id":"c"}]})"),
      "'messages[0].role' must be one of system, developer, user, assistant, tool and "
      "function. 'messages[0].content' must be a string or a list of text parts, but is 7. "
      "'messages[0].name' must be a string, but is 1. 'messages[1]' must be an object, but is "
      "3. 'messages[2].content[0].type' supports only \"text\". 'messages[2].content[1]' must "
      "be an object, but is \"x\". 'messages[2].tool_call_id' is allowed only in a message "
      "of the role 'tool'.");
  // Also what is wrong of fields together; but not of one that is wrong by itself.
  EXPECT_EQ(
      message(R"({"messages":[],"temperature":9,"top_logprobs":2,"stream_options":{},
                        "priority":"low","service_tier":"priority"})"),
      "'messages' is empty. 'temperature' must be a number of at least 0 and at most 2, but "
      "is 9. 'stream_options' needs 'stream' to be true. 'top_logprobs' needs 'logprobs' to be "
      "true. 'priority' is low, but 'service_tier' means high; give one of them.");
  EXPECT_EQ(message(R"({"messages":[{"role":"function","content":"a","name":1}]})"),
            "'messages[0].name' must be a string, but is 1.");
  EXPECT_EQ(
      message(R"({"messages":[{"role":"user","content":"a"}],"ropeway_gateway":
                        {"tenant":"a b","weight":0,"resume_ids":[1]}})"),
      "'ropeway_gateway.tenant' must be a name of 1 to 64 letters, digits, '-', '_' or '.', but is "
      "\"a b\". "
      "'ropeway_gateway.weight' must be a number of at least 0.01 and at most 100, but is 0.");
  // Nor of one whose default stands for what could not be read.
  EXPECT_EQ(message(R"({"messages":[{"role":"user","content":"a"}],"stream":"true",
                        "stream_options":{},"logprobs":1,"top_logprobs":2})"),
            "'logprobs' must be true or false, but is 1. 'stream' must be true or false, but is "
            "\"true\".");
  std::string many = R"({"messages":[)";
  for (int i = 0; i < 99; ++i) many += "1,";
  EXPECT_THAT(message((many + "1]}").c_str()), testing::EndsWith(" More fields are wrong."));
}

// What front ends send beside what they ask for.
TEST(ChatRequest, HarmlessExtrasHaveNoEffect) {
  const std::string messages =
      R"("messages":[{"role":"system","content":[{"type":"text","text":"s",
         "cache_control":{"type":"ephemeral"}}]},
         {"role":"assistant","content":"a","reasoning_content":"hm","reasoning":"hm"}])";
  const StatusOr<OpenAiBody> plain = ChatBody("{" + messages + "}");
  const StatusOr<OpenAiBody> all = ChatBody(
      "{" + messages +
      R"(,"keep_alive":"5m","chat_id":"c","session_id":"s","background_tasks":{"title":true},
          "usage":{"include":true},"include_reasoning":true,"cache_prompt":true,"id_slot":0,
          "provider":{"order":["x"]},"best_of":1,"num_ctx":4096,"options":{"num_gpu":1},
          "verbosity":"low","mirostat":0,"mirostat_tau":5,"store":true})");
  ASSERT_TRUE(plain.ok()) << plain.status().message();
  ASSERT_TRUE(all.ok()) << all.status().message();
  EXPECT_TRUE(all->ignored.empty()) << all->ignored.front();
  EXPECT_EQ(std::get<Chat>(all->prompts[0]).messages[0].content, "s");
  EXPECT_EQ(std::get<Chat>(all->prompts[0]).messages[1].content, "a");
}

TEST(ChatRequest, WhatIsUnknownIsIgnoredAndNamed) {
  const std::string body =
      R"({"messages":[{"role":"user","content":[{"type":"text","text":"a","x":1}],"colour":1},
          {"role":"user","content":"b","colour":2}],"frobnicate":1,"also":null,
          "stream":true,"stream_options":{"y":1}})";
  const StatusOr<OpenAiBody> api = ChatBody(body);
  ASSERT_TRUE(api.ok()) << api.status().message();
  EXPECT_EQ(api->ignored, (std::vector<std::string>{"frobnicate", "messages[].content[].x",
                                                    "messages[].colour", "stream_options.y"}));
  const Status rejected = ChatBody(body, {.reject_unknown = true}).status();
  EXPECT_EQ(rejected.field(), "also");
  EXPECT_EQ(rejected.message(),
            "Unknown field 'also'. Unknown field 'frobnicate'. Unknown field "
            "'messages[0].content[0].x'. Unknown field 'messages[0].colour'. Unknown field "
            "'messages[1].colour'. Unknown field 'stream_options.y'.");
}

TEST(ChatRequest, WhatResemblesAFieldIsAnError) {
  const auto message = [](const char* field) {
    const StatusOr<OpenAiBody> api = ChatWith(field, "1");
    return api.ok() ? "" : api.status().message();
  };
  EXPECT_EQ(message("temprature"), "Unknown field 'temprature'; did you mean 'temperature'?");
  EXPECT_EQ(message("max_token"), "Unknown field 'max_token'; did you mean 'max_tokens'?");
  EXPECT_EQ(message("repeat_penality"),
            "Unknown field 'repeat_penality'; did you mean 'repeat_penalty'?");
  EXPECT_EQ(message("stops"), "Unknown field 'stops'; did you mean 'stop'?");
  EXPECT_EQ(message("k"), "") << "a short name resembles many";
  EXPECT_EQ(message("ids"), "");
  EXPECT_EQ(message("messages[].cache_control"), "") << "no path is a name";
}

TEST(ChatRequest, UnknownFieldsAreBounded) {
  std::string body = R"({"messages":[{"role":"user","content":"c"}])";
  for (int i = 0; i < 99; ++i) body += fmt::format(R"(,"frobnicate{:03}":1)", i);
  const StatusOr<OpenAiBody> api = ChatBody(body + "}");
  ASSERT_TRUE(api.ok()) << api.status().message();
  EXPECT_EQ(api->ignored.size(), 64U);
}

TEST(ChatRequest, AnyValueAnywhereIsAnswered) {
  const json good = json::parse(
      R"({"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"}],"name":"n"},
          {"role":"assistant","content":null,"reasoning_content":"r","tool_calls":[{"id":"c",
           "type":"function","index":0,"function":{"name":"f","arguments":"{\"a\":1}"}},
           {"function":{"name":"f","arguments":{"b":[1]}}}]},
          {"role":"tool","content":[{"type":"text","text":"a"}],"tool_call_id":"c"}],
          "tool_choice":"none","parallel_tool_calls":false,"reasoning_effort":"low",
          "enable_thinking":true,"thinking":{"type":"enabled"},
          "chat_template_kwargs":{"x":1,"enable_thinking":true},"add_generation_prompt":true,
          "continue_final_message":false,
          "max_tokens":3,"temperature":1,"top_p":1,"top_k":1,"min_p":0,"seed":1,"stop":["a"],
          "stream":true,"stream_options":{"include_usage":true},"logprobs":true,"top_logprobs":1,
          "tools":[{"type":"function","function":{"name":"f","description":"d","strict":true,
           "parameters":{"type":"object","properties":{"b":{},"a":{}}}}}],"response_format":{"type":"text"},"logit_bias":{"3":1},"n":1,
          "stop_token_ids":[1],"presence_penalty":1,"repetition_penalty":1,"typical_p":1,
          "min_tokens":1,"timeout":1,"metadata":{"a":"b"},"priority":1,"user":"u"})");
  ASSERT_TRUE(ChatBody(good.dump()).ok());
  EXPECT_GT(RejectedWithAnythingAnywhere(good, MakeOpenAiChat), 300);
}

}  // namespace
}  // namespace ropeway::api
