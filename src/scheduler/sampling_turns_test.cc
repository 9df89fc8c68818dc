#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "policy/policies.h"
#include "scheduler/prefill_budget.h"

namespace ropeway::scheduler {
namespace {

class SamplingTurnsTest : public testing::Test {
 protected:
  // One unit takes a millisecond.
  SamplingTurnsTest() {
    SchedulerOutput step;
    step.num_tokens = costs_.step().min_rows();
    costs_.OnStep(step, std::chrono::milliseconds(step.num_tokens), {}, {}, 1);
  }

  // Adds a sequence that decodes, whose sampling costs so many units.
  void Add(double units) {
    sequences_.push_back(std::make_unique<core::Sequence>());
    core::Sequence* const sequence = sequences_.back().get();
    sequence->order = sequences_.size();
    sequence->state = core::SequenceState::kDecoding;
    sequence->sched.sample_seconds = units / 1000;
    tenants_.Enter(sequence);
    running_.emplace_back();
    running_.back().sequence = sequence;
  }
  // C: contends, R: contends and rests, -: neither; in the order in which they were added.
  std::string Choose() {
    turns_.Choose(running_);
    std::string text;
    for (const Ranked& ranked : running_) text += ranked.rests ? 'R' : ranked.contends ? 'C' : '-';
    return text;
  }

  policy::FcfsPolicy fcfs_;
  kvcache::KvCacheManager kv_{{.num_blocks = 1, .block_bytes = 1}};
  TenantTable tenants_{&fcfs_, &kv_};
  CostModel costs_{0.0, true};
  SamplingTurns turns_{&costs_, &fcfs_, &tenants_, 8};
  std::vector<std::unique_ptr<core::Sequence>> sequences_;
  std::vector<Ranked> running_;
};

TEST_F(SamplingTurnsTest, NoneRestsWithinTheUnits) {
  Add(4);
  Add(4);
  EXPECT_EQ(Choose(), "--");
}

TEST_F(SamplingTurnsTest, BeyondThemTheLastArrivalsRest) {
  for (int i = 0; i < 3; ++i) Add(4);
  EXPECT_EQ(Choose(), "CCR");
}

TEST_F(SamplingTurnsTest, WhoHasRestedForLongestIsNext) {
  for (int i = 0; i < 3; ++i) Add(4);
  running_[0].sequence->sched.queued_since = base::TimePoint{1};
  EXPECT_EQ(Choose(), "RCC");
}

TEST_F(SamplingTurnsTest, AnAgedOneGoesFirst) {
  for (int i = 0; i < 3; ++i) Add(4);
  running_[2].aged = true;
  EXPECT_EQ(Choose(), "CRC");
}

TEST_F(SamplingTurnsTest, CheapOnesNeverRestAndTheFirstCostlyOneNeitherDoes) {
  Add(100);
  Add(0.01);
  Add(4);
  EXPECT_EQ(Choose(), "C-R");
}

TEST_F(SamplingTurnsTest, ManyDecodesMayBeSampledForHalfTheirCost) {
  for (int i = 0; i < 40; ++i) Add(0.5);
  EXPECT_EQ(Choose(), std::string(40, '-'));
}

TEST_F(SamplingTurnsTest, PromptsDoNotCount) {
  for (int i = 0; i < 3; ++i) Add(4);
  running_[0].sequence->state = core::SequenceState::kPrefilling;
  EXPECT_EQ(Choose(), "---");
}

}  // namespace
}  // namespace ropeway::scheduler
