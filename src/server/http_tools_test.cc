// Tools in chats, over real sockets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

#include "server/test_server.h"

namespace ropeway::server {
namespace {

using nlohmann::json;

class HttpToolsTest : public ServerTest {
 protected:
  ClientReply Post(const std::string& more) {
    TestClient client(port());
    return client.Post("/v1/chat/completions", R"({"max_tokens":2,"messages":[
        {"role":"user","content":"Weather?"},
        {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function",
          "function":{"name":"weather","arguments":"{\"city\":\"Chur\"}"}}]},
        {"role":"tool","tool_call_id":"c1","content":"Fog"}],
        "tools":[{"type":"function","function":{"name":"weather","parameters":
          {"type":"object","properties":{"city":{"type":"string"}}}}}])" +
                                                   more + "}");
  }
};

TEST_F(HttpToolsTest, AChatThatShowsToolsIsAnswered) {
  for (const char* stream : {"", R"(,"stream":true)"}) {
    const ClientReply reply =
        Post(std::string(R"(,"tool_choice":"none","reasoning_effort":"low")") + stream);
    EXPECT_EQ(reply.status, 200) << reply.body;
    EXPECT_THAT(reply.body, testing::HasSubstr("w0 "));
    EXPECT_EQ(reply.headers.count("x-ropeway-ignored"), 0U);
  }
  for (const Request& request : backend_.submitted()) {
    const auto& chat = std::get<Chat>(request.prompt);
    ASSERT_EQ(chat.messages.size(), 3U);
    EXPECT_EQ(chat.messages[1].tool_calls[0].arguments, R"({"city":"Chur"})");
    EXPECT_EQ(chat.messages[2].tool_call_id, "c1");
    ASSERT_EQ(chat.tools.size(), 1U);
    EXPECT_EQ(chat.tools[0].name, "weather");
    EXPECT_EQ(chat.template_arguments, R"({"reasoning_effort":"low"})");
  }
  EXPECT_EQ(backend_.submitted().size(), 2U);
}

// Every choice has the chat.
TEST_F(HttpToolsTest, SeveralChoicesAreOfTheSameChat) {
  EXPECT_EQ(Post(R"(,"tool_choice":"none","n":3)").status, 200);
  ASSERT_EQ(backend_.submitted().size(), 3U);
  for (const Request& request : backend_.submitted()) {
    EXPECT_EQ(std::get<Chat>(request.prompt).tools.size(), 1U);
  }
}

TEST_F(HttpToolsTest, TheChoiceIsTheChats) {
  EXPECT_EQ(Post("").status, 200);
  EXPECT_EQ(Post(R"(,"tool_choice":{"type":"function","function":{"name":"weather"}})").status,
            200);
  const std::vector<Request> submitted = backend_.submitted();
  ASSERT_EQ(submitted.size(), 2U);
  EXPECT_EQ(std::get<Chat>(submitted[0].prompt).tool_choice, ToolChoice::kAuto);
  const auto& named = std::get<Chat>(submitted[1].prompt);
  EXPECT_EQ(named.tool_choice, ToolChoice::kRequired);
  EXPECT_EQ(named.tool_name, "weather");
  const ClientReply reply = Post(R"(,"tool_choice":{"type":"custom","custom":{"name":"weather"}})");
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(json::parse(reply.body)["error"]["param"], "tool_choice");
}

}  // namespace
}  // namespace ropeway::server
