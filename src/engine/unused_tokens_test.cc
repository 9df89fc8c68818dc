// Tokens of type unused are never generated.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "model/test_gguf_writer.h"
#include "ropeway/engine.h"

namespace ropeway::engine {
namespace {

constexpr TokenId kUnusedEnd = 2;        // "<|im_end|>", the file's eos token.
constexpr TokenId kFirstUnused = 3 + 8;  // From here on, every third one.

bool IsUnusedHere(TokenId id) { return id >= kFirstUnused && id % 3 == 0; }

class UnusedTokensTest : public testing::Test {
 protected:
  UnusedTokensTest() : file_(Bytes()) {
    EngineOptions options;
    options.model.path = file_.path();
    options.threads = 1;
    options.cache.kv_bytes = 1 << 20;
    StatusOr<std::unique_ptr<Engine>> made = Engine::Create(options);
    EXPECT_TRUE(made.ok()) << made.status().message();
    if (made.ok()) engine_ = *std::move(made);
  }

  static std::string Bytes() {
    model::GgufWriter file = model::TinyLlama();
    std::vector<int32_t> types(model::kTinyVocab, 1);
    std::fill(types.begin(), types.begin() + 3, 3);
    types[kUnusedEnd] = 5;
    for (TokenId id = 0; id < model::kTinyVocab; ++id) {
      if (IsUnusedHere(id)) types[static_cast<size_t>(id)] = 5;
    }
    file.SetInt32s("tokenizer.ggml.token_type", types);
    return file.Bytes();
  }

  StatusOr<Result> Say(const Request& request) {
    StatusOr<RequestHandle> handle = engine_->Submit(request);
    if (!handle.ok()) return handle.status();
    return handle->Wait(std::chrono::seconds(60));
  }

  const model::TempFile file_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(UnusedTokensTest, AreNeverGenerated) {
  Request request;
  // Ids of such rows may stand in a prompt.
  request.prompt = std::vector<TokenId>{12, 40, 41, 42, 15};
  request.max_tokens = 40;
  request.ignore_eos = true;
  request.sampling.seed = 4;
  for (const float temperature : {0.0F, 1.0F, 2.0F}) {
    for (const int logprobs : {-1, 20}) {
      request.sampling.temperature = temperature;
      request.sampling.logit_bias.clear();
      if (temperature > 0) {
        request.sampling.logit_bias = {{12, 100.0F}, {15, 100.0F}, {18, 100.0F}};
      }
      request.logprobs.reset();
      if (logprobs >= 0) request.logprobs = logprobs;
      const StatusOr<Result> result = Say(request);
      ASSERT_TRUE(result.ok()) << result.status().message();
      EXPECT_EQ(result->tokens.size(), 40U);
      for (const OutputToken& token : result->tokens) {
        EXPECT_FALSE(IsUnusedHere(token.id));
        for (const TokenLogprob& top : token.top_logprobs) EXPECT_FALSE(IsUnusedHere(top.id));
      }
    }
  }
}

TEST_F(UnusedTokensTest, AnEndThatTheFileNamesIsGeneratedAllTheSame) {
  Request request;
  request.prompt = std::string("the");
  request.max_tokens = 5;
  request.sampling.logit_bias = {{kUnusedEnd, 100.0F}};
  const StatusOr<Result> result = Say(request);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->finish.reason, FinishReason::kStop);
}

}  // namespace
}  // namespace ropeway::engine
