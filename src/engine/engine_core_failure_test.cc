// Requests that do not come to their last token: deadlines, cancels, and an executor that goes
// wrong.
#include <gtest/gtest.h>

#include <new>
#include <span>
#include <string>
#include <vector>

#include "engine/test_engine_core.h"

namespace ropeway::engine {
namespace {

// What FailingExecutor does.
enum class Fault { kFails, kAnswersForOthers, kScoresOthers, kIsShortOfMemory, kHasNoLogit };

// Has a fault in every step from `fail_at` on (1 is the first), in `times` steps.
class FailingExecutor final : public executor::Executor {
 public:
  FailingExecutor(TestExecutor* inner, int fail_at, Fault fault, int times = 1000)
      : inner_(inner), fail_at_(fail_at), fault_(fault), times_(times) {}
  StatusOr<executor::KvLayout> Init(int64_t bytes, int tokens, int seqs) override {
    return inner_->Init(bytes, tokens, seqs);
  }
  void Launch(const core::Batch& batch) override { inner_->Launch(batch); }
  StatusOr<core::StepResult> Wait() override {
    StatusOr<core::StepResult> result = inner_->Wait();
    if (++steps_ < fail_at_ || steps_ >= fail_at_ + times_) return result;
    switch (fault_) {
      case Fault::kFails:
        return Status(StatusCode::kUnavailable, "the device fell off the bus");
      case Fault::kAnswersForOthers:
        for (core::Sampled& sampled : result->sampled) sampled.sequence += 1000;
        break;
      case Fault::kScoresOthers:
        for (core::Scored& scored : result->scored) ++scored.position;
        break;
      case Fault::kIsShortOfMemory:
        throw std::bad_alloc();
      case Fault::kHasNoLogit:
        result->sampled.at(0).invalid = true;
        break;
    }
    return result;
  }
  void ReadBlock(core::BlockId, std::span<std::byte>) override {}
  void WriteBlock(core::BlockId, std::span<const std::byte>) override {}
  Status FinishReads() override { return {}; }
  int steps() const { return steps_; }

 private:
  TestExecutor* const inner_;
  const int fail_at_;
  const Fault fault_;
  const int times_;
  int steps_ = 0;
};

class EngineCoreFailureTest : public EngineCoreTest {};

TEST_F(EngineCoreFailureTest, DeadlinesEndRequestsInEveryState) {
  Start(4, {.scheduler = {.max_num_seqs = 2, .max_num_batched_tokens = 512}});
  const auto add = [this](RequestId id, int32_t prompt, int64_t deadline) {
    core::CoreRequest request = MakeRequest(id, prompt, 40);
    request.deadline = base::TimePoint{deadline};
    ASSERT_TRUE(core_->Add(request).ok());
  };
  add(1, 16, 1000);
  add(2, 16, 30);
  add(3, 4, 20);
  while (core_->stats().preempted == 0) StepChecked();
  EXPECT_TRUE(ended_.empty());
  clock_.now = base::TimePoint{20};
  StepChecked();
  EXPECT_EQ(ended_.size(), 1U) << "the waiting one";
  EXPECT_EQ(ended_.at(3).kind, Kind::kFailed);
  EXPECT_EQ(ended_.at(3).status.code(), StatusCode::kDeadlineExceeded);
  clock_.now = base::TimePoint{999};
  StepChecked();
  EXPECT_EQ(ended_.size(), 2U) << "the preempted one";
  EXPECT_EQ(ended_.at(2).preemptions, 1);
  EXPECT_GT(ended_.at(2).completion_tokens, 0);
  clock_.now = base::TimePoint{1000};
  ASSERT_TRUE(core_->Step());
  EXPECT_EQ(ended_.at(1).status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(core_->idle());
  EXPECT_TRUE(core_->device_status().ok());
  EXPECT_EQ(core_->stats().held_blocks, 0);
}

TEST_F(EngineCoreFailureTest, FinishGivesBlocksBackAtOnceInEveryState) {
  Start(4, {.scheduler = {.max_num_seqs = 2, .max_num_batched_tokens = 8}});
  ASSERT_TRUE(Add(1, 20, 5).ok());  // Prefilling after one step of 8 tokens.
  ASSERT_TRUE(Add(2, 4, 5).ok());   // Waiting.
  StepChecked();
  core_->Abort(2, FinishReason::kCancelled);
  core_->Abort(2, FinishReason::kCancelled);  // Twice is as once.
  EXPECT_EQ(core_->stats().waiting, 0);
  EXPECT_FALSE(ended_.contains(2)) << "the core is not idle: emitted with the next step";
  StepChecked();
  EXPECT_EQ(ended_.at(2).reason, FinishReason::kCancelled);
  core_->Abort(1, FinishReason::kStop);
  EXPECT_EQ(ended_.at(1).reason, FinishReason::kStop) << "the core is idle: emitted at once";
  EXPECT_EQ(core_->stats().held_blocks, 0);
  EXPECT_TRUE(core_->idle());
  core_->Abort(1, FinishReason::kCancelled);
  core_->Abort(99, FinishReason::kCancelled);
  EXPECT_EQ(ended_.size(), 2U);
}

TEST_F(EngineCoreFailureTest, FinishWhilePreempted) {
  Start(4, {});
  ASSERT_TRUE(Add(1, 16, 40).ok());
  ASSERT_TRUE(Add(2, 16, 40).ok());
  while (core_->stats().preempted == 0) StepChecked();
  core_->Abort(2, FinishReason::kCancelled);
  RunToEnd();
  EXPECT_EQ(ended_.at(2).reason, FinishReason::kCancelled);
  EXPECT_GT(ended_.at(2).completion_tokens, 0);
  EXPECT_EQ(ended_.at(1).completion_tokens, 40);
}

TEST_F(EngineCoreFailureTest, ARowWithoutLogitsFailsItsRequestAlone) {
  FailingExecutor failing(&executor_, 2, Fault::kHasNoLogit, 1);
  Start(8, {}, &failing);
  ASSERT_TRUE(Add(1, 4, 5).ok());
  ASSERT_TRUE(Add(2, 4, 5).ok());
  RunToEnd();
  EXPECT_EQ(ended_.at(1).kind, Kind::kFailed);
  EXPECT_EQ(ended_.at(1).status.code(), StatusCode::kInternal);
  EXPECT_EQ(ended_.at(1).status.message(), "the model produced no finite logit");
  EXPECT_EQ(ended_.at(1).completion_tokens, 1);
  EXPECT_EQ(ended_.at(2).completion_tokens, 5);
  EXPECT_TRUE(core_->device_status().ok());
}

TEST_F(EngineCoreFailureTest, AnExecutorThatScoresWhatNobodyAskedIsLost) {
  FailingExecutor failing(&executor_, 1, Fault::kScoresOthers);
  Start(8, {}, &failing);
  core::CoreRequest request = MakeRequest(1, 9, 5);
  request.spec.num_prompt_logprobs = 0;
  ASSERT_TRUE(core_->Add(request).ok());
  ASSERT_TRUE(core_->Step());
  EXPECT_NE(ended_.at(1).status.message().find("did not score position 1 of sequence 1"),
            std::string::npos);
}

TEST_F(EngineCoreFailureTest, AStepShortOfMemoryIsTriedAgain) {
  Start(8, {});
  ASSERT_TRUE(Add(1, 20, 5).ok());
  RunToEnd();
  const std::vector<TokenId> expected = tokens_.at(1);
  tokens_.clear();
  ended_.clear();
  FailingExecutor failing(&executor_, 2, Fault::kIsShortOfMemory, EngineCore::kMaxMemoryTries - 1);
  Start(8, {}, &failing);
  ASSERT_TRUE(Add(1, 20, 5).ok());
  while (!core_->idle()) {
    ASSERT_TRUE(core_->Step());
    const bool short_of_memory = core_->stats().last_rows == 0;
    EXPECT_EQ(std::string(core_->stats().blocked_by) == "memory", short_of_memory);
    EXPECT_TRUE(core_->CheckIntegrity().ok());
  }
  EXPECT_EQ(tokens_.at(1), expected);
  EXPECT_EQ(failing.steps(), 5 + EngineCore::kMaxMemoryTries - 1);
}

TEST_F(EngineCoreFailureTest, MemoryThatStaysShortEndsTheNewestOnesInTurn) {
  FailingExecutor failing(&executor_, 2, Fault::kIsShortOfMemory, 2 * EngineCore::kMaxMemoryTries);
  Start(8, {.scheduler = {.max_num_seqs = 2, .max_num_batched_tokens = 512}}, &failing);
  for (const RequestId id : {1, 2, 3}) ASSERT_TRUE(Add(id, 4, 5).ok());
  while (!core_->idle()) ASSERT_TRUE(core_->Step());
  EXPECT_EQ(ended_.at(2).status.code(), StatusCode::kResourceExhausted) << "the newest that runs";
  EXPECT_EQ(ended_.at(3).status.code(), StatusCode::kResourceExhausted) << "then the newest";
  EXPECT_EQ(ended_.at(1).completion_tokens, 5);
  EXPECT_TRUE(core_->device_status().ok());
}

TEST_F(EngineCoreFailureTest, ALostDeviceFailsAllWithTheReason) {
  for (const bool wrong_answer : {false, true}) {
    ended_.clear();
    FailingExecutor failing(&executor_, 2, wrong_answer ? Fault::kAnswersForOthers : Fault::kFails);
    Start(8, {.scheduler = {.max_num_seqs = 1, .max_num_batched_tokens = 512}}, &failing);
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
    EXPECT_EQ(core_->stats().held_blocks, 0);
    EXPECT_EQ(Add(3, 4, 5).code(), StatusCode::kUnavailable);
    EXPECT_FALSE(core_->device_status().ok());
  }
}

}  // namespace
}  // namespace ropeway::engine
