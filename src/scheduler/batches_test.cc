#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <initializer_list>
#include <memory>
#include <vector>

#include "scheduler/batch_former.h"

namespace ropeway::scheduler {
namespace {

constexpr int kSlots = 4;

class BatchRulesTest : public testing::Test {
 protected:
  void Begin(const SchedulingOptions& options) {
    batches_ = std::make_unique<Batches>(options, kSlots);
  }
  core::Sequence* Add(int32_t ids = 10) {
    sequences_.push_back(std::make_unique<core::Sequence>());
    core::Sequence* const sequence = sequences_.back().get();
    for (int i = 0; i < ids; ++i) sequence->Append(0);
    sequence->sched.queued_since = now_;
    queue_.push_back(sequence);
    batches_->OnArrival(now_);
    return sequence;
  }
  void BeginStep() {
    step_.Clear();
    batches_->BeginStep(queue_, running_, kSlots, 10, now_, &step_);
  }
  void Start(core::Sequence* sequence) {
    batches_->OnStart(sequence, now_);
    std::erase(queue_, sequence);
    running_.push_back(sequence);
    sequence->state = core::SequenceState::kDecoding;
    step_.started.push_back(sequence);
  }
  void EndStep() { batches_->EndStep(queue_, running_, 100, now_, &step_); }

  std::unique_ptr<Batches> batches_;
  std::vector<std::unique_ptr<core::Sequence>> sequences_;
  std::vector<core::Sequence*> queue_;
  std::vector<core::Sequence*> running_;
  SchedulerOutput step_;
  base::TimePoint now_{0};
};

TEST_F(BatchRulesTest, ContinuousBatchesAreWhatStartsInOneStep) {
  Begin({});
  core::Sequence* const first = Add();
  BeginStep();
  EXPECT_TRUE(batches_->MayStart());
  Start(first);
  EndStep();
  core::Sequence* const second = Add();
  BeginStep();
  EXPECT_TRUE(batches_->MayStart()) << "beside the first";
  Start(second);
  EndStep();
  EXPECT_EQ(first->sched.batch.number, 1U);
  EXPECT_EQ(second->sched.batch.number, 2U);
  EXPECT_EQ(second->sched.batch.size, 2) << "all that run";
}

TEST_F(BatchRulesTest, TheNextBatchWaitsForTheEndOfTheRunningOne) {
  Begin({.strategy = "dynamic", .max_batch_size = 2, .batch_timeout = {}});
  for (int i = 0; i < 3; ++i) Add();
  BeginStep();
  Start(queue_[0]);
  Start(queue_[0]);
  EXPECT_FALSE(batches_->MayStart()) << "it has its size";
  EndStep();
  EXPECT_EQ(running_[1]->sched.batch.number, 1U);
  EXPECT_EQ(running_[1]->sched.batch.size, 2);
  running_[0]->state = core::SequenceState::kPreempted;
  queue_.push_back(running_[0]);
  running_.clear();
  BeginStep();
  EXPECT_FALSE(batches_->MayStart()) << "a preempted member has not ended";
  queue_.pop_back();
  BeginStep();
  EXPECT_TRUE(batches_->MayStart());
}

TEST_F(BatchRulesTest, ABatchThatFillsSaysWhenToLookAgainAndHowLongItFilled) {
  Begin({.strategy = "static",
         .max_batch_size = 2,
         .static_padding = false,
         .static_flush = std::chrono::milliseconds(50)});
  core::Sequence* const first = Add();
  BeginStep();
  EXPECT_FALSE(batches_->MayStart());
  EXPECT_EQ(step_.next_look, std::chrono::milliseconds(50));
  now_ = std::chrono::milliseconds(20);
  batches_->set_flush(true);
  BeginStep();
  EXPECT_TRUE(batches_->MayStart()) << "no more will come";
  EXPECT_EQ(step_.next_look, base::TimePoint::max());
  Start(first);
  EXPECT_EQ(first->sched.batch.formation, std::chrono::milliseconds(20));
}

TEST_F(BatchRulesTest, UrgentOnesJoinInFewerThanHalfTheSlots) {
  Begin({.strategy = "serial", .urgent_joins = true});
  Start(Add());
  core::Sequence* const urgent = Add();
  EXPECT_FALSE(batches_->MayJoin(*urgent, running_, kSlots)) << "no batch runs yet";
  EndStep();
  EXPECT_FALSE(batches_->MayJoin(*urgent, running_, kSlots)) << "it is of class medium";
  urgent->request.priority = Priority::kHigh;
  EXPECT_TRUE(batches_->MayJoin(*urgent, running_, kSlots));
  BeginStep();
  Start(urgent);
  EndStep();
  EXPECT_EQ(urgent->sched.batch.number, 2U);
  core::Sequence* const second = Add();
  second->request.priority = Priority::kHigh;
  EXPECT_TRUE(batches_->MayJoin(*second, running_, kSlots));
  EXPECT_FALSE(batches_->MayJoin(*second, running_, 2));
  std::erase(running_, running_[0]);
  queue_ = {second};
  BeginStep();
  EXPECT_TRUE(batches_->MayStart()) << "the next batch does not wait for who joined";
}

TEST_F(BatchRulesTest, PaddedPromptsComeBeforeDecodesAndEndedMembersKeepTheirRow) {
  Begin({.strategy = "static", .max_batch_size = 2});
  core::Sequence* const longer = Add(12);
  core::Sequence* const shorter = Add(10);
  BeginStep();
  Start(longer);
  Start(shorter);
  longer->state = core::SequenceState::kPrefilling;
  EndStep();
  ASSERT_EQ(step_.padding.size(), 1U);
  EXPECT_EQ(step_.padding[0].start, 10);
  EXPECT_EQ(step_.padding[0].num_tokens, 2);
  EXPECT_TRUE(batches_->PrefillsFirst(running_));
  longer->state = core::SequenceState::kDecoding;
  EXPECT_FALSE(batches_->PrefillsFirst(running_));
  running_ = {longer};
  BeginStep();
  step_.items.push_back({longer, 11, 1, true});
  EndStep();
  ASSERT_EQ(step_.padding.size(), 1U);
  EXPECT_EQ(step_.padding[0].start, 11) << "at the longest one's position";
}

}  // namespace
}  // namespace ropeway::scheduler
