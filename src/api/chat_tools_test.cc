// Tools in the body of POST /v1/chat/completions: their calls in messages, their descriptions, and
// what the chat template is given.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "api/test_request_bodies.h"

namespace ropeway::api {
namespace {

using testing::HasSubstr;

constexpr char kAsk[] = R"({"role":"user","content":"Weather?"})";
constexpr char kCall[] =
    R"({"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function",
        "function":{"name":"weather","arguments":"{\"city\": \"Chur\", \"at\": 1.50}"}}]})";
constexpr char kAnswer[] = R"({"role":"tool","tool_call_id":"c1","content":"Fog"})";
constexpr char kTool[] =
    R"({"type":"function","function":{"name":"weather","description":"Tells it.","strict":true,
        "parameters":{"type":"object","properties":{"z":{"type":"string"},"a":{"enum":[2,1]}}}}})";

StatusOr<OpenAiBody> Messages(const std::string& messages, const std::string& more = "") {
  return ChatBody("{\"messages\":[" + messages + "]" + more + "}");
}

Chat ChatOf(const StatusOr<OpenAiBody>& body) {
  EXPECT_TRUE(body.ok()) << body.status().message();
  return body.ok() ? std::get<Chat>(body->prompts[0]) : Chat();
}

// --- Messages.

TEST(ChatTools, CallsAndTheirAnswersAreMessages) {
  const Chat chat = ChatOf(Messages(fmt::format("{},{},{}", kAsk, kCall, kAnswer)));
  ASSERT_EQ(chat.messages.size(), 3U);
  const ChatMessage& assistant = chat.messages[1];
  EXPECT_EQ(assistant.content, "");
  ASSERT_EQ(assistant.tool_calls.size(), 1U);
  EXPECT_EQ(assistant.tool_calls[0].id, "c1");
  EXPECT_EQ(assistant.tool_calls[0].name, "weather");
  EXPECT_EQ(assistant.tool_calls[0].arguments, "{\"city\": \"Chur\", \"at\": 1.50}") << "as it was";
  EXPECT_EQ(chat.messages[2].tool_call_id, "c1");
  EXPECT_EQ(chat.messages[2].content, "Fog");
  EXPECT_TRUE(chat.add_generation_prompt);
  EXPECT_FALSE(chat.continue_final_message);
  EXPECT_EQ(chat.template_arguments, "");
}

// What is sent back is what was received, with all its empty fields.
TEST(ChatTools, AClientsDumpOfAnAnswerIsAMessage) {
  const Chat chat = ChatOf(
      Messages(std::string(kAsk) +
               R"(,{"content":null,"refusal":null,"role":"assistant","annotations":[],"audio":null,
         "function_call":null,"reasoning_content":"Hm.","reasoning":"Hm.","tool_calls":[{"id":"c1",
         "function":{"arguments":"","name":"now"},"type":"function","index":0},
         {"id":"c2","function":{"arguments":null,"name":"now"}}]},
         {"role":"tool","tool_call_id":"c2","content":[{"type":"text","text":"No"},
         {"type":"text","text":"on"}]})"));
  ASSERT_EQ(chat.messages.size(), 3U);
  EXPECT_EQ(chat.messages[1].reasoning_content, "Hm.");
  ASSERT_EQ(chat.messages[1].tool_calls.size(), 2U);
  EXPECT_EQ(chat.messages[1].tool_calls[0].arguments, "{}");
  EXPECT_EQ(chat.messages[1].tool_calls[1].arguments, "{}");
  EXPECT_TRUE(chat.messages[1].part_sizes.empty());
  EXPECT_EQ(chat.messages[2].content, "No\non");
  EXPECT_EQ(chat.messages[2].part_sizes, (std::vector<size_t>{2, 2}));
  EXPECT_EQ(ChatOf(Messages(R"({"role":"assistant","content":"a","reasoning":"b"})"))
                .messages[0]
                .reasoning_content,
            "b");
}

TEST(ChatTools, ArgumentsMayBeAnObjectWhoseKeysKeepTheirOrder) {
  const Chat chat = ChatOf(Messages(
      std::string(kAsk) +
      R"(,{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}},
          {"id":"b","function":{"arguments":{"z":1,"a":{"y":2,"b":[]}},"name":"f"}}]})"));
  ASSERT_EQ(chat.messages[1].tool_calls.size(), 2U);
  EXPECT_EQ(chat.messages[1].tool_calls[1].arguments, R"({"z":1,"a":{"y":2,"b":[]}})");
}

// Agents send back a call that was cut, or that a model wrote badly, and say what is wrong with it.
TEST(ChatTools, ArgumentsThatAreNoObjectAreShownAsTheyAre) {
  for (const auto& [sent, shown] : std::vector<std::pair<std::string, std::string>>{
           {R"({\"city\": \"Ch)", R"({"INVALID_JSON":"{\"city\": \"Ch"})"},
           {"[1]", R"({"INVALID_JSON":"[1]"})"},
           {"Chur", R"({"INVALID_JSON":"Chur"})"},
           {std::string(5000, '['), R"({"INVALID_JSON":")" + std::string(5000, '[') + "\"}"}}) {
    const Chat chat = ChatOf(Messages(
        R"({"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":")" +
        sent + "\"}}]}"));
    ASSERT_EQ(chat.messages.size(), 1U);
    EXPECT_EQ(chat.messages[0].tool_calls[0].arguments, shown);
  }
}

// Models write them so, and what an answer had is taken back.
TEST(ChatTools, ArgumentsAsTextAreTakenAsChatTemplatesTakeThem) {
  std::string deep = "1";
  for (int i = 0; i < 60; ++i) deep = "[" + deep + "]";
  for (const std::string& text : {std::string("{'a': 1, 'a': 2}"), "{'a': " + deep + "}"}) {
    std::string escaped = text;
    std::string plain = text;
    for (size_t at = 0; (at = escaped.find('\'', at)) != escaped.npos; at += 2) {
      escaped.replace(at, 1, "\\\"");
    }
    std::replace(plain.begin(), plain.end(), '\'', '"');
    const Chat chat = ChatOf(Messages(
        R"({"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":")" +
        escaped + R"("}}]})"));
    ASSERT_EQ(chat.messages.size(), 1U);
    EXPECT_EQ(chat.messages[0].tool_calls[0].arguments, plain);
  }
}

TEST(ChatTools, AToolsMessageAnswersACallBeforeIt) {
  const auto status = [](const std::string& messages) { return Messages(messages).status(); };
  const std::string ask = kAsk;
  const Status none = status(ask + "," + kAnswer);
  EXPECT_EQ(none.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(none.field(), "messages[1].tool_call_id");
  EXPECT_EQ(none.message(),
            "'messages[1].tool_call_id' is 'c1', but no message before it has a tool call of this "
            "id.");
  EXPECT_EQ(status(fmt::format("{},{},{}", kAsk, kAnswer, kCall)).field(),
            "messages[1].tool_call_id")
      << "it comes too late";
  const Status absent =
      status(fmt::format(R"({},{},{{"role":"tool","content":"x"}})", kAsk, kCall));
  EXPECT_EQ(absent.message(),
            "'messages[2].tool_call_id' is required in a message of the role 'tool'.");
  // Calls of servers that give none are answered without one.
  EXPECT_TRUE(status(ask + R"(,{"role":"assistant","tool_calls":[{"function":{"name":"f"}}]},
                              {"role":"tool","content":"x"})")
                  .ok());
  // Twice, and much later.
  EXPECT_TRUE(status(fmt::format("{},{},{},{},{}", kAsk, kCall, kAnswer, kAsk, kAnswer)).ok());
}

TEST(ChatTools, ABadCallIsNamed) {
  const std::string call = "messages[0].tool_calls[0]";
  for (const auto& [calls, field] : std::vector<std::pair<std::string, std::string>>{
           {"1", "messages[0].tool_calls"},
           {"{}", "messages[0].tool_calls"},
           {"[1]", call},
           {"[{}]", call + ".function"},
           {R"([{"function":1}])", call + ".function"},
           {R"([{"type":"custom","function":{"name":"f","arguments":"{}"}}])", call + ".type"},
           {R"([{"id":1,"function":{"name":"f","arguments":"{}"}}])", call + ".id"},
           {R"([{"function":{"arguments":"{}"}}])", call + ".function.name"},
           {R"([{"function":{"name":"","arguments":"{}"}}])", call + ".function.name"},
           {R"([{"function":{"name":"f","arguments":1}}])", call + ".function.arguments"},
           {R"([{"function":{"name":"f","arguments":[]}}])", call + ".function.arguments"},
           {R"([{"function":{"name":"f","argumentz":"{}"}}])", call + ".function.argumentz"},
           {R"([{"functions":{"name":"f"}}])", call + ".function"}}) {
    const Status status = Messages(R"({"role":"assistant","tool_calls":)" + calls + "}").status();
    EXPECT_EQ(status.field(), field) << calls << ": " << status.message();
  }
  const Status role =
      Messages(R"({"role":"user","content":"a","tool_calls":[{"function":{"name":"f"}}]})")
          .status();
  EXPECT_EQ(role.message(),
            "'messages[0].tool_calls' is allowed only in a message of the role 'assistant'.");
  for (const char* none : {"[]", "null"}) {
    EXPECT_TRUE(
        Messages(fmt::format(R"({{"role":"user","content":"a","tool_calls":{}}})", none)).ok());
  }
}

// --- Tools.

TEST(ChatTools, ToolsAreReadWithTheirKeysInOrder) {
  const std::string tools =
      fmt::format(R"(,"tool_choice":"none","tools":[{},{{"function":{{"name":"now-2"}}}}])", kTool);
  const Chat chat = ChatOf(Messages(kAsk, tools));
  ASSERT_EQ(chat.tools.size(), 2U);
  EXPECT_EQ(chat.tools[0].name, "weather");
  EXPECT_EQ(chat.tools[0].description, "Tells it.");
  EXPECT_EQ(chat.tools[0].parameters,
            R"({"type":"object","properties":{"z":{"type":"string"},"a":{"enum":[2,1]}}})");
  EXPECT_EQ(chat.tools[1].name, "now-2");
  EXPECT_EQ(chat.tools[1].parameters, "");
}

TEST(ChatTools, TheChoiceOfToolsIsRead) {
  const auto chat = [](const std::string& more) {
    return ChatOf(Messages(
        kAsk, fmt::format(R"(,"tools":[{},{{"function":{{"name":"now"}}}}]{})", kTool, more)));
  };
  for (const char* choice : {"", R"(,"tool_choice":"auto")", R"(,"tool_choice":null)"}) {
    EXPECT_EQ(chat(choice).tool_choice, ToolChoice::kAuto) << choice;
    EXPECT_TRUE(chat(choice).parallel_tool_calls);
  }
  EXPECT_EQ(chat(R"(,"tool_choice":"none")").tool_choice, ToolChoice::kNone);
  EXPECT_EQ(chat(R"(,"tool_choice":"required")").tool_choice, ToolChoice::kRequired);
  EXPECT_EQ(chat(R"(,"tool_choice":"required")").tool_name, "");
  EXPECT_FALSE(chat(R"(,"parallel_tool_calls":false)").parallel_tool_calls);
  // As at OpenAI, a tool that is named is called once.
  const Chat named = chat(
      R"(,"parallel_tool_calls":true,"tool_choice":{"type":"function","function":{"name":"now"}})");
  EXPECT_EQ(named.tool_choice, ToolChoice::kRequired);
  EXPECT_EQ(named.tool_name, "now");
  EXPECT_FALSE(named.parallel_tool_calls);
  EXPECT_TRUE(named.tools[0].strict);
  EXPECT_FALSE(named.tools[1].strict);
}

TEST(ChatTools, OnlyAllowedToolsAreShown) {
  const auto chat = [](const std::string& mode, const std::string& names) {
    return Messages(kAsk, fmt::format(R"(,"tools":[{},{{"function":{{"name":"now"}}}},
        {{"function":{{"name":"then"}}}}],"tool_choice":{{"type":"allowed_tools",
        "allowed_tools":{{"mode":"{}","tools":[{}]}}}})",
                                      kTool, mode, names));
  };
  const auto allowed = [](const std::string& name) {
    return fmt::format(R"({{"type":"function","function":{{"name":"{}"}}}})", name);
  };
  const Chat two = ChatOf(chat("required", allowed("then") + "," + allowed("weather")));
  ASSERT_EQ(two.tools.size(), 2U);
  EXPECT_EQ(two.tools[0].name, "weather");
  EXPECT_EQ(two.tools[1].name, "then");
  EXPECT_EQ(two.tool_choice, ToolChoice::kRequired);
  EXPECT_EQ(two.tool_name, "");
  EXPECT_TRUE(two.parallel_tool_calls);
  const Chat one = ChatOf(chat("auto", allowed("now")));
  ASSERT_EQ(one.tools.size(), 1U);
  EXPECT_EQ(one.tool_choice, ToolChoice::kAuto);

  const std::string at = "tool_choice.allowed_tools";
  for (const auto& [mode, names, field] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {"none", allowed("now"), at + ".mode"},
           {"auto", "", at + ".tools"},
           {"auto", "1", at + ".tools[0]"},
           {"auto", R"({"type":"mcp","server_label":"x"})", at + ".tools[0].type"},
           {"auto", R"({"type":"function","name":"now"})", at + ".tools[0].function"},
           {"auto", allowed(""), at + ".tools[0].function.name"},
           {"auto", allowed("now") + "," + allowed("other"), at + ".tools[1].function.name"}}) {
    EXPECT_EQ(chat(mode, names).status().field(), field) << names;
  }
}

TEST(ChatTools, ABadChoiceIsNamed) {
  const auto status = [](const std::string& choice) {
    return Messages(kAsk, fmt::format(R"(,"tools":[{}],"tool_choice":{})", kTool, choice)).status();
  };
  for (const auto& [choice, field] : std::vector<std::pair<std::string, std::string>>{
           {"1", "tool_choice"},
           {"\"any\"", "tool_choice"},
           {"{}", "tool_choice"},
           {R"({"type":"custom","custom":{"name":"f"}})", "tool_choice"},
           {R"({"type":"function"})", "tool_choice.function"},
           {R"({"type":"function","name":"weather"})", "tool_choice.function"},
           {R"({"type":"function","function":{}})", "tool_choice.function.name"},
           {R"({"type":"function","function":{"name":1}})", "tool_choice.function.name"},
           {R"({"type":"function","function":{"name":"other"}})", "tool_choice.function.name"},
           {R"({"type":"allowed_tools"})", "tool_choice.allowed_tools"},
           {R"({"type":"allowed_tools","allowed_tools":{"mode":"auto"}})",
            "tool_choice.allowed_tools.tools"}}) {
    const Status fault = status(choice);
    EXPECT_EQ(fault.code(), StatusCode::kInvalidArgument) << choice;
    EXPECT_EQ(fault.field(), field) << choice << ": " << fault.message();
  }
  EXPECT_THAT(status("\"any\"").message(), testing::HasSubstr("\"allowed_tools\""));
  EXPECT_EQ(
      status(R"({"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[]}})").message(),
      "'tool_choice.allowed_tools.tools' must be a list of at least one tool, but is an empty "
      "array.");
  // Without tools there is none to be called.
  for (const char* without :
       {R"(,"tool_choice":"auto")", R"(,"tool_choice":"none","tools":[])",
        R"(,"tool_choice":"auto","tools":null,"parallel_tool_calls":false)"}) {
    EXPECT_TRUE(Messages(kAsk, without).ok()) << without;
  }
  EXPECT_EQ(Messages(kAsk, R"(,"tool_choice":"required")").status().field(), "tool_choice");
  EXPECT_EQ(Messages(kAsk, R"(,"tool_choice":{"type":"function","function":{"name":"f"}})")
                .status()
                .field(),
            "tool_choice");
}

TEST(ChatTools, ABadToolIsNamed) {
  const std::string at = "tools[0].function";
  for (const auto& [tool, field] : std::vector<std::pair<std::string, std::string>>{
           {"1", "tools[0]"},
           {"{}", at},
           {R"({"type":"web_search"})", "tools[0].type"},
           {R"({"function":{}})", at + ".name"},
           {R"({"function":{"name":"a b"}})", at + ".name"},
           {R"({"function":{"name":""}})", at + ".name"},
           {R"({"function":{"name":"f","description":1}})", at + ".description"},
           {R"({"function":{"name":"f","parameters":[]}})", at + ".parameters"},
           {R"({"function":{"name":"f","parameters":"{}"}})", at + ".parameters"},
           {R"({"function":{"name":"f","strict":1}})", at + ".strict"},
           {R"({"function":{"name":"f","parameter":{}}})", at + ".parameter"},
           {R"({"function":{"name":"f"}},{"function":{"name":"f"}})", "tools[1].function.name"}}) {
    const Status status =
        Messages(kAsk, R"(,"tool_choice":"none","tools":[)" + tool + "]").status();
    EXPECT_EQ(status.field(), field) << tool << ": " << status.message();
  }
  const auto message = [](const std::string& fields) {
    return Messages(kAsk, "," + fields).status().message();
  };
  const std::string missing = "'tools[0].function.name' is missing.";
  EXPECT_EQ(message(R"("tools":[{"type":"function","function":{}}])"), missing);
  EXPECT_EQ(message(R"("tools":[{"function":{"name":null}}])"), missing);
  // As other APIs have them.
  const std::string flat =
      "'tools[0].function' is missing; 'name', 'description' and 'parameters' of a tool belong "
      "under it";
  EXPECT_EQ(message(R"("tools":[{"type":"function","name":"f","parameters":{}}])"), flat + ".");
  EXPECT_EQ(message(R"("tools":[{"name":"f","input_schema":{}}])"),
            flat + " ('input_schema' as 'parameters').");
  std::string many;
  for (int i = 0; i < 129; ++i) {
    many += fmt::format(R"({}{{"function":{{"name":"f{}"}}}})", i == 0 ? "" : ",", i);
  }
  EXPECT_EQ(Messages(kAsk, R"(,"tool_choice":"none","tools":[)" + many + "]").status().field(),
            "tools");
}

// --- Variables of the chat template.

std::string ArgumentsOf(const std::string& fields) {
  return ChatOf(Messages(kAsk, "," + fields)).template_arguments;
}

TEST(ChatTools, FieldsAreVariablesOfTheTemplate) {
  EXPECT_EQ(ArgumentsOf(R"("chat_template_kwargs":{})"), "");
  EXPECT_EQ(ArgumentsOf(R"("chat_template_kwargs":{"z":{"b":1,"a":null},"a":false})"),
            R"({"z":{"b":1,"a":null},"a":false})");
  EXPECT_EQ(ArgumentsOf(R"("enable_thinking":false)"), R"({"enable_thinking":false})");
  EXPECT_EQ(ArgumentsOf(R"("reasoning_effort":"high")"), R"({"reasoning_effort":"high"})");
  EXPECT_EQ(ArgumentsOf(R"("reasoning_effort":null,"enable_thinking":null)"), "");
  EXPECT_EQ(ArgumentsOf(R"("thinking":{"type":"disabled"})"),
            R"({"thinking":false,"enable_thinking":false})");
  EXPECT_EQ(ArgumentsOf(R"("thinking":true)"), R"({"thinking":true,"enable_thinking":true})");
}

// Comparing each key with all others would take a hundred times as long as is allowed here.
TEST(ChatTools, ManyKeysTakeLinearTime) {
  std::string variables = R"({"x":0)";
  std::string keys;
  for (int i = 0; i < 150'000; ++i) {
    const std::string key = fmt::format(R"(,"key of a long name {}":0)", i);
    variables += key;
    if (i < 50'000) keys += key;
  }
  variables += "}";
  std::string calls;
  for (int i = 0; i < 20'000; ++i) {
    calls += i == 0 ? "" : ",";
    calls += R"({"id":"c","function":{"name":"f","arguments":{"a":1}}})";
  }
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(ArgumentsOf(R"("chat_template_kwargs":)" + variables), variables);
  const StatusOr<OpenAiBody> body =
      Messages(R"({"role":"assistant")" + keys + R"(,"tool_calls":[)" + calls + "]}");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(6));
  const Chat chat = ChatOf(body);
  ASSERT_EQ(chat.messages.size(), 1U);
  ASSERT_EQ(chat.messages[0].tool_calls.size(), 20'000U);
  EXPECT_EQ(chat.messages[0].tool_calls.back().arguments, R"({"a":1})");
}

TEST(ChatTools, NoEffortIsNoThinkingUnlessAFieldSaysSo) {
  EXPECT_EQ(ArgumentsOf(R"("reasoning_effort":"none")"),
            R"({"reasoning_effort":"none","enable_thinking":false})");
  EXPECT_EQ(
      ArgumentsOf(R"("reasoning_effort":"none","chat_template_kwargs":{"enable_thinking":true})"),
      R"({"enable_thinking":true,"reasoning_effort":"none"})");
}

TEST(ChatTools, AVariableHasOneValue) {
  EXPECT_EQ(ArgumentsOf(
                R"("enable_thinking":true,"chat_template_kwargs":{"enable_thinking":true,"x":1})"),
            R"({"enable_thinking":true,"x":1})");
  const Status differ =
      Messages(kAsk, R"(,"enable_thinking":true,"chat_template_kwargs":{"enable_thinking":false})")
          .status();
  EXPECT_EQ(differ.field(), "enable_thinking");
  EXPECT_EQ(differ.message(),
            "'enable_thinking' and 'chat_template_kwargs.enable_thinking' differ; give one of "
            "them.");
  EXPECT_EQ(Messages(kAsk, R"(,"reasoning_effort":"low","chat_template_kwargs":
                              {"reasoning_effort":"high"})")
                .status()
                .field(),
            "reasoning_effort");
  EXPECT_EQ(Messages(kAsk, R"(,"enable_thinking":true,"thinking":false)").status().field(),
            "thinking");
}

TEST(ChatTools, AMessageIsContinued) {
  const auto chat = [](const char* more) {
    return ChatOf(
        Messages(R"({"role":"user","content":"a"},{"role":"assistant","content":"b"})", more));
  };
  const Chat continued = chat(R"(,"continue_final_message":true)");
  EXPECT_TRUE(continued.continue_final_message);
  EXPECT_FALSE(continued.add_generation_prompt);
  EXPECT_TRUE(chat(R"(,"continue_final_message":true,"add_generation_prompt":false)")
                  .continue_final_message);
  EXPECT_FALSE(chat(R"(,"add_generation_prompt":false)").add_generation_prompt);
  EXPECT_FALSE(chat(R"(,"add_generation_prompt":false)").continue_final_message);
}

}  // namespace
}  // namespace ropeway::api
