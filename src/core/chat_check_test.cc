#include <gtest/gtest.h>

#include <string>

#include "core/request_check.h"

namespace ropeway::core {
namespace {

Chat ChatOf(ToolChoice choice, const std::string& name = {}) {
  return {.messages = {{"user", "a"}},
          .tools = {{.name = "f"}, {.name = "g"}},
          .tool_choice = choice,
          .tool_name = name};
}

TEST(ChatCheckTest, AToolThatMustBeCalledIsOneOfTheTools) {
  EXPECT_TRUE(CheckChat(ChatOf(ToolChoice::kRequired)).ok());
  EXPECT_TRUE(CheckChat(ChatOf(ToolChoice::kRequired, "g")).ok());
  const Status other = CheckChat(ChatOf(ToolChoice::kRequired, "h"));
  EXPECT_EQ(other.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(other.field(), "tool_choice");
  EXPECT_EQ(other.message(), "tool_choice names 'h', which is none of the tools");
  EXPECT_EQ(CheckChat(ChatOf(ToolChoice::kAuto, "g")).field(), "tool_choice");
  Chat none = ChatOf(ToolChoice::kRequired);
  none.tools.clear();
  EXPECT_EQ(CheckChat(none).field(), "tool_choice");
}

// Whether the form of calls can stand beside that of the answer is for the engine to say.
TEST(ChatCheckTest, AnAnswerMayHaveAFormAndTools) {
  Request request;
  request.format.kind = OutputFormat::Kind::kJsonObject;
  request.format.field = "response_format";
  for (const ToolChoice choice : {ToolChoice::kAuto, ToolChoice::kRequired, ToolChoice::kNone}) {
    request.prompt = ChatOf(choice);
    EXPECT_TRUE(CheckRequest(request).ok());
  }
}

}  // namespace
}  // namespace ropeway::core
