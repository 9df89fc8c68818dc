// The events of POST /v1/responses.
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

constexpr char kStreamed[] = R"(,"stream":true)";
constexpr char kWithLogprobs[] = R"(,"stream":true,"include":["message.output_text.logprobs"])";

// An answer with an item of each kind, and a second message.
std::vector<Delta> AllKinds() {
  return {Says("", "h"),
          Says("", "m"),
          Says(""),
          Says("S"),
          Says("o"),
          Calls(0, "c1", "f", ""),
          Calls(0, "", "", "{\"a\":"),
          Calls(0, "", "", "1}"),
          Calls(1, "c2", "g", "{}"),
          Says("!"),
          Says("")};
}

std::vector<std::string> TypesOf(const std::vector<json>& events) {
  std::vector<std::string> types;
  for (const json& event : events) {
    std::string type = event["type"];
    if (type.starts_with("response.")) type = type.substr(9);
    if (event.contains("output_index")) type += " " + event["output_index"].dump();
    types.push_back(std::move(type));
  }
  return types;
}

TEST(ResponsesStream, ATextIsStreamedAsOpenAiDoes) {
  const auto format = StartedResponse(kStreamed);
  const std::vector<json> events = TypedEvents(
      StreamOf(format.get(), {Says("S"), Says(""), Says("o")}, EndedBy(FinishReason::kStop)));
  EXPECT_EQ(TypesOf(events),
            (std::vector<std::string>{"created", "in_progress", "output_item.added 0",
                                      "content_part.added 0", "output_text.delta 0",
                                      "output_text.delta 0", "output_text.done 0",
                                      "content_part.done 0", "output_item.done 0", "completed"}));
  for (size_t i = 0; i < events.size(); ++i) EXPECT_EQ(events[i]["sequence_number"], i);
  EXPECT_EQ(events[0]["response"]["status"], "in_progress");
  EXPECT_EQ(events[0]["response"]["output"], json::array());
  EXPECT_EQ(events[0]["response"]["id"], "resp_1");
  EXPECT_FALSE(events[0]["response"].contains("ropeway"));
  EXPECT_EQ(events[2]["item"], json::parse(R"({"id":"msg_1","type":"message",
      "status":"in_progress","role":"assistant","content":[]})"));
  EXPECT_EQ(events[3]["part"],
            json::parse(R"({"type":"output_text","text":"","annotations":[],"logprobs":[]})"));
  EXPECT_EQ(events[4], json::parse(R"({"type":"response.output_text.delta","sequence_number":4,
      "item_id":"msg_1","output_index":0,"content_index":0,"delta":"S","logprobs":[]})"));
  EXPECT_EQ(events[6]["text"], "So");
  EXPECT_EQ(events[8]["item"], events[9]["response"]["output"][0]);
  EXPECT_EQ(events[9]["response"]["usage"]["total_tokens"], 12);
  EXPECT_EQ(events[9]["response"]["ropeway"]["seed"], 7);
}

TEST(ResponsesStream, EveryKindOfItemHasItsEvents) {
  const auto format = StartedResponse(kStreamed);
  const std::vector<json> events =
      TypedEvents(StreamOf(format.get(), AllKinds(), EndedBy(FinishReason::kStop)));
  EXPECT_EQ(TypesOf(events), (std::vector<std::string>{"created",
                                                       "in_progress",
                                                       "output_item.added 0",
                                                       "content_part.added 0",
                                                       "reasoning_text.delta 0",
                                                       "reasoning_text.delta 0",
                                                       "reasoning_text.done 0",
                                                       "content_part.done 0",
                                                       "output_item.done 0",
                                                       "output_item.added 1",
                                                       "content_part.added 1",
                                                       "output_text.delta 1",
                                                       "output_text.delta 1",
                                                       "output_text.done 1",
                                                       "content_part.done 1",
                                                       "output_item.done 1",
                                                       "output_item.added 2",
                                                       "function_call_arguments.delta 2",
                                                       "function_call_arguments.delta 2",
                                                       "function_call_arguments.done 2",
                                                       "output_item.done 2",
                                                       "output_item.added 3",
                                                       "function_call_arguments.delta 3",
                                                       "function_call_arguments.done 3",
                                                       "output_item.done 3",
                                                       "output_item.added 4",
                                                       "content_part.added 4",
                                                       "output_text.delta 4",
                                                       "output_text.done 4",
                                                       "content_part.done 4",
                                                       "output_item.done 4",
                                                       "completed"}));
  const json output = events.back()["response"]["output"];
  ASSERT_EQ(output.size(), 5U);
  EXPECT_EQ(output[0]["content"][0]["text"], "hm");
  EXPECT_EQ(output[2]["arguments"], R"({"a":1})");
  EXPECT_EQ(output[4]["id"], "msg_1_1");
  for (const json& event : events) {
    if (event["type"] != "response.output_item.done") continue;
    EXPECT_EQ(event["item"], output[event["output_index"].get<size_t>()]);
  }
  for (const json& event : events) {
    if (event["type"] != "response.output_item.added" || event["output_index"] != 2) continue;
    EXPECT_EQ(event["item"], json::parse(R"({"id":"fc_1_0","type":"function_call",
        "status":"in_progress","call_id":"c1","name":"f","arguments":""})"));
  }
}

// What is fetched later is what was streamed.
TEST(ResponsesStream, ItEndsWithTheWholeAnswer) {
  for (const char* members : {kStreamed, kWithLogprobs}) {
    for (const FinishReason reason : {FinishReason::kStop, FinishReason::kLength}) {
      for (size_t size = 0; size <= AllKinds().size(); ++size) {
        std::vector<Delta> deltas = AllKinds();
        deltas.resize(size);
        const auto format = StartedResponse(members);
        const std::vector<json> events =
            TypedEvents(StreamOf(format.get(), deltas, EndedBy(reason)));
        ChoiceOutput output;
        for (const Delta& delta : deltas) AddTo(delta, &output);
        output.finish = EndedBy(reason);
        const json whole = json::parse(StartedResponse(members)->Whole({output}));
        EXPECT_EQ(events.back()["response"], whole) << size;
        EXPECT_EQ(events.back()["type"], "response." + whole["status"].get<std::string>());
        json items = json::array();
        for (const std::string& item : format->OutputItems(output)) {
          items.push_back(json::parse(item));
        }
        EXPECT_EQ(items, whole["output"]);
      }
    }
  }
}

// Each token of a text has its log-probabilities in one delta, or at its end.
TEST(ResponsesStream, LogprobsComeWithTheText) {
  const auto format = StartedResponse(kWithLogprobs);
  const std::vector<json> events =
      TypedEvents(StreamOf(format.get(), {Says(""), Says("S"), Says(""), Says("o"), Says("")},
                           EndedBy(FinishReason::kStop)));
  std::vector<size_t> counts;
  for (const json& event : events) {
    if (event["type"] == "response.output_text.delta") counts.push_back(event["logprobs"].size());
    if (event["type"] == "response.output_text.done") counts.push_back(event["logprobs"].size());
  }
  EXPECT_EQ(counts, (std::vector<size_t>{2, 2, 5}));
}

// So many are not kept to be repeated.
TEST(ResponsesStream, VeryManyLogprobsAreInTheDeltasAlone) {
  const auto format = StartedResponse(kWithLogprobs);
  Delta many = Says("a");
  many.tokens.front().top_logprobs.resize(20);
  many.tokens.front().top_bytes.resize(20);
  size_t shown = 0;
  format->Begin();
  for (int i = 0; i < 4000; ++i) {
    for (const json& event : TypedEvents(format->OnDelta(0, many))) {
      if (event.contains("logprobs")) shown += event["logprobs"].size();
    }
  }
  const json end = TypedEvents(format->OnEnd(0, EndedBy(FinishReason::kStop))).back();
  EXPECT_EQ(shown, 4000U);
  const json content = end["response"]["output"][0]["content"][0];
  EXPECT_EQ(content["text"].get<std::string>().size(), 4000U);
  EXPECT_EQ(content["logprobs"], json::array());
}

// A client that comes back reads on where it was.
TEST(ResponsesStream, ItBeginsBehindWhatTheClientHas) {
  const std::string all =
      StreamOf(StartedResponse(kWithLogprobs).get(), AllKinds(), EndedBy(FinishReason::kStop));
  std::vector<size_t> begins;
  for (size_t at = 0; at < all.size(); at = all.find("\n\n", at) + 2) begins.push_back(at);
  ASSERT_GT(begins.size(), 30U);
  for (size_t n = 0; n < begins.size(); ++n) {
    const auto format = StartedResponse(kWithLogprobs);
    format->StartAfter(static_cast<int64_t>(n));
    const std::string rest = StreamOf(format.get(), AllKinds(), EndedBy(FinishReason::kStop));
    EXPECT_EQ(rest, n + 1 < begins.size() ? all.substr(begins[n + 1]) : "") << n;
  }
  const auto format = StartedResponse(kWithLogprobs);
  format->StartAfter(-1);
  EXPECT_EQ(StreamOf(format.get(), AllKinds(), EndedBy(FinishReason::kStop)), all);
}

TEST(ResponsesStream, ABackgroundsStreamBeginsInTheQueue) {
  const auto format = StartedResponse(R"(,"stream":true,"background":true)");
  const std::vector<json> events = TypedEvents(format->Begin());
  EXPECT_EQ(TypesOf(events), (std::vector<std::string>{"created", "queued", "in_progress"}));
  EXPECT_EQ(events[0]["response"]["status"], "queued");
  EXPECT_EQ(events[2]["response"]["status"], "in_progress");
  EXPECT_EQ(events[2]["response"]["background"], true);
}

TEST(ResponsesStream, AFailureIsTwoEvents) {
  const auto format = StartedResponse(kStreamed);
  std::string stream = format->Begin() + format->OnDelta(0, Says("S"));
  const size_t before = TypedEvents(stream).size();
  const ApiError error{500, "It broke.", "server_error", "", "internal_error"};
  const std::vector<json> end = TypedEvents(format->StreamError(error));
  ASSERT_EQ(end.size(), 2U);
  EXPECT_EQ(end[0]["type"], "response.failed");
  EXPECT_EQ(end[0]["sequence_number"], before);
  EXPECT_EQ(end[0]["response"]["status"], "failed");
  EXPECT_EQ(end[0]["response"]["error"],
            json::parse(R"({"code":"server_error","message":"It broke."})"));
  EXPECT_EQ(end[1]["type"], "error");
  EXPECT_EQ(end[1]["sequence_number"], before + 1);
  EXPECT_EQ(end[1]["message"], "It broke.");
  EXPECT_EQ(end[1]["code"], "internal_error");
  EXPECT_TRUE(end[1]["param"].is_null());
  EXPECT_EQ(end[1]["error"]["message"], "It broke.");
}

TEST(ResponsesStream, ACancellationIsOneEventWithoutAnError) {
  const auto format = StartedResponse(kStreamed);
  std::string stream = format->Begin() + format->OnDelta(0, Says("S"));
  const size_t before = TypedEvents(stream).size();
  const ApiError error{400, "It was cancelled.", "invalid_request_error", "", kAnswerCancelled};
  const std::vector<json> end = TypedEvents(format->StreamError(error));
  ASSERT_EQ(end.size(), 1U);
  EXPECT_EQ(end[0]["type"], "response.incomplete");
  EXPECT_EQ(end[0]["sequence_number"], before);
  EXPECT_EQ(end[0]["response"], json::parse(format->Pending(AnswerState::kCancelled, nullptr)));
  EXPECT_EQ(end[0]["response"]["status"], "cancelled");
  EXPECT_TRUE(end[0]["response"]["error"].is_null());
  EXPECT_TRUE(end[0]["response"]["incomplete_details"].is_null());
}

}  // namespace
}  // namespace ropeway::api
