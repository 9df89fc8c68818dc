// The scheduler with a model some of whose layers see a window of the last positions only.
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "scheduler/test_scheduler.h"

namespace ropeway::scheduler {
namespace {

class SchedulerWindowsTest : public SchedulerTest {
 protected:
  SchedulerWindowsTest() { windows_ = {0, 20}; }

  // Takes a block of each group, and gives none back.
  void TakeBlocks() {
    auto sequence = std::make_unique<core::Sequence>();
    sequence->request.id = 1000 + sequences_.size();
    for (int i = 0; i < 10; ++i) sequence->Append(77);
    sequence->prompt_len = 10;
    kvcache::KvCacheManager::Reserve(sequence.get(), 16, 2);
    kv_->Start(sequence.get(), kv_->Lookup(sequence.get()), 10);
    sequence->state = core::SequenceState::kPrefilling;
    sequences_.push_back(std::move(sequence));
  }
};

TEST_F(SchedulerWindowsTest, AChunkEndsWhereBlocksDo) {
  Start(11, {.max_num_seqs = 2, .max_num_batched_tokens = 100});
  Add(100, 1);
  EXPECT_EQ(Step(), "1:0+64");
  EXPECT_EQ(Step(), "1:64+32");
  EXPECT_EQ(Step(), "1:96+4*");
}

TEST_F(SchedulerWindowsTest, OnlyWhatASequenceTakesAtOnceMustFit) {
  Start(20, {.max_num_seqs = 2, .max_num_batched_tokens = 96, .max_prefill_chunk = 48});
  Add(100, 1);
  Add(100, 1);
  EXPECT_EQ(Step(), "1:0+48 2:0+48");
  EXPECT_EQ(Step(), "1:48+32") << "two blocks were given back";
  EXPECT_EQ(Step(), "1:80+20*");
}

TEST_F(SchedulerWindowsTest, WhereNoPromptCanGoOnTheNewestIsPreempted) {
  Start(22, {.max_num_seqs = 2, .max_num_batched_tokens = 40, .max_prefill_chunk = 20});
  Add(100, 1);
  Add(100, 1);
  EXPECT_EQ(Step(), "1:0+20 2:0+20");
  TakeBlocks();
  EXPECT_EQ(Step(), "1:20+20 2:20+20");
  EXPECT_EQ(Step(), "1:40+8 2:40+8");
  TakeBlocks();  // Those that were given back.
  EXPECT_EQ(Step(), "1:48+20");
  EXPECT_EQ(preempted_, "2");
  EXPECT_EQ(reasons_, "memory");
}

}  // namespace
}  // namespace ropeway::scheduler
