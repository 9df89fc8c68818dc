// A chat with calls of tools, thoughts and parts, as each kind of server gets it.
#include "api/wire_chat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

#include "api/wire_format.h"

namespace ropeway::api::wire {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr core::ServerKind kKinds[] = {core::kOpenAi,   core::kVllm,     core::kSglang,
                                       core::kLmStudio, core::kLlamaCpp, core::kOllama,
                                       core::kRopeway};

bool IsOneOf(core::ServerKind kind, uint32_t kinds) { return (kind & kinds) != 0; }

OrderedJson Written(const Chat& chat, core::ServerKind kind) {
  OrderedJson body = OrderedJson::object();
  const Status status = WriteChat(chat, kind, &body);
  EXPECT_TRUE(status.ok()) << status.message();
  return body;
}

Status Fault(const Chat& chat, core::ServerKind kind) {
  OrderedJson body = OrderedJson::object();
  return WriteChat(chat, kind, &body);
}

Chat WithCalls() {
  Chat chat;
  chat.messages = {{"user", "Weather?"}};
  ChatMessage call{"assistant", ""};
  call.reasoning_content = "Hm.";
  call.tool_calls = {{"c1", "weather", R"({"z": 1, "a": 2})"}};
  chat.messages.push_back(call);
  ChatMessage answer{"tool", "Fog\nand rain"};
  answer.tool_call_id = "c1";
  answer.part_sizes = {3, 8};
  chat.messages.push_back(answer);
  chat.tools = {{"weather", "Tells it.", R"({"type":"object","properties":{"z":{},"a":{}}})"},
                {"now"}};
  chat.tool_choice = ToolChoice::kNone;
  return chat;
}

TEST(WireChat, OpenSourceServersGetAllOfIt) {
  for (const core::ServerKind kind :
       {core::kRopeway, core::kVllm, core::kSglang, core::kLlamaCpp}) {
    EXPECT_EQ(Written(WithCalls(), kind).dump(), OrderedJson::parse(R"({
      "messages":[{"role":"user","content":"Weather?"},
        {"role":"assistant","content":"","reasoning_content":"Hm.","tool_calls":[{"id":"c1",
         "type":"function","function":{"name":"weather","arguments":"{\"z\": 1, \"a\": 2}"}}]},
        {"role":"tool","content":[{"type":"text","text":"Fog"},{"type":"text","text":"and rain"}],
         "tool_call_id":"c1"}],
      "tools":[{"type":"function","function":{"name":"weather","description":"Tells it.",
         "parameters":{"type":"object","properties":{"z":{},"a":{}}}}},
        {"type":"function","function":{"name":"now"}}],
      "tool_choice":"none"})")
                                                     .dump());
  }
}

TEST(WireChat, OthersGetWhatOpenAisApiHas) {
  for (const core::ServerKind kind : {core::kOpenAi, core::kLmStudio}) {
    const OrderedJson body = Written(WithCalls(), kind);
    EXPECT_FALSE(body["messages"][1].contains("reasoning_content"));
    EXPECT_EQ(body["messages"][1]["tool_calls"][0]["id"], "c1");
    EXPECT_EQ(body["messages"][2]["content"], "Fog\nand rain");
    EXPECT_EQ(body["tools"].size(), 2U);
    EXPECT_EQ(body["tool_choice"], "none");
  }
}

TEST(WireChat, OllamaHasAFormOfItsOwn) {
  EXPECT_EQ(Written(WithCalls(), core::kOllama).dump(), OrderedJson::parse(R"({
    "messages":[{"role":"user","content":"Weather?"},
      {"role":"assistant","content":"","thinking":"Hm.","tool_calls":[{"id":"c1",
       "function":{"name":"weather","arguments":{"z":1,"a":2}}}]},
      {"role":"tool","content":"Fog\nand rain","tool_name":"weather","tool_call_id":"c1"}]})")
                                                            .dump())
      << "it cannot be told to call no tool";
}

TEST(WireChat, WhatCallsMustBeIsToldToThoseThatCanBeTold) {
  Chat chat = WithCalls();
  for (const core::ServerKind kind : kKinds) {
    chat.tool_choice = ToolChoice::kAuto;
    const OrderedJson body = Written(chat, kind);
    EXPECT_EQ(body["tools"].size(), 2U);
    EXPECT_EQ(body.value("tool_choice", "absent"), kind == core::kOllama ? "absent" : "auto");
    EXPECT_FALSE(body.contains("parallel_tool_calls"));
    chat.tool_choice = ToolChoice::kRequired;
    if (kind == core::kOllama) {
      EXPECT_EQ(Fault(chat, kind).field(), "tool_choice");
      EXPECT_EQ(Fault(chat, kind).code(), StatusCode::kUnimplemented);
    } else {
      EXPECT_EQ(Written(chat, kind)["tool_choice"], "required");
    }
  }
}

// Which of both an answer is, is for the server to say.
TEST(WireChat, ToolsStandBesideAFormOfTheText) {
  Request request;
  request.prompt = WithCalls();
  std::get<Chat>(request.prompt).tool_choice = ToolChoice::kAuto;
  request.format.kind = OutputFormat::Kind::kJsonSchema;
  request.format.schema = R"({"type":"object"})";
  for (const BackendKind kind : {BackendKind::kOpenAi, BackendKind::kLlamaCpp, BackendKind::kOllama,
                                 BackendKind::kRopeway}) {
    const StatusOr<WireRequest> written = MakeWireFormat(kind, {})->Write(request);
    ASSERT_TRUE(written.ok()) << written.status().message();
    const OrderedJson body = OrderedJson::parse(written->body);
    EXPECT_EQ(body["tools"].size(), 2U);
    EXPECT_TRUE(body.contains(kind == BackendKind::kOllama ? "format" : "response_format"));
  }
}

TEST(WireChat, OneToolOfSeveral) {
  Chat chat = WithCalls();
  chat.tool_choice = ToolChoice::kRequired;
  chat.tool_name = "now";
  for (const core::ServerKind kind : kKinds) {
    if (IsOneOf(kind, core::kOllama | core::kLlamaCpp | core::kLmStudio)) {
      EXPECT_EQ(Fault(chat, kind).field(), "tool_choice");
    } else {
      EXPECT_EQ(Written(chat, kind)["tool_choice"].dump(),
                R"({"type":"function","function":{"name":"now"}})");
    }
  }
  // A name alone means one call, where the server knows names.
  chat.parallel_tool_calls = false;
  EXPECT_FALSE(Written(chat, core::kOpenAi).contains("parallel_tool_calls"));
  chat.tools.erase(chat.tools.begin());
  for (const core::ServerKind kind : {core::kLlamaCpp, core::kLmStudio}) {
    EXPECT_EQ(Written(chat, kind)["tool_choice"], "required") << "there is no other";
    EXPECT_EQ(Written(chat, kind).contains("parallel_tool_calls"), kind == core::kLlamaCpp);
  }
}

TEST(WireChat, OneCallAndStrictTools) {
  Chat chat = WithCalls();
  chat.tool_choice = ToolChoice::kAuto;
  chat.parallel_tool_calls = false;
  for (const core::ServerKind kind : kKinds) {
    if (IsOneOf(kind, core::kOllama | core::kLmStudio)) {
      EXPECT_EQ(Fault(chat, kind).field(), "parallel_tool_calls");
    } else {
      EXPECT_EQ(Written(chat, kind)["parallel_tool_calls"], false);
    }
  }
  chat.parallel_tool_calls = true;
  chat.tools[1].strict = true;
  for (const core::ServerKind kind : kKinds) {
    if (IsOneOf(kind, core::kOllama | core::kLmStudio)) {
      EXPECT_EQ(Fault(chat, kind).field(), "tools[1].function.strict");
    } else {
      const OrderedJson function = Written(chat, kind)["tools"][1]["function"];
      EXPECT_EQ(function.contains("strict"), kind != core::kLlamaCpp);
    }
  }
}

TEST(WireChat, AChatWithoutToolsHasNoFieldsOfThem) {
  for (const core::ServerKind kind : kKinds) {
    const Chat chat{.messages = {{"user", "a", "Ann"}}};
    OrderedJson expected = {{"messages", {{{"role", "user"}, {"content", "a"}, {"name", "Ann"}}}}};
    if (kind == core::kOllama) expected["messages"][0].erase("name");
    EXPECT_EQ(Written(chat, kind), expected);
  }
}

TEST(WireChat, PartsThatAreNotThoseOfTheTextAreOneText) {
  for (const std::vector<size_t>& sizes : std::vector<std::vector<size_t>>{
           {1, 1}, {4}, {3, 0}, {3, 9}, {SIZE_MAX, 3}, {3, SIZE_MAX}, {2, 0, 0, 0}}) {
    Chat chat{.messages = {{"user", "abc"}}};
    chat.messages[0].part_sizes = sizes;
    EXPECT_EQ(Written(chat, core::kRopeway)["messages"][0]["content"], "abc");
  }
  Chat chat{.messages = {{"user", "\na\n"}}};
  chat.messages[0].part_sizes = {0, 1, 0};
  EXPECT_EQ(Written(chat, core::kRopeway)["messages"][0]["content"].size(), 3U);
}

TEST(WireChat, VariablesOfTheTemplateGoToThoseThatHaveOne) {
  Chat chat{.messages = {{"user", "a"}}};
  chat.template_arguments = R"({"z":1,"enable_thinking":false})";
  for (const core::ServerKind kind : kKinds) {
    if (IsOneOf(kind, core::kOpenAi | core::kLmStudio | core::kOllama)) {
      const Status fault = Fault(chat, kind);
      EXPECT_EQ(fault.code(), StatusCode::kUnimplemented);
      EXPECT_EQ(fault.field(), "chat_template_kwargs");
      EXPECT_THAT(fault.message(), testing::HasSubstr("variable 'z'"));
    } else {
      EXPECT_EQ(Written(chat, kind)["chat_template_kwargs"].dump(), chat.template_arguments);
    }
  }
  chat.template_arguments = R"({"enable_thinking":false})";
  EXPECT_EQ(Fault(chat, core::kOpenAi).field(), "enable_thinking");
  EXPECT_EQ(Written(chat, core::kOllama)["think"], false);
  EXPECT_FALSE(Written(chat, core::kOllama).contains("chat_template_kwargs"));
}

TEST(WireChat, TheEffortIsAFieldWhereItIsOne) {
  Chat chat{.messages = {{"user", "a"}}};
  chat.template_arguments = R"({"reasoning_effort":"low"})";
  for (const core::ServerKind kind : kKinds) {
    const OrderedJson body = Written(chat, kind);
    if (IsOneOf(kind, core::kRopeway | core::kLlamaCpp)) {
      EXPECT_EQ(body["chat_template_kwargs"], OrderedJson::parse(chat.template_arguments));
      EXPECT_FALSE(body.contains("reasoning_effort"));
    } else {
      EXPECT_EQ(body[kind == core::kOllama ? "think" : "reasoning_effort"], "low");
      EXPECT_FALSE(body.contains("chat_template_kwargs"));
    }
  }
  // As the body's `reasoning_effort` of that value is kept.
  chat.template_arguments = R"({"reasoning_effort":"none","enable_thinking":false})";
  EXPECT_EQ(Written(chat, core::kOpenAi)["reasoning_effort"], "none");
  EXPECT_EQ(Written(chat, core::kVllm)["chat_template_kwargs"],
            OrderedJson::parse(R"({"enable_thinking":false})"));
  EXPECT_EQ(Written(chat, core::kOllama)["think"], false);
  chat.template_arguments = R"({"reasoning_effort":"high","enable_thinking":true})";
  EXPECT_EQ(Written(chat, core::kOllama)["think"], "high");
  chat.template_arguments = R"({"reasoning_effort":"high","thinking":false})";
  EXPECT_EQ(Written(chat, core::kOllama)["think"], false);
}

TEST(WireChat, WhereTheTextEndsIsToldToThoseThatCanBeTold) {
  Chat chat{.messages = {{"user", "a"}, {"assistant", "b"}}};
  chat.add_generation_prompt = false;
  for (const core::ServerKind kind : kKinds) {
    if (IsOneOf(kind, core::kRopeway | core::kVllm | core::kLlamaCpp)) {
      EXPECT_EQ(Written(chat, kind)["add_generation_prompt"], false);
      EXPECT_FALSE(Written(chat, kind).contains("continue_final_message"));
    } else {
      EXPECT_EQ(Fault(chat, kind).field(), "add_generation_prompt");
    }
  }
  chat.continue_final_message = true;
  for (const core::ServerKind kind : kKinds) {
    if (IsOneOf(kind, core::kOpenAi | core::kLmStudio | core::kOllama)) {
      EXPECT_EQ(Fault(chat, kind).field(), "continue_final_message");
    } else {
      EXPECT_EQ(Written(chat, kind)["continue_final_message"], true);
    }
  }
}

TEST(WireChat, ATextThatIsNoObjectIsNamed) {
  Chat chat = WithCalls();
  chat.messages[1].tool_calls[0].arguments = "[1]";
  EXPECT_EQ(Fault(chat, core::kOllama).field(), "messages[1].tool_calls[0].function.arguments");
  chat = WithCalls();
  chat.tools[0].parameters = "{";
  EXPECT_EQ(Fault(chat, core::kVllm).field(), "tools[0].function.parameters");
  chat = WithCalls();
  chat.template_arguments = "1";
  EXPECT_EQ(Fault(chat, core::kVllm).field(), "chat_template_kwargs");
  EXPECT_EQ(Fault(chat, core::kVllm).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ropeway::api::wire
