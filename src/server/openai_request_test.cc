#include "server/openai_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ropeway {
namespace {

using nlohmann::json;
using testing::HasSubstr;

StatusOr<ApiRequest> Completion(const std::string& body) {
  return ParseApiRequest(body, false, {});
}
StatusOr<ApiRequest> Chat(const std::string& body) { return ParseApiRequest(body, true, {}); }

// A completion, or a chat, whose only unusual field is `field`.
StatusOr<ApiRequest> CompletionWith(const std::string& field, const std::string& value) {
  return Completion("{\"prompt\":\"p\",\"" + field + "\":" + value + "}");
}
StatusOr<ApiRequest> ChatWith(const std::string& field, const std::string& value) {
  return Chat(R"({"messages":[{"role":"user","content":"c"}],")" + field + "\":" + value + "}");
}

TEST(CompletionRequest, AllFields) {
  StatusOr<ApiRequest> api = Completion(
      R"({"model":"m","prompt":"text","max_tokens":7,"temperature":0.5,"top_p":0.25,"top_k":9,
          "min_p":0.125,"seed":42,"stop":["a","b"],"ignore_eos":true,"stream":true,
          "stream_options":{"include_usage":true},"logprobs":3,"n":1,"best_of":1,"echo":false,
          "suffix":null,"presence_penalty":0,"frequency_penalty":0.0,"repetition_penalty":1.0,
          "logit_bias":{},"user":"u","store":false,"cache_salt":"s","priority":3})");
  ASSERT_TRUE(api.ok()) << api.status().message();
  const Request& r = api->request;
  EXPECT_EQ(r.model, "m");
  EXPECT_EQ(std::get<std::string>(r.prompt), "text");
  EXPECT_EQ(r.max_tokens, 7);
  EXPECT_EQ(r.sampling.temperature, 0.5F);
  EXPECT_EQ(r.sampling.top_p, 0.25F);
  EXPECT_EQ(r.sampling.top_k, 9);
  EXPECT_EQ(r.sampling.min_p, 0.125F);
  EXPECT_EQ(r.sampling.seed, 42U);
  EXPECT_EQ(r.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(r.ignore_eos);
  EXPECT_EQ(r.logprobs, 3);
  EXPECT_TRUE(api->stream);
  EXPECT_TRUE(api->include_usage);
  EXPECT_FALSE(api->chat);
}

TEST(CompletionRequest, Defaults) {
  StatusOr<ApiRequest> api = Completion(R"({"prompt":"p","temperature":null,"stop":null})");
  ASSERT_TRUE(api.ok());
  EXPECT_EQ(api->request.model, "");
  EXPECT_EQ(api->request.max_tokens, 16);
  EXPECT_EQ(api->request.sampling.temperature, 1.0F);
  EXPECT_FALSE(api->request.sampling.seed.has_value());
  EXPECT_FALSE(api->request.logprobs.has_value());
  EXPECT_TRUE(api->request.stop.empty());
  EXPECT_FALSE(api->stream);
}

TEST(CompletionRequest, PromptForms) {
  EXPECT_EQ(std::get<std::string>(Completion(R"({"prompt":["one"]})")->request.prompt), "one");
  const std::vector<TokenId> ids = {1, 0, 2147483647};
  for (const char* body : {R"({"prompt":[1,0,2147483647]})", R"({"prompt":[[1,0,2147483647]]})"}) {
    EXPECT_EQ(std::get<std::vector<TokenId>>(Completion(body)->request.prompt), ids);
  }
  for (const char* value : {"1", "true", "{}", "[]", "[[]]", "[1,\"a\"]", "[1.5]", "[-1]", "[null]",
                            "[2147483648]", "[[1,[2]]]", "[1e2]", "[\"a\",1]", "[[\"a\"]]"}) {
    StatusOr<ApiRequest> api = Completion("{\"prompt\":" + std::string(value) + "}");
    ASSERT_FALSE(api.ok()) << value;
    EXPECT_EQ(api.status().field(), "prompt") << value;
  }
  EXPECT_EQ(Completion(R"({"prompt":["a","b"]})").status().code(), StatusCode::kUnimplemented);
  EXPECT_EQ(Completion("{}").status().field(), "prompt");
  EXPECT_EQ(Completion(R"({"prompt":null})").status().field(), "prompt");
}

TEST(CompletionRequest, Seeds) {
  auto seed = [](const std::string& value) {
    return CompletionWith("seed", value)->request.sampling.seed;
  };
  EXPECT_EQ(seed("0"), 0U);
  EXPECT_EQ(seed("18446744073709551615"), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(seed("-1"), std::numeric_limits<uint64_t>::max());
}

TEST(CompletionRequest, EdgesOfRanges) {
  for (auto [field, value] :
       std::vector<std::pair<std::string, std::string>>{{"temperature", "0"},
                                                        {"temperature", "2"},
                                                        {"top_p", "1"},
                                                        {"top_p", "1e-6"},
                                                        {"top_k", "-1"},
                                                        {"top_k", "0"},
                                                        {"min_p", "0"},
                                                        {"min_p", "1"},
                                                        {"logprobs", "0"},
                                                        {"logprobs", "20"},
                                                        {"max_tokens", "1"},
                                                        {"max_tokens", "2147483647"},
                                                        {"stop", "[]"},
                                                        {"stop", "\"x\""},
                                                        {"n", "1"}}) {
    StatusOr<ApiRequest> api = CompletionWith(field, value);
    EXPECT_TRUE(api.ok()) << field << "=" << value << ": " << api.status().message();
  }
}

TEST(CompletionRequest, RefusesByName) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> bad = {
      {"model", {"1", "[]", "{}"}},
      {"max_tokens",
       {"0", "-1", "1.5", "1e3", "\"7\"", "2147483648", "1e300", "true",
        "99999999999999999999999"}},
      {"temperature", {"-0.1", "2.1", "\"0\"", "true", "1e308", "[]"}},
      {"top_p", {"0", "-1", "1.01", "\"1\"", "1e-60"}},
      {"top_k", {"-2", "0.5", "\"1\"", "2147483648"}},
      {"min_p", {"-0.1", "1.1", "{}"}},
      {"seed", {"1.5", "\"1\"", "18446744073709551616", "-9223372036854775809", "[]"}},
      {"stop",
       {"\"\"", "[\"\"]", "1", "[1]", "{}", "[\"a\",null]",
        R"(["1","2","3","4","5","6","7","8","9","a","b","c","d","e","f","g","h"])",
        "\"" + std::string(2000, 'x') + "\""}},
      {"ignore_eos", {"1", "\"true\""}},
      {"stream", {"1", "\"true\"", "{}"}},
      {"stream_options", {"true", "{}"}},  // Without "stream".
      {"logprobs", {"-1", "21", "true", "1.0"}},
      {"n", {"0", "2", "\"1\""}},
      {"best_of", {"2"}},
      {"echo", {"true", "1"}},
      {"suffix", {"\"x\"", "\"\""}},
      {"presence_penalty", {"0.5", "-1", "\"0\""}},
      {"frequency_penalty", {"1"}},
      {"repetition_penalty", {"1.1", "0"}},
      {"min_tokens", {"1"}},
      {"logit_bias", {"{\"1\":1}", "1"}},
      {"store", {"true", "1"}},
      {"tools", {"[]"}},  // Of chats only.
      {"messages", {"[]"}},
      {"max_completion_tokens", {"1"}},
      {"nonsense", {"1", "null"}},
  };
  for (const auto& [field, values] : bad) {
    for (const std::string& value : values) {
      StatusOr<ApiRequest> api = CompletionWith(field, value);
      ASSERT_FALSE(api.ok()) << field << "=" << value;
      EXPECT_EQ(api.status().field(), field) << value;
      EXPECT_THAT(api.status().message(), HasSubstr(field));
      EXPECT_LT(api.status().message().size(), 300U);
    }
  }
}

TEST(CompletionRequest, SaysUnsupportedOfWhatOpenAiKnows) {
  for (auto [field, value] :
       std::vector<std::pair<std::string, std::string>>{{"n", "2"},
                                                        {"echo", "true"},
                                                        {"suffix", "\"x\""},
                                                        {"logit_bias", "{\"1\":1}"},
                                                        {"presence_penalty", "1"},
                                                        {"best_of", "3"}}) {
    EXPECT_EQ(CompletionWith(field, value).status().code(), StatusCode::kUnimplemented) << field;
  }
  EXPECT_EQ(CompletionWith("nonsense", "1").status().code(), StatusCode::kInvalidArgument);
}

TEST(CompletionRequest, StreamOptions) {
  auto with = [](const std::string& options) {
    return Completion(R"({"prompt":"p","stream":true,"stream_options":)" + options + "}");
  };
  EXPECT_FALSE(with("{}")->include_usage);
  EXPECT_TRUE(with(R"({"include_usage":true})")->include_usage);
  EXPECT_EQ(with(R"({"include_usage":1})").status().field(), "stream_options.include_usage");
  EXPECT_EQ(with(R"({"x":1})").status().field(), "stream_options.x");
  EXPECT_EQ(with("1").status().field(), "stream_options");
}

TEST(CompletionRequest, BodyMustBeAnObject) {
  for (const char* body :
       {"", "null", "[]", "\"a\"", "1", "{\"prompt\":\"p\"", "{\"prompt\":\"\xff\"}",
        R"({"prompt":"p","prompt":"q"})", R"({"prompt":"p","temperature":1e400})"}) {
    EXPECT_EQ(Completion(body).status().code(), StatusCode::kInvalidArgument) << body;
  }
}

TEST(ChatRequest, AllFields) {
  StatusOr<ApiRequest> api = Chat(
      R"({"model":"m","messages":[{"role":"system","content":"s"},
          {"role":"developer","content":"d"},
          {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
          {"role":"assistant","content":"","refusal":null,"annotations":[],"tool_calls":null},
          {"role":"user","content":"u","name":"n"}],
          "max_completion_tokens":5,"logprobs":true,"top_logprobs":4,"stream":false,
          "response_format":{"type":"text"},"tools":[],"tool_choice":"none","modalities":["text"],
          "parallel_tool_calls":true,"service_tier":"auto","metadata":{"a":"b"}})");
  ASSERT_TRUE(api.ok()) << api.status().message();
  const auto& messages = std::get<std::vector<ChatMessage>>(api->request.prompt);
  ASSERT_EQ(messages.size(), 5U);
  EXPECT_EQ(messages[1].role, "system");
  EXPECT_EQ(messages[2].content, "a\nb");
  EXPECT_EQ(messages[3].content, "");
  EXPECT_EQ(messages[4].role, "user");
  EXPECT_EQ(api->request.max_tokens, 5);
  EXPECT_EQ(api->request.logprobs, 4);
  EXPECT_TRUE(api->chat);
}

TEST(ChatRequest, Defaults) {
  StatusOr<ApiRequest> api = ChatWith("user", "\"u\"");
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

TEST(ChatRequest, RefusesByName) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> bad = {
      {"max_completion_tokens", {"0", "-5", "1.5"}},
      {"logprobs", {"1", "\"true\""}},
      {"top_logprobs", {"21", "-1", "3"}},  // 3: without "logprobs".
      {"response_format", {"{\"type\":\"json_object\"}", "1", "{}", "{\"type\":1}"}},
      {"tools", {"[{}]", "1"}},
      {"functions", {"[{}]"}},
      {"tool_choice", {"\"required\"", "{}"}},
      {"modalities", {"[\"audio\"]", "[]"}},
      {"audio", {"{}"}},
      {"prediction", {"{}"}},
      {"reasoning_effort", {"\"low\""}},
      {"verbosity", {"\"low\""}},
      {"web_search_options", {"{}"}},
      {"n", {"2"}},
      {"prompt", {"\"p\""}},
      {"echo", {"true"}},
  };
  for (const auto& [field, values] : bad) {
    for (const std::string& value : values) {
      StatusOr<ApiRequest> api = ChatWith(field, value);
      ASSERT_FALSE(api.ok()) << field << "=" << value;
      EXPECT_EQ(api.status().field(), field) << value;
    }
  }
}

TEST(ChatRequest, RefusesBadMessagesByPlace) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"null", "messages"},
      {"[]", "messages"},
      {"\"hi\"", "messages"},
      {"{}", "messages"},
      {"[1]", "messages[0]"},
      {"[{}]", "messages[0].role"},
      {R"([{"role":1,"content":"a"}])", "messages[0].role"},
      {R"([{"role":"king","content":"a"}])", "messages[0].role"},
      {R"([{"role":"tool","content":"a"}])", "messages[0].role"},
      {R"([{"role":"user"}])", "messages[0].content"},
      {R"([{"role":"user","content":null}])", "messages[0].content"},
      {R"([{"role":"user","content":"a"},{"role":"user","content":7}])", "messages[1].content"},
      {R"([{"role":"user","content":["a"]}])", "messages[0].content[0]"},
      {R"([{"role":"user","content":[{"type":"text"}]}])", "messages[0].content[0].text"},
      {R"([{"role":"user","content":[{"type":"image_url","image_url":{}}]}])",
       "messages[0].content[0].type"},
      {R"([{"role":"user","content":[{"text":"a"}]}])", "messages[0].content[0].type"},
      {R"([{"role":"assistant","content":"a","tool_calls":[{}]}])", "messages[0].tool_calls"},
      {R"([{"role":"user","content":"a","colour":"red"}])", "messages[0].colour"},
  };
  for (const auto& [messages, field] : bad) {
    StatusOr<ApiRequest> api = Chat("{\"messages\":" + messages + "}");
    ASSERT_FALSE(api.ok()) << messages;
    EXPECT_EQ(api.status().field(), field);
  }
}

// Whatever is put in place of any part of a good request: an answer, never a crash.
TEST(ChatRequest, AnyValueInAnyPlaceIsAnswered) {
  const json good = json::parse(
      R"({"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"}]}],
          "max_tokens":3,"temperature":1,"top_p":1,"top_k":1,"min_p":0,"seed":1,"stop":["a"],
          "stream":true,"stream_options":{"include_usage":true},"logprobs":true,"top_logprobs":1,
          "tools":[],"response_format":{"type":"text"},"logit_bias":{},"n":1})");
  ASSERT_TRUE(Chat(good.dump()).ok());
  const json values = json::parse(
      R"([null,true,0,-1,1e300,18446744073709551615,"","x",[],{},[[]],[{}],{"a":{}},[null]])");
  int refused = 0;
  const json flat = good.flatten();
  for (const auto& [path, unused] : flat.items()) {
    for (json::json_pointer at(path); !at.empty(); at = at.parent_pointer()) {
      for (const json& value : values) {
        json changed = good;
        changed[at] = value;
        StatusOr<ApiRequest> api = Chat(changed.dump());
        if (api.ok()) continue;
        ++refused;
        EXPECT_FALSE(api.status().message().empty());
        EXPECT_FALSE(api.status().field().empty()) << changed.dump();
      }
    }
  }
  EXPECT_GT(refused, 200);
}

}  // namespace
}  // namespace ropeway
