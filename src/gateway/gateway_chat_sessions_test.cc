// Sessions of chats that a gateway keeps: which messages and tools its backends get.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "gateway/test_gateway_sessions.h"

namespace ropeway::gateway {
namespace {

using Record = RecordingSink::Record;
using Messages = std::vector<ChatMessage>;

TEST_F(GatewaySessionTest, ChatTurnsAreTheNewMessagesOnly) {
  Start();
  Request first = ChatTurn("s", "Hi");
  auto& messages = std::get<Chat>(first.prompt).messages;
  messages.insert(messages.begin(), ChatMessage{"system", "Be brief."});
  const Record answer = Run(first);
  ASSERT_TRUE(answer.finish.has_value()) << answer.status.message();
  Run(ChatTurn("s", "And?"));
  size_t longest = 0;
  Messages sent;
  for (const Request& request : Sent()) {
    const auto& prompt = std::get<Chat>(request.prompt).messages;
    if (prompt.size() <= longest) continue;
    longest = prompt.size();
    sent = prompt;
  }
  ASSERT_EQ(sent.size(), 4U);
  EXPECT_EQ(sent[0].content, "Be brief.");
  EXPECT_EQ(sent[1].content, "Hi");
  EXPECT_EQ(sent[2].role, "assistant");
  EXPECT_EQ(sent[2].content, answer.text);
  EXPECT_EQ(sent[3].content, "And?");
}

TEST_F(GatewaySessionTest, AnAnswerWithoutTextIsAMessageToo) {
  Start();
  ASSERT_TRUE(Run(ChatTurn("s", "Say nothing")).finish.has_value());
  Run(ChatTurn("s", "And?"));
  std::vector<std::string> roles;
  for (const Request& request : Sent()) {
    const auto& prompt = std::get<Chat>(request.prompt).messages;
    if (prompt.size() < 3) continue;
    for (const ChatMessage& message : prompt) roles.push_back(message.role);
  }
  EXPECT_THAT(roles, testing::ElementsAre("user", "assistant", "user"));
}

// Tools are the turn's own, what was called with them is the session's.
TEST_F(GatewaySessionTest, EachTurnHasItsOwnTools) {
  Start();
  Request first = ChatTurn("s", "Weather?");
  std::get<Chat>(first.prompt).tools = {{"weather"}};
  ASSERT_TRUE(Run(first).finish.has_value());
  Request second = ChatTurn("s", "And?");
  Chat& asked = std::get<Chat>(second.prompt);
  ChatMessage called{"assistant", ""};
  called.tool_calls = {{"c1", "now", "{}"}};
  asked.messages.insert(asked.messages.begin(), called);
  asked.tools = {{"now"}};
  ASSERT_TRUE(Run(second).finish.has_value());
  Run(ChatTurn("s", "Last?"));
  std::vector<Chat> chats;
  for (const Request& request : Sent()) chats.push_back(std::get<Chat>(request.prompt));
  ASSERT_EQ(chats.size(), 3U);
  std::sort(chats.begin(), chats.end(),
            [](const Chat& a, const Chat& b) { return a.messages.size() < b.messages.size(); });
  ASSERT_EQ(chats[0].tools.size(), 1U);
  EXPECT_EQ(chats[0].tools[0].name, "weather");
  ASSERT_EQ(chats[1].tools.size(), 1U);
  EXPECT_EQ(chats[1].tools[0].name, "now");
  EXPECT_TRUE(chats[2].tools.empty());
  ASSERT_EQ(chats[2].messages.size(), 6U);
  ASSERT_EQ(chats[2].messages[2].tool_calls.size(), 1U);
  EXPECT_EQ(chats[2].messages[2].tool_calls[0].name, "now");
}

// Arguments that are no JSON object would be rejected in every later turn.
TEST_F(GatewaySessionTest, CallsAreKeptAsTemplatesTakeThem) {
  Start();
  const Record answer = Run(ChatTurn("s", "Do call"));
  ASSERT_TRUE(answer.finish.has_value()) << answer.status.message();
  ASSERT_EQ(answer.answer.tool_calls.size(), 1U);
  EXPECT_NE(answer.answer.tool_calls[0].arguments, "{}") << "the client gets what was said";
  Run(ChatTurn("s", "More"));
  bool found = false;
  for (const Request& request : Sent()) {
    const auto& sent = std::get<Chat>(request.prompt).messages;
    if (sent.back().content != "More") continue;
    found = true;
    ASSERT_EQ(sent.size(), 3U);
    ASSERT_EQ(sent[1].tool_calls.size(), 1U);
    EXPECT_EQ(sent[1].tool_calls[0].id, answer.answer.tool_calls[0].id);
    EXPECT_EQ(sent[1].tool_calls[0].arguments, "{}");
  }
  EXPECT_TRUE(found);
}

TEST_F(GatewaySessionTest, AContinuedMessageIsOne) {
  Start();
  Request first = ChatTurn("s", "Sing");
  Chat& chat = std::get<Chat>(first.prompt);
  chat.messages.push_back({"assistant", "La "});
  chat.messages.back().part_sizes = {3};
  chat.continue_final_message = true;
  chat.add_generation_prompt = false;
  const Record answer = Run(first);
  ASSERT_TRUE(answer.finish.has_value()) << answer.status.message();
  Run(ChatTurn("s", "More"));
  bool found = false;
  for (const Request& request : Sent()) {
    const auto& sent = std::get<Chat>(request.prompt).messages;
    if (sent.back().content != "More") continue;
    found = true;
    ASSERT_EQ(sent.size(), 3U);
    EXPECT_EQ(sent[1].content, "La " + answer.text);
    EXPECT_TRUE(sent[1].part_sizes.empty());
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace ropeway::gateway
