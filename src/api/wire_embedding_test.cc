// Embeddings behind a gateway: what each kind of server is sent, and what is read of its answer.
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
using testing::ElementsAre;
using testing::HasSubstr;

Request EmbeddingRequest(const EmbeddingParams& params = {}) {
  Request request;
  request.prompt = std::string("Once");
  request.model = "asked";
  request.max_tokens = 0;
  request.sampling.given = SamplingParams::kNoneGiven;
  request.embedding = params;
  return request;
}

std::vector<std::unique_ptr<WireFormat>> EmbeddingKinds() {
  std::vector<std::unique_ptr<WireFormat>> all;
  all.push_back(MakeOpenAi({}));
  all.push_back(MakeLlamaCpp({}));
  all.push_back(MakeOllama({}));
  all.push_back(MakeRopeway({}));
  return all;
}

std::pair<std::string, json> WrittenEmbedding(const WireFormat& wire, const Request& request) {
  const StatusOr<WireRequest> written = wire.Write(request);
  EXPECT_TRUE(written.ok()) << written.status().message();
  if (!written.ok()) return {};
  return {written->path, json::parse(written->body)};
}

// What reading `body` gives, in pieces of any size.
std::vector<float> EmbeddingNumbers(const std::string& body, Outcome* end) {
  std::vector<float> last;
  for (const size_t cut : {size_t{1}, size_t{7}, size_t{1} << 20U}) {
    for (const auto& wire : EmbeddingKinds()) {
      const auto reply = wire->MakeReply(EmbeddingRequest());
      std::vector<float> given;
      int deltas = 0;
      const auto give = [&](Delta delta) {
        ++deltas;
        given = std::move(delta.embedding);
      };
      for (size_t at = 0; at < body.size(); at += cut) {
        EXPECT_FALSE(reply->Feed(std::string(body.substr(at, cut)), give));
      }
      *end = reply->End(give);
      EXPECT_EQ(deltas, end->status.ok() ? 1 : 0);
      last = given;
    }
  }
  return last;
}

std::string EmbeddingFaultOf(const std::string& body) {
  Outcome end;
  EmbeddingNumbers(body, &end);
  EXPECT_FALSE(end.status.ok()) << body;
  return end.status.message();
}

TEST(WireEmbeddingTest, EachKindIsAskedItsOwnWay) {
  const auto [path, body] = WrittenEmbedding(*MakeOpenAi({}), EmbeddingRequest());
  EXPECT_EQ(path, "/v1/embeddings");
  EXPECT_EQ(body, json::parse(R"({"model":"asked","input":"Once","encoding_format":"float"})"));
  const auto [llama_path, llama] = WrittenEmbedding(*MakeLlamaCpp({}), EmbeddingRequest());
  EXPECT_EQ(llama_path, "/v1/embeddings");
  EXPECT_EQ(llama, json::parse(R"({"model":"asked","input":"Once","encoding_format":"base64"})"));
  const auto [ollama_path, ollama] = WrittenEmbedding(*MakeOllama({}), EmbeddingRequest());
  EXPECT_EQ(ollama_path, "/api/embed");
  EXPECT_EQ(ollama, json::parse(R"({"model":"asked","input":"Once","truncate":false})"));
  Request request =
      EmbeddingRequest({.pooling = Pooling::kMean, .normalize = false, .truncate = true});
  request.cache_salt = "s";
  request.timeout = std::chrono::milliseconds(1500);
  auto [ropeway_path, ropeway] = WrittenEmbedding(*MakeRopeway({}), request);
  EXPECT_EQ(ropeway_path, "/v1/embeddings");
  EXPECT_EQ(ropeway["pooling"], "mean");
  EXPECT_EQ(ropeway["normalize"], false);
  EXPECT_EQ(ropeway["truncate"], true);
  EXPECT_EQ(ropeway["timeout"], 1.5);
  EXPECT_EQ(ropeway["priority"], "medium");
  EXPECT_FALSE(ropeway.contains("max_tokens"));
  EXPECT_FALSE(ropeway.contains("stream"));
}

TEST(WireEmbeddingTest, WhatAKindCannotDoIsNamed) {
  for (const auto& wire : {MakeOpenAi({}), MakeLlamaCpp({}), MakeOllama({})}) {
    const auto written = wire->Write(EmbeddingRequest({.pooling = Pooling::kMean}));
    EXPECT_EQ(written.status().field(), "pooling");
    EXPECT_EQ(written.status().code(), StatusCode::kUnimplemented);
  }
  const Request plain = EmbeddingRequest({.normalize = false});
  EXPECT_EQ(MakeOpenAi({})->Write(plain).status().field(), "normalize");
  EXPECT_EQ(WrittenEmbedding(*MakeLlamaCpp({}), plain).second["embd_normalize"], -1);
  const auto [path, body] = WrittenEmbedding(*MakeOllama({}), plain);
  EXPECT_EQ(path, "/api/embeddings");
  EXPECT_EQ(body, json::parse(R"({"model":"asked","prompt":"Once"})"));
  Request ids = EmbeddingRequest();
  ids.prompt = std::vector<TokenId>{1, 2};
  EXPECT_EQ(WrittenEmbedding(*MakeOpenAi({}), ids).second["input"], json::parse("[1,2]"));
  EXPECT_EQ(MakeOllama({})->Write(ids).status().field(), "prompt");
}

TEST(WireEmbeddingTest, EveryShapeOfAnswerIsRead) {
  Outcome end;
  EXPECT_THAT(
      EmbeddingNumbers(
          R"({"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5,-1]}],
                  "model":"m","usage":{"prompt_tokens":3,"total_tokens":3}})",
          &end),
      ElementsAre(0.5F, -1.0F));
  EXPECT_TRUE(end.status.ok());
  EXPECT_EQ(end.finish.usage.prompt_tokens, 3);
  EXPECT_EQ(end.finish.usage.completion_tokens, 0);
  EXPECT_EQ(end.finish.reason, FinishReason::kLength);
  EXPECT_THAT(EmbeddingNumbers(R"({"data":[{"embedding":"AACAPwAAAMDNzMw9"}]})", &end),
              ElementsAre(1.0F, -2.0F, 0.1F));
  EXPECT_THAT(EmbeddingNumbers(R"({"data":[{"embedding":"AACAPwAAAMA="}]})", &end),
              ElementsAre(1.0F, -2.0F));
  EXPECT_THAT(EmbeddingNumbers(R"({"model":"m","embeddings":[[0.25]],"total_duration":5,
                          "prompt_eval_count":9})",
                               &end),
              ElementsAre(0.25F));
  EXPECT_EQ(end.finish.usage.prompt_tokens, 9);
  EXPECT_THAT(EmbeddingNumbers(R"({"embedding":[3,4]})", &end), ElementsAre(3.0F, 4.0F));
}

TEST(WireEmbeddingTest, ABrokenAnswerIsAFailure) {
  EXPECT_THAT(EmbeddingFaultOf(""), HasSubstr("broken answer"));
  EXPECT_THAT(EmbeddingFaultOf("{\"data\":["), HasSubstr("broken answer"));
  EXPECT_THAT(EmbeddingFaultOf("[]"), HasSubstr("error"));
  EXPECT_THAT(EmbeddingFaultOf(R"({"error":{"message":"no embeddings here"}})"),
              HasSubstr("no embeddings here"));
  for (const char* wrong : {"[]", "[\"a\"]", "\"\"", "\"AACAPw=A\"", "\"AAC\"", "{}", "1",
                            "[1e300]", "true", "[null]"}) {
    EXPECT_THAT(EmbeddingFaultOf(R"({"data":[{"embedding":)" + std::string(wrong) + "}]}"),
                HasSubstr("embedding"))
        << wrong;
  }
  EXPECT_THAT(EmbeddingFaultOf(R"({"data":[{"embedding":[1]},{"embedding":[2]}]})"),
              HasSubstr("more than"));
  EXPECT_THAT(EmbeddingFaultOf(R"({"data":1})"), HasSubstr("data"));
  const auto reply = MakeOpenAi({})->MakeReply(EmbeddingRequest());
  EXPECT_TRUE(reply->Feed(std::string((size_t{1} << 20U) + 1, ' '), [](Delta) {}));
}

}  // namespace
}  // namespace ropeway::api::wire
