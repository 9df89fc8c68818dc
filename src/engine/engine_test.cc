#include "ropeway/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <future>
#include <mutex>
#include <set>
#include <thread>

#include "engine/machine.h"
#include "model/test_gguf_writer.h"

namespace ropeway::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A real engine over a tiny random model.
class EngineTest : public testing::Test {
 protected:
  void Start(int frontend_threads = 1, int max_num_seqs = 8) {
    EngineOptions options;
    options.model.path = file_.path();
    options.model.served_name = "tiny";
    options.threads = 1;
    options.cache.kv_bytes = 1 << 20;
    options.scheduler.max_num_seqs = max_num_seqs;
    options.frontend_threads = frontend_threads;
    options.max_finished_bytes = max_finished_bytes_;
    auto engine = Engine::Create(options);
    ASSERT_TRUE(engine.ok()) << engine.status().message();
    engine_ = *std::move(engine);
  }

  static Request Greedy(const std::string& prompt, int32_t max_tokens) {
    Request request;
    request.prompt = prompt;
    request.max_tokens = max_tokens;
    request.sampling.temperature = 0.0F;
    request.ignore_eos = true;
    return request;
  }

  model::TempFile file_{model::TinyLlama().Bytes()};
  int64_t max_finished_bytes_ = 0;
  std::unique_ptr<Engine> engine_;
};

TEST_F(EngineTest, SubmitsAndWaits) {
  Start();
  const auto handle = engine_->Submit(Greedy("Once upon a time", 12));
  ASSERT_TRUE(handle.ok());
  const StatusOr<Result> result = handle->Wait(seconds(60));
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->status.ok());
  EXPECT_EQ(result->id, handle->id());
  EXPECT_EQ(result->tokens.size(), 12U);
  EXPECT_EQ(result->finish.reason, FinishReason::kLength);
  EXPECT_EQ(engine_->model_name(), "tiny");
  EXPECT_EQ(engine_->max_model_len(), 512);
  // The result stays, and the same request gives the same tokens again.
  EXPECT_EQ(handle->Poll()->text, result->text);
  const auto again = engine_->Submit(Greedy("Once upon a time", 12));
  EXPECT_EQ(again->Wait()->text, result->text);
  EXPECT_NE(again->id(), handle->id());
}

TEST_F(EngineTest, StatsAndFinishNameTheSameBatches) {
  Start();
  EXPECT_EQ(engine_->Stats().total_requests, 0U);
  EXPECT_EQ(engine_->Stats().max_batch_size, 8);
  Result last;
  for (int i = 0; i < 3; ++i) last = *engine_->Submit(Greedy("abc", 2))->Wait();
  EXPECT_TRUE(engine_->Drain(seconds(60)).ok());
  const EngineStats stats = engine_->Stats();
  EXPECT_EQ(stats.total_requests, 3U);
  EXPECT_EQ(stats.total_batches, last.finish.batch_num);
  EXPECT_EQ(stats.running + stats.queue_depth, 0);
  EXPECT_GE(stats.kv_blocks_free + stats.kv_blocks_cached, 1);
  EXPECT_GT(last.finish.times.prefill.count(), 0);
  EXPECT_GT(last.finish.times.output.count(), 0);
}

// Teacher-forced scores of a text are those that it got when it was generated, to the bit.
TEST_F(EngineTest, ScoresAPromptAsItWasGenerated) {
  Start();
  Request request;
  request.prompt = std::vector<TokenId>{1, 2, 3};
  request.sampling.temperature = 0.0F;
  request.ignore_eos = true;
  request.logprobs = 2;
  request.max_tokens = 10;
  const Result generated = *engine_->Submit(request)->Wait();
  ASSERT_EQ(generated.tokens.size(), 10U);
  EXPECT_TRUE(generated.prompt_tokens.empty());
  auto& ids = std::get<std::vector<TokenId>>(request.prompt);
  for (const OutputToken& token : generated.tokens) ids.push_back(token.id);
  request.prompt_logprobs = 2;
  request.max_tokens = 0;
  const Result scored = *engine_->Submit(request)->Wait();
  EXPECT_EQ(scored.finish.reason, FinishReason::kLength);
  EXPECT_TRUE(scored.tokens.empty());
  ASSERT_EQ(scored.prompt_tokens.size(), 13U);
  for (size_t i = 0; i < 10; ++i) {
    const OutputToken& expected = generated.tokens[i];
    const OutputToken& token = scored.prompt_tokens[i + 3];
    EXPECT_EQ(token.id, expected.id);
    EXPECT_EQ(token.logprob, expected.logprob) << i;
    EXPECT_EQ(token.top_bytes, expected.top_bytes);
  }
}

TEST_F(EngineTest, EmbedsPrompts) {
  Start();
  Request request;
  request.prompt = std::vector<TokenId>{1, 2, 3, 4, 5};
  request.embedding.emplace();
  const Result last = *engine_->Submit(request)->Wait();
  EXPECT_TRUE(last.status.ok()) << last.status.message();
  EXPECT_EQ(last.finish.reason, FinishReason::kLength);
  EXPECT_EQ(last.finish.usage.prompt_tokens, 5);
  EXPECT_EQ(last.finish.usage.completion_tokens, 0);
  EXPECT_TRUE(last.text.empty());
  ASSERT_FALSE(last.embedding.empty());
  double length = 0;
  for (const float x : last.embedding) length += double{x} * double{x};
  EXPECT_NEAR(length, 1.0, 1e-6);
  // Of one token, the mean is the last one's.
  request.prompt = std::vector<TokenId>{1};
  request.embedding->pooling = Pooling::kMean;
  const Result mean = *engine_->Submit(request)->Wait();
  request.embedding->pooling = Pooling::kLast;
  EXPECT_EQ(engine_->Submit(request)->Wait()->embedding, mean.embedding);
  EXPECT_NE(mean.embedding, last.embedding);
  request.max_tokens = 1;
  EXPECT_EQ(engine_->Submit(request).status().field(), "max_tokens");
}

TEST_F(EngineTest, WaitEndsAtItsTimeoutAndTheRequestGoesOn) {
  Start();
  // Without the promise a tiny model may be done before this thread gets to wait.
  std::promise<void> go_on;
  const auto handle =
      engine_->Submit(Greedy("Once", 400), [gate = go_on.get_future().share()](auto, const auto&) {
        gate.wait();
        return true;
      });
  ASSERT_TRUE(handle.ok());
  EXPECT_EQ(handle->Wait(milliseconds(0)).status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(handle->Wait(milliseconds(1)).status().code(), StatusCode::kDeadlineExceeded);
  go_on.set_value();
  EXPECT_EQ(handle->Wait(std::chrono::nanoseconds::max())->tokens.size(), 400U);
  EXPECT_FALSE(RequestHandle().Wait().ok());
  EXPECT_FALSE(RequestHandle().Poll());
}

TEST_F(EngineTest, StreamsWhatTheResultHolds) {
  Start();
  std::mutex mu;
  std::string text;
  size_t tokens = 0;
  const auto handle = engine_->Submit(Greedy("Stream", 20), [&](RequestId, const Delta& delta) {
    const std::lock_guard lock(mu);
    text += delta.text;
    tokens += delta.tokens.size();
    return true;
  });
  const Result result = *handle->Wait();
  const std::lock_guard lock(mu);
  EXPECT_EQ(text, result.text);
  EXPECT_EQ(tokens, 20U);
}

TEST_F(EngineTest, AStreamThatReturnsFalseIsACancel) {
  Start();
  int calls = 0;
  const auto handle = engine_->Submit(Greedy("Stream", 400),
                                      [&calls](RequestId, const Delta&) { return ++calls < 5; });
  const Result result = *handle->Wait();
  EXPECT_EQ(result.finish.reason, FinishReason::kCancelled);
  EXPECT_EQ(result.status.code(), StatusCode::kCancelled);
  EXPECT_EQ(calls, 5);
  EXPECT_EQ(result.tokens.size(), 5U);
}

TEST_F(EngineTest, CancelByHandleAndById) {
  Start();
  // On a busy machine a tiny model may be done before this thread gets to cancel.
  const auto cancelled = [&](const std::function<void(const RequestHandle&)>& cancel) {
    for (int i = 0; i < 50; ++i) {
      const auto handle = engine_->Submit(Greedy("one", 500));
      cancel(*handle);
      if (handle->Wait()->finish.reason == FinishReason::kCancelled) return true;
    }
    return false;
  };
  EXPECT_TRUE(cancelled([](const RequestHandle& handle) { handle.Cancel(); }));
  EXPECT_TRUE(cancelled([&](const RequestHandle& handle) { (void)engine_->Cancel(handle.id()); }));
  EXPECT_EQ(engine_->Cancel(12345).code(), StatusCode::kNotFound);
}

TEST_F(EngineTest, WhatHasEndedIsNotThereToCancel) {
  Start();
  for (int i = 0; i < 200; ++i) {
    // Rejected ones too: by the encoder, or by a cancel while they are encoded.
    const auto handle = engine_->Submit(Greedy(i % 3 == 0 ? std::string(600, 'x') : "one", 1));
    ASSERT_TRUE(handle.ok());
    if (i % 3 == 1) handle->Cancel();
    ASSERT_TRUE(handle->Wait().ok());
    ASSERT_EQ(engine_->Cancel(handle->id()).code(), StatusCode::kNotFound) << i;
  }
}

TEST_F(EngineTest, AHandleMayOutliveItsEngine) {
  Start();
  std::vector<RequestHandle> handles;
  for (int i = 0; i < 8; ++i) handles.push_back(*engine_->Submit(Greedy("one", 500)));
  std::atomic<bool> over = false;
  std::thread canceller([&] {
    while (!over) {
      for (const RequestHandle& handle : handles) handle.Cancel();
    }
  });
  engine_.reset();
  over = true;
  canceller.join();
  for (const RequestHandle& handle : handles) {
    handle.Cancel();
    ASSERT_TRUE(handle.Poll().has_value());
    EXPECT_EQ(handle.Wait()->id, handle.id());
  }
}

TEST_F(EngineTest, SubmitManyRepliesInOrderWithSeveralPromptThreads) {
  Start(4, 1);
  std::vector<Request> requests;
  for (int i = 0; i < 30; ++i) {
    // The first of each six takes longest to encode.
    requests.push_back(Greedy(std::string(i % 6 == 0 ? 400 : 3, 'a'), 1));
  }
  requests[7].max_tokens = -1;
  const auto handles = engine_->SubmitMany(std::move(requests));
  ASSERT_EQ(handles.size(), 30U);
  RequestId last_id = 0;
  std::set<uint64_t> steps;
  for (size_t i = 0; i < handles.size(); ++i) {
    ASSERT_EQ(handles[i].ok(), i != 7);
    if (i == 7) continue;
    EXPECT_GT(handles[i]->id(), last_id);
    last_id = handles[i]->id();
    const Result result = *handles[i]->Wait();
    EXPECT_EQ(result.finish.usage.prompt_tokens > 100, i % 6 == 0) << i;
    EXPECT_TRUE(steps.insert(result.finish.first_token_step).second) << i << ": there is one slot";
  }
}

TEST_F(EngineTest, WithoutABoundNothingIsKeptToBePolled) {
  Start();
  const auto stream = [](RequestId, const Delta&) { return true; };
  EXPECT_TRUE(engine_->Submit(Greedy("one", 3), stream)->Wait()->status.ok());
  EXPECT_TRUE(engine_->Submit(Greedy("two", 3))->Wait()->status.ok());
  EXPECT_TRUE(engine_->PollFinished().empty());
  EXPECT_EQ(engine_->dropped_results(), 0U);
}

TEST_F(EngineTest, TheOldestResultsAreDroppedBeyondTheBound) {
  max_finished_bytes_ = 20'000;
  Start();
  std::vector<RequestId> ids;
  for (int i = 0; i < 40; ++i) {
    const auto handle = engine_->Submit(Greedy("one", 20));
    ASSERT_TRUE(handle.ok());
    EXPECT_EQ(handle->Wait()->tokens.size(), 20U) << "its handle has it all the same";
    ids.push_back(handle->id());
  }
  const uint64_t dropped = engine_->dropped_results();
  const std::vector<Result> results = engine_->PollFinished();
  size_t bytes = 0;
  std::vector<RequestId> polled;
  for (const Result& result : results) {
    bytes += sizeof(Result) + result.text.size() + result.tokens.size() * sizeof(OutputToken);
    polled.push_back(result.id);
  }
  EXPECT_LE(bytes, 20'000U);
  ASSERT_GT(results.size(), 2U);
  EXPECT_EQ(dropped + results.size(), ids.size());
  EXPECT_EQ(polled,
            std::vector<RequestId>(ids.end() - static_cast<int64_t>(results.size()), ids.end()));
  // What was given out makes room.
  EXPECT_TRUE(engine_->Submit(Greedy("one", 20))->Wait().ok());
  EXPECT_EQ(engine_->PollFinished().size(), 1U);
  // One that is larger than all room.
  EXPECT_TRUE(engine_->Submit(Greedy("one", 400))->Wait().ok());
  EXPECT_TRUE(engine_->PollFinished().empty());
  EXPECT_EQ(engine_->dropped_results(), dropped + 1);
}

TEST_F(EngineTest, PollFinishedGivesEachResultOnce) {
  max_finished_bytes_ = int64_t{64} << 20;
  Start(2);
  std::set<RequestId> submitted;
  for (int i = 0; i < 40; ++i) {
    const auto handle = engine_->Submit(Greedy("request " + std::to_string(i), 1 + i % 7));
    ASSERT_TRUE(handle.ok());
    submitted.insert(handle->id());
  }
  std::mutex mu;
  std::multiset<RequestId> polled;
  std::vector<std::thread> pollers;
  for (int t = 0; t < 3; ++t) {
    pollers.emplace_back([&] {
      const auto patience = std::chrono::steady_clock::now() + seconds(60);
      while (std::chrono::steady_clock::now() < patience) {
        const std::vector<Result> results = engine_->PollFinished(4);
        EXPECT_LE(results.size(), 4U);
        const std::lock_guard lock(mu);
        for (const Result& result : results) polled.insert(result.id);
        if (polled.size() >= submitted.size()) return;
      }
    });
  }
  for (std::thread& poller : pollers) poller.join();
  EXPECT_THAT(polled, testing::ElementsAreArray(submitted));
  EXPECT_TRUE(engine_->PollFinished().empty());
}

TEST_F(EngineTest, RefusalsAfterSubmitAreInTheResult) {
  Start();
  const auto handle = engine_->Submit(Greedy(std::string(2000, 'x'), 1));
  ASSERT_TRUE(handle.ok());
  const Result result = *handle->Wait();
  EXPECT_EQ(result.status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(result.finish.reason, FinishReason::kFailed);
  EXPECT_EQ(result.id, handle->id());
}

TEST_F(EngineTest, DrainRefusesAndEndsAll) {
  Start();
  const auto handle = engine_->Submit(Greedy("last", 50));
  EXPECT_TRUE(engine_->Drain(seconds(60)).ok());
  EXPECT_TRUE(handle->Poll().has_value());
  EXPECT_EQ(engine_->Submit(Greedy("late", 1)).status().code(), StatusCode::kUnavailable);
}

TEST_F(EngineTest, AGivenChatTemplateIsUsedOrNamedAsWrong) {
  EngineOptions options;
  options.model.path = file_.path();
  options.threads = 1;
  options.cache.kv_bytes = 1 << 20;
  options.model.chat_template = "{% for m in messages %}{{ m.content }}|{% endfor %}";
  const auto engine = Engine::Create(options);
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  Request chat = Greedy("", 3);
  chat.prompt = Chat{.messages = {{"user", "abc"}}};
  const Result rendered = *(*engine)->Submit(chat)->Wait();
  EXPECT_TRUE(rendered.status.ok()) << rendered.status.message();
  EXPECT_EQ(rendered.text, (*engine)->Submit(Greedy("abc|", 3))->Wait()->text);
  options.model.chat_template = "fine\n{% nonsense %}";
  const Status rejected = Engine::Create(options).status();
  EXPECT_EQ(rejected.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(rejected.field(), "chat_template");
  EXPECT_THAT(rejected.message(), testing::StartsWith("chat_template (--chat-template), line 2: "));
}

// The program's results go to stdout; not one line of ours may be among them.
TEST_F(EngineTest, LogsToStderrAlone) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Start();
  EXPECT_TRUE(engine_->Submit(Greedy("x", 1))->Wait().ok());
  engine_.reset();
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_THAT(log, testing::HasSubstr("[ropeway]"));
  EXPECT_THAT(log, testing::HasSubstr("1 thread,"));
}

TEST_F(EngineTest, MoreThreadsThanCoresAreWarnedOf) {
  testing::internal::CaptureStderr();
  EngineOptions options;
  options.model.path = file_.path();
  options.threads = PhysicalCores() + 1;
  options.cache.kv_bytes = 1;
  const Status status = Engine::Create(options).status();
  EXPECT_EQ(status.field(), "kv_cache_bytes");
  EXPECT_EQ(status.message(), "--kv-cache-size: 1 byte is too small, one block takes 4096 bytes");
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr("physical cores: threads that share"));
}

TEST_F(EngineTest, AMaxModelLenBeyondTheModelsContextIsWarnedOf) {
  testing::internal::CaptureStderr();
  EngineOptions options;
  options.model.path = file_.path();
  options.model.max_model_len = 100000;
  options.threads = 1;
  options.cache.kv_bytes = 1 << 20;
  const auto engine = Engine::Create(options);
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  EXPECT_EQ((*engine)->max_model_len(), 512);
  EXPECT_THAT(
      testing::internal::GetCapturedStderr(),
      testing::HasSubstr("--max-model-len 100000 exceeds the model's context of 512; 512 is used"));
}

TEST_F(EngineTest, AFileThatIsNoModelIsRejected) {
  EngineOptions options;
  EXPECT_EQ(Engine::Create(options).status().field(), "model_path");
  options.model.path = file_.path() + ".missing";
  EXPECT_EQ(Engine::Create(options).status().code(), StatusCode::kNotFound);
  const model::TempFile text("This is no model.");
  options.model.path = text.path();
  EXPECT_EQ(Engine::Create(options).status().code(), StatusCode::kDataLoss);
  options.model.path = file_.path();
  options.threads = -1;
  EXPECT_EQ(Engine::Create(options).status().field(), "threads");
}

TEST(FinishReasonTest, Names) {
  EXPECT_STREQ(FinishReasonName(FinishReason::kStop), "stop");
  EXPECT_STREQ(FinishReasonName(FinishReason::kLength), "length");
  EXPECT_STREQ(FinishReasonName(FinishReason::kCancelled), "cancelled");
  EXPECT_STREQ(FinishReasonName(FinishReason::kFailed), "failed");
}

}  // namespace
}  // namespace ropeway::engine
