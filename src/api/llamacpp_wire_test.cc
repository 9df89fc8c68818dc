#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "api/test_wire.h"
#include "api/wire_format.h"

namespace ropeway::api::wire {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr size_t kLlamaCuts[] = {1, 7, 1 << 20};

TEST(LlamaCppWire, NamesParametersItsOwnWay) {
  const auto wire = MakeLlamaCpp({});
  Request request = EverythingGiven();
  request.sampling.seed = 0xFFFFFFFFFFFFFFFFU;
  request.logprobs = 0;
  const json body = json::parse(WrittenBody(*wire, request));
  EXPECT_EQ(body["repeat_penalty"], 1.1);
  EXPECT_EQ(body["typical_p"], 0.5);
  EXPECT_EQ(body["ignore_eos"], true);
  EXPECT_EQ(body["logprobs"], 1) << "0 would be none at all";
  EXPECT_LT(body["seed"].get<uint64_t>(), uint64_t{1} << 31U);
  EXPECT_THAT(wire->Unknown(request), ElementsAre("min_tokens", "stop_token_ids", "cache_salt"));
  request.sampling.seed = 7;
  EXPECT_EQ(json::parse(WrittenBody(*wire, request))["seed"], 7);
  // By itself it sends thoughts apart.
  EXPECT_FALSE(json::parse(WrittenBody(*wire, ChatRequest())).contains("reasoning_format"));
}

// As llama-server streams a completion with "logprobs": in the shape of a chat.
TEST(LlamaCppWire, ReadsACompletion) {
  Request request = CompletionRequest();
  request.logprobs = 0;
  const std::string stream = Events(
      {R"({"choices":[{"text":" upon","index":0,"logprobs":{"content":[{"id":2402,"token":" upon","bytes":[32,117,112,111,110],"logprob":-0.5,"top_logprobs":[{"id":2402,"token":" upon","bytes":[32,117,112,111,110],"logprob":-0.5}]}]},"finish_reason":null}],"created":1,"model":"m","system_fingerprint":"b1-x","object":"text_completion","id":"chatcmpl-x"})",
       R"({"choices":[{"text":"","index":0,"logprobs":null,"finish_reason":"stop"}],"created":1,"model":"m","object":"text_completion","usage":{"completion_tokens":2,"prompt_tokens":1,"total_tokens":3},"id":"chatcmpl-x","timings":{"cache_n":1,"prompt_n":0}})"});
  for (const size_t cut : kLlamaCuts) {
    const ReadStream read = ReadInPieces(*MakeLlamaCpp({}), request, stream, cut);
    ASSERT_FALSE(read.failure) << read.failure->status.message();
    EXPECT_EQ(read.sink.text, " upon");
    ASSERT_EQ(read.sink.tokens.size(), 1u);
    EXPECT_EQ(read.sink.tokens[0].id, 2402);
    EXPECT_THAT(read.sink.tokens[0].top_logprobs, IsEmpty());
    EXPECT_EQ(read.end.usage.completion_tokens, 2);
    EXPECT_EQ(read.end.usage.cached_tokens, 1);
  }
}

TEST(LlamaCppWire, TellsItsSlotsAndLoad) {
  const auto wire = MakeLlamaCpp({});
  EXPECT_THAT(ProbePaths(wire.get()), ElementsAre("/health", "/v1/models", "/props", "/slots"));
  BackendFacts facts;
  const std::vector<std::pair<std::string, std::string>> answers = {
      {"/health", R"({"status":"ok"})"},
      {"/v1/models", R"({"object":"list","data":[{"id":"m.gguf","owned_by":"llamacpp"}]})"},
      {"/props", R"({"total_slots":4,"endpoint_slots":true,"endpoint_metrics":true})"},
      {"/slots", R"([{"id":0,"is_processing":true},{"id":1,"is_processing":false},{"state":1}])"},
      {"/metrics", "llamacpp:requests_processing 2\nllamacpp:requests_deferred 5\n"}};
  EXPECT_TRUE(ReadProbes(wire.get(), answers, &facts).ok());
  EXPECT_THAT(facts.models, ElementsAre("m.gguf"));
  EXPECT_EQ(facts.places, 4);
  EXPECT_EQ(facts.running, 2);
  EXPECT_FALSE(facts.waiting.has_value());
  EXPECT_THAT(ProbePaths(wire.get()), Contains("/metrics")) << "they are on";
  EXPECT_TRUE(ReadProbes(wire.get(), answers, &facts).ok());
  EXPECT_EQ(facts.waiting, 5);
  EXPECT_FALSE(facts.free_memory.has_value());
  const std::pair<const char*, const char*> odd[] = {
      {"/props", R"({"total_slots":"many"})"},
      {"/props", R"({"endpoint_metrics":"perhaps"})"},
      {"/slots", R"({"slots":[]})"},
      {"/slots", R"([{"is_processing":"perhaps"}])"},
      {"/slots", "[7]"},
  };
  for (const auto& [path, body] : odd) {
    for (const WireProbe& probe : wire->Probes()) {
      if (probe.path != path) continue;
      EXPECT_THAT(probe.read(body, &facts).message(), HasSubstr("it sent the field '")) << body;
    }
  }
  BackendFacts garbage;
  EXPECT_TRUE(ReadProbes(wire.get(), {{"/props", "[]"}, {"/slots", "{}"}}, &garbage).ok());
  EXPECT_FALSE(garbage.places.has_value());
  EXPECT_FALSE(ReadProbes(wire.get(), {{"/health", "hello"}}, &garbage).ok());
}

}  // namespace
}  // namespace ropeway::api::wire
