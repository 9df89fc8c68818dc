// Requests that go on in another engine, with real engines over a tiny random model: behind every
// token the tokens and log-probs equal the uninterrupted run's, to the bit.
#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "engine/llm_engine.h"
#include "engine/open_engine.h"
#include "kernels/kernels.h"
#include "model/test_gguf_writer.h"
#include "model/test_tiny_models.h"
#include "ropeway/engine.h"

namespace ropeway::engine {
namespace {

class EngineResumeTest : public testing::Test {
 protected:
  std::unique_ptr<Engine> Open(int max_num_batched_tokens, const std::string& kv_dtype,
                               const std::string& path = "", int32_t max_model_len = 0) {
    EngineOptions options;
    options.model.path = path.empty() ? file_.path() : path;
    options.model.max_model_len = max_model_len;
    options.threads = 1;
    options.cache.kv_bytes = 1 << 20;
    options.cache.kv_dtype = kv_dtype;
    options.scheduler.max_num_batched_tokens = max_num_batched_tokens;
    auto engine = Engine::Create(options);
    EXPECT_TRUE(engine.ok()) << engine.status().message();
    return engine.ok() ? *std::move(engine) : nullptr;
  }

  static std::vector<uint32_t> BitsOf(const OutputToken& token) {
    std::vector<uint32_t> bits = {static_cast<uint32_t>(token.id),
                                  std::bit_cast<uint32_t>(token.logprob)};
    for (const TokenLogprob& top : token.top_logprobs) {
      bits.push_back(static_cast<uint32_t>(top.id));
      bits.push_back(std::bit_cast<uint32_t>(top.logprob));
    }
    return bits;
  }

  // What each parameter that looks at the ids so far, or at the position, decides.
  static std::vector<Request> Requests(
      const std::string& prompt = "Once upon a time, in the valley below the rope") {
    std::vector<Request> all(4);
    for (size_t i = 0; i < all.size(); ++i) {
      Request& request = all[i];
      request.prompt = prompt;
      request.max_tokens = 36;
      request.logprobs = 2;
      request.sampling.temperature = 0.8F;
      request.sampling.seed = 20261201;
      request.choice = static_cast<uint32_t>(i % 2);
      request.sampling.min_tokens = i == 2 ? 30 : 0;
      request.ignore_eos = i == 1;
    }
    all[1].sampling.presence_penalty = 0.7F;
    all[1].sampling.frequency_penalty = 0.3F;
    all[1].sampling.repetition_penalty = 1.2F;
    all[2].sampling.top_p = 0.9F;
    all[2].sampling.repetition_penalty = 1.5F;
    all[3].sampling.temperature = 0.0F;
    all[3].sampling.frequency_penalty = 1.0F;
    return all;
  }

  // Waits for all: they run together.
  static std::vector<Result> Run(Engine* engine, const std::vector<Request>& requests) {
    std::vector<RequestHandle> handles;
    for (const Request& request : requests) {
      auto handle = engine->Submit(request);
      EXPECT_TRUE(handle.ok()) << handle.status().message();
      if (handle.ok()) handles.push_back(*std::move(handle));
    }
    std::vector<Result> results;
    for (RequestHandle& handle : handles) results.push_back(*handle.Wait(std::chrono::seconds(60)));
    return results;
  }

  static void ExpectRest(const Result& whole, size_t done, const Result& rest) {
    SCOPED_TRACE(testing::Message() << "behind " << done << " tokens");
    EXPECT_TRUE(rest.status.ok()) << rest.status.message();
    ASSERT_EQ(rest.tokens.size(), whole.tokens.size() - done);
    for (size_t i = 0; i < rest.tokens.size(); ++i) {
      EXPECT_EQ(BitsOf(rest.tokens[i]), BitsOf(whole.tokens[done + i]));
      EXPECT_EQ(rest.tokens[i].text_offset, whole.tokens[done + i].text_offset);
    }
    EXPECT_TRUE(whole.text.ends_with(rest.text));
    EXPECT_EQ(rest.finish.reason, whole.finish.reason);
    EXPECT_EQ(rest.finish.usage.completion_tokens, whole.finish.usage.completion_tokens);
    EXPECT_EQ(rest.finish.usage.prompt_tokens, whole.finish.usage.prompt_tokens);
  }

  // What `first` generates, `second` goes on with behind each token.
  static void ExpectRests(Engine* first, Engine* second, const std::vector<Request>& requests) {
    const std::vector<Result> wholes = Run(first, requests);
    ASSERT_EQ(wholes.size(), requests.size());
    for (size_t i = 0; i < requests.size(); ++i) {
      std::vector<Request> rests;
      Request rest = requests[i];
      for (const OutputToken& token : wholes[i].tokens) {
        rest.resume_ids.push_back(token.id);
        rests.push_back(rest);
      }
      const std::vector<Result> results = Run(second, rests);
      ASSERT_EQ(results.size(), wholes[i].tokens.size());
      for (size_t k = 0; k < results.size(); ++k) ExpectRest(wholes[i], k + 1, results[k]);
    }
  }

  const model::TempFile file_{model::TinyLlama().Bytes()};
};

TEST_F(EngineResumeTest, AnotherEngineGoesOnToTheBit) {
  for (const char* kv_dtype : {"f16", "q8_0"}) {
    const auto first = Open(512, kv_dtype);
    const auto second = Open(7, kv_dtype);
    ASSERT_TRUE(first && second);
    ExpectRests(first.get(), second.get(), Requests());
  }
}

// The sequence's length alone chooses the factors of LongRoPE; the engine's limit and the moment at
// which the sequence resumes change nothing.
TEST_F(EngineResumeTest, SoItDoesAcrossTheLengthOfLongRope) {
  const model::TempFile file(model::TinyModel("phi3long").Bytes());  // 32 positions, then long.
  const auto first = Open(512, "f16", file.path());
  const auto second = Open(7, "f16", file.path(), 64);
  ASSERT_TRUE(first && second);
  ExpectRests(first.get(), second.get(), Requests("Once upon a time"));
}

TEST_F(EngineResumeTest, AShortSequenceIsTheSameWithAnyLimit) {
  const model::TempFile file(model::TinyModel("phi3long").Bytes());
  const auto all = Open(512, "f16", file.path());
  const auto few = Open(512, "f16", file.path(), 32);
  ASSERT_TRUE(all && few);
  std::vector<Request> requests = Requests("Once");
  for (Request& request : requests) {
    request.max_tokens = 20;
    request.sampling.min_tokens = 0;
  }
  const std::vector<Result> results = Run(all.get(), requests);
  const std::vector<Result> same = Run(few.get(), requests);
  for (size_t i = 0; i < requests.size(); ++i) ExpectRest(results[i], 0, same[i]);
}

// Another seed draws other numbers at the same positions: the engine says so rather than go on.
TEST_F(EngineResumeTest, AnotherSeedIsNoticed) {
  const auto engine = Open(512, "f16");
  ASSERT_TRUE(engine);
  Request request = Requests()[0];
  request.sampling.temperature = 2.0F;
  request.ignore_eos = true;
  const Result whole = Run(engine.get(), {request})[0];
  ASSERT_EQ(whole.tokens.size(), 36U);
  // By chance a token of a tiny vocabulary is the same: of several not all are.
  std::vector<Request> others;
  for (const OutputToken& token : whole.tokens) {
    request.resume_ids.push_back(token.id);
    others.push_back(request);
    others.back().sampling.seed = 1;
  }
  int noticed = 0;
  for (const Result& other : Run(engine.get(), others)) {
    if (other.status.code() != StatusCode::kInternal) continue;
    ++noticed;
    EXPECT_EQ(other.status.field(), "resume_ids");
  }
  EXPECT_GT(noticed, 18);
}

TEST_F(EngineResumeTest, WhatDecidesTheBitsIsTold) {
  const base::RealClock clock;
  base::SystemRandom random;
  const auto info = [&](bool digest, const char* kv_dtype, const char* chat_template) {
    EngineOptions options;
    options.model.path = file_.path();
    options.model.digest = digest;
    options.model.chat_template = chat_template;
    options.threads = 1;
    options.cache.kv_bytes = 1 << 20;
    options.cache.kv_dtype = kv_dtype;
    auto opened = OpenEngine(options, &clock, &random);
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    return opened.ok() ? (*opened)->Models().front() : service::ModelInfo();
  };
  const service::ModelInfo one = info(true, "f16", "");
  EXPECT_EQ(one.digest.size(), 64U);
  EXPECT_EQ(one.numerics, std::to_string(kernels::kNumericsVersion));
  EXPECT_TRUE(one.limits.starts_with("max_model_len 512; KV f16; ")) << one.limits;
  EXPECT_GT(one.vocabulary, 0);
  const service::ModelInfo same = info(true, "f16", "");
  EXPECT_EQ(same.digest, one.digest);
  EXPECT_EQ(same.limits, one.limits);
  EXPECT_NE(info(true, "q8_0", "").limits, one.limits);
  EXPECT_NE(info(true, "f16", "{{ messages[0].content }}").limits, one.limits);
  EXPECT_EQ(info(false, "f16", "").digest, "") << "to read the files once more takes time";
}

}  // namespace
}  // namespace ropeway::engine
