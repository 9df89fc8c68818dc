// The answers of POST /completion, llama.cpp's own.
#include "api/llamacpp_answer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "api/dialects.h"
#include "api/test_events.h"

namespace ropeway::api::llamacpp {
namespace {

using nlohmann::json;

std::unique_ptr<ApiFormat> Started(const std::string& members, size_t prompts = 1) {
  std::unique_ptr<ApiFormat> format = MakeLlamaCppCompletion();
  const std::string prompt = prompts == 1 ? R"("Hi")" : R"(["Hi","Ho"])";
  const Status status = format->Parse("{\"prompt\":" + prompt + members + "}", {});
  EXPECT_TRUE(status.ok()) << status.message();
  AnswerHead head;
  head.id = "1";
  head.model = "m";
  for (size_t i = 0; i < prompts; ++i) head.prompt_texts.push_back(i == 0 ? "Hi" : "Ho");
  format->OnAdmitted(3);
  format->Start(std::move(head));
  return format;
}

OutputToken Token(TokenId id, std::string bytes) {
  OutputToken token;
  token.id = id;
  token.bytes = std::move(bytes);
  token.logprob = -0.5F;
  token.top_logprobs = {{9, -0.25F}, {id, -0.5F}};
  token.top_bytes = {"x", token.bytes};
  return token;
}

Finish Ended(FinishReason reason = FinishReason::kStop) {
  Finish finish;
  finish.reason = reason;
  finish.usage = {.prompt_tokens = 3, .completion_tokens = 2, .cached_tokens = 1};
  finish.seed = 7;
  finish.times.prefill = std::chrono::milliseconds(4);
  finish.times.decode = std::chrono::milliseconds(10);
  return finish;
}

ChoiceOutput Output(const Finish& finish = Ended()) {
  ChoiceOutput output;
  output.text = "a\n";
  output.tokens = {Token(5, "a"), Token(6, "\n")};
  output.finish = finish;
  return output;
}

json Answer(const std::string& members, const ChoiceOutput& output = Output()) {
  return json::parse(Started(members)->Whole({output}));
}

TEST(LlamaCppAnswer, IsLlamaCpps) {
  json answer = Answer(R"(,"stop":["END"],"n_predict":8,"temperature":0.5,"seed":7,
      "logit_bias":[[5,1]])");
  const json settings = answer["generation_settings"];
  answer.erase("generation_settings");
  EXPECT_EQ(answer, json::parse(R"({"index":0,"content":"a\n","tokens":[],"id_slot":-1,"stop":true,
      "model":"m","tokens_predicted":2,"tokens_evaluated":3,"prompt":"Hi","has_new_line":true,
      "truncated":false,"stop_type":"eos","stopping_word":"","tokens_cached":1,
      "timings":{"cache_n":1,"prompt_n":2,"prompt_ms":4.0,"prompt_per_token_ms":2.0,
      "prompt_per_second":500.0,"predicted_n":2,"predicted_ms":10.0,"predicted_per_token_ms":5.0,
      "predicted_per_second":200.0}})"));
  EXPECT_EQ(settings["seed"], 7);
  EXPECT_EQ(settings["temperature"], 0.5);
  EXPECT_EQ(settings["n_predict"], 8);
  EXPECT_EQ(settings["max_tokens"], 8);
  EXPECT_EQ(settings["stop"], json({"END"}));
  EXPECT_EQ(settings["logit_bias"], json::parse(R"([{"bias":1.0,"token":5}])"));
  EXPECT_EQ(settings["stream"], false);
  EXPECT_EQ(settings["samplers"],
            json({"penalties", "temperature", "top_k", "typ_p", "top_p", "min_p"}));
  EXPECT_EQ(Answer(R"(,"samplers":["top_k"])")["generation_settings"]["samplers"], json({"top_k"}));
  EXPECT_EQ(Answer("")["generation_settings"]["n_predict"], -1);
}

TEST(LlamaCppAnswer, TokensAndProbabilitiesAreThereIfAskedFor) {
  EXPECT_EQ(Answer(R"(,"return_tokens":true)")["tokens"], json({5, 6}));
  EXPECT_FALSE(Answer("").contains("completion_probabilities"));
  const json probabilities = Answer(R"(,"n_probs":2)")["completion_probabilities"];
  ASSERT_EQ(probabilities.size(), 2U);
  EXPECT_EQ(probabilities[1], json::parse(R"({"id":6,"token":"\n","bytes":[10],"logprob":-0.5,
      "top_logprobs":[{"id":9,"token":"x","bytes":[120],"logprob":-0.25},
                      {"id":6,"token":"\n","bytes":[10],"logprob":-0.5}]})"));
  // A gateway's backend may not tell ids.
  ChoiceOutput unknown = Output();
  unknown.tokens[0].id = -1;
  EXPECT_EQ(Answer(R"(,"return_tokens":true)", unknown)["tokens"], json({6}));
}

TEST(LlamaCppAnswer, SaysWhyItEnded) {
  const auto end = [](const std::string& members, Finish finish) {
    const json answer = Answer(members, Output(finish));
    return json{answer["stop_type"], answer["stopping_word"], answer["truncated"]};
  };
  EXPECT_EQ(end("", Ended()), json({"eos", "", false}));
  Finish stopped = Ended();
  stopped.stop = 1;
  EXPECT_EQ(end(R"(,"stop":["a","b"])", stopped), json({"word", "b", false}));
  EXPECT_EQ(end(R"(,"n_predict":2)", Ended(FinishReason::kLength)), json({"limit", "", false}));
  EXPECT_EQ(end("", Ended(FinishReason::kLength)), json({"limit", "", true}));
  Finish lowered = Ended(FinishReason::kLength);
  lowered.max_tokens = 2;
  EXPECT_EQ(end(R"(,"n_predict":9)", lowered), json({"limit", "", true}));
  Finish cut = Ended(FinishReason::kLength);
  cut.cut_by = kTokensPerMinute;
  EXPECT_EQ(end("", cut), json({"limit", "", false}));
}

TEST(LlamaCppAnswer, OnlyTheFieldsThatWereAskedFor) {
  EXPECT_EQ(Answer(R"(,"response_fields":["content","generation_settings/n_predict","timings/x",
      "content/x","none",""],"n_predict":4)"),
            (json{{"content", "a\n"}, {"generation_settings/n_predict", 4}}));
}

TEST(LlamaCppAnswer, SeveralAreAList) {
  const json list =
      json::parse(Started(R"(,"n_cmpl":2)", 2)->Whole({Output(), Output(), Output(), Output()}));
  ASSERT_EQ(list.size(), 4U);
  EXPECT_EQ(list[3]["index"], 3);
  EXPECT_EQ(list[1]["prompt"], "Hi");
  EXPECT_EQ(list[2]["prompt"], "Ho");
}

TEST(LlamaCppAnswer, AStreamHasAPartForEachDeltaAndAllFieldsAtItsEnd) {
  const auto format = Started(R"(,"stream":true)");
  EXPECT_EQ(format->Begin(), "");
  Delta first;
  first.text = "a\"";
  first.tokens = {Token(5, "a\"")};
  Delta hidden;
  hidden.tokens = {Token(6, "")};
  Delta rest;
  rest.text = "\n";
  std::string stream;
  for (const Delta& delta : {first, hidden, rest, Delta()}) stream += format->OnDelta(0, delta);
  stream += format->OnEnd(0, Ended());
  stream += format->Done();
  const std::vector<std::string> events = Events(stream);
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(json::parse(events[0]), json::parse(R"({"index":0,"content":"a\"","tokens":[5],
      "stop":false,"id_slot":-1,"tokens_predicted":1,"tokens_evaluated":3})"));
  EXPECT_EQ(json::parse(events[1])["tokens"], json({6}));
  EXPECT_EQ(json::parse(events[1])["content"], "");
  EXPECT_EQ(json::parse(events[2])["tokens_predicted"], 2);
  json last = json::parse(events[3]);
  EXPECT_EQ(last["content"], "");
  EXPECT_EQ(last["tokens"], json::array());
  EXPECT_EQ(last["has_new_line"], true);
  EXPECT_EQ(last["generation_settings"]["stream"], true);
  // But for the output, it is the whole answer.
  json whole = Answer("");
  for (json* each : {&last, &whole}) {
    each->erase("content");
    (*each)["generation_settings"].erase("stream");
  }
  EXPECT_EQ(last, whole);
}

TEST(LlamaCppAnswer, AStreamHasTheProbabilitiesOfItsTokens) {
  const auto format = Started(R"(,"stream":true,"n_probs":1)");
  Delta delta;
  delta.text = "a";
  delta.tokens = {Token(5, "a")};
  const json event = json::parse(Events(format->OnDelta(0, delta)).at(0));
  EXPECT_EQ(event["completion_probabilities"][0]["id"], 5);
  EXPECT_FALSE(
      json::parse(Events(format->OnEnd(0, Ended())).at(0)).contains("completion_probabilities"));
}

TEST(LlamaCppAnswer, ErrorsAreLlamaCpps) {
  const auto error = [](int status, const char* type, const char* code = "") {
    ApiError error;
    error.http_status = status;
    error.message = "m";
    error.type = type;
    error.code = code;
    return json::parse(MakeLlamaCppCompletion()->ErrorBody(error))["error"];
  };
  const auto expected = [](int code, const char* type) {
    return json{{"code", code}, {"message", "m"}, {"type", type}};
  };
  constexpr char kInvalid[] = "invalid_request_error";
  EXPECT_EQ(error(400, kInvalid), expected(400, kInvalid));
  EXPECT_EQ(error(400, kInvalid, "context_length_exceeded"),
            expected(400, "exceed_context_size_error"));
  EXPECT_EQ(error(401, kInvalid), expected(401, "authentication_error"));
  EXPECT_EQ(error(403, kInvalid), expected(403, "permission_error"));
  EXPECT_EQ(error(404, kInvalid), expected(404, "not_found_error"));
  EXPECT_EQ(error(500, "api_error"), expected(500, "server_error"));
  EXPECT_EQ(error(503, "api_error"), expected(503, "unavailable_error"));
  ApiError late;
  late.http_status = 500;
  late.message = "m";
  const std::string event = Started(R"(,"stream":true)")->StreamError(late);
  EXPECT_EQ(json::parse(Events(event).at(0))["error"], expected(500, "server_error"));
}

}  // namespace
}  // namespace ropeway::api::llamacpp
