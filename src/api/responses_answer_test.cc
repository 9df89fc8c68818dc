// Whole answers to POST /v1/responses.
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "api/test_responses.h"

namespace ropeway::api {
namespace {

using nlohmann::json;

json WholeOf(const ChoiceOutput& output, const std::string& members = "") {
  return json::parse(StartedResponse(members)->Whole({output}));
}

TEST(ResponsesAnswer, ATextIsAMessage) {
  ChoiceOutput output;
  output.text = "So \"it\" is.";
  output.finish = EndedBy(FinishReason::kStop);
  const json answer = WholeOf(output, R"(,"service_tier":"flex")");
  EXPECT_EQ(answer["id"], "resp_1");
  EXPECT_EQ(answer["object"], "response");
  EXPECT_EQ(answer["created_at"], 5);
  EXPECT_EQ(answer["model"], "m");
  EXPECT_EQ(answer["status"], "completed");
  EXPECT_EQ(answer["service_tier"], "default");
  EXPECT_TRUE(answer["error"].is_null());
  EXPECT_TRUE(answer["incomplete_details"].is_null());
  EXPECT_EQ(answer["output"], json::parse(R"([{"id":"msg_1","type":"message","status":"completed",
      "role":"assistant","content":[{"type":"output_text","text":"So \"it\" is.","annotations":[],
      "logprobs":[]}]}])"));
  EXPECT_EQ(answer["usage"], json::parse(R"({"input_tokens":3,
      "input_tokens_details":{"cached_tokens":2,"cache_write_tokens":1},"output_tokens":9,
      "output_tokens_details":{"reasoning_tokens":4},"total_tokens":12})"));
  EXPECT_EQ(answer["ropeway"]["seed"], 7);
}

TEST(ResponsesAnswer, ThoughtsAndCallsAreItems) {
  ChoiceOutput output;
  output.reasoning = "hm";
  output.text = "So";
  output.tool_calls = {{"c1", "f", "{}"}, {"c2", "g", "{\"a\":1}"}};
  output.finish = EndedBy(FinishReason::kStop);
  json answer = WholeOf(output);
  EXPECT_EQ(answer["output"][0], json::parse(R"({"id":"rs_1","type":"reasoning",
      "status":"completed","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]})"));
  EXPECT_EQ(answer["output"][1]["id"], "msg_1");
  EXPECT_EQ(answer["output"][2], json::parse(R"({"id":"fc_1_0","type":"function_call",
      "status":"completed","call_id":"c1","name":"f","arguments":"{}"})"));
  EXPECT_EQ(answer["output"][3]["id"], "fc_1_1");
  // As it was said, where that is known.
  output.parts = {{SaidPart::Kind::kCall},
                  {SaidPart::Kind::kText, 1},
                  {SaidPart::Kind::kCall},
                  {SaidPart::Kind::kThought, 2},
                  {SaidPart::Kind::kText, 1}};
  answer = WholeOf(output);
  std::vector<std::string> ids;
  for (const json& item : answer["output"]) ids.push_back(item["id"]);
  EXPECT_EQ(ids, (std::vector<std::string>{"fc_1_0", "msg_1", "fc_1_1", "rs_1", "msg_1_1"}));
  EXPECT_EQ(answer["output"][1]["content"][0]["text"], "S");
  EXPECT_EQ(answer["output"][4]["content"][0]["text"], "o");
}

TEST(ResponsesAnswer, ACutAnswerIsIncomplete) {
  ChoiceOutput output;
  output.reasoning = "hm";
  output.text = "So";
  output.finish = EndedBy(FinishReason::kLength);
  json answer = WholeOf(output);
  EXPECT_EQ(answer["status"], "incomplete");
  EXPECT_EQ(answer["incomplete_details"], json::parse(R"({"reason":"max_output_tokens"})"));
  EXPECT_EQ(answer["output"][0]["status"], "completed");
  EXPECT_EQ(answer["output"][1]["status"], "incomplete");
  // A client would act on it.
  output.tool_calls = {{"c1", "f", "{}"}, {"c2", "g", "{\"a\""}};
  output.finish = EndedBy(FinishReason::kStop);
  answer = WholeOf(output);
  EXPECT_EQ(answer["status"], "completed");
  EXPECT_EQ(answer["output"][2]["status"], "completed");
  EXPECT_EQ(answer["output"][3]["status"], "incomplete");
}

TEST(ResponsesAnswer, WhereNothingWasSaidThereIsAnEmptyMessage) {
  ChoiceOutput output;
  output.finish = EndedBy(FinishReason::kStop);
  const json answer = WholeOf(output);
  ASSERT_EQ(answer["output"].size(), 1U);
  EXPECT_EQ(answer["output"][0]["content"][0]["text"], "");
}

TEST(ResponsesAnswer, LogprobsStandWithTheText) {
  ChoiceOutput output;
  for (Delta& delta : std::vector<Delta>{Says("", ""), Says("", "hm"), Says(""), Says("a"),
                                         Says("b"), Calls(0, "c", "f", "{}"), Says("")}) {
    AddTo(std::move(delta), &output);
  }
  output.finish = EndedBy(FinishReason::kStop);
  const std::string asked = R"(,"include":["message.output_text.logprobs"])";
  const json content = WholeOf(output, asked)["output"][1]["content"][0];
  ASSERT_EQ(content["logprobs"].size(), 2U) << content.dump();
  EXPECT_EQ(content["logprobs"][1],
            json::parse(R"({"token":"b","logprob":-1.0,"bytes":[98],"top_logprobs":[]})"));
  EXPECT_EQ(WholeOf(output)["output"][1]["content"][0]["logprobs"], json::array());
  // Without an order all tokens stand there, as in a chat's answer.
  output.parts.clear();
  EXPECT_EQ(WholeOf(output, asked)["output"][1]["content"][0]["logprobs"].size(), 7U);
}

TEST(ResponsesAnswer, OneWithoutOutputTellsItsState) {
  const auto format = StartedResponse();
  const json queued = json::parse(format->Pending(AnswerState::kQueued, nullptr));
  EXPECT_EQ(queued["id"], "resp_1");
  EXPECT_EQ(queued["status"], "queued");
  EXPECT_EQ(queued["output"], json::array());
  EXPECT_TRUE(queued["usage"].is_null());
  EXPECT_TRUE(queued["error"].is_null());
  const ApiError error{429, "Too \"much\".", "rate_limit_error", "", ""};
  const json failed = json::parse(format->Pending(AnswerState::kFailed, &error));
  EXPECT_EQ(failed["status"], "failed");
  EXPECT_EQ(failed["error"],
            json::parse(R"({"code":"rate_limit_exceeded","message":"Too \"much\"."})"));
}

// The engine knows chats.
TEST(ResponsesAnswer, ErrorsNameTheFieldsOfThisDialect) {
  const auto format = StartedResponse();
  const auto param = [&](const char* name) {
    return json::parse(format->ErrorBody({400, "No.", "", name, ""}))["error"]["param"];
  };
  EXPECT_EQ(param("messages"), "input");
  EXPECT_EQ(param("max_tokens"), "max_output_tokens");
  EXPECT_EQ(param("tools[1].function.parameters"), "tools[1].parameters");
  EXPECT_EQ(param("text.format.schema"), "text.format.schema");
}

}  // namespace
}  // namespace ropeway::api
