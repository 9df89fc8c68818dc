#include <gtest/gtest.h>

#include "scheduler/preemption.h"
#include "scheduler/test_slots.h"

namespace ropeway::scheduler {
namespace {

class MemoryPreemptionTest : public SlotsTest {
 protected:
  // Each sequence fills a block with 15 ids, and needs another one for its second token.
  void Fill(std::vector<std::string> tenants) {
    Begin({.max_num_seqs = 8, .max_num_batched_tokens = 64}, static_cast<int32_t>(tenants.size()));
    memory_ = std::make_unique<MemoryPreemption>(&policy_, kv_.get(), tenants_.get(), slots_.get());
    for (const std::string& tenant : tenants) {
      core::Sequence* const sequence = Run(15, tenant);
      Decode(sequence);
      sequence->computed = 16;
      sequence->Append(1);
    }
  }
  bool Extend(size_t index) { return memory_->Extend(order_->running, index); }

  std::unique_ptr<MemoryPreemption> memory_;
};

TEST_F(MemoryPreemptionTest, TheNewestWithoutWorkGivesItsBlocks) {
  Fill({"", "", ""});
  NextStep();
  EXPECT_TRUE(Extend(0));
  EXPECT_EQ(Preempted(), "3:memory");
  EXPECT_TRUE(step_.short_of_blocks);
  EXPECT_FALSE(Extend(1)) << "the first has work already";
  EXPECT_EQ(Preempted(), "3:memory 2:memory");
}

TEST_F(MemoryPreemptionTest, AgedOnesAreSparedAsLongAsThereAreOthers) {
  Fill({"", "", ""});
  sequences_[2]->sched.aged = true;
  NextStep();
  EXPECT_EQ(order_->running[0].sequence->id(), 3U);
  EXPECT_TRUE(Extend(0));
  EXPECT_EQ(Preempted(), "2:memory");
}

TEST_F(MemoryPreemptionTest, TheLargestHolderOfTheLowestClassGives) {
  Fill({"a", "b", "b", "c"});
  NextStep(kLater);
  EXPECT_TRUE(Extend(0));
  EXPECT_EQ(Preempted(), "3:memory") << "b holds two, and this is its newest";
  sequences_[3]->request.priority = Priority::kLow;
  NextStep();
  EXPECT_TRUE(Extend(1));
  EXPECT_EQ(Preempted(), "4:memory");
}

TEST_F(MemoryPreemptionTest, OfTheLargestHolderThoseGoThatMayGiveWay) {
  Fill({"a", "b", "b"});
  sequences_[2]->sched.started_step = kLater;
  NextStep(kLater);
  EXPECT_TRUE(Extend(0));
  EXPECT_EQ(Preempted(), "2:memory");
}

}  // namespace
}  // namespace ropeway::scheduler
