#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "scheduler/slots.h"
#include "scheduler/test_slots.h"

namespace ropeway::scheduler {
namespace {

class StepOrderTest : public SlotsTest {
 protected:
  StepOrderTest() { Begin({.max_num_seqs = 4, .max_num_batched_tokens = 64}, 64); }

  // Ids in order: what runs, then what waits.
  std::string Order() {
    std::string text;
    for (const Ranked& ranked : order_->running) text += std::to_string(ranked.sequence->id());
    text += "|";
    while (!order_->queue.empty()) {
      text += std::to_string(order_->queue.front().sequence->id());
      order_->queue.Pop();
    }
    return text;
  }
};

TEST_F(StepOrderTest, AgedOnesGoFirst) {
  for (int i = 0; i < 2; ++i) Run(4);
  for (int i = 0; i < 3; ++i) Add(4);
  NextStep();
  EXPECT_EQ(Order(), "12|345");
  sequences_[1]->sched.aged = true;
  sequences_[4]->sched.aged = true;
  NextStep();
  EXPECT_EQ(Order(), "21|534");
  EXPECT_EQ(order_->PositionOf(*sequences_[3], slots_->queue()), 2);
  EXPECT_EQ(order_->IdsOf(slots_->queue()), (std::vector<uint64_t>{5, 3, 4}));
}

TEST_F(StepOrderTest, TheFirstOfEachTenantIsKnown) {
  Add(4, "a");
  Add(4, "b");
  Add(4, "b");
  sequences_[2]->sched.aged = true;
  NextStep();
  EXPECT_EQ(tenants_->Of(*sequences_[0]).first.sequence->id(), 1U);
  EXPECT_EQ(tenants_->Of(*sequences_[1]).first.sequence->id(), 3U);
}

TEST_F(StepOrderTest, ALeaderRunsAtTheRankOfItsFollower) {
  Run(4);
  core::Sequence* const leader = Run(100, "", 80);
  core::Sequence* const follower = Add(100, "", 80);
  kvcache::CachedPrefix prefix = kv_->Lookup(follower);
  ASSERT_TRUE(slots_->Follow(follower, &prefix));
  follower->sched.aged = true;
  NextStep();
  EXPECT_TRUE(order_->running[0].leads);
  EXPECT_EQ(Order(), "21|") << "the follower is not in the queue";
  leader->computed = 80;
  kv_->OnComputed(leader);
  NextStep();
  EXPECT_EQ(Order(), "12|3") << "the prefix is there";
  EXPECT_EQ(follower->sched.follows, 0);
}

TEST_F(StepOrderTest, AgedOnesArePassedWhileHalfTheSlotsAreLeftToEarlierArrivals) {
  core::Sequence* const aged = Add(4);
  Run(4);
  PassedAged passed;
  passed.Reserve(1);
  EXPECT_TRUE(passed.MayPass(slots_->running(), 4)) << "none was passed";
  NextStep();
  passed.Add(order_->queue.front());
  order_->queue.Pop();
  EXPECT_EQ(aged->id(), 1U);
  EXPECT_TRUE(passed.MayPass(slots_->running(), 4));
  Run(4);
  EXPECT_FALSE(passed.MayPass(slots_->running(), 4));
  passed.Return(&order_->queue);
  EXPECT_EQ(order_->queue.front().sequence, aged);
  passed.Clear();
  EXPECT_TRUE(passed.empty());
}

}  // namespace
}  // namespace ropeway::scheduler
