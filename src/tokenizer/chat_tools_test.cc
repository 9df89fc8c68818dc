// What a chat has besides texts: tools, calls, reasoning, parts, template arguments, a message to
// continue. The forms of real templates are compared in scripts/check_templates.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "tokenizer/chat_template.h"
#include "tokenizer/chat_values.h"
#include "tokenizer/test_templates.h"

namespace ropeway::tokenizer {
namespace {

using testing::HasSubstr;

const ChatMessage kUser = {.role = "user", .content = "Hi"};
const Tool kAdd = {.name = "add",
                   .description = "Adds.",
                   .parameters = R"({"type":"object","properties":{"b":{},"a":{"minimum":0.5}}})"};

ChatMessage Calls(std::vector<ToolCall> calls, const std::string& content = "") {
  return {.role = "assistant", .content = content, .tool_calls = std::move(calls)};
}
ChatMessage AddCall(const std::string& arguments) {
  return Calls({{.id = "call12345", .name = "add", .arguments = arguments}});
}
ChatMessage Parts(const std::string& role, const std::vector<std::string>& parts) {
  ChatMessage message{.role = role, .content = ""};
  for (const std::string& part : parts) {
    if (!message.part_sizes.empty()) message.content += '\n';
    message.content += part;
    message.part_sizes.push_back(part.size());
  }
  return message;
}

TemplateTraits TraitsOf(const std::string& source) {
  const StatusOr<ChatTemplate> parsed = ChatTemplate::Parse(source);
  EXPECT_TRUE(parsed.ok()) << parsed.status().message();
  return parsed.ok() ? parsed->traits() : TemplateTraits();
}

StatusOr<std::string> TryChat(const std::string& source, const Chat& chat) {
  const StatusOr<ChatTemplate> parsed = ChatTemplate::Parse(source);
  if (!parsed.ok()) return parsed.status();
  StatusOr<RenderedChat> rendered = parsed->Render(chat, "<s>", "</s>");
  if (!rendered.ok()) return rendered.status();
  return std::move(rendered->text);
}

std::string TextOf(const std::string& source, const Chat& chat) {
  const StatusOr<std::string> text = TryChat(source, chat);
  return text.ok() ? *text : "FAILED: " + text.status().message();
}

// "field: message" of the failure.
std::string FailureOf(const std::string& source, const Chat& chat) {
  const StatusOr<std::string> text = TryChat(source, chat);
  if (text.ok()) return "rendered: " + *text;
  EXPECT_EQ(text.status().code(), StatusCode::kInvalidArgument);
  return text.status().field() + ": " + text.status().message();
}

TEST(ChatToolsTest, ToolsAreAListOfFunctionsOrNone) {
  EXPECT_EQ(
      TextOf("{{ tools|tojson }}", {.messages = {kUser}, .tools = {kAdd}}),
      R"([{"type": "function", "function": {"name": "add", "description": "Adds.", )"
      R"("parameters": {"type": "object", "properties": {"b": {}, "a": {"minimum": 0.5}}}}}])");
  // No description and no parameters are left out.
  EXPECT_EQ(TextOf("{{ tools|tojson }}", {.messages = {kUser}, .tools = {{.name = "f"}}}),
            R"([{"type": "function", "function": {"name": "f"}}])");
  EXPECT_EQ(TextOf("{{ tools is none }}", {.messages = {kUser}}), "True");
}

// 2^63 is more than the interpreter's integers hold.
TEST(ChatToolsTest, ParametersKeepTheOrderOfKeysAndTheirValues) {
  const Tool tool = {.name = "f",
                     .parameters = R"({"z":1,"a":[true,null,-2,2.0,1e100,9223372036854775808],)"
                                   R"("":"é\n\u0000","z":{"k":"v"}})"};
  EXPECT_EQ(
      TextOf("{{ tools[0].function.parameters|tojson }}", {.messages = {kUser}, .tools = {tool}}),
      R"({"z": {"k": "v"}, "a": [true, null, -2, 2.0, 1e+100, 9.223372036854776e+18], )"
      R"("": "é\n\u0000"})");
}

TEST(ChatToolsTest, CallsHaveTheirArgumentsAsAnObject) {
  const std::string source = "{% for m in messages if m.tool_calls %}{{ m|tojson }}{% endfor %}";
  EXPECT_EQ(
      TextOf(source,
             {.messages = {kUser, Calls({{.id = "1", .name = "f", .arguments = R"({"a":1})"},
                                         {.id = "", .name = "g", .arguments = ""}},
                                        "Now.")}}),
      R"({"role": "assistant", "content": "Now.", "tool_calls": [{"id": "1", "type": "function", )"
      R"("function": {"name": "f", "arguments": {"a": 1}}}, {"type": "function", )"
      R"("function": {"name": "g", "arguments": {}}}]})");
  // Messages without calls have no such key.
  EXPECT_EQ(TextOf("{{ messages[0].tool_calls is defined }}", {.messages = {kUser}}), "False");
}

TEST(ChatToolsTest, TemplatesThatJoinArgumentsWithTextGetText) {
  const std::string joins =
      "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.name + '=' + "
      "c.function.arguments + ';' }}{% endfor %}{% endfor %}";
  EXPECT_FALSE(TraitsOf(joins).object_arguments);
  EXPECT_EQ(TextOf(joins, {.messages = {kUser, AddCall(R"({"a":1, "b": "x"})"), AddCall("")}}),
            R"(add={"a":1, "b": "x"};add={};)");
  // One that would write a dictionary as Python does.
  const std::string writes =
      "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.arguments }}"
      "{% endfor %}{% endfor %}";
  EXPECT_FALSE(TraitsOf(writes).object_arguments);
  EXPECT_EQ(TextOf(writes, {.messages = {AddCall(R"({"a":1})")}}), R"({"a":1})");
  // Those that take both get objects, and so do those that take neither.
  for (const char* both : {kHermesTools, "{% for m in messages %}{{ m.content }}{% endfor %}"}) {
    EXPECT_TRUE(TraitsOf(both).object_arguments);
  }
}

// The parts of a chat that a stopped rendering has not come to are not read any more.
TEST(ChatToolsTest, AStoppedRenderingReadsNoMore) {
  std::string keys = "{\"k\":0";
  for (int i = 0; i < 20'000; ++i) keys += ",\"k" + std::to_string(i) + "\":0";
  keys += "}";
  Tool tool = kAdd;
  tool.parameters = keys;
  ChatMessage calls = AddCall(keys);
  calls.tool_calls.push_back(calls.tool_calls[0]);
  for (const Chat& chat :
       {Chat{.messages = {calls}, .tools = {tool, tool}, .template_arguments = keys},
        Chat{.messages = {kUser}, .tools = {tool, tool}, .template_arguments = keys},
        Chat{.messages = {kUser}, .template_arguments = keys}}) {
    int asked = 0;
    const auto stopped = [&asked](size_t) {
      ++asked;
      return true;
    };
    const auto values = MakeChatValues(chat, TemplateTraits(), "", "", stopped);
    EXPECT_EQ(values.status().code(), StatusCode::kCancelled);
    EXPECT_EQ(asked, 1);
  }
  // Nor those behind a fault.
  int asked = 0;
  const auto stopped = [&asked](size_t) { return ++asked > 0; };
  const auto values = MakeChatValues({.messages = {AddCall("no")}, .tools = {tool}},
                                     TemplateTraits(), "", "", stopped);
  EXPECT_EQ(values.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(asked, 0);
}

TEST(ChatToolsTest, ContentIsNoneWhereElseCallsWouldBeLost) {
  EXPECT_TRUE(TraitsOf(kDeepSeekTools).none_content);
  EXPECT_EQ(TextOf(kDeepSeekTools, {.messages = {kUser, AddCall(R"({"a":1})")}}),
            "<s><|user|>Hi<|call|>function<|sep|>add\n```json\n{\"a\":1}\n```<|end|>"
            "<|assistant|><think>\n");
  for (const char* source : {kHermesTools, kLlama3Tools, kMistralTools}) {
    EXPECT_FALSE(TraitsOf(source).none_content);
    EXPECT_TRUE(TraitsOf(source).reads_tool_calls);
  }
  // "None" would be a part of the text.
  EXPECT_THAT(
      TextOf(kHermesTools, {.messages = {kUser, AddCall("{}")}}),
      HasSubstr("assistant\n<tool_call>{\"name\": \"add\", \"arguments\": {}}</tool_call>"));
}

TEST(ChatToolsTest, TemplatesSayWhetherTheyShowTools) {
  EXPECT_TRUE(TraitsOf(kHermesTools).reads_tools);
  EXPECT_TRUE(TraitsOf(kLlama3Tools).reads_tools);
  EXPECT_TRUE(TraitsOf(kMistralTools).reads_tools);
  EXPECT_FALSE(TraitsOf(kDeepSeekTools).reads_tools);
  EXPECT_FALSE(TraitsOf("{% if tools %}You have tools.{% endif %}").reads_tools);
  EXPECT_TRUE(TraitsOf("{% if messages[0].role == 'system' %}{{ tools }}{% endif %}").reads_tools);
}

TEST(ChatToolsTest, ATemplateThatNeedsADescriptionGetsOne) {
  const std::string needs =
      "{% for t in tools or [] %}{{ t.function.name + t.function.description }}"
      "{{ t.function.parameters.properties|length }}{% endfor %}";
  EXPECT_TRUE(TraitsOf(needs).whole_tools);
  EXPECT_EQ(TextOf(needs, {.messages = {kUser}, .tools = {{.name = "f"}, kAdd}}), "f0addAdds.2");
  EXPECT_FALSE(TraitsOf(kHermesTools).whole_tools);
}

TEST(ChatToolsTest, ReasoningIsWhereTheTemplateLooksForIt) {
  ChatMessage answer = {.role = "assistant", .content = "4", .reasoning_content = "2+2"};
  for (const std::string key : {"reasoning_content", "reasoning", "thinking"}) {
    const std::string source = "{% for m in messages %}{{ m.role }}:{% if m." + key + " %}<" +
                               "{{ m." + key + " }}>{% endif %}{{ m.content }}{% endfor %}";
    EXPECT_EQ(TraitsOf(source).reasoning_key, key);
    EXPECT_EQ(TextOf(source, {.messages = {kUser, answer}}), "user:Hiassistant:<2+2>4");
    EXPECT_EQ(TextOf("{{ messages[0]." + key + " is defined }}", {.messages = {kUser}}), "False");
  }
  // As gpt-oss: only with a call.
  EXPECT_EQ(TraitsOf("{% for m in messages %}{% if m.tool_calls %}{{ m.thinking }}{% endif %}"
                     "{% endfor %}")
                .reasoning_key,
            "thinking");
  EXPECT_EQ(TraitsOf("{{ reasoning }}").reasoning_key, "reasoning_content");
}

constexpr const char* kOnlyParts =
    "{% for m in messages %}<{{ m.role }}>{% for p in m.content %}{% if p.type == 'text' %}"
    "[{{ p.text }}]{% endif %}{% endfor %}{% endfor %}";
constexpr const char* kTextOrParts =
    "{% for m in messages %}<{{ m.role }}>{% if m.content is string %}{{ m.content }}"
    "{% else %}{% for p in m.content %}[{{ p.text }}]{% endfor %}{% endif %}{% endfor %}";
constexpr const char* kOnlyText =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}";

TEST(ChatToolsTest, PartsAreGivenAsTheTemplateTakesThem) {
  const Chat chat = {.messages = {{"system", "Be\nbrief"}, Parts("user", {"a", "", "b\nc"})}};
  EXPECT_EQ(TextOf(kOnlyParts, chat), "<system>[Be\nbrief]<user>[a][][b\nc]");
  EXPECT_EQ(TextOf(kTextOrParts, chat), "<system>Be\nbrief<user>[a][][b\nc]");
  EXPECT_EQ(TextOf(kOnlyText, chat), "<system>Be\nbrief<user>a\n\nb\nc");
  // JSON of a list is not the text that the model knows.
  EXPECT_EQ(TraitsOf("{{ messages[0].content|tojson }}").user, ContentForm::kText);
  // Sizes that are not the content's are none.
  for (const auto& sizes : std::vector<std::vector<size_t>>{{9}, {0}, {1, 1}, {SIZE_MAX, 1}}) {
    EXPECT_EQ(TextOf(kTextOrParts,
                     {.messages = {{.role = "user", .content = "abcd", .part_sizes = sizes}}}),
              "<user>abcd");
  }
}

// As Llama 3.2 Vision's: lists of the user alone.
TEST(ChatToolsTest, PartsAreAskedAboutForEachRole) {
  const std::string source =
      "{% for m in messages %}{% if m.role == 'user' and m.content is not string %}"
      "{% for p in m.content %}[{{ p.text }}]{% endfor %}{% else %}{{ m.content|trim }}{% endif %}"
      "{% endfor %}";
  const TemplateTraits traits = TraitsOf(source);
  EXPECT_EQ(traits.user, ContentForm::kTextOrParts);
  EXPECT_EQ(traits.FormOf("developer"), ContentForm::kText);
  EXPECT_EQ(traits.assistant, ContentForm::kText);
  EXPECT_EQ(traits.tool, ContentForm::kText);
  EXPECT_EQ(TextOf(source, {.messages = {Parts("system", {"a", "b"}), Parts("user", {"c", "d"})}}),
            "a\nb[c][d]");
}

TEST(ChatToolsTest, JsonThatIsNoObjectIsRejectedWithItsField) {
  const std::string source = "{{ messages|length }}";
  const auto call = [&](const std::string& arguments) {
    return FailureOf(source, {.messages = {kUser, kUser, kUser, AddCall(arguments)}});
  };
  const std::string field = "messages[3].tool_calls[0].function.arguments";
  EXPECT_EQ(call("[1]"), field + ": " + field + " must be a JSON object, got array");
  EXPECT_EQ(call("\"x\""), field + ": " + field + " must be a JSON object, got string");
  EXPECT_THAT(call("{\"a\":"), HasSubstr(field + ": " + field + " is not valid JSON at byte 6"));
  EXPECT_THAT(call("{\"a\":NaN}"), HasSubstr("is not valid JSON"));
  std::string deep = "1";
  for (int i = 0; i < 63; ++i) deep = "{\"a\":" + deep + "}";
  EXPECT_EQ(call(deep), "rendered: 4");
  EXPECT_EQ(call("{\"a\":{\"a\":" + deep + "}}"),
            field + ": " + field + " is nested deeper than 64 levels");
  const auto tool = [&](const std::string& parameters) {
    return FailureOf(
        source, {.messages = {kUser}, .tools = {kAdd, {.name = "f", .parameters = parameters}}});
  };
  EXPECT_EQ(tool("true"),
            "tools[1].function.parameters: tools[1].function.parameters must be a JSON object, got "
            "boolean");
  EXPECT_THAT(tool("x"), HasSubstr("tools[1].function.parameters is not valid JSON"));
  // Also where the template takes text, or no tools at all.
  EXPECT_THAT(FailureOf(kDeepSeekTools, {.messages = {kUser, AddCall("x")}}),
              HasSubstr("messages[1].tool_calls[0].function.arguments is not valid JSON"));
}

TEST(ChatToolsTest, TemplateArgumentsAreVariables) {
  EXPECT_EQ(
      TextOf("{{ a }}{{ b.c[0] + 1 }}{{ d is none }}{{ e is defined }}",
             {.messages = {kUser}, .template_arguments = R"({"a":"x","b":{"c":[2]},"d":null})"}),
      "x3TrueFalse");
  const Chat chat = {.messages = {kUser}, .template_arguments = R"({"enable_thinking": false})"};
  EXPECT_THAT(TextOf(kHermesTools, chat), testing::EndsWith("<think>\n\n</think>\n\n"));
  // The template's own assignments hide them.
  EXPECT_EQ(
      TextOf("{% set a = 1 %}{{ a }}", {.messages = {kUser}, .template_arguments = R"({"a": 2})"}),
      "1");
}

TEST(ChatToolsTest, TemplateArgumentsSetNothingOfTheTemplatesOwn) {
  for (const std::string name :
       {"messages", "tools", "documents", "bos_token", "eos_token", "add_generation_prompt",
        "continue_final_message", "raise_exception", "strftime_now", "namespace", "range", "dict",
        "lipsum", "cycler", "joiner"}) {
    EXPECT_EQ(FailureOf("x", {.messages = {kUser}, .template_arguments = "{\"" + name + "\": 1}"}),
              "chat_template_kwargs: chat_template_kwargs must not set '" + name +
                  "', which every chat template has of its own");
  }
  EXPECT_EQ(FailureOf("x", {.messages = {kUser}, .template_arguments = "[]"}),
            "chat_template_kwargs: chat_template_kwargs must be a JSON object, got array");
  EXPECT_THAT(FailureOf("x", {.messages = {kUser}, .template_arguments = "{"}),
              HasSubstr("chat_template_kwargs is not valid JSON"));
}

std::string Continued(const std::string& source, std::vector<ChatMessage> messages) {
  return TextOf(source, {.messages = std::move(messages),
                         .add_generation_prompt = false,
                         .continue_final_message = true});
}

TEST(ChatToolsTest, AFinalMessageIsContinued) {
  EXPECT_EQ(Continued(kHermesTools, {kUser, {"assistant", "It is"}}),
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nIt is");
  EXPECT_EQ(Continued(kHermesTools, {{"user", "It is"}}), "<|im_start|>user\nIt is");
  // White space at the end stays where the template shows it.
  EXPECT_EQ(Continued(kOnlyText, {kUser, {"assistant", " It is "}}), "<user>Hi<assistant> It is ");
  const std::string trims =
      "{% for m in messages %}<{{ m.role }}>{{ m.content|trim }}<end>{% endfor %}";
  EXPECT_EQ(Continued(trims, {kUser, {"assistant", " It is\n\xE3\x80\x80"}}),
            "<user>Hi<end><assistant>It is");
  // The template's own text may look the same, and come later.
  EXPECT_EQ(Continued(trims, {kUser, {"assistant", "end"}}), "<user>Hi<end><assistant>end");
  EXPECT_EQ(Continued(trims, {{"user", "a"}, {"assistant", "a"}}), "<user>a<end><assistant>a");
  // The last part.
  EXPECT_EQ(Continued(kOnlyParts, {kUser, Parts("assistant", {"It", "is"})}),
            "<user>[Hi]<assistant>[It][is");
  EXPECT_EQ(Continued(trims, {kUser, Parts("assistant", {"It", "is"})}),
            "<user>Hi<end><assistant>It\nis");
}

TEST(ChatToolsTest, WhatIsQuotedIsCutWithTheText) {
  const StatusOr<ChatTemplate> parsed =
      ChatTemplate::Parse("{% for m in messages %}<{{ m.content }}> {% endfor %}");
  ASSERT_TRUE(parsed.ok());
  const StatusOr<RenderedChat> chat =
      parsed->Render({.messages = {{"user", "ab"}, {"assistant", "cd "}},
                      .add_generation_prompt = false,
                      .continue_final_message = true},
                     "", "");
  ASSERT_TRUE(chat.ok());
  EXPECT_EQ(chat->text, "<ab> <cd ");
  EXPECT_EQ(chat->quoted, (Spans{{1, 3}, {6, 9}}));
}

TEST(ChatToolsTest, AFinalMessageThatIsNotShownCannotBeContinued) {
  const Chat chat = {.messages = {kUser, {"assistant", "It is"}},
                     .add_generation_prompt = false,
                     .continue_final_message = true};
  const std::string not_shown =
      "continue_final_message: continue_final_message needs a last message whose content the "
      "model's chat template shows unchanged";
  EXPECT_EQ(FailureOf("{{ messages[0].content }}", chat), not_shown);
  EXPECT_EQ(FailureOf("{% for m in messages %}{{ m.content|upper }}{% endfor %}", chat), not_shown);
  // That the template writes the same is not enough.
  EXPECT_EQ(FailureOf("It is", chat), not_shown);
  for (const std::vector<ChatMessage>& messages :
       {std::vector<ChatMessage>{}, {kUser, {"assistant", " \n"}}, {kUser, AddCall("{}")}}) {
    EXPECT_THAT(FailureOf(kOnlyText, {.messages = messages,
                                      .add_generation_prompt = false,
                                      .continue_final_message = true}),
                HasSubstr("continue_final_message: continue_final_message needs a last message"));
  }
}

// A template that rejects or exhausts every trial is parsed all the same, and soon.
TEST(ChatToolsTest, HostileTemplatesAreParsed) {
  const std::string names = "{# tools tool_calls reasoning_content reasoning thinking #}";
  for (const std::string body :
       {"{{ raise_exception('no') }}", "{{ missing.x }}",
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{{ 'x' * 100000000 }}", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% set t = 'a' * 100000 %}{% for a in range(99999) %}{{ t|upper|length }}{% endfor %}"}) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(TraitsOf(names + body), TemplateTraits()) << body;
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20)) << body;
  }
}

// Tools and calls give room as messages do.
TEST(ChatToolsTest, ManyToolsAndCallsFitTheBounds) {
  Chat chat = {.messages = {kUser}};
  std::string properties;
  for (int i = 0; i < 40; ++i) {
    properties += (i > 0 ? "," : "") + ("\"p" + std::to_string(i)) +
                  R"(":{"type":"string","description":"What it is.","enum":["a","b","c"]})";
  }
  for (int i = 0; i < 128; ++i) {
    chat.tools.push_back({.name = "f" + std::to_string(i),
                          .description = "Does it.",
                          .parameters = R"({"type":"object","properties":{)" + properties + "}}"});
  }
  for (int i = 0; i < 300; ++i) chat.messages.push_back(AddCall(R"({"a":1,"b":[1,2,3]})"));
  const std::string text = TextOf(kHermesTools, chat);
  EXPECT_THAT(text.substr(0, 60), HasSubstr("<tools>"));
  // As Qwen3-Coder's: a step for each property and each of its values.
  EXPECT_EQ(TextOf("{% for t in tools %}{% for name, p in t.function.parameters.properties|items %}"
                   "{% for key, value in p.items() %}{% if key == 'enum' %}{% for e in value %}"
                   "{% endfor %}{% endif %}{% endfor %}{% endfor %}{% endfor %}done",
                   chat),
            "done");
}

}  // namespace
}  // namespace ropeway::tokenizer
