// The answer to POST /v1/messages: whole, and as a stream.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/dialects.h"
#include "api/test_responses.h"

namespace ropeway::api::anthropic {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// An answer to "Hi", which has these members too, as "msg_1".
std::unique_ptr<ApiFormat> Started(const std::string& members = "") {
  std::unique_ptr<ApiFormat> format = MakeAnthropicMessages();
  const Status status = format->Parse(
      R"({"max_tokens":9,"messages":[{"role":"user","content":"Hi"}])" + members + "}", {});
  EXPECT_TRUE(status.ok()) << status.message();
  AnswerHead head;
  head.id = "1";
  head.model = "m\"";
  format->Start(std::move(head));
  return format;
}

// Without Ropeway's own block.
json WholeOf(const ApiFormat& format, const ChoiceOutput& output) {
  json answer = json::parse(format.Whole({output}));
  EXPECT_TRUE(answer.contains("ropeway"));
  answer.erase("ropeway");
  return answer;
}

ChoiceOutput SaidAll() {
  ChoiceOutput output;
  output.text = "Gr\xC3\xBC\xC3\x9F \"dich\"";
  output.finish = EndedBy(FinishReason::kStop);
  return output;
}

// What Anthropic's server answers, except for the numbers.
TEST(AnthropicAnswer, AText) {
  EXPECT_EQ(WholeOf(*Started(), SaidAll()), json::parse(R"({
      "id":"msg_1","type":"message","role":"assistant","model":"m\"",
      "content":[{"type":"text","text":"Grüß \"dich\""}],
      "stop_reason":"end_turn","stop_sequence":null,
      "usage":{"input_tokens":1,"cache_creation_input_tokens":0,"cache_read_input_tokens":2,
               "output_tokens":9,"output_tokens_details":{"thinking_tokens":4},
               "service_tier":"standard"}})"));
}

TEST(AnthropicAnswer, ThoughtsAndCallsAreBlocks) {
  ChoiceOutput output = SaidAll();
  output.reasoning = "hm";
  output.tool_calls = {{"call_1", "f", R"({"z": 1, "a": 2})"}, {"call_2", "g", ""}};
  json answer = WholeOf(*Started(), output);
  EXPECT_EQ(answer["content"], json::parse(R"([{"type":"thinking","thinking":"hm","signature":""},
      {"type":"text","text":"Grüß \"dich\""},
      {"type":"tool_use","id":"call_1","name":"f","input":{"z":1,"a":2}},
      {"type":"tool_use","id":"call_2","name":"g","input":{}}])"));
  output.tool_calls.pop_back();
  EXPECT_EQ(WholeOf(*Started(), output)["stop_reason"], "tool_use");
  EXPECT_THAT(Started()->Whole({output}), HasSubstr(R"("input":{"z": 1, "a": 2})"))
      << "its keys keep their order";
  const auto omits = Started(R"(,"thinking":{"type":"enabled","display":"omitted"})");
  EXPECT_EQ(WholeOf(*omits, output)["content"][0],
            json::parse(R"({"type":"thinking","thinking":"","signature":""})"));
}

TEST(AnthropicAnswer, PartsKeepTheirOrder) {
  ChoiceOutput output;
  for (const Delta& delta : {Says("a"), Calls(0, "c", "f", "{}"), Says("", "t"), Says("b")}) {
    AddTo(delta, &output);
  }
  std::vector<std::string> kinds;
  const json answer = WholeOf(*Started(), output);
  for (const json& block : answer["content"]) kinds.push_back(block["type"]);
  EXPECT_THAT(kinds, testing::ElementsAre("text", "tool_use", "thinking", "text"));
}

TEST(AnthropicAnswer, NothingSaidIsNoBlock) {
  ChoiceOutput output = SaidAll();
  output.text.clear();
  EXPECT_EQ(WholeOf(*Started(), output)["content"], json::array());
}

// As at Anthropic: the prompt is computed, for the cache.
TEST(AnthropicAnswer, WithoutTokensNothingIsSaid) {
  const auto start = [] {
    auto format = MakeAnthropicMessages();
    const Status status = format->Parse(
        R"({"max_tokens":0,"stop_sequences":["a"],"messages":[{"role":"user","content":"Hi"}]})",
        {});
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(format->request()->request.max_tokens, 1);
    format->Start({.id = "1", .model = "m"});
    return format;
  };
  ChoiceOutput output = SaidAll();
  output.finish.stop = 0;
  const json answer = WholeOf(*start(), output);
  EXPECT_EQ(answer["content"], json::array());
  EXPECT_EQ(answer["stop_reason"], "max_tokens");
  EXPECT_EQ(answer["usage"]["output_tokens"], 0);
  const auto format = start();
  const std::vector<json> events =
      TypedEvents(StreamOf(format.get(), {Says("a")}, EndedBy(FinishReason::kStop)));
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[2]["delta"]["stop_reason"], "max_tokens");
}

TEST(AnthropicAnswer, StopReasons) {
  const auto stop = [](const Finish& finish, const std::string& calls = "") {
    const auto format = Started(R"(,"stop_sequences":["a","\n"])");
    ChoiceOutput output = SaidAll();
    output.finish = finish;
    if (!calls.empty()) output.tool_calls = {{"c", "f", calls}};
    const json answer = WholeOf(*format, output);
    return answer["stop_reason"].get<std::string>() + " " + answer["stop_sequence"].dump();
  };
  Finish finish = EndedBy(FinishReason::kStop);
  EXPECT_EQ(stop(finish), "end_turn null");
  EXPECT_EQ(stop(finish, "{}"), "tool_use null");
  EXPECT_EQ(stop(finish, "{\"a"), "end_turn null");
  finish.stop = 1;
  EXPECT_EQ(stop(finish), R"(stop_sequence "\n")");
  finish = EndedBy(FinishReason::kLength);
  EXPECT_EQ(stop(finish), "max_tokens null");
  finish.max_tokens = 5;
  EXPECT_EQ(stop(finish), "model_context_window_exceeded null");
  finish.cut_by = kTokensPerMinute;
  EXPECT_EQ(stop(finish), "max_tokens null");
}

// A client that shows the call to the model again has an object.
TEST(AnthropicAnswer, ACallThatWasCutHasAnInput) {
  ChoiceOutput output = SaidAll();
  output.finish = EndedBy(FinishReason::kLength);
  output.tool_calls = {{"c", "f", "{\"a"}};
  const json answer = WholeOf(*Started(), output);
  EXPECT_EQ(answer["content"][1]["input"], json::parse(R"({"INVALID_JSON":"{\"a"})"));
  EXPECT_EQ(answer["stop_reason"], "max_tokens");
}

// The events of Anthropic's documentation, in their order.
TEST(AnthropicStream, ThoughtsTextAndCalls) {
  const auto format = Started(R"(,"stream":true)");
  format->OnAdmitted(3);
  const std::vector<json> events = TypedEvents(StreamOf(
      format.get(),
      {Says("", "h"), Says("", "m"), Says("a"), Says(""), Says("b"), Calls(0, "call_1", "f", ""),
       Calls(0, "", "", "{\"x\":"), Calls(0, "", "", "1}"), Calls(1, "call_2", "g", "{}")},
      EndedBy(FinishReason::kStop)));
  const json expected = json::parse(R"([
    {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant",
      "model":"m\"","content":[],"stop_reason":null,"stop_sequence":null,
      "usage":{"input_tokens":3,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,
               "output_tokens":0,"service_tier":"standard"}}},
    {"type":"ping"},
    {"type":"content_block_start","index":0,
     "content_block":{"type":"thinking","thinking":"","signature":""}},
    {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"h"}},
    {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"m"}},
    {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":""}},
    {"type":"content_block_stop","index":0},
    {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}},
    {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"a"}},
    {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"b"}},
    {"type":"content_block_stop","index":1},
    {"type":"content_block_start","index":2,
     "content_block":{"type":"tool_use","id":"call_1","name":"f","input":{}}},
    {"type":"content_block_delta","index":2,
     "delta":{"type":"input_json_delta","partial_json":"{\"x\":"}},
    {"type":"content_block_delta","index":2,
     "delta":{"type":"input_json_delta","partial_json":"1}"}},
    {"type":"content_block_stop","index":2},
    {"type":"content_block_start","index":3,
     "content_block":{"type":"tool_use","id":"call_2","name":"g","input":{}}},
    {"type":"content_block_delta","index":3,
     "delta":{"type":"input_json_delta","partial_json":"{}"}},
    {"type":"content_block_stop","index":3},
    {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},
     "usage":{"input_tokens":1,"cache_creation_input_tokens":0,"cache_read_input_tokens":2,
              "output_tokens":9,"output_tokens_details":{"thinking_tokens":4}}},
    {"type":"message_stop"}])");
  ASSERT_EQ(events.size(), expected.size());
  for (size_t i = 0; i < events.size(); ++i) {
    json event = events[i];
    event.erase("ropeway");
    EXPECT_EQ(event, expected[i]) << i;
  }
}

TEST(AnthropicStream, ThoughtsMayBeOmitted) {
  const auto format = Started(R"(,"thinking":{"type":"enabled","display":"omitted"})");
  const std::string stream =
      StreamOf(format.get(), {Says("", "secret"), Says("a")}, EndedBy(FinishReason::kStop));
  EXPECT_THAT(stream, testing::Not(HasSubstr("secret")));
  EXPECT_THAT(stream, HasSubstr(R"("content_block":{"type":"thinking")"));
}

TEST(AnthropicStream, AStopSequenceAndAnEmptyAnswer) {
  const auto format = Started(R"(,"stop_sequences":["."])");
  Finish finish = EndedBy(FinishReason::kStop);
  finish.stop = 0;
  const std::vector<json> events = TypedEvents(StreamOf(format.get(), {Says("")}, finish));
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[2]["delta"],
            json::parse(R"({"stop_reason":"stop_sequence","stop_sequence":"."})"));
}

TEST(AnthropicStream, PingsKeepItOpen) {
  EXPECT_EQ(TypedEvents(Started()->KeepAlive())[0], json::parse(R"({"type":"ping"})"));
}

TEST(AnthropicError, HasAnthropicsShapeAndTypes) {
  const auto format = MakeAnthropicMessages();
  const auto body = [&](int status) {
    return json::parse(format->ErrorBody({status, "It is so.", "x", "", ""}));
  };
  EXPECT_EQ(body(400), json::parse(R"({"type":"error","request_id":null,
      "error":{"type":"invalid_request_error","message":"It is so."}})"));
  for (const auto& [status, type] :
       std::vector<std::pair<int, std::string>>{{401, "authentication_error"},
                                                {403, "permission_error"},
                                                {404, "not_found_error"},
                                                {405, "invalid_request_error"},
                                                {408, "timeout_error"},
                                                {409, "conflict_error"},
                                                {413, "request_too_large"},
                                                {429, "rate_limit_error"},
                                                {500, "api_error"},
                                                {503, "overloaded_error"}}) {
    EXPECT_EQ(body(status)["error"]["type"], type);
  }
  const std::string event =
      format->StreamError({503, "It stops.", "x", "", "unavailable", "my-\"id"});
  EXPECT_EQ(event,
            R"(event: error)"
            "\n"
            R"(data: {"type":"error","error":{"type":"overloaded_error","message":"It stops.",)"
            R"("details":{"error_code":"unavailable"}},"request_id":"my-\"id"})"
            "\n\n");
}

// Its client then sends the whole conversation.
TEST(AnthropicError, AThreadIsNotKept) {
  const auto format = MakeAnthropicMessages();
  const Status status = format->Parse(
      R"({"max_tokens":1,"messages":[{"role":"user","content":"a"}],"thread":{"type":"create"}})",
      {});
  EXPECT_EQ(status.field(), "thread");
  const json error = json::parse(format->ErrorBody(ToApiError(status)));
  EXPECT_EQ(error["error"]["details"]["error_code"], "thread_unsupported_request");
}

// An engine's errors name the fields of chats.
TEST(AnthropicError, NamesItsOwnFields) {
  const auto message = [](const std::string& text, const std::string& param,
                          const std::string& code = "") {
    const json error = json::parse(
        MakeAnthropicMessages()->ErrorBody({400, text, "invalid_request_error", param, code}));
    return error["error"]["message"].get<std::string>();
  };
  EXPECT_EQ(message("'tools[1].function.parameters' has no type.", "tools[1].function.parameters"),
            "'tools[1].input_schema' has no type.");
  EXPECT_EQ(message("the prompt has 9 tokens", "prompt", "context_length_exceeded"),
            "prompt is too long: the prompt has 9 tokens");
}

TEST(AnthropicCount, IsTheInput) {
  const auto format = MakeAnthropicCount();
  ChoiceOutput counted;
  counted.finish.usage.prompt_tokens = 17;
  EXPECT_EQ(format->Whole({counted}), R"({"input_tokens":17})");
}

}  // namespace
}  // namespace ropeway::api::anthropic
