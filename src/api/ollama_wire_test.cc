#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "api/test_wire.h"
#include "api/wire_format.h"

namespace ropeway::api::wire {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr size_t kOllamaCuts[] = {1, 7, 1 << 20};

// The documented end of a stream.
const char kOllamaDone[] =
    R"({"model":"m","created_at":"2024-07-22T20:47:51.147561Z","message":{"role":"assistant","content":""},"done_reason":"stop","done":true,"total_duration":4883583458,"load_duration":1334875,"prompt_eval_count":26,"prompt_eval_duration":342546000,"eval_count":4,"eval_duration":4535599000})";

json OllamaBody(const WireFormat& wire, const Request& request) {
  return json::parse(WrittenBody(wire, request));
}

TEST(OllamaWire, SendsAChat) {
  const auto wire = MakeOllama({});
  Request request = ChatRequest();
  request.sampling.given = SamplingParams::kTemperature | SamplingParams::kRepetitionPenalty;
  request.sampling.temperature = 0.5F;
  request.sampling.repetition_penalty = 1.1F;
  request.stop = {"END"};
  request.logprobs = 2;
  auto& messages = std::get<Chat>(request.prompt).messages;
  messages.push_back({"tool", "11 degrees", "weather", "call_1"});
  EXPECT_EQ(OllamaBody(*wire, request), json::parse(R"({
      "model":"asked","stream":true,"logprobs":true,"top_logprobs":2,
      "messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"},
                  {"role":"tool","content":"11 degrees","tool_name":"weather",
                   "tool_call_id":"call_1"}],
      "options":{"num_predict":8,"temperature":0.5,"repeat_penalty":1.1,"stop":["END"]}})"));
  EXPECT_EQ(wire->Write(request)->path, "/api/chat");
}

TEST(OllamaWire, SendsATextWithoutATemplate) {
  const auto wire = MakeOllama({"theirs"});
  Request request = CompletionRequest();
  request.max_tokens.reset();
  EXPECT_EQ(OllamaBody(*wire, request),
            json::parse(R"({"model":"theirs","prompt":"Once","raw":true,"stream":true})"));
  EXPECT_EQ(wire->Write(request)->path, "/api/generate");
  request.sampling.given = SamplingParams::kAllGiven;
  request.sampling.seed = uint64_t{1} << 40U;
  const json options = OllamaBody(*wire, request)["options"];
  EXPECT_LT(options["seed"].get<int64_t>(), int64_t{1} << 31U);
  EXPECT_EQ(options["top_k"], 0);
  EXPECT_EQ(options["typical_p"], 1);
}

TEST(OllamaWire, AsksForTheForm) {
  const auto wire = MakeOllama({});
  Request request = ChatRequest();
  request.format.kind = OutputFormat::Kind::kJsonSchema;
  request.format.schema = R"({"type":"object"})";
  EXPECT_EQ(OllamaBody(*wire, request)["format"], json::parse(R"({"type":"object"})"));
  request.format.kind = OutputFormat::Kind::kChoice;
  request.format.choices = {"yes", "no"};
  EXPECT_EQ(wire->Write(request).status().code(), StatusCode::kUnimplemented);
}

TEST(OllamaWire, SaysWhatItHasNoWayToAskFor) {
  const auto wire = MakeOllama({});
  Request ids = CompletionRequest();
  ids.prompt = std::vector<TokenId>{1, 2};
  const Status status = wire->Write(ids).status();
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
  EXPECT_THAT(status.message(), HasSubstr("token ids"));
  Request request = CompletionRequest();
  request.sampling.logit_bias = {{1, 1.0F}};
  request.ignore_eos = true;
  request.sampling.given = SamplingParams::kAllGiven;
  EXPECT_THAT(wire->Unknown(request), ElementsAre("logit_bias", "ignore_eos"));
  EXPECT_FALSE(OllamaBody(*wire, request)["options"].contains("logit_bias"));
}

TEST(OllamaWire, ReadsAChat) {
  const std::string stream = Lines(
      {R"({"model":"m","created_at":"2023-08-04T08:52:19.385406455-07:00","message":{"role":"assistant","content":"Gr","images":null},"done":false})",
       "",
       R"({"model":"m","created_at":"x","message":{"role":"assistant","content":"üße"},"done":false})"
       "\r",
       kOllamaDone, "what follows is ignored"});
  const auto wire = MakeOllama({});
  for (const size_t cut : kOllamaCuts) {
    const ReadStream read = ReadInPieces(*wire, ChatRequest(), stream, cut);
    ASSERT_FALSE(read.failure) << read.failure->status.message();
    EXPECT_THAT(read.sink.pieces, ElementsAre("Gr", "üße"));
    EXPECT_TRUE(read.complete);
    EXPECT_EQ(read.end.reason, FinishReason::kStop);
    EXPECT_EQ(read.end.usage.prompt_tokens, 26);
    EXPECT_EQ(read.end.usage.completion_tokens, 4);
    EXPECT_FALSE(read.end.usage.cached_tokens >= 0);
  }
}

TEST(OllamaWire, ReadsATextWithLogprobsAndThoughts) {
  Request request = CompletionRequest();
  request.logprobs = 1;
  const std::string stream = Lines(
      {R"({"model":"m","response":"","thinking":"Hm.","done":false})",
       R"({"model":"m","response":" a","done":false,"logprobs":[{"token":" a","logprob":-0.5,"bytes":[32,97],"top_logprobs":[{"token":" a","logprob":-0.5,"bytes":[32,97]},{"token":" b","logprob":-1}]}]})",
       R"({"model":"m","response":"","done":true,"done_reason":"length","prompt_eval_count":2,"prompt_eval_cached_count":1,"eval_count":8})"});
  for (const size_t cut : kOllamaCuts) {
    const ReadStream read = ReadInPieces(*MakeOllama({}), request, stream, cut);
    ASSERT_FALSE(read.failure) << read.failure->status.message();
    EXPECT_EQ(read.sink.reasoning, "Hm.");
    EXPECT_EQ(read.sink.text, " a");
    ASSERT_EQ(read.sink.tokens.size(), 1u);
    EXPECT_EQ(read.sink.tokens[0].bytes, " a");
    EXPECT_EQ(read.sink.tokens[0].top_logprobs.size(), 1u);
    EXPECT_EQ(read.end.reason, FinishReason::kLength);
    EXPECT_EQ(read.end.usage.cached_tokens, 1);
  }
}

TEST(OllamaWire, ItsCallsAreWhole) {
  const std::string stream = Lines(
      {R"({"message":{"role":"assistant","content":"","thinking":"Weather\ud83d"},"done":false})",
       R"({"message":{"content":"","thinking":"\ude00."},"done":false})",
       R"({"message":{"content":"","tool_calls":[{"function":{"name":"get","arguments":{"city":"Bozen","days":[1,2.5]}}}]},"done":false})",
       R"({"message":{"content":"","tool_calls":[{"id":"x1","function":{"index":0,"name":"get","arguments":{}}},{"function":{"name":"now"}}]},"done":false})",
       R"({"message":{"content":""},"done":true,"done_reason":"stop","prompt_eval_count":9,"eval_count":6})"});
  for (const size_t cut : kOllamaCuts) {
    const ReadStream read = ReadInPieces(*MakeOllama({}), ChatRequest(), stream, cut);
    ASSERT_FALSE(read.failure) << read.failure->status.message();
    EXPECT_EQ(read.sink.reasoning, "Weather😀.");
    EXPECT_EQ(read.sink.text, "");
    EXPECT_EQ(Shown(read.sink.calls),
              R"(call_2_0 get({"city":"Bozen","days":[1,2.5]}) x1 get({}) call_2_2 now({}) )");
    EXPECT_EQ(read.end.reason, FinishReason::kStop);
    EXPECT_EQ(read.end.usage.completion_tokens, 6);
  }
}

TEST(OllamaWire, OldServersGiveNoReason) {
  const std::string full = Lines({R"({"response":"a","done":true,"eval_count":8})"});
  const std::string some = Lines({R"({"response":"a","done":true,"eval_count":7})"});
  const auto wire = MakeOllama({});
  EXPECT_EQ(ReadInPieces(*wire, CompletionRequest(), full, 9).end.reason, FinishReason::kLength);
  EXPECT_EQ(ReadInPieces(*wire, CompletionRequest(), some, 9).end.reason, FinishReason::kStop);
}

TEST(OllamaWire, ABrokenStreamFailsWithItsReason) {
  const std::string good = R"({"model":"m","response":"x","done":false})";
  const std::pair<std::string, const char*> cases[] = {
      {Lines({good, R"({"error":"an error was encountered while running the model"})"}),
       "an error was encountered"},
      {Lines({good}) + R"({"error":"without an end of line"})", "without an end of line"},
      {Lines({good}), "without a line that has 'done': true"},
      {Lines({good}) + R"({"model":"m","resp)", "not valid JSON"},
      {Lines({good, "data: {}"}), "not valid JSON"},
      {Lines({good, "7"}), "not a JSON object"},
      {Lines({R"({"model":"m","message":{"content":"y"}})"}), "answered a chat with a completion"},
      {std::string(WireReply::kMaxEventBytes + 1, ' '), "more than 1048576 bytes"},
      {Lines({std::string(100, '[')}), "nested deeper"},
      {"", "without a line that has 'done': true"},
  };
  for (const auto& [stream, words] : cases) {
    for (const size_t cut : {size_t{7}, size_t{1} << 22U}) {
      const ReadStream read = ReadInPieces(*MakeOllama({}), CompletionRequest(), stream, cut);
      ASSERT_TRUE(read.failure.has_value()) << words;
      EXPECT_EQ(read.failure->kind, FailureKind::kBroken) << words;
      EXPECT_THAT(read.failure->status.message(), HasSubstr(words));
    }
  }
}

TEST(OllamaWire, ReadsWhatOrdinaryClientsRead) {
  const std::string done = R"({"done":"true","done_reason":"stop","eval_count":"2","model":null})";
  std::string idle;
  for (int i = 0; i < 200; ++i) idle += "\r\n{\"done\":false}\n";
  const std::pair<std::string, const char*> cases[] = {
      {"\xEF\xBB\xBF" + Lines({R"({"response":"Hello"})", done}), "Hello"},
      {Lines({R"({"response":[{"type":"text","text":"Hel"},"lo"],"error":null})", done}), "Hello"},
      {Lines({R"({"response":"a\ud83d"})", R"({"response":"\ude00b"})", done}), "a😀b"},
      {Lines({R"({"response":"a\ud83d"})", done}), "a\uFFFD"},
      {Lines({R"({"response":"a","response":"Hello"})", done}), "Hello"},
      {idle + Lines({R"({"response":"Hello"})", done}), "Hello"},
      {R"({"response":"Hello","done":true,"eval_count":2})", "Hello"},
  };
  for (const auto& [stream, text] : cases) {
    for (const size_t cut : kOllamaCuts) {
      const ReadStream read = ReadInPieces(*MakeOllama({}), CompletionRequest(), stream, cut);
      ASSERT_FALSE(read.failure) << read.failure->status.message() << " in " << stream;
      EXPECT_EQ(read.sink.text, text);
      EXPECT_EQ(read.end.usage.completion_tokens, 2);
    }
  }
}

TEST(OllamaWire, AFieldOfAnUnexpectedTypeIsNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"message":"Hello"})", "'message' as a string"},
      {R"({"message":{"content":7}})", "'content' as a number"},
      {R"({"message":{"content":[{"type":"image"}]}})", "'image'"},
      {R"({"message":{"content":"a","thinking":true}})", "'thinking' as a boolean"},
      {R"({"message":{"tool_calls":{}}})", "'tool_calls' as an object"},
      {R"({"message":{"tool_calls":[{"function":{"name":"f","arguments":3}}]}})",
       "'tool_calls.function.arguments' as a number"},
      {R"({"message":{"tool_calls":[{"function":{"arguments":{}}}]}})", "has no name"},
      {R"({"done":"maybe"})", "'done' as a string"},
      {R"({"done":true,"done_reason":[]})", "'done_reason' as a list"},
      {R"({"done":true,"eval_count":"two"})", "'eval_count' as a string"},
      {R"({"done":true,"prompt_eval_count":{}})", "'prompt_eval_count' as an object"},
      {R"({"message":{"content":"a"},"logprobs":"x"})", "'logprobs' as a string"},
      {R"({"error":{"code":7}})", "an error: {\"code\":7}"},
  };
  Request request = ChatRequest();
  request.logprobs = 0;
  for (const auto& [line, words] : cases) {
    const ReadStream read = ReadInPieces(*MakeOllama({}), request, Lines({line, kOllamaDone}), 7);
    ASSERT_TRUE(read.failure.has_value()) << line;
    EXPECT_THAT(read.failure->status.message(), HasSubstr(words)) << line;
    EXPECT_EQ(read.sink.text, "") << line;
  }
}

TEST(OllamaWire, AStreamBeyondNumPredictIsCut) {
  const std::vector<std::string> lines(2000, R"({"response":" x","done":false})");
  const ReadStream read = ReadInPieces(*MakeOllama({}), CompletionRequest(), Lines(lines), 1 << 20);
  ASSERT_TRUE(read.failure.has_value());
  EXPECT_THAT(read.failure->status.message(), HasSubstr("more than the 8 tokens"));
}

TEST(OllamaWire, TellsItsModels) {
  const auto wire = MakeOllama({});
  BackendFacts facts;
  EXPECT_TRUE(ReadProbes(wire.get(),
                         {{"/api/version", R"({"version":"0.12.11"})"},
                          {"/api/tags", R"({"models":[{"name":"a:latest"},{},{"name":"b:1b"}]})"}},
                         &facts)
                  .ok());
  EXPECT_THAT(facts.models, ElementsAre("a:latest", "b:1b"));
  EXPECT_TRUE(facts.ready);
  EXPECT_FALSE(facts.places.has_value()) << "it does not say";
  EXPECT_FALSE(ReadProbes(wire.get(), {{"/api/version", "Ollama is running"}}, &facts).ok());
}

TEST(OllamaWire, AReasonToEndMeansWhatItMeansElsewhere) {
  const auto ended = [](const std::string& reason) {
    const std::string last = R"({"response":"","done":true,"done_reason":")" + reason + "\"}";
    return ReadInPieces(*MakeOllama({}), CompletionRequest(),
                        Lines({R"({"response":"a","done":false})", last}), 7);
  };
  for (const char* reason : {"length", "max_tokens", "model_length"}) {
    EXPECT_EQ(ended(reason).end.reason, FinishReason::kLength) << reason;
  }
  EXPECT_EQ(ended("stop").end.reason, FinishReason::kStop);
  EXPECT_TRUE(ended("error").failure.has_value());
}

}  // namespace
}  // namespace ropeway::api::wire
