#include "api/openai_wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "api/test_wire.h"

namespace ropeway::api::wire {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using P = SamplingParams;

constexpr size_t kOpenAiCuts[] = {1, 7, 1 << 20};

json OpenAiBody(const WireFormat& wire, const Request& request) {
  return json::parse(WrittenBody(wire, request));
}

// The wire of a server whose list of models names this owner.
std::unique_ptr<WireFormat> OpenAiOf(const char* owner) {
  std::unique_ptr<WireFormat> wire = MakeOpenAi({});
  const json model = {{"id", "m"}, {"owned_by", owner}};
  const std::string list = json{{"object", "list"}, {"data", json::array({model})}}.dump();
  BackendFacts facts;
  EXPECT_TRUE(ReadProbes(wire.get(), {{"/v1/models", list}}, &facts).ok());
  EXPECT_THAT(facts.models, ElementsAre("m"));
  return wire;
}

TEST(BackendKind, HasANameEach) {
  for (const char* name : {"openai", "llamacpp", "ollama", "ropeway"}) {
    ASSERT_TRUE(BackendKindOf(name).has_value()) << name;
    EXPECT_STREQ(BackendKindName(*BackendKindOf(name)), name);
    EXPECT_NE(MakeWireFormat(*BackendKindOf(name), {}), nullptr);
  }
  EXPECT_FALSE(BackendKindOf("telepathy").has_value());
}

TEST(OpenAiWire, SendsWhatTheClientGaveAndNoMore) {
  const auto wire = MakeOpenAi({});
  EXPECT_EQ(OpenAiBody(*wire, CompletionRequest()),
            (json{{"model", "asked"},
                  {"prompt", "Once"},
                  {"max_tokens", 8},
                  {"stream", true},
                  {"stream_options", {{"include_usage", true}}}}));
  EXPECT_EQ(wire->Write(CompletionRequest())->path, "/v1/completions");

  Request chat = ChatRequest();
  chat.sampling.given = P::kTemperature | P::kSeed;
  chat.sampling.temperature = 0.7F;
  chat.sampling.seed = 7;
  chat.logprobs = 3;
  chat.max_tokens.reset();
  const json messages =
      json::parse(R"([{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"}])");
  EXPECT_EQ(OpenAiBody(*MakeOpenAi({"theirs"}), chat),
            (json{{"model", "theirs"},
                  {"messages", messages},
                  {"stream", true},
                  {"stream_options", {{"include_usage", true}}},
                  {"temperature", 0.7},
                  {"seed", 7},
                  {"logprobs", true},
                  {"top_logprobs", 3}}));
  EXPECT_EQ(wire->Write(chat)->path, "/v1/chat/completions");

  Request ids = CompletionRequest();
  ids.prompt = std::vector<TokenId>{1, 2};
  ids.logprobs = 2;
  EXPECT_EQ(OpenAiBody(*wire, ids)["prompt"], (json{1, 2}));
  EXPECT_EQ(OpenAiBody(*wire, ids)["logprobs"], 2);
}

TEST(OpenAiWire, FloatsAreWrittenAsTheyWereRead) {
  const auto wire = MakeOpenAi({});
  Request request = CompletionRequest();
  request.sampling.given = P::kTemperature;
  for (const float value : {0.1F, 0.7F, 1.0F / 3, 1e-7F, 1.9999999F, 0.0F}) {
    request.sampling.temperature = value;
    EXPECT_EQ(static_cast<float>(OpenAiBody(*wire, request)["temperature"].get<double>()), value);
  }
  EXPECT_THAT(wire->Write(request)->body, HasSubstr("\"temperature\":0"));
  request.sampling.temperature = 0.7F;
  EXPECT_THAT(wire->Write(request)->body, HasSubstr("\"temperature\":0.7}"));
}

TEST(OpenAiWire, SendsAServersOwnFieldsOnceItIsKnown) {
  const Request request = EverythingGiven();
  const json plain = OpenAiBody(*MakeOpenAi({}), request);
  EXPECT_EQ(plain["temperature"], 0.7);
  EXPECT_EQ(plain["logit_bias"], (json{{"5", -100}}));
  EXPECT_EQ(plain["stop"], json::array({"END"}));
  for (const char* own : {"top_k", "min_p", "repetition_penalty", "ignore_eos", "cache_salt"}) {
    EXPECT_FALSE(plain.contains(own)) << own;
  }
  EXPECT_THAT(MakeOpenAi({})->Unknown(request),
              ElementsAre("min_p", "typical_p", "repetition_penalty", "min_tokens",
                          "stop_token_ids", "ignore_eos", "cache_salt"))
      << "top_k is given, but means all tokens";

  const json vllm = OpenAiBody(*OpenAiOf("vllm"), request);
  EXPECT_EQ(vllm["top_k"], -1);
  EXPECT_EQ(vllm["repetition_penalty"], 1.1);
  EXPECT_EQ(vllm["min_tokens"], 2);
  EXPECT_EQ(vllm["stop_token_ids"], json::array({3}));
  EXPECT_EQ(vllm["ignore_eos"], true);
  EXPECT_EQ(vllm["cache_salt"].get<std::string>().size(), 64u);
  EXPECT_THAT(OpenAiOf("vllm")->Unknown(request), ElementsAre("typical_p"));

  EXPECT_FALSE(OpenAiBody(*OpenAiOf("sglang"), request).contains("cache_salt"));
  const json studio = OpenAiBody(*OpenAiOf("organization_owner"), request);
  EXPECT_EQ(studio["repeat_penalty"], 1.1);
  EXPECT_EQ(studio["top_k"], 0);
  EXPECT_FALSE(studio.contains("repetition_penalty"));

  // Without max_tokens vLLM's completions would end after 16.
  Request endless = CompletionRequest();
  endless.max_tokens.reset();
  EXPECT_EQ(OpenAiBody(*OpenAiOf("vllm"), endless).at("max_tokens"), nullptr);
  EXPECT_FALSE(OpenAiBody(*MakeOpenAi({}), endless).contains("max_tokens"));
}

TEST(OpenAiWire, ChoicesOfOneRequestGetSeedsOfTheirOwn) {
  const auto wire = MakeOpenAi({});
  Request request = CompletionRequest();
  request.sampling.given = P::kSeed;
  request.sampling.seed = 7;
  EXPECT_EQ(OpenAiBody(*wire, request)["seed"], 7);
  request.choice = 1;
  const json one = OpenAiBody(*wire, request)["seed"];
  request.choice = 2;
  EXPECT_NE(one, 7);
  EXPECT_NE(OpenAiBody(*wire, request)["seed"], one);
  // One that is not given is not sent.
  request.sampling.given = P::kNoneGiven;
  EXPECT_FALSE(OpenAiBody(*wire, request).contains("seed"));
}

TEST(OpenAiWire, RejectsWhatNoStreamHas) {
  const auto wire = MakeOpenAi({});
  Request scored = CompletionRequest();
  scored.prompt_logprobs = 0;
  EXPECT_EQ(wire->Write(scored).status().code(), StatusCode::kUnimplemented);
  Request none = CompletionRequest();
  none.max_tokens = 0;
  EXPECT_EQ(wire->Write(none).status().field(), "max_tokens");
}

// As vLLM streams a chat with "include_usage".
TEST(OpenAiWire, ReadsAChat) {
  const std::string stream =
      ": ping\n\n" +
      Events(
          {R"({"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"usage":null})",
           R"({"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"Gr\u00fc"},"logprobs":null,"finish_reason":null}],"usage":null})",
           R"({"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"ß\n"},"logprobs":null,"finish_reason":"length","stop_reason":null}],"usage":null})",
           R"({"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":9,"total_tokens":12,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4}}})"});
  const auto wire = MakeOpenAi({});
  for (const size_t cut : kOpenAiCuts) {
    const ReadStream read = ReadInPieces(*wire, ChatRequest(), stream, cut);
    ASSERT_FALSE(read.failure) << read.failure->status.message();
    EXPECT_THAT(read.sink.pieces, ElementsAre("Grü", "ß\n"));
    EXPECT_TRUE(read.complete);
    EXPECT_EQ(read.end.reason, FinishReason::kLength);
    EXPECT_EQ(read.end.usage.prompt_tokens, 9);
    EXPECT_EQ(read.end.usage.completion_tokens, 3);
    EXPECT_EQ(read.end.usage.cached_tokens, 4);
  }
}

// As vLLM and Ropeway name it; an end token's id is none.
TEST(OpenAiWire, ReadsTheStopStringThatEndedIt) {
  const auto wire = MakeOpenAi({});
  Request request = CompletionRequest();
  request.stop = {"a", "\n"};
  const auto stop_of = [&](const std::string& reason) {
    const std::string end =
        R"({"choices":[{"text":"","finish_reason":"stop","stop_reason":)" + reason + "}]}";
    const ReadStream read = ReadInPieces(*wire, request, Events({end}), 7);
    EXPECT_FALSE(read.failure);
    return read.end.stop;
  };
  EXPECT_EQ(stop_of(R"("\n")"), 1);
  for (const char* other : {"null", "2", "\"b\"", "[]"}) EXPECT_EQ(stop_of(other), -1) << other;
}

TEST(OpenAiWire, AnEndNeedsAFinishReasonOrDone) {
  const auto wire = MakeOpenAi({});
  const std::string text = R"({"choices":[{"text":" a","finish_reason":null}]})";
  const std::string stop = R"({"choices":[{"text":"","finish_reason":"stop"}]})";
  const auto read = [&](const std::vector<std::string>& payloads, bool done) {
    return ReadInPieces(*wire, CompletionRequest(), Events(payloads, done), 5);
  };
  ReadStream good = read({text, stop}, false);
  EXPECT_FALSE(good.failure);
  EXPECT_FALSE(good.end.usage.completion_tokens >= 0) << "what is left out stays so";
  EXPECT_FALSE(read({text}, true).failure);
  const std::string none = R"({"choices":[{"text":" a","finish_reason":"null"}]})";
  EXPECT_EQ(read({none, none, stop}, true).sink.text, " a a");
  ReadStream cut = read({text}, false);
  ASSERT_TRUE(cut.failure.has_value());
  EXPECT_EQ(cut.failure->kind, FailureKind::kBroken);
  EXPECT_THAT(cut.failure->status.message(), HasSubstr("without a finish_reason"));
  // [DONE] alone: the usage tells why.
  const std::string usage = R"({"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":8}})";
  EXPECT_EQ(read({text, usage}, true).end.reason, FinishReason::kLength);
}

TEST(OpenAiWire, ThoughtsAreNoText) {
  const std::string stream =
      Events({R"({"choices":[{"index":0,"delta":{"role":"assistant","content":null}}]})",
              R"({"choices":[{"index":0,"delta":{"reasoning_content":"Hm"}}]})",
              R"({"choices":[{"index":0,"delta":{"reasoning_content":".","reasoning":"."}}]})",
              R"({"choices":[{"index":0,"delta":{"content":"Yes"}}]})",
              R"({"choices":[{"index":0,"delta":{"content":"."},"finish_reason":"stop"}]})"});
  const ReadStream read = ReadInPieces(*MakeOpenAi({}), ChatRequest(), stream, 7);
  EXPECT_EQ(read.sink.reasoning, "Hm.");
  EXPECT_EQ(read.sink.text, "Yes.");
}

TEST(OpenAiWire, ReadsLogprobsOfChats) {
  Request request = ChatRequest();
  request.logprobs = 1;
  const std::string stream = Events(
      {R"({"choices":[{"index":0,"delta":{"content":"a"},"logprobs":{"content":[{"token":"a","logprob":-0.25,"bytes":[97],"top_logprobs":[{"token":"b","logprob":-2.5,"bytes":null},{"token":"a","logprob":-0.25,"bytes":[97]}]}]}}]})",
       R"({"choices":[{"index":0,"delta":{"content":""},"logprobs":{"content":[{"id":5,"token":"","logprob":-1,"bytes":[195],"top_logprobs":[]}]}}]})",
       R"({"choices":[{"index":0,"delta":{"content":"ü"},"logprobs":{"content":[{"token":"x","logprob":null,"bytes":[188]}]},"finish_reason":"stop"}]})"});
  for (const size_t cut : kOpenAiCuts) {
    const ReadStream read = ReadInPieces(*MakeOpenAi({}), request, stream, cut);
    ASSERT_FALSE(read.failure) << read.failure->status.message();
    const std::vector<OutputToken>& tokens = read.sink.tokens;
    ASSERT_EQ(tokens.size(), 3u);
    EXPECT_EQ(tokens[0].id, -1);
    EXPECT_EQ(tokens[0].bytes, "a");
    EXPECT_EQ(tokens[0].logprob, -0.25F);
    ASSERT_EQ(tokens[0].top_logprobs.size(), 1u) << "the most probable one, and one was asked for";
    EXPECT_EQ(tokens[0].top_bytes[0], "a");
    EXPECT_EQ(tokens[1].id, 5);
    EXPECT_EQ(tokens[1].bytes, "\xc3");
    EXPECT_EQ(tokens[1].text_offset, 1u);
    EXPECT_TRUE(std::isnan(tokens[2].logprob));
    EXPECT_EQ(tokens[2].text_offset, 2u);
  }
  request.logprobs.reset();
  EXPECT_THAT(ReadInPieces(*MakeOpenAi({}), request, stream, 9).sink.tokens, IsEmpty());
}

TEST(OpenAiWire, ReadsLogprobsOfCompletions) {
  Request request = CompletionRequest();
  request.logprobs = 2;
  const std::string stream = Events(
      {R"({"choices":[{"index":0,"text":"é","logprobs":{"text_offset":[0,1],"token_logprobs":[-0.5,-1e300],"tokens":["bytes:\\xc3","bytes:\\xa9"],"top_logprobs":[{"a":-3,"bytes:\\xc3":-0.5,"z":-0.75},null]},"finish_reason":"stop"}]})"});
  const ReadStream read = ReadInPieces(*MakeOpenAi({}), request, stream, 3);
  ASSERT_FALSE(read.failure) << read.failure->status.message();
  ASSERT_EQ(read.sink.tokens.size(), 2u);
  EXPECT_EQ(read.sink.tokens[0].bytes, "\xc3");
  EXPECT_THAT(read.sink.tokens[0].top_bytes, ElementsAre("\xc3", "z"));
  EXPECT_EQ(read.sink.tokens[0].top_logprobs[1].logprob, -0.75F);
  EXPECT_EQ(read.sink.tokens[1].logprob, -std::numeric_limits<float>::max());
  EXPECT_EQ(read.sink.tokens[1].text_offset, 1u);
}

TEST(OpenAiWire, ABrokenStreamFailsWithItsReason) {
  const std::string good = R"({"id":"a","choices":[{"index":0,"text":"x"}]})";
  const std::pair<std::string, const char*> cases[] = {
      {Events({good, "{\"id\":\"a\",\"choices\":[{\"ind"}), "not valid JSON"},
      {Events({good, "[]"}), "not a JSON object"},
      {Events({R"({"choices":[{"text":"y"},{"text":"z"}]})"}), "a choice that was not asked for"},
      {Events({R"({"choices":[{"index":0,"delta":{"content":"y"}}]})"}),
       "answered a chat with a completion"},
      {Events({R"({"choices":[{"text":"y","finish_reason":"abort"}]})"}), "'abort'"},
      {Events({std::string(100, '[')}), "nested deeper"},
      {"data: " + std::string(WireReply::kMaxEventBytes + 1, 'x'), "more than 1048576 bytes"},
      {std::string(WireReply::kMaxEventBytes + 1, 'x'), "more than 1048576 bytes"},
      {"<html>hello</html>", "without a finish_reason"},
      {"", "without a finish_reason"},
  };
  for (const auto& [stream, words] : cases) {
    for (const size_t cut : {size_t{7}, size_t{1} << 22U}) {
      const ReadStream read = ReadInPieces(*MakeOpenAi({}), CompletionRequest(), stream, cut);
      ASSERT_TRUE(read.failure.has_value()) << words;
      EXPECT_EQ(read.failure->kind, FailureKind::kBroken) << words;
      EXPECT_THAT(read.failure->status.message(), HasSubstr(words));
    }
  }
}

TEST(OpenAiWire, AnErrorInTheStreamSaysWhoseFaultItIs) {
  using Kind = FailureKind;
  const std::tuple<const char*, Kind, const char*> cases[] = {
      {R"({"error":{"code":500,"message":"out of memory","type":"server_error"}})", Kind::kBroken,
       "out of memory"},
      {R"({"error":{"code":400,"message":"too long","type":"exceed_context_size_error"}})",
       Kind::kRejected, "too long"},
      {R"({"error":{"message":"no such field","type":"invalid_request_error","code":null}})",
       Kind::kRejected, "no such field"},
      {R"({"error":{"code":503,"message":"overloaded"}})", Kind::kBusy, "overloaded"},
      {R"({"error":"plain"})", Kind::kBroken, "plain"},
      {R"({"error":{}})", Kind::kBroken, "does not describe"},
      {R"({"object":"error","message":"old vLLM","type":"BadRequestError","code":400})",
       Kind::kRejected, "old vLLM"},
  };
  for (const auto& [event, kind, words] : cases) {
    const ReadStream read = ReadInPieces(*MakeOpenAi({}), CompletionRequest(), Events({event}), 11);
    ASSERT_TRUE(read.failure.has_value()) << event;
    EXPECT_EQ(read.failure->kind, kind) << event;
    EXPECT_THAT(read.failure->status.message(), HasSubstr(words));
    const bool rejected = kind == Kind::kRejected;
    EXPECT_EQ(read.failure->status.code() == StatusCode::kInvalidArgument, rejected);
  }
}

TEST(OpenAiWire, AStreamBeyondMaxTokensIsCut) {
  std::vector<std::string> events(2000, R"({"choices":[{"index":0,"text":" x"}]})");
  ReadStream read = ReadInPieces(*MakeOpenAi({}), CompletionRequest(), Events(events), 1 << 20);
  ASSERT_TRUE(read.failure.has_value());
  EXPECT_THAT(read.failure->status.message(), HasSubstr("more than the 8 tokens"));
  EXPECT_LT(read.sink.pieces.size(), 1200u);
  const json choice = {{"index", 0}, {"text", std::string(100'000, 'x')}};
  const std::string huge = json{{"choices", json::array({choice})}}.dump();
  EXPECT_TRUE(ReadInPieces(*MakeOpenAi({}), CompletionRequest(), Events({huge}), 4096).failure);
  // Nor may one event hold many tokens.
  Request scored = CompletionRequest();
  scored.logprobs = 0;
  json many = choice;
  many["text"] = "";
  many["logprobs"] = {{"tokens", std::vector<std::string>(100, "x")},
                      {"token_logprobs", std::vector<double>(100, -1.0)}};
  const std::string crowded = json{{"choices", json::array({many})}}.dump();
  read = ReadInPieces(*MakeOpenAi({}), scored, Events({crowded}), 4096);
  ASSERT_TRUE(read.failure.has_value());
  EXPECT_THAT(read.failure->status.message(), HasSubstr("more than the 8 tokens"));
  EXPECT_TRUE(read.sink.tokens.empty());
  // Nor does one without output go on for ever.
  events.assign(70'000, R"({"choices":[]})");
  EXPECT_TRUE(ReadInPieces(*MakeOpenAi({}), CompletionRequest(), Events(events), 4096).failure);
}

// vLLM and SGLang have no models but those that they list; what others list says nothing.
TEST(OpenAiWire, TheOnlyModelOfVllmIsMeantWhateverClientsCallIt) {
  for (const char* owner : {"vllm", "sglang", "someone"}) {
    const auto wire = MakeOpenAi({.name = "public", .may_differ = true});
    const auto exact = MakeOpenAi({.name = "public"});
    const std::string list =
        std::string(R"({"data":[{"id":"inner","owned_by":")") + owner + "\"}]}";
    BackendFacts facts;
    EXPECT_TRUE(ReadProbes(wire.get(), {{"/v1/models", list}}, &facts).ok());
    EXPECT_TRUE(ReadProbes(exact.get(), {{"/v1/models", list}}, &facts).ok());
    const bool other = owner == std::string("someone");
    EXPECT_EQ(OpenAiBody(*wire, CompletionRequest())["model"], other ? "public" : "inner");
    EXPECT_EQ(OpenAiBody(*exact, CompletionRequest())["model"], "public");
  }
}

TEST(OpenAiWire, LearnsTheLoadOfVllmFromItsMetrics) {
  const auto wire = OpenAiOf("vllm");
  EXPECT_THAT(ProbePaths(wire.get()), ElementsAre("/v1/models", "/metrics"));
  BackendFacts facts;
  const std::string metrics =
      "# TYPE vllm:num_requests_running gauge\n"
      "vllm:num_requests_running{engine=\"0\",model_name=\"a b}\"} 3.0\n"
      "vllm:num_requests_waiting{engine=\"0\"} 2.0\n"
      "vllm:num_requests_waiting_by_reason{reason=\"x\"} 50\n"
      "vllm:kv_cache_usage_perc{engine=\"0\"} 0.75\n";
  EXPECT_TRUE(ReadProbes(wire.get(), {{"/metrics", metrics}}, &facts).ok());
  EXPECT_EQ(facts.running, 3);
  EXPECT_EQ(facts.waiting, 2);
  EXPECT_EQ(facts.free_memory, 0.25);
  EXPECT_THAT(ProbePaths(MakeOpenAi({}).get()), ElementsAre("/v1/models"));
  EXPECT_FALSE(ReadProbes(wire.get(), {{"/v1/models", "<html>"}}, &facts).ok());
}

// A server that sends more text after the finish reason has ended its answer all the same.
TEST(OpenAiWire, WhatFollowsAFinishReasonIsNoText) {
  const std::vector<std::string> answer = {
      R"({"id":"x","choices":[{"index":0,"text":"A","finish_reason":"stop"}]})",
      R"({"id":"x","choices":[{"index":0,"text":"LATER","finish_reason":null}]})",
      R"({"id":"x","choices":[{"index":0,"text":"L2","finish_reason":"length"}]})",
      R"({"id":"x","choices":[],"usage":{"prompt_tokens":2,"completion_tokens":1}})"};
  const ReadStream read = ReadInPieces(*MakeOpenAi({}), CompletionRequest(), Events(answer), 7);
  EXPECT_FALSE(read.failure.has_value());
  EXPECT_EQ(read.sink.text, "A");
  EXPECT_EQ(read.end.reason, FinishReason::kStop);
  EXPECT_EQ(read.end.usage.completion_tokens, 1);

  std::vector<std::string> endless(1, answer[0]);
  endless.resize(70'000, answer[1]);
  const ReadStream cut =
      ReadInPieces(*MakeOpenAi({}), CompletionRequest(), Events(endless, false), 1 << 20);
  EXPECT_FALSE(cut.failure.has_value());
  EXPECT_TRUE(cut.complete);
  EXPECT_EQ(cut.sink.text, "A");
}

}  // namespace
}  // namespace ropeway::api::wire
