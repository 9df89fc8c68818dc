// Ollama's answers: whole ones and lines of streams.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "api/dialects.h"
#include "api/ollama_answer.h"
#include "api/test_responses.h"

namespace ropeway::api {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::unique_ptr<ApiFormat> StartedAs(ApiFormatMaker make, const std::string& body) {
  std::unique_ptr<ApiFormat> format = make();
  const Status status = format->Parse(body, {});
  EXPECT_TRUE(status.ok()) << status.message();
  AnswerHead head;
  head.id = "1";
  head.model = "m";
  format->Start(std::move(head));
  return format;
}
std::unique_ptr<ApiFormat> StartedChat(const std::string& members = "") {
  return StartedAs(MakeOllamaChat,
                   R"({"messages":[{"role":"user","content":"Hi"}])" + members + "}");
}
std::unique_ptr<ApiFormat> StartedText(const std::string& members = "") {
  return StartedAs(MakeOllamaGenerate, R"({"prompt":"Hi")" + members + "}");
}

// With "created_at" checked and cut out.
json Timeless(const std::string& line) {
  json object = json::parse(line);
  EXPECT_THAT(object["created_at"].get<std::string>(),
              testing::MatchesRegex("20..-..-..T..:..:..\\..........Z"));
  object.erase("created_at");
  return object;
}

std::vector<json> LinesOf(const std::string& stream) {
  EXPECT_TRUE(stream.empty() || stream.back() == '\n');
  std::vector<json> lines;
  std::istringstream in(stream);
  for (std::string line; std::getline(in, line);) lines.push_back(Timeless(line));
  return lines;
}

Finish TimedEnd(FinishReason reason) {
  using std::chrono::milliseconds;
  Finish finish = EndedBy(reason);
  finish.times.queue = milliseconds(1);
  finish.times.prefill = milliseconds(20);
  finish.times.decode = milliseconds(300);
  finish.times.output = milliseconds(4000);
  return finish;
}

json EndMembersOf(const char* reason) {
  return {{"done", true},
          {"done_reason", reason},
          {"total_duration", 4'321'000'000},
          {"load_duration", 1'000'000},
          {"prompt_eval_count", 3},
          {"prompt_eval_duration", 20'000'000},
          {"eval_count", 9},
          {"eval_duration", 4'300'000'000}};
}

json Joined(json object, const json& members) {
  object.update(members);
  return object;
}

TEST(OllamaFormat, AWholeChat) {
  ChoiceOutput output;
  output.text = "Hello\n\xF0\x9F\x8C\x8A";
  output.reasoning = "Hm.";
  output.finish = TimedEnd(FinishReason::kStop);
  const std::string answer = StartedChat(R"(,"stream":false)")->Whole({output});
  EXPECT_EQ(
      Timeless(answer),
      Joined({{"model", "m"},
              {"message", {{"role", "assistant"}, {"content", output.text}, {"thinking", "Hm."}}}},
             EndMembersOf("stop")));
  EXPECT_EQ(answer.find('\n'), answer.npos);
  output.finish.reason = FinishReason::kLength;
  EXPECT_EQ(json::parse(StartedChat()->Whole({output}))["done_reason"], "length");
}

TEST(OllamaFormat, AWholeText) {
  ChoiceOutput output;
  output.text = "Hello";
  output.finish = TimedEnd(FinishReason::kStop);
  EXPECT_EQ(Timeless(StartedText()->Whole({output})),
            Joined({{"model", "m"}, {"response", "Hello"}}, EndMembersOf("stop")));
  output.reasoning = "Hm.";
  EXPECT_EQ(json::parse(StartedText()->Whole({output}))["thinking"], "Hm.");
}

TEST(OllamaFormat, WhatAsksForNoOutputIsAnsweredAtOnce) {
  EXPECT_EQ(Timeless(StartedAs(MakeOllamaChat, "{}")->Whole({})),
            json::parse(R"({"model":"m","message":{"role":"assistant","content":""},
                            "done":true,"done_reason":"load"})"));
  EXPECT_EQ(Timeless(StartedAs(MakeOllamaGenerate, "{}")->Whole({})),
            json::parse(R"({"model":"m","response":"","done":true,"done_reason":"load"})"));
}

TEST(OllamaFormat, AStreamedChat) {
  const auto format = StartedChat();
  EXPECT_EQ(format->stream_content_type(), "application/x-ndjson");
  EXPECT_EQ(format->KeepAlive(), "") << "clients read every line as JSON";
  const std::string stream =
      StreamOf(format.get(), {Says("", "Hm."), Says(""), Says("He"), Says("llo")},
               TimedEnd(FinishReason::kLength));
  const auto line = [](const json& said) {
    return json{{"model", "m"},
                {"message", Joined({{"role", "assistant"}, {"content", ""}}, said)},
                {"done", false}};
  };
  EXPECT_EQ(LinesOf(stream),
            (std::vector<json>{line({{"thinking", "Hm."}}), line({{"content", "He"}}),
                               line({{"content", "llo"}}),
                               Joined(line(json::object()), EndMembersOf("length"))}));
}

TEST(OllamaFormat, AStreamedText) {
  const std::string stream =
      StreamOf(StartedText().get(), {Says("", "Hm."), Says("He")}, TimedEnd(FinishReason::kStop));
  EXPECT_EQ(
      LinesOf(stream),
      (std::vector<json>{{{"model", "m"}, {"response", ""}, {"thinking", "Hm."}, {"done", false}},
                         {{"model", "m"}, {"response", "He"}, {"done", false}},
                         Joined({{"model", "m"}, {"response", ""}}, EndMembersOf("stop"))}));
}

json CallJson(int index, const char* id, const char* name, const json& arguments) {
  return {{"id", id}, {"function", {{"index", index}, {"name", name}, {"arguments", arguments}}}};
}

// As soon as it is complete, and not before.
TEST(OllamaFormat, ACallIsStreamedWhole) {
  const auto format = StartedChat();
  EXPECT_EQ(format->OnDelta(0, Calls(0, "c0", "weather", "{\n \"city\"")), "");
  const std::string line = format->OnDelta(0, Calls(0, "", "", ":\"Be}rn\"}"));
  ASSERT_EQ(LinesOf(line).size(), 1U);
  EXPECT_EQ(LinesOf(line)[0]["message"]["tool_calls"],
            json::array({CallJson(0, "c0", "weather", {{"city", "Be}rn"}})}));
  EXPECT_EQ(LinesOf(line)[0]["message"]["content"], "");
  // One without arguments is over when the next one begins, or the answer ends.
  EXPECT_EQ(format->OnDelta(0, Calls(1, "c1", "now", "")), "");
  const std::string next = format->OnDelta(0, Calls(2, "c2", "then", ""));
  EXPECT_EQ(LinesOf(next).at(0)["message"]["tool_calls"],
            json::array({CallJson(1, "c1", "now", json::object())}));
  const std::vector<json> end = LinesOf(format->OnEnd(0, EndedBy(FinishReason::kStop)));
  ASSERT_EQ(end.size(), 2U);
  EXPECT_EQ(end[0]["message"]["tool_calls"],
            json::array({CallJson(2, "c2", "then", json::object())}));
  EXPECT_EQ(end[0]["done"], false);
  EXPECT_EQ(end[1]["done_reason"], "stop");
}

TEST(OllamaFormat, SeveralCallsOfOneDelta) {
  const auto format = StartedChat();
  Delta delta = Says("");
  delta.tool_calls = {{0, "a", "f", R"({"x":1})"}, {1, "b", "g", R"({"y":)"}};
  const std::vector<json> first = LinesOf(format->OnDelta(0, delta));
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0]["message"]["tool_calls"], json::array({CallJson(0, "a", "f", {{"x", 1}})}));
  EXPECT_EQ(LinesOf(format->OnDelta(0, Calls(1, "", "", "2}"))).at(0)["message"]["tool_calls"],
            json::array({CallJson(1, "b", "g", {{"y", 2}})}));
}

TEST(OllamaFormat, ACallThatWasCutIsLeftOut) {
  const auto format = StartedChat();
  EXPECT_EQ(format->OnDelta(0, Calls(0, "a", "f", R"({"x":)")), "");
  EXPECT_EQ(LinesOf(format->OnEnd(0, EndedBy(FinishReason::kLength))).size(), 1U);
  ChoiceOutput output;
  output.tool_calls = {{"a", "f", R"({"x":1})"}, {"b", "g", R"({"y":)"}};
  output.finish = EndedBy(FinishReason::kLength);
  EXPECT_EQ(json::parse(StartedChat()->Whole({output}))["message"]["tool_calls"],
            json::array({CallJson(0, "a", "f", {{"x", 1}})}));
  // One that the model itself wrote so is shown.
  output.finish.reason = FinishReason::kStop;
  EXPECT_EQ(json::parse(StartedChat()->Whole({output}))["message"]["tool_calls"][1],
            CallJson(1, "b", "g", {{"INVALID_JSON", R"({"y":)"}}));
}

// Their order and their numbers stay as the model wrote them.
TEST(OllamaFormat, ArgumentsKeepTheirOrder) {
  ChoiceOutput output;
  output.tool_calls = {{"a", "f", "{\"z\": 1,\n\"a\": 2}"}};
  const std::string whole = StartedChat()->Whole({output});
  EXPECT_THAT(whole, HasSubstr(R"("arguments":{"z":1,"a":2})"));
}

TEST(OllamaFormat, Logprobs) {
  const auto format = StartedChat(R"(,"logprobs":true,"top_logprobs":1)");
  Delta delta = Says("a");
  delta.tokens[0].top_logprobs = {{5, -0.5F}};
  delta.tokens[0].top_bytes = {"b"};
  const std::vector<json> lines = LinesOf(format->OnDelta(0, delta) + format->OnDelta(0, Says("")));
  ASSERT_EQ(lines.size(), 2U) << "a token without text has a line, too";
  EXPECT_EQ(lines[0]["logprobs"], json::parse(R"([{"token":"a","logprob":-1.0,"bytes":[97],
      "top_logprobs":[{"token":"b","logprob":-0.5,"bytes":[98]}]}])"));
  EXPECT_EQ(lines[1]["logprobs"], json::parse(R"([{"token":"","logprob":-1.0,"bytes":[]}])"));
  ChoiceOutput output;
  output.tokens = delta.tokens;
  EXPECT_EQ(json::parse(format->Whole({output}))["logprobs"].size(), 1U);
  EXPECT_FALSE(json::parse(StartedChat()->Whole({output})).contains("logprobs"));
}

TEST(OllamaFormat, ErrorsAreTexts) {
  const ApiError error{400, "It is \"wrong\".", "invalid_request_error", "messages", ""};
  const json shown = {{"error", "It is \"wrong\"."}};
  EXPECT_EQ(json::parse(MakeOllamaChat()->ErrorBody(error)), shown);
  const std::string line = StartedChat()->StreamError(error);
  EXPECT_EQ(json::parse(line), shown);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
}

TEST(OllamaFormat, TimesAreOfUtc) {
  using std::chrono::nanoseconds;
  using std::chrono::system_clock;
  const system_clock::time_point epoch;
  EXPECT_EQ(OllamaTime(epoch + nanoseconds(1'700'000'000'000'000'042)),
            "2023-11-14T22:13:20.000000042Z");
  EXPECT_EQ(OllamaTime(epoch), "1970-01-01T00:00:00.000000000Z");
}

}  // namespace
}  // namespace ropeway::api
