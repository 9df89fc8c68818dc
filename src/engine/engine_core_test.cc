#include "engine/engine_core.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "engine/test_executor.h"
#include "policy/fcfs.h"

namespace ropeway {
namespace {

using Kind = CoreEvent::Kind;

class FixedClock final : public Clock {
 public:
  TimePoint Now() const override { return TimePoint{1}; }
};

// Fails every step from `fail_at` on (1 is the first), or answers for the wrong sequence.
class FailingExecutor final : public Executor {
 public:
  FailingExecutor(TestExecutor* inner, int fail_at, bool wrong_answer)
      : inner_(inner), fail_at_(fail_at), wrong_answer_(wrong_answer) {}
  StatusOr<KvLayout> Init(int64_t bytes, int tokens, int seqs) override {
    return inner_->Init(bytes, tokens, seqs);
  }
  void Launch(const Batch& batch) override { inner_->Launch(batch); }
  StatusOr<StepResult> Wait() override {
    StatusOr<StepResult> result = inner_->Wait();
    if (++steps_ < fail_at_) return result;
    if (!wrong_answer_) return Status(StatusCode::kUnavailable, "the device fell off the bus");
    for (Sampled& sampled : result->sampled) sampled.sequence += 1000;
    return result;
  }
  void ReadBlock(BlockId, std::span<std::byte>) const override {}
  void WriteBlock(BlockId, std::span<const std::byte>) override {}

 private:
  TestExecutor* const inner_;
  const int fail_at_;
  const bool wrong_answer_;
  int steps_ = 0;
};

class EngineCoreTest : public testing::Test {
 protected:
  void Start(int32_t blocks, EngineCoreOptions options, Executor* executor = nullptr) {
    if (executor == nullptr) executor = &executor_;
    KvLayout layout = *executor->Init(TestExecutor::PoolBytes(blocks),
                                      options.max_num_batched_tokens, options.max_num_seqs);
    if (options.max_model_len == 0) options.max_model_len = blocks * kBlockTokens;
    options.check_integrity = true;
    core_ = std::make_unique<EngineCore>(options, layout, executor, &policy_, &clock_,
                                         [this](std::vector<CoreEvent> events) {
                                           for (CoreEvent& event : events) Receive(event);
                                         });
  }

  void Receive(const CoreEvent& event) {
    log_.push_back(event);
    EXPECT_FALSE(ended_.contains(event.id)) << "an event after the end of " << event.id;
    if (event.kind == Kind::kToken) tokens_[event.id].push_back(event.sampled.token);
    if (event.kind == Kind::kFinished || event.kind == Kind::kFailed) ended_[event.id] = event;
  }

  Status Add(RequestId id, int32_t prompt_len, int32_t max_tokens, bool ignore_eos = false) {
    CoreRequest request;
    request.id = id;
    for (int32_t i = 0; i < prompt_len; ++i) {
      request.prompt.push_back(static_cast<TokenId>(id * 100) + i);
    }
    request.max_tokens = max_tokens;
    request.ignore_eos = ignore_eos;
    request.spec.seed = id;
    return core_->Add(std::move(request));
  }

  void StepChecked() {
    ASSERT_TRUE(core_->Step());
    ASSERT_GT(core_->stats().last_rows, 0);
    Status status = core_->CheckIntegrity();
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_EQ(executor_.violation(), "");
  }

  void RunToEnd() {
    int steps = 0;
    while (!core_->idle()) {
      ASSERT_LT(++steps, 10000) << "no end in sight";
      StepChecked();
    }
    EXPECT_FALSE(core_->Step());
    EXPECT_EQ(core_->stats().free_blocks, core_->stats().total_blocks);
  }

  std::vector<Kind> KindsOf(RequestId id) const {
    std::vector<Kind> kinds;
    for (const CoreEvent& event : log_) {
      if (event.id == id) kinds.push_back(event.kind);
    }
    return kinds;
  }

  int64_t CountOf(RequestId id, Kind kind) const {
    return std::count_if(log_.begin(), log_.end(), [=](const CoreEvent& event) {
      return event.id == id && event.kind == kind;
    });
  }

  TestExecutor executor_;
  FcfsPolicy policy_;
  FixedClock clock_;
  std::unique_ptr<EngineCore> core_;
  std::vector<CoreEvent> log_;
  std::map<RequestId, std::vector<TokenId>> tokens_;
  std::map<RequestId, CoreEvent> ended_;
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

TEST_F(EngineCoreTest, RefusesWhatCanNeverFitAndNamesTheField) {
  Start(4, {.max_model_len = 60});
  EXPECT_EQ(Add(1, 0, 5).field(), "prompt");
  EXPECT_EQ(Add(1, 5, 0).field(), "max_tokens");
  EXPECT_EQ(Add(1, 60, 1).field(), "prompt");
  EXPECT_EQ(Add(1, 50, 11).field(), "max_tokens");
  EXPECT_TRUE(core_->idle());
  EXPECT_TRUE(Add(1, 50, 10).ok());
  EXPECT_EQ(Add(1, 5, 5).field(), "id");
  RunToEnd();
  EXPECT_EQ(log_.back().completion_tokens, 10);
}

// Invariant 1 in small: company, chunks and preemption change nobody's tokens.
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
  const auto expected = run(100, {.max_num_seqs = 1}, true);
  for (int chunk : {1, 7, 64, 0}) {
    EXPECT_EQ(run(100, {.max_prefill_chunk = chunk}, false), expected) << "chunk " << chunk;
    EXPECT_EQ(core_->stats().preemptions, 0U);
    EXPECT_EQ(run(9, {.max_prefill_chunk = chunk}, false), expected) << "chunk " << chunk;
    EXPECT_GT(core_->stats().preemptions, 0U) << "the pool was not small enough";
  }
  EXPECT_EQ(run(9, {.max_num_batched_tokens = 3}, false), expected);
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

TEST_F(EngineCoreTest, FinishGivesBlocksBackAtOnceInEveryState) {
  Start(4, {.max_num_seqs = 2, .max_num_batched_tokens = 8});
  ASSERT_TRUE(Add(1, 20, 5).ok());  // Prefilling after one step of 8 tokens.
  ASSERT_TRUE(Add(2, 4, 5).ok());   // Waiting.
  StepChecked();
  core_->Finish(2, FinishReason::kCancelled);
  core_->Finish(2, FinishReason::kCancelled);  // Twice is as once.
  EXPECT_EQ(core_->stats().waiting, 0);
  EXPECT_FALSE(ended_.contains(2)) << "the core is not idle: emitted with the next step";
  StepChecked();
  EXPECT_EQ(ended_.at(2).reason, FinishReason::kCancelled);
  core_->Finish(1, FinishReason::kStop);
  EXPECT_EQ(ended_.at(1).reason, FinishReason::kStop) << "the core is idle: emitted at once";
  EXPECT_EQ(core_->stats().held_blocks, 0);
  EXPECT_TRUE(core_->idle());
  core_->Finish(1, FinishReason::kCancelled);
  core_->Finish(99, FinishReason::kCancelled);
  EXPECT_EQ(ended_.size(), 2U);
}

TEST_F(EngineCoreTest, FinishWhilePreempted) {
  Start(4, {});
  ASSERT_TRUE(Add(1, 16, 40).ok());
  ASSERT_TRUE(Add(2, 16, 40).ok());
  while (core_->stats().preempted == 0) StepChecked();
  core_->Finish(2, FinishReason::kCancelled);
  RunToEnd();
  EXPECT_EQ(ended_.at(2).reason, FinishReason::kCancelled);
  EXPECT_GT(ended_.at(2).completion_tokens, 0);
  EXPECT_EQ(ended_.at(1).completion_tokens, 40);
}

TEST_F(EngineCoreTest, ALostDeviceFailsAllWithTheReason) {
  for (bool wrong_answer : {false, true}) {
    ended_.clear();
    FailingExecutor failing(&executor_, 2, wrong_answer);
    Start(8, {.max_num_seqs = 1}, &failing);
    ASSERT_TRUE(Add(1, 4, 5).ok());
    ASSERT_TRUE(Add(2, 4, 5).ok());
    ASSERT_TRUE(core_->Step());
    ASSERT_TRUE(core_->Step());
    EXPECT_TRUE(core_->idle());
    for (RequestId id : {1, 2}) {
      EXPECT_EQ(ended_.at(id).kind, Kind::kFailed);
      EXPECT_NE(ended_.at(id).status.message().find(wrong_answer ? "sampled no token" : "the bus"),
                std::string::npos);
    }
    EXPECT_EQ(core_->stats().free_blocks, 8);
    EXPECT_EQ(Add(3, 4, 5).code(), StatusCode::kUnavailable);
    EXPECT_FALSE(core_->device_status().ok());
  }
}

TEST_F(EngineCoreTest, CountsRowsAndNamesWhoIsBlocked) {
  Start(8, {.max_num_seqs = 2, .max_num_batched_tokens = 16});
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
  RunToEnd();
}

TEST(EngineCoreDeathTest, OptionsThatCannotHoldTheLongestSequence) {
  EngineCoreOptions options{.max_model_len = 33};
  EXPECT_EQ(EngineCore::CheckOptions(options, {2, 128}).field(), "max_model_len");
  EXPECT_TRUE(EngineCore::CheckOptions(options, {3, 128}).ok());
  TestExecutor executor;
  FcfsPolicy policy;
  FixedClock clock;
  EXPECT_DEATH(EngineCore(options, {2, 128}, &executor, &policy, &clock, {}), "max_model_len 33");
}

}  // namespace
}  // namespace ropeway
