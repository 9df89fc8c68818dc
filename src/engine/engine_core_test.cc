#include "engine/engine_core.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "engine/test_engine_core.h"
#include "policy/policies.h"

namespace ropeway::engine {
namespace {

// Each step takes `took` of the clock's time.
class SlowExecutor final : public executor::Executor {
 public:
  SlowExecutor(TestExecutor* inner, FixedClock* clock, base::Duration took)
      : inner_(inner), clock_(clock), took_(took) {}
  StatusOr<executor::KvLayout> Init(int64_t bytes, int tokens, int seqs) override {
    return inner_->Init(bytes, tokens, seqs);
  }
  void Launch(const core::Batch& batch) override { inner_->Launch(batch); }
  StatusOr<core::StepResult> Wait() override {
    clock_->now += took_;
    return inner_->Wait();
  }
  void ReadBlock(core::BlockId, std::span<std::byte>) override {}
  void WriteBlock(core::BlockId, std::span<const std::byte>) override {}
  Status FinishReads() override { return {}; }

 private:
  TestExecutor* const inner_;
  FixedClock* const clock_;
  const base::Duration took_;
};

TEST_F(EngineCoreTest, RunsARequestToItsLastToken) {
  Start(8, {});
  ASSERT_TRUE(Add(7, 20, 3).ok());
  EXPECT_EQ(core_->stats().waiting, 1);
  RunToEnd();
  EXPECT_EQ(KindsOf(7), (std::vector<Kind>{Kind::kStarted, Kind::kToken, Kind::kToken, Kind::kToken,
                                           Kind::kFinished}));
  const CoreEvent& end = ended_.at(7);
  EXPECT_EQ(end.reason, FinishReason::kLength);
  EXPECT_EQ(end.prompt_tokens, 20);
  EXPECT_EQ(end.completion_tokens, 3);
  EXPECT_EQ(end.first_token_step, 1U);
  EXPECT_EQ(core_->stats().steps, 3U);
}

// Prompts are encoded in fair shares, so they come in another order than Submit's.
TEST_F(EngineCoreTest, TheOrderIsThatOfSubmitHoweverTheyCome) {
  EngineCoreOptions options;
  options.scheduler.max_num_seqs = 1;
  Start(8, options);
  for (const RequestId id : std::vector<RequestId>{3, 1, 4, 2}) {
    core::CoreRequest request = MakeRequest(id, 5, 2);
    request.order = id;
    ASSERT_TRUE(core_->Add(std::move(request)).ok());
  }
  EXPECT_EQ(core_->QueueOrder(), (std::vector<RequestId>{1, 2, 3, 4}));
  RunToEnd();
  std::vector<RequestId> started;
  for (const CoreEvent& event : log_) {
    if (event.kind == Kind::kStarted) started.push_back(event.id);
  }
  EXPECT_EQ(started, (std::vector<RequestId>{1, 2, 3, 4}));
}

TEST_F(EngineCoreTest, EndsAtAnEndTokenUnlessIgnored) {
  Start(8, {});
  ASSERT_TRUE(Add(1, 5, 10).ok());
  RunToEnd();
  const std::vector<TokenId> all = tokens_.at(1);
  ASSERT_EQ(all.size(), 10U);
  // The same request again, now with its fourth token as an end token.
  tokens_.clear();
  ended_.clear();
  Start(8, {.is_end = [&](TokenId id) { return id == all[3]; }});
  ASSERT_TRUE(Add(1, 5, 10).ok());
  RunToEnd();
  EXPECT_EQ(tokens_.at(1), std::vector<TokenId>(all.begin(), all.begin() + 4));
  EXPECT_EQ(ended_.at(1).reason, FinishReason::kStop);
  EXPECT_EQ(ended_.at(1).completion_tokens, 4);
  tokens_.clear();
  ended_.clear();
  ASSERT_TRUE(Add(1, 5, 10, /*ignore_eos=*/true).ok());
  RunToEnd();
  EXPECT_EQ(tokens_.at(1), all);
  EXPECT_EQ(ended_.at(1).reason, FinishReason::kLength);
}

TEST_F(EngineCoreTest, EndsAtAStopIdWhateverEndTokensDo) {
  Start(8, {});
  ASSERT_TRUE(Add(1, 5, 10).ok());
  RunToEnd();
  const std::vector<TokenId> all = tokens_.at(1);
  tokens_.clear();
  ended_.clear();
  core::CoreRequest request = MakeRequest(1, 5, 10);
  request.ignore_eos = true;
  request.stop_ids = {all[8], all[3], 999999};
  ASSERT_TRUE(core_->Add(request).ok());
  RunToEnd();
  EXPECT_EQ(tokens_.at(1), std::vector<TokenId>(all.begin(), all.begin() + 4));
  EXPECT_EQ(ended_.at(1).reason, FinishReason::kStop);
  EXPECT_EQ(ended_.at(1).completion_tokens, 4);
  // No end before min_tokens, also where the sampler should let one through.
  ended_.clear();
  request.spec.params.min_tokens = 5;
  ASSERT_TRUE(core_->Add(request).ok());
  RunToEnd();
  EXPECT_EQ(ended_.at(1).completion_tokens, 9);
  EXPECT_EQ(ended_.at(1).reason, FinishReason::kStop);
}

TEST_F(EngineCoreTest, NoTokenWantedEndsWithThePrompt) {
  Start(4, {.scheduler = {.max_num_seqs = 64, .max_num_batched_tokens = 10}});
  core::CoreRequest request = MakeRequest(1, 64, 0);
  request.spec.num_prompt_logprobs = 2;
  ASSERT_TRUE(core_->Add(request).ok());
  RunToEnd();
  EXPECT_EQ(ended_.at(1).reason, FinishReason::kLength);
  EXPECT_EQ(ended_.at(1).completion_tokens, 0);
  EXPECT_EQ(CountOf(1, Kind::kToken), 0);
  EXPECT_EQ(core_->stats().steps, 7U);
  ExpectScored(request);
  EXPECT_EQ(scored_.at(1)[5].top_logprobs.size(), 2U);
  ASSERT_TRUE(Add(2, 1, 0).ok());
  RunToEnd();
  EXPECT_EQ(KindsOf(2), (std::vector<Kind>{Kind::kStarted, Kind::kFinished}));
}

TEST_F(EngineCoreTest, AOneTokenPromptIsScoredToo) {
  Start(4, {});
  core::CoreRequest request = MakeRequest(1, 1, 2);
  request.spec.num_prompt_logprobs = 0;
  ASSERT_TRUE(core_->Add(request).ok());
  RunToEnd();
  ExpectScored(request);
  EXPECT_EQ(KindsOf(1), (std::vector<Kind>{Kind::kStarted, Kind::kPromptScored, Kind::kToken,
                                           Kind::kToken, Kind::kFinished}));
}

// Part of invariant 1: chunks and preemption change no log-prob of a prompt, and score no id twice.
TEST_F(EngineCoreTest, PromptsAreScoredOnceChunkedAndPreempted) {
  for (const int chunk : {1, 7, 0}) {
    scored_.clear();
    ended_.clear();
    tokens_.clear();
    Start(9, {.scheduler = {
                  .max_num_seqs = 64, .max_num_batched_tokens = 32, .max_prefill_chunk = chunk}});
    std::vector<core::CoreRequest> requests;
    for (RequestId id = 1; id <= 6; ++id) {
      requests.push_back(MakeRequest(id, static_cast<int32_t>(5 + id * 9), 30));
      requests.back().spec.num_prompt_logprobs = 0;
      ASSERT_TRUE(core_->Add(requests.back()).ok());
    }
    RunToEnd();
    EXPECT_GT(core_->stats().preemptions, 0U) << "the pool was not small enough";
    for (const core::CoreRequest& request : requests) ExpectScored(request);
  }
}

// A victim in the middle of its prompt goes on where its scores ended.
TEST_F(EngineCoreTest, APreemptionWithinThePromptScoresTheRestOnly) {
  Start(6, {.scheduler = {.max_num_seqs = 64, .max_num_batched_tokens = 3}});
  core::CoreRequest first = MakeRequest(1, 14, 60);
  core::CoreRequest second = MakeRequest(2, 60, 2);
  second.spec.num_prompt_logprobs = 0;
  ASSERT_TRUE(core_->Add(first).ok());
  ASSERT_TRUE(core_->Add(second).ok());
  while (scored_[2].empty()) StepChecked();
  RunToEnd();
  EXPECT_GT(ended_.at(2).preemptions, 0);
  ExpectScored(second);
}

// Part of invariant 1: chunks, company, preemption and cached blocks change no bit of an embedding.
TEST_F(EngineCoreTest, EmbeddingsAreTheSameChunkedAndPreempted) {
  constexpr Pooling kAll[] = {Pooling::kMean, Pooling::kLast, Pooling::kFirst};
  for (const int chunk : {1, 7, 0}) {
    ended_.clear();
    log_.clear();
    Start(9, {.scheduler = {
                  .max_num_seqs = 64, .max_num_batched_tokens = 32, .max_prefill_chunk = chunk}});
    std::vector<core::CoreRequest> requests;
    for (RequestId id = 1; id <= 9; ++id) {
      requests.push_back(MakeRequest(id, static_cast<int32_t>(5 + id * 9), 0));
      requests.back().spec.pooling = kAll[id % 3];
      ASSERT_TRUE(core_->Add(requests.back()).ok());
    }
    // It grows, and takes the blocks of those that prefill.
    ASSERT_TRUE(Add(10, 20, 100).ok());
    RunToEnd();
    for (const core::CoreRequest& request : requests) {
      const auto length = static_cast<int32_t>(request.prompt.size());
      const Pooling pooling = *request.spec.pooling;
      const std::vector<float> sum =
          TestExecutor::PoolOf(request.prompt, pooling == Pooling::kLast ? length - 1 : 0,
                               pooling == Pooling::kFirst ? 1 : length);
      EXPECT_EQ(CountOf(request.id, Kind::kPooled), 1) << request.id;
      for (const CoreEvent& event : log_) {
        if (event.id != request.id || event.kind != Kind::kPooled) continue;
        EXPECT_EQ(event.pool_sum, sum) << request.id << ", chunks of " << chunk;
        EXPECT_EQ(event.pooled_positions, static_cast<int32_t>(sum[1]));
      }
    }
  }
}

// As an encoder's core.
TEST_F(EngineCoreTest, WholePromptsAreComputedInBoundedSteps) {
  constexpr int kRows = 128;
  EngineCoreOptions options = {.scheduler = {.max_num_seqs = 8, .max_num_batched_tokens = kRows}};
  options.step.whole_prompts = true;
  options.cache.prefix_caching = false;
  std::map<uint64_t, int> items;
  int fullest = 0;
  executor_.before_step = [&](const core::Batch& batch) {
    int rows = 0;
    for (const core::BatchItem& item : batch.items) {
      EXPECT_EQ(item.start, 0);
      EXPECT_FALSE(item.sample);
      ++items[item.sequence];
      rows += static_cast<int>(item.tokens.size());
    }
    fullest = std::max(fullest, rows);
    return Status();
  };
  Start(12, options);
  std::vector<core::CoreRequest> requests;
  for (RequestId id = 1; id <= 40; ++id) {
    requests.push_back(MakeRequest(id, static_cast<int32_t>(1 + id * 53 % kRows), 0));
    requests.back().spec.pooling = Pooling::kMean;
    ASSERT_TRUE(core_->Add(requests.back()).ok());
  }
  RunToEnd();
  EXPECT_LE(fullest, kRows);
  EXPECT_GT(fullest, kRows / 2);
  EXPECT_EQ(items.size(), requests.size());
  for (const auto& [sequence, count] : items) EXPECT_EQ(count, 1) << sequence;
  for (const core::CoreRequest& request : requests) {
    EXPECT_EQ(ended_.at(request.id).preemptions, 0);
    EXPECT_EQ(CountOf(request.id, Kind::kPooled), 1);
  }
}

// What is cached spares the prompt of an embedding that is the last token's, and of no other.
TEST_F(EngineCoreTest, OnlyTheLastTokensEmbeddingHasHits) {
  for (const Pooling pooling : {Pooling::kLast, Pooling::kMean}) {
    Start(12, {});
    for (RequestId id = 1; id <= 2; ++id) {
      core::CoreRequest request = MakeRequest(1, 70, 0);
      request.id = id;
      request.spec.pooling = pooling;
      ASSERT_TRUE(core_->Add(request).ok());
      RunToEnd();
    }
    EXPECT_EQ(ended_.at(2).cached_tokens, pooling == Pooling::kLast ? 64 : 0);
    ended_.clear();
  }
}

// The high one takes the low one's slot and blocks, and the older high one at once its own.
TEST_F(EngineCoreTest, AStartIsReportedBeforeAPreemptionInTheSameStep) {
  other_policy_ = *policy::MakePolicy({.policy = "priority", .strict_priority = true});
  Start(3, {.scheduler = {.max_num_seqs = 2, .max_num_batched_tokens = 512}});
  const auto add = [this](RequestId id, int32_t prompt, int32_t max_tokens, Priority its) {
    core::CoreRequest request = MakeRequest(id, prompt, max_tokens);
    request.priority = its;
    ASSERT_TRUE(core_->Add(std::move(request)).ok());
  };
  add(1, 4, 20, Priority::kHigh);
  add(2, 18, 20, Priority::kLow);
  while (tokens_[1].size() < 13) StepChecked();  // The next one needs another block.
  add(3, 30, 2, Priority::kHigh);
  StepChecked();
  EXPECT_EQ(KindsOf(3), (std::vector<Kind>{Kind::kStarted, Kind::kPreempted}));
  EXPECT_EQ(CountOf(2, Kind::kPreempted), 1);
  RunToEnd();
  EXPECT_EQ(ended_.at(3).completion_tokens, 2);
}

TEST_F(EngineCoreTest, RefusesWhatCanNeverFitAndNamesTheField) {
  Start(4, {.max_model_len = 60});
  EXPECT_EQ(Add(1, 0, 5).field(), "prompt");
  EXPECT_EQ(Add(1, 5, -1).field(), "max_tokens");
  EXPECT_EQ(Add(1, 61, 0).field(), "prompt");
  EXPECT_EQ(Add(1, 60, 1).field(), "prompt");
  EXPECT_EQ(Add(1, 50, 11).field(), "prompt");
  EXPECT_STREQ(Add(1, 50, 11).api_code(), "context_length_exceeded");
  EXPECT_TRUE(core_->idle());
  EXPECT_TRUE(Add(1, 50, 10).ok());
  EXPECT_EQ(Add(1, 5, 5).field(), "id");
  RunToEnd();
  EXPECT_EQ(log_.back().completion_tokens, 10);
}

// Invariant 1 in small: other sequences, chunks and preemption change no tokens.
TEST_F(EngineCoreTest, SameTokensAloneInACrowdChunkedAndPreempted) {
  constexpr RequestId kRequests = 9;
  const auto run = [this](int32_t blocks, const EngineCoreOptions& options, bool alone) {
    tokens_.clear();
    ended_.clear();
    Start(blocks, options);
    for (RequestId id = 1; id <= kRequests; ++id) {
      EXPECT_TRUE(Add(id, static_cast<int32_t>(3 + id * 7), 30).ok());
      if (alone) RunToEnd();
    }
    RunToEnd();
    return tokens_;
  };
  const auto expected =
      run(100, {.scheduler = {.max_num_seqs = 1, .max_num_batched_tokens = 512}}, true);
  for (int chunk : {1, 7, 64, 0}) {
    EXPECT_EQ(run(100,
                  {.scheduler = {.max_num_seqs = 64,
                                 .max_num_batched_tokens = 512,
                                 .max_prefill_chunk = chunk}},
                  false),
              expected)
        << "chunk " << chunk;
    EXPECT_EQ(core_->stats().preemptions, 0U);
    EXPECT_EQ(run(9,
                  {.scheduler = {.max_num_seqs = 64,
                                 .max_num_batched_tokens = 512,
                                 .max_prefill_chunk = chunk}},
                  false),
              expected)
        << "chunk " << chunk;
    EXPECT_GT(core_->stats().preemptions, 0U) << "the pool was not small enough";
  }
  EXPECT_EQ(run(9, {.scheduler = {.max_num_seqs = 64, .max_num_batched_tokens = 3}}, false),
            expected);
}

TEST_F(EngineCoreTest, ReportsPreemptionsAndKeepsTheTokens) {
  Start(4, {});
  ASSERT_TRUE(Add(1, 16, 40).ok());
  ASSERT_TRUE(Add(2, 16, 40).ok());
  RunToEnd();
  EXPECT_EQ(ended_.at(1).preemptions, 0);
  EXPECT_EQ(ended_.at(2).preemptions, 1);
  EXPECT_EQ(tokens_.at(2).size(), 40U);
  EXPECT_EQ(CountOf(2, Kind::kPreempted), 1);
  EXPECT_EQ(CountOf(2, Kind::kStarted), 1) << "a resume is not a start";
}

TEST_F(EngineCoreTest, CountsRowsAndNamesWhoIsBlocked) {
  Start(8, {.scheduler = {.max_num_seqs = 2, .max_num_batched_tokens = 16}});
  ASSERT_TRUE(Add(1, 4, 5).ok());
  ASSERT_TRUE(Add(2, 20, 5).ok());
  ASSERT_TRUE(Add(3, 4, 5).ok());
  StepChecked();
  EXPECT_EQ(core_->stats().last_rows, 16);
  EXPECT_EQ(core_->stats().last_prefill_rows, 16);
  EXPECT_EQ(core_->stats().last_items, 2);
  EXPECT_EQ(core_->stats().blocked_id, 3U);
  EXPECT_STREQ(core_->stats().blocked_by, "max_num_seqs");
  StepChecked();
  EXPECT_EQ(core_->stats().last_rows, 9) << "one decode and the prompt's last 8";
  EXPECT_EQ(core_->stats().last_prefill_rows, 8);
  core_->Abort(2, FinishReason::kCancelled);
  core_->Abort(1, FinishReason::kCancelled);
  core_->Abort(3, FinishReason::kCancelled);
  EXPECT_EQ(core_->stats().blocked_id, 0U) << "no sequence waits";
  EXPECT_STREQ(core_->stats().blocked_by, "");
  RunToEnd();
}

TEST_F(EngineCoreTest, RowsOfPaddingCountAsNoRequests) {
  Start(9, {.scheduler = {.max_num_seqs = 2,
                          .max_num_batched_tokens = 64,
                          .strategy = "static",
                          .max_batch_size = 2},
            .max_model_len = 64});
  ASSERT_TRUE(Add(1, 4, 2).ok());
  ASSERT_TRUE(Add(2, 10, 4).ok());
  RunToEnd();
  EXPECT_EQ(core_->stats().rows, 4U + 1 + 10 + 3);
  EXPECT_EQ(executor_.rows(), 2 * (10 + 3)) << "as many as the longest one's, twice";
}

TEST_F(EngineCoreTest, APromptComputedAgainCountsOnce) {
  Start(9, {.scheduler = {.max_num_seqs = 64, .max_num_batched_tokens = 32},
            .cache = {.prefix_caching = false, .disk_path = {}}});
  int32_t prompts = 0;
  for (RequestId id = 1; id <= 6; ++id) {
    const auto prompt = static_cast<int32_t>(5 + id * 9);
    ASSERT_TRUE(Add(id, prompt, 30).ok());
    prompts += prompt;
  }
  int64_t fresh = 0;
  int64_t prefilled = 0;
  while (!core_->idle()) {
    StepChecked();
    fresh += core_->stats().last_prompt_tokens;
    prefilled += core_->stats().last_prefill_rows;
  }
  EXPECT_EQ(fresh, prompts);
  EXPECT_GT(prefilled, prompts) << "the pool was not small enough";
}

TEST_F(EngineCoreTest, TheLimitOfTheBatchControlIsTheSchedulersInTheNextStep) {
  using std::chrono::milliseconds;
  SlowExecutor slow(&executor_, &clock_, milliseconds(20));
  Start(100,
        {.scheduler = {.max_num_seqs = 16,
                       .max_num_batched_tokens = 512,
                       .batch_control = {.name = "aimd",
                                         .start = 12,
                                         .step_target = milliseconds(10)}},
         .max_model_len = 64},
        &slow);
  for (RequestId id = 1; id <= 30; ++id) ASSERT_TRUE(Add(id, 4, 30).ok());
  StepChecked();
  EXPECT_EQ(core_->stats().limit, 12);
  EXPECT_EQ(core_->stats().running, 12);
  for (int step = 2; step <= 20; ++step) StepChecked();
  EXPECT_EQ(core_->stats().limit, 12);
  StepChecked();
  EXPECT_EQ(core_->stats().limit, 8) << "20 steps were too long";
  EXPECT_EQ(core_->stats().running, 12) << "running ones go on";
  while (!ended_.contains(12)) StepChecked();
  EXPECT_EQ(core_->stats().running, 0);
  StepChecked();
  EXPECT_EQ(core_->stats().running, 8);
  RunToEnd();
}

TEST_F(EngineCoreTest, TheBatchControlWatchesTheLatencyOfRequests) {
  using std::chrono::milliseconds;
  SlowExecutor slow(&executor_, &clock_, milliseconds(20));
  Start(100,
        {.scheduler = {.max_num_seqs = 16,
                       .max_num_batched_tokens = 512,
                       .batch_control = {.name = "aimd",
                                         .start = 16,
                                         .step_target = std::chrono::hours(1),
                                         .request_target = milliseconds(10)}},
         .max_model_len = 64},
        &slow);
  for (RequestId id = 1; id <= 21; ++id) ASSERT_TRUE(Add(id, 4, id <= 20 ? 1 : 3).ok());
  StepChecked();
  StepChecked();
  EXPECT_EQ(core_->stats().limit, 16);
  StepChecked();
  EXPECT_EQ(core_->stats().limit, 12) << "20 requests were late";
  RunToEnd();
}

TEST(EngineCoreDeathTest, OptionsThatCannotHoldTheLongestSequence) {
  EngineCoreOptions options{.max_model_len = 33};
  EXPECT_EQ(options.Validate({2, 128}).field(), "max_model_len");
  EXPECT_TRUE(options.Validate({3, 128}).ok());
  TestExecutor executor;
  policy::FcfsPolicy policy;
  FixedClock clock;
  EXPECT_DEATH(EngineCore(options, {2, 128}, &executor, &policy, &clock, {}), "max_model_len 33");
}

}  // namespace
}  // namespace ropeway::engine
