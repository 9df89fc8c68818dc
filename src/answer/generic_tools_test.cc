#include "answer/generic_tools.h"

#include <gtest/gtest.h>

#include <string>

namespace ropeway::answer {
namespace {

Chat ChatWithTools() {
  Chat chat{.messages = {{"user", "Add 1 and 2."}}};
  chat.tools = {{.name = "add",
                 .description = "Adds.",
                 .parameters = R"({"type":"object","properties":{"z":{},"a":{}}})"},
                {.name = "now"}};
  return chat;
}

TEST(GenericToolsTest, ASystemMessageShowsTheTools) {
  const Chat chat = WithoutTools(ChatWithTools(), true);
  EXPECT_TRUE(chat.tools.empty());
  ASSERT_EQ(chat.messages.size(), 2U);
  EXPECT_EQ(chat.messages[0].role, "system");
  EXPECT_NE(chat.messages[0].content.find(
                "\n{\"type\":\"function\",\"function\":{\"name\":\"add\",\"description\":\"Adds.\","
                "\"parameters\":{\"type\":\"object\",\"properties\":{\"z\":{},\"a\":{}}}}}\n"
                "{\"type\":\"function\",\"function\":{\"name\":\"now\"}}\n</tools>"),
            std::string::npos)
      << chat.messages[0].content;
  EXPECT_EQ(chat.messages[1].content, "Add 1 and 2.");
}

TEST(GenericToolsTest, TheFirstMessageShowsThemWhereThereIsOneOrNoOther) {
  Chat given = ChatWithTools();
  given.messages.insert(given.messages.begin(), {"system", "Be brief."});
  Chat chat = WithoutTools(given, true);
  ASSERT_EQ(chat.messages.size(), 2U);
  EXPECT_TRUE(chat.messages[0].content.starts_with("Be brief.\n\nYou can call functions."));
  chat = WithoutTools(ChatWithTools(), false);
  ASSERT_EQ(chat.messages.size(), 1U);
  EXPECT_EQ(chat.messages[0].role, "user");
  EXPECT_TRUE(chat.messages[0].content.ends_with("</tool_call>\n\nAdd 1 and 2."));
}

// Reading a schema would compare its keys, and writing it would take the stack.
TEST(GenericToolsTest, ASchemaIsShownAsItIs) {
  std::string deep;
  for (int i = 0; i < 1'000'000; ++i) deep += "{\"a\":";
  for (const std::string& schema : {std::string(R"({"b":1e2, "a":1.50, "b":1})"), deep}) {
    Chat given = ChatWithTools();
    given.tools[0].parameters = schema;
    const Chat chat = WithoutTools(given, true);
    EXPECT_NE(chat.messages[0].content.find(",\"parameters\":" + schema + "}}\n{"),
              std::string::npos)
        << chat.messages[0].content.substr(0, 400);
  }
  Chat given = ChatWithTools();
  given.tools[0].parameters = "{\n\"a\":\r\n1}";
  EXPECT_NE(WithoutTools(given, true).messages[0].content.find("{ \"a\":  1}}}\n{"),
            std::string::npos)
      << "a line each";
}

// A template that shows no system messages would drop the tools with them.
TEST(GenericToolsTest, WithoutSystemMessagesTheFirstOfTheUserShowsThem) {
  Chat given = ChatWithTools();
  given.messages.insert(given.messages.begin(), {{"system", "Be brief."}, {"assistant", "Hi."}});
  Chat chat = WithoutTools(given, false);
  ASSERT_EQ(chat.messages.size(), 3U);
  EXPECT_EQ(chat.messages[0].content, "Be brief.");
  EXPECT_EQ(chat.messages[1].content, "Hi.");
  EXPECT_TRUE(chat.messages[2].content.starts_with("You can call functions."));
  EXPECT_TRUE(chat.messages[2].content.ends_with("</tool_call>\n\nAdd 1 and 2."));
  // Without one of the user's there is one more.
  given.messages.pop_back();
  chat = WithoutTools(given, false);
  ASSERT_EQ(chat.messages.size(), 3U);
  EXPECT_EQ(chat.messages[0].content, "Be brief.");
  EXPECT_EQ(chat.messages[1].role, "user");
  EXPECT_TRUE(chat.messages[1].content.ends_with("</tool_call>"));
  EXPECT_EQ(chat.messages[2].content, "Hi.");
}

TEST(GenericToolsTest, CallsAndResponsesAreText) {
  Chat chat{.messages = {{"user", "Add."}}};
  ChatMessage calling{"assistant", "So:"};
  calling.tool_calls = {{"1", "add", R"({"a": 1})"}, {"2", "now", ""}};
  chat.messages.push_back(calling);
  chat.messages.push_back({.role = "tool", .content = "3", .tool_call_id = "1"});
  chat.messages.push_back({.role = "tool", .content = "noon", .tool_call_id = "2"});
  chat.messages.push_back({"user", "Thanks"});
  chat = WithoutTools(chat, true);
  ASSERT_EQ(chat.messages.size(), 4U);
  EXPECT_EQ(chat.messages[1].content,
            "So:\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>\n"
            "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>");
  EXPECT_TRUE(chat.messages[1].tool_calls.empty());
  EXPECT_EQ(chat.messages[2].role, "user");
  EXPECT_EQ(chat.messages[2].content,
            "<tool_response>\n3\n</tool_response>\n<tool_response>\nnoon\n</tool_response>");
}

}  // namespace
}  // namespace ropeway::answer
