// The body of POST /v1/responses.
#include "api/responses_request.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "api/dialects.h"
#include "api/test_request_bodies.h"

namespace ropeway::api {
namespace {

using nlohmann::json;
using testing::HasSubstr;

struct Read {
  Status status;
  std::unique_ptr<ApiFormat> format;
  const ResponsesBody& body() const { return static_cast<ResponsesBody&>(*format->request()); }
  const Chat& chat() const { return std::get<Chat>(body().prompts.at(0)); }
  ItemFormat* items() const { return static_cast<ItemFormat*>(format.get()); }
};

Read ReadBody(const std::string& body, const BodyLimits& limits = {}) {
  Read read{.status = {}, .format = MakeOpenAiResponses()};
  // As a server leaves it: the defaults are its own.
  read.format->request()->request.sampling.given = SamplingParams::kNoneGiven;
  read.status = read.format->Parse(body, limits);
  return read;
}
Read With(const std::string& members) { return ReadBody(R"({"input":"Hi")" + members + "}"); }
Read WithInput(const std::string& input) { return ReadBody("{\"input\":" + input + "}"); }

// What the whole answer repeats.
json AnswerOf(const Read& read) {
  AnswerHead head;
  head.id = "1";
  read.format->Start(std::move(head));
  ChoiceOutput output;
  output.text = "a";
  return json::parse(read.format->Whole({output}));
}

std::string Shown(const ChatMessage& message) {
  std::string shown = message.role + ":" + message.content;
  if (!message.reasoning_content.empty()) shown += " thought:" + message.reasoning_content;
  for (const ToolCall& call : message.tool_calls) {
    shown += fmt::format(" {}={}({})", call.id, call.name, call.arguments);
  }
  if (!message.tool_call_id.empty()) shown += " to:" + message.tool_call_id;
  return shown;
}
std::vector<std::string> Shown(const Chat& chat) {
  std::vector<std::string> all;
  for (const ChatMessage& message : chat.messages) all.push_back(Shown(message));
  return all;
}

using List = std::vector<std::string>;

TEST(ResponsesRequest, ATextIsAUsersMessage) {
  const Read read = With(R"(,"instructions":"Be brief.","model":"m","max_output_tokens":5,
      "temperature":0.5,"seed":7,"top_k":3,"min_p":0.1,"priority":"low","stream":true)");
  ASSERT_TRUE(read.status.ok()) << read.status.message();
  EXPECT_EQ(Shown(read.chat()), (List{"system:Be brief.", "user:Hi"}));
  const Request& request = read.body().request;
  EXPECT_EQ(request.model, "m");
  EXPECT_EQ(request.max_tokens, 5);
  EXPECT_EQ(request.sampling.temperature, 0.5F);
  EXPECT_EQ(request.sampling.seed, 7U);
  EXPECT_EQ(request.sampling.top_k, 3);
  EXPECT_EQ(request.sampling.min_p, 0.1F);
  EXPECT_EQ(read.body().priority, Priority::kLow);
  EXPECT_TRUE(read.body().stream);
  EXPECT_EQ(read.body().choices(), 1U);
  EXPECT_FALSE(read.body().keeping.store.has_value());
  EXPECT_TRUE(read.body().keeping.stores_unasked);
  EXPECT_TRUE(read.chat().add_generation_prompt);
}

// What an assistant thought, said and called together is one message, so that the chat is rendered
// as it was when it was generated.
TEST(ResponsesRequest, ItemsAreMessages) {
  const Read read = WithInput(R"([
      {"role":"developer","content":"d"},
      {"type":"message","role":"user","content":[{"type":"input_text","text":"a"},
                                                 {"type":"input_text","text":"b"}],"status":null},
      {"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"s"}],
       "content":[{"type":"reasoning_text","text":"hm"}],"encrypted_content":null,"status":"completed"},
      {"type":"message","id":"msg_1","role":"assistant","status":"completed","phase":null,
       "content":[{"type":"output_text","text":"c","annotations":[],"logprobs":[]}]},
      {"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":"{\"x\": 1}",
       "status":"completed","namespace":null,"caller":null},
      {"type":"function_call","call_id":"c2","name":"g","arguments":"{"},
      {"type":"function_call_output","call_id":"c2","output":"2"},
      {"type":"function_call_output","call_id":"c1","output":[{"type":"input_text","text":"1"}]},
      {"type":"reasoning","summary":[{"type":"summary_text","text":"so"}]},
      {"role":"assistant","content":"e"},
      {"role":"assistant","content":"f"},
      {"role":"user","content":"g"}])");
  ASSERT_TRUE(read.status.ok()) << read.status.message();
  EXPECT_EQ(
      Shown(read.chat()),
      (List{"system:d", "user:a\nb",
            R"(assistant:c thought:hm c1=f({"x": 1}) c2=g({"INVALID_JSON":"{"}))", "tool:2 to:c2",
            "tool:1 to:c1", "assistant:e thought:so", "assistant:f", "user:g"}));
  EXPECT_EQ(read.chat().messages[1].part_sizes, (std::vector<size_t>{1, 1}));
  EXPECT_TRUE(read.body().ignored.empty()) << read.body().ignored[0];
}

TEST(ResponsesRequest, ABadItemIsNamed) {
  for (const auto& [input, field] : std::vector<std::pair<std::string, std::string>>{
           {"1", "input"},
           {"\"\"", "input"},
           {"[]", "input"},
           {"null", "input"},
           {"[1]", "input[0]"},
           {"[{}]", "input[0].type"},
           {R"([{"type":"item_reference","id":"msg_1"}])", "input[0].type"},
           {R"([{"type":"web_search_call","id":"ws_1"}])", "input[0].type"},
           {R"([{"type":1,"role":"user","content":"a"}])", "input[0].type"},
           {R"([{"role":"user","content":"a"},{"role":"tool","content":"a"}])", "input[1].role"},
           {R"([{"role":"user"}])", "input[0].content"},
           {R"([{"role":"user","content":["a"]}])", "input[0].content[0]"},
           {R"([{"role":"user","content":[{"type":"input_text"}]}])", "input[0].content[0].text"},
           {R"([{"role":"user","content":[{"type":"input_image","image_url":"x"}]}])",
            "input[0].content[0].type"},
           {R"([{"role":"user","content":"a","status":"odd"}])", "input[0].status"},
           {R"([{"role":"user","content":"a","id":1}])", "input[0].id"},
           {R"([{"role":"user","content":"a","contents":"b"}])", "input[0].contents"},
           {R"([{"role":"user","content":"a","id":"x"},{"role":"user","content":"b","id":"x"}])",
            "input[1].id"},
           {R"([{"type":"reasoning","summary":1}])", "input[0].summary"},
           {R"([{"type":"reasoning","content":[{"type":"summary_text","text":"a"}]}])",
            "input[0].content[0].type"},
           {R"([{"type":"function_call","name":"f","arguments":"{}"}])", "input[0].call_id"},
           {R"([{"type":"function_call","call_id":"c","arguments":"{}"}])", "input[0].name"},
           {R"([{"type":"function_call","call_id":"c","name":"f","arguments":{}}])",
            "input[0].arguments"},
           {R"([{"type":"function_call_output","call_id":"c","output":"a"}])", "input[0].call_id"},
           {R"([{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},
                {"type":"function_call_output","call_id":"c","output":1}])",
            "input[1].output"}}) {
    const Status status = WithInput(input).status;
    EXPECT_EQ(status.field(), field) << input << ": " << status.message();
    EXPECT_FALSE(status.message().empty());
  }
  EXPECT_EQ(ReadBody("{}").status.message(), "'input' is required.");
  EXPECT_EQ(WithInput(R"([{"type":"item_reference","id":"a"}])").status.message(),
            "'input[0].type' supports only \"message\", \"reasoning\", \"function_call\" and "
            "\"function_call_output\".");
  EXPECT_EQ(
      WithInput(R"([{"type":"function_call_output","call_id":"c","output":"a"}])").status.message(),
      "'input[0].call_id' is 'c', but no item before it is a function_call with this id.");
}

TEST(ResponsesRequest, ABadFieldIsNamed) {
  for (
      const auto& [members, field] : std::vector<std::pair<std::string, std::string>>{
          {R"("include":"a")", "include"},
          {R"("include":["reasoning.encrypted_content","odd"])", "include[1]"},
          {R"("truncation":"auto")", "truncation"},
          {R"("truncation":1)", "truncation"},
          {R"("top_logprobs":2)", "top_logprobs"},
          {R"("top_logprobs":21)", "top_logprobs"},
          {R"("max_output_tokens":0)", "max_output_tokens"},
          {R"("metadata":[])", "metadata"},
          {R"("metadata":{"a":1})", "metadata.a"},
          {R"("reasoning":"low")", "reasoning"},
          {R"("reasoning":{"effort":1})", "reasoning.effort"},
          {R"("text":1)", "text"},
          {R"("text":{"format":{"type":"odd"}})", "text.format.type"},
          {R"("text":{"format":{"type":"json_schema","name":"a"}})", "text.format.schema"},
          {R"("text":{"format":{"type":"json_schema","schema":{},"schemas":1}})",
           "text.format.schemas"},
          {R"("text":{"verbosity":1})", "text.verbosity"},
          {R"("tools":[{"type":"web_search"}])", "tools[0].type"},
          {R"("tools":[{"type":"function"}])", "tools[0].name"},
          {R"("tools":[{"type":"function","function":{"name":"f"}}])", "tools[0].name"},
          {R"("tools":[{"type":"function","name":"f g"}])", "tools[0].name"},
          {R"("tools":[{"type":"function","name":"f"},{"type":"function","name":"f"}])",
           "tools[1].name"},
          {R"("tools":[{"type":"function","name":"f","parameter":{}}])", "tools[0].parameter"},
          {R"("tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"function"})",
           "tool_choice.name"},
          {R"("tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"function","name":"g"})",
           "tool_choice.name"},
          {R"("tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"allowed_tools",
               "mode":"auto","tools":[{"type":"function","name":"g"}]})",
           "tool_choice.tools[0].name"},
          {R"("tool_choice":"required")", "tool_choice"},
          {R"("store":1)", "store"},
          {R"("previous_response_id":1)", "previous_response_id"},
          {R"("conversation":{})", "conversation"},
          {R"("stream_options":{})", "stream_options"},
          {R"("n":2)", "n"},
          {R"("messages":[])", "messages"},
          {R"("response_format":{"type":"text"})", "response_format"},
          {R"("prompt":{"id":"p"})", "prompt"},
          {R"("instruction":"a")", "instruction"}}) {
    const Status status = With("," + members).status;
    EXPECT_EQ(status.field(), field) << members << ": " << status.message();
  }
  EXPECT_EQ(With(R"(,"messages":[])").status.message(),
            "'messages' is not supported; use 'input'.");
  EXPECT_THAT(With(R"(,"tools":[{"type":"function","name":"f g"}])").status.message(),
              testing::StartsWith("tools[0].name must be"));
  json many;
  for (int i = 0; i < 17; ++i) many[std::to_string(i)] = "";
  EXPECT_EQ(With(",\"metadata\":" + many.dump()).status.field(), "metadata");
  const auto metadata = [](size_t key, size_t value) {
    std::string wide;
    for (size_t i = 0; i < value; ++i) wide += "\xC3\xA9";
    return With(",\"metadata\":" + json{{std::string(key, 'k'), wide}}.dump()).status.ok();
  };
  EXPECT_TRUE(metadata(64, 512)) << "characters, not bytes";
  EXPECT_FALSE(metadata(65, 1));
  EXPECT_FALSE(metadata(1, 513));
}

TEST(ResponsesRequest, WhatClientsSendWithoutEffectIsTaken) {
  const Read read = With(R"(,"include":["reasoning.encrypted_content"],"truncation":"disabled",
      "text":{"format":{"type":"text"},"verbosity":"low"},"user":"u","safety_identifier":"s",
      "prompt_cache_key":"k","reasoning":{"effort":"low","summary":"auto"},"service_tier":"auto",
      "max_tool_calls":3,"stream":true,"stream_options":{"include_obfuscation":false},
      "top_logprobs":0,"prompt_cache_retention":"24h","store":false)");
  ASSERT_TRUE(read.status.ok()) << read.status.message();
  EXPECT_TRUE(read.body().ignored.empty());
  EXPECT_FALSE(read.body().request.logprobs.has_value());
  EXPECT_EQ(read.chat().template_arguments, R"({"reasoning_effort":"low"})");
  EXPECT_EQ(read.body().keeping.store, false);
  EXPECT_EQ(With(R"(,"include":["message.output_text.logprobs"])").body().request.logprobs, 0);
  EXPECT_EQ(With(R"(,"include":["message.output_text.logprobs"],"top_logprobs":4)")
                .body()
                .request.logprobs,
            4);
}

TEST(ResponsesRequest, ToolsAreFlat) {
  constexpr char kTools[] = R"(,"tools":[{"type":"function","name":"f","description":"d",
      "parameters":{"type":"object","properties":{"z":{},"a":{}}},"strict":true},
      {"type":"function","name":"g","parameters":null,"strict":null}])";
  const Read read = With(std::string(kTools) + R"(,"parallel_tool_calls":false)");
  ASSERT_TRUE(read.status.ok()) << read.status.message();
  ASSERT_EQ(read.chat().tools.size(), 2U);
  EXPECT_EQ(read.chat().tools[0].parameters, R"({"type":"object","properties":{"z":{},"a":{}}})");
  EXPECT_TRUE(read.chat().tools[0].strict);
  EXPECT_EQ(read.chat().tools[1].name, "g");
  EXPECT_FALSE(read.chat().parallel_tool_calls);
  const Read named = With(std::string(kTools) + R"(,"tool_choice":{"type":"function","name":"g"})");
  EXPECT_EQ(named.chat().tool_choice, ToolChoice::kRequired);
  EXPECT_EQ(named.chat().tool_name, "g");
  const Read allowed = With(std::string(kTools) + R"(,"tool_choice":{"type":"allowed_tools",
      "mode":"required","tools":[{"type":"function","name":"g"}]})");
  ASSERT_TRUE(allowed.status.ok()) << allowed.status.message();
  EXPECT_EQ(allowed.chat().tool_choice, ToolChoice::kRequired);
  EXPECT_EQ(allowed.chat().tools.size(), 1U);
  // The answer repeats all of them.
  const json answer = AnswerOf(allowed);
  EXPECT_EQ(answer["tools"], json::parse(R"([{"type":"function","name":"f","description":"d",
      "parameters":{"type":"object","properties":{"z":{},"a":{}}},"strict":true},
      {"type":"function","name":"g","description":null,"parameters":null,"strict":false}])"));
  EXPECT_EQ(answer["tool_choice"]["mode"], "required");
}

TEST(ResponsesRequest, TheFormOfTheTextIsRead) {
  const Read schema = With(R"(,"text":{"format":{"type":"json_schema","name":"n","strict":true,
      "schema":{"type":"object","properties":{"z":{},"a":{}}}}})");
  ASSERT_TRUE(schema.status.ok()) << schema.status.message();
  EXPECT_EQ(schema.body().request.format.kind, OutputFormat::Kind::kJsonSchema);
  EXPECT_EQ(schema.body().request.format.schema,
            R"({"type":"object","properties":{"z":{},"a":{}}})");
  EXPECT_EQ(schema.body().request.format.field, "text.format.schema");
  EXPECT_EQ(AnswerOf(schema)["text"]["format"]["name"], "n");
  const Read object = With(R"(,"text":{"format":{"type":"json_object"}})");
  EXPECT_EQ(object.body().request.format.kind, OutputFormat::Kind::kJsonObject);
  const Status twice =
      With(R"(,"text":{"format":{"type":"json_object"}},"guided_regex":"a")").status;
  EXPECT_THAT(twice.message(), HasSubstr("cannot be used together"));
}

TEST(ResponsesRequest, TheAnswerRepeatsWhatWasAsked) {
  const json answer = AnswerOf(With(R"(,"instructions":"\u00e9","max_output_tokens":9,
      "temperature":0.7,"metadata":{"a":"b"},"reasoning":{"effort":"low","summary":"auto"})"));
  EXPECT_EQ(answer["instructions"], "\xC3\xA9");
  EXPECT_EQ(answer["max_output_tokens"], 9);
  EXPECT_EQ(answer["temperature"], 0.7);
  EXPECT_EQ(answer["metadata"], json::parse(R"({"a":"b"})"));
  EXPECT_EQ(answer["reasoning"], json::parse(R"({"effort":"low","summary":"auto"})"));
  const json plain = AnswerOf(With(""));
  for (const char* name : {"instructions", "max_output_tokens", "temperature", "top_p",
                           "previous_response_id", "conversation", "error", "incomplete_details"}) {
    EXPECT_TRUE(plain.contains(name) && plain[name].is_null()) << name;
  }
  EXPECT_EQ(plain["background"], false);
  EXPECT_EQ(plain["store"], false);
  EXPECT_EQ(plain["parallel_tool_calls"], true);
  EXPECT_EQ(plain["text"], json::parse(R"({"format":{"type":"text"}})"));
  EXPECT_EQ(plain["tool_choice"], "auto");
  EXPECT_EQ(plain["tools"], json::array());
  EXPECT_EQ(plain["truncation"], "disabled");
  EXPECT_EQ(plain["metadata"], json::object());
}

TEST(ResponsesRequest, WhatItGoesOnFromIsRead) {
  EXPECT_EQ(ReadBody(R"({"previous_response_id":"resp_1"})").body().keeping.previous, "resp_1");
  EXPECT_EQ(With(R"(,"conversation":"conv_1")").body().keeping.conversation, "conv_1");
  EXPECT_EQ(With(R"(,"conversation":{"id":"conv_2"})").body().keeping.conversation, "conv_2");
  const Read kept = With(R"(,"store":true,"background":true)");
  EXPECT_EQ(kept.body().keeping.store, true);
  EXPECT_TRUE(kept.body().keeping.background);
  // It may answer a call of what it goes on from.
  const Read answers = ReadBody(R"({"previous_response_id":"resp_1",
      "input":[{"type":"function_call_output","call_id":"c","output":"a"}]})");
  EXPECT_TRUE(answers.status.ok()) << answers.status.message();
  const Status missing = answers.items()->Continue({R"({"id":"m","role":"user","content":"a"})"});
  EXPECT_EQ(missing.field(), "input[0].call_id");
}

// By items that were kept, or sent again by hand: the model sees the same.
TEST(ResponsesRequest, AChainIsTheSameChatAsItsItems) {
  Read first = ReadBody(R"({"instructions":"Not carried over.","store":true,"input":[
      {"role":"developer","content":"d"},{"role":"user","content":[
        {"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]}],
      "tools":[{"type":"function","name":"f"}]})");
  ASSERT_TRUE(first.status.ok());
  AnswerHead head;
  head.id = "abc";
  head.stored = true;
  first.format->Start(head);
  ChoiceOutput output;
  output.reasoning = "hm";
  output.text = "So";
  output.tool_calls = {{"c1", "f", "{}"}, {"c2", "f", "{\"x\""}};
  List items = first.items()->InputItems();
  for (const std::string& item : first.items()->OutputItems(output)) items.push_back(item);
  std::string by_hand;
  for (const std::string& item : items) by_hand += item + ",";
  constexpr char kMore[] = R"({"type":"function_call_output","call_id":"c1","output":"1"},
      {"type":"function_call_output","call_id":"c2","output":"2"},{"role":"user","content":"e"})";
  const std::string same = R"(,"instructions":"i","tools":[{"type":"function","name":"f"}]})";
  const Read sent = ReadBody("{\"input\":[" + by_hand + kMore + "]" + same);
  ASSERT_TRUE(sent.status.ok()) << sent.status.message();
  const Read chained = ReadBody("{\"previous_response_id\":\"resp_abc\",\"input\":[" +
                                std::string(kMore) + "]" + same);
  ASSERT_TRUE(chained.status.ok()) << chained.status.message();
  const Status status = chained.items()->Continue(items);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(Shown(chained.chat()), Shown(sent.chat()));
  EXPECT_EQ(Shown(chained.chat()),
            (List{"system:i", "system:d", "user:a\nb",
                  R"(assistant:So thought:hm c1=f({}) c2=f({"INVALID_JSON":"{\"x\""}))",
                  "tool:1 to:c1", "tool:2 to:c2", "user:e"}));
  EXPECT_EQ(chained.chat().messages[2].part_sizes, sent.chat().messages[2].part_sizes);
  EXPECT_EQ(chained.chat().tools.size(), 1U);
  for (const ChatMessage& message : chained.chat().messages) {
    EXPECT_EQ(message.part_sizes.empty(), message.content != "a\nb") << "one text stays one";
  }
}

TEST(ResponsesRequest, ErrorsSayWhatWasExpected) {
  json many;
  for (int i = 0; i < 17; ++i) many["k" + std::to_string(i)] = "v";
  EXPECT_EQ(With(",\"metadata\":" + many.dump()).status.message(),
            "'metadata' must be an object of at most 16 strings, but has 17.");
  for (const char* length : {"0", "-2"}) {
    EXPECT_EQ(With(std::string(",\"max_output_tokens\":") + length).status.message(),
              std::string("'max_output_tokens' must be an integer from 1 to 2147483647, but is ") +
                  length + ".");
  }
  EXPECT_EQ(With(R"(,"conversation_id":"conv_1")").status.message(),
            "'conversation_id' is not supported; use 'conversation'.");
  EXPECT_EQ(With(R"(,"previous_response":"resp_1")").status.message(),
            "'previous_response' is not supported; use 'previous_response_id'.");
}

TEST(ResponsesRequest, AnOutputWhoseCallIsGoneIsLeftOutOfTheHistory) {
  const List history = {
      R"({"id":"a","role":"user","content":"a"})",
      R"({"id":"b","type":"function_call_output","call_id":"gone","output":"1"})"};
  Read read = ReadBody(R"({"conversation":"conv_1","input":"c"})");
  const Status status = read.items()->Continue(history);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(Shown(read.chat()), (List{"user:a", "user:c"}));
  Read own = ReadBody(R"({"conversation":"conv_1","input":[
      {"type":"function_call_output","call_id":"gone","output":"1"}]})");
  ASSERT_TRUE(own.status.ok()) << own.status.message();
  EXPECT_EQ(own.items()->Continue(history).field(), "input[0].call_id");
}

TEST(ResponsesRequest, ItemsAreShownWithIds) {
  Read read = ReadBody(R"({"store":true,"conversation":"conv_1","input":[
      {"role":"user","content":"a","id":"mine"},{"role":"assistant","content":"b","id":"old"},
      {"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"t"}]},
      {"type":"function_call","call_id":"c","name":"f","arguments":"{ }"},
      {"type":"function_call_output","call_id":"c","output":"o"}]})");
  ASSERT_TRUE(read.status.ok()) << read.status.message();
  ASSERT_TRUE(read.items()->Continue({R"({"id":"old","role":"user","content":"z"})"}).ok());
  EXPECT_EQ(Shown(read.chat())[0], "user:z");
  AnswerHead head;
  head.id = "1";
  read.format->Start(head);
  json shown = json::array();
  for (const std::string& item : read.items()->InputItems()) shown.push_back(json::parse(item));
  EXPECT_EQ(shown, json::parse(R"([
      {"id":"mine","type":"message","status":"completed","role":"user",
       "content":[{"type":"input_text","text":"a"}]},
      {"id":"msg_1_in1","type":"message","status":"completed","role":"assistant",
       "content":[{"type":"output_text","text":"b","annotations":[]}]},
      {"id":"rs_1_in2","type":"reasoning","status":"completed","summary":[],
       "content":[{"type":"reasoning_text","text":"t"}]},
      {"id":"fc_1_in3","type":"function_call","status":"completed","call_id":"c","name":"f",
       "arguments":"{ }"},
      {"id":"fco_1_in4","type":"function_call_output","status":"completed","call_id":"c",
       "output":"o"}])"));
  // An answer that is not stored keeps none.
  Read plain = With("");
  plain.format->Start(head);
  EXPECT_TRUE(plain.items()->InputItems().empty());
}

TEST(ResponsesRequest, AnythingAnywhereIsRejectedByName) {
  const json good = json::parse(R"({"model":"m","instructions":"i","input":[
      {"role":"user","content":[{"type":"input_text","text":"a"}],"id":"1"},
      {"type":"reasoning","id":"2","summary":[{"type":"summary_text","text":"s"}],
       "content":[{"type":"reasoning_text","text":"t"}]},
      {"type":"function_call","call_id":"c","name":"f","arguments":"{}"},
      {"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"o"}]}],
      "max_output_tokens":4,"include":["message.output_text.logprobs"],"top_logprobs":1,
      "text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object"},"strict":true}},
      "tools":[{"type":"function","name":"f","parameters":{"type":"object"},"strict":true}],
      "tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"f"}]},
      "reasoning":{"effort":"low"},"metadata":{"a":"b"},"conversation":{"id":"c"},"store":true,
      "truncation":"disabled","stream":true,"stream_options":{"include_usage":true},"seed":1})");
  ASSERT_TRUE(ReadBody(good.dump()).status.ok()) << ReadBody(good.dump()).status.message();
  const json values =
      json::parse(R"([null,true,0,-1,1e300,"","x",[],{},[[]],[{}],{"a":{}},[null],["a",["b"]]])");
  int rejected = 0;
  const json flat = good.flatten();
  for (const auto& [path, unused] : flat.items()) {
    for (json::json_pointer at(path); !at.empty(); at = at.parent_pointer()) {
      for (const json& value : values) {
        json changed = good;
        changed[at] = value;
        const Read read = ReadBody(changed.dump());
        if (read.status.ok()) continue;
        ++rejected;
        EXPECT_FALSE(read.status.field().empty()) << changed.dump();
      }
    }
  }
  EXPECT_GT(rejected, 300);
}

TEST(ResponsesRequest, NestingIsBounded) {
  const std::string deep = std::string(40, '[') + std::string(40, ']');
  EXPECT_EQ(WithInput(deep).status.code(), StatusCode::kInvalidArgument);
  BodyLimits strict;
  strict.reject_unknown = true;
  EXPECT_EQ(ReadBody(R"({"input":"a","odd_one":1})", strict).status.field(), "odd_one");
  EXPECT_EQ(With(R"(,"odd_one":1)").body().ignored, List{"odd_one"});
}

}  // namespace
}  // namespace ropeway::api
