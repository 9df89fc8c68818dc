#include "gateway/dispatch_batches.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>

namespace ropeway::gateway {
namespace {

using std::chrono::seconds;

class DispatchBatchesTest : public testing::Test {
 protected:
  uint64_t Start(int32_t members, bool joins = false) {
    batches_.Reserve();
    return batches_.Start(
        {.members = members, .prompt_tokens = 10, .size = members, .joins = joins}, now_);
  }
  int MayStart(int waiting) {
    return batches_.MayStart(
        {.waiting = waiting, .oldest = now_, .urgent = false, .free_slots = 64}, now_);
  }

  base::TimePoint now_ = seconds(100);
  DispatchBatches batches_{{.kind = scheduler::BatchFormerOptions::Kind::kDynamic,
                            .max_batch_size = 2,
                            .timeout = seconds(1)},
                           2};
};

TEST_F(DispatchBatchesTest, SoManyRunAtOnce) {
  EXPECT_EQ(MayStart(5), 2);
  EXPECT_EQ(Start(2), 1U);
  EXPECT_EQ(Start(2), 2U);
  EXPECT_EQ(MayStart(5), 0);
  batches_.Leave(1, now_);
  EXPECT_EQ(MayStart(5), 0) << "a member of it is under way";
  batches_.Leave(1, now_);
  EXPECT_EQ(MayStart(5), 2);
}

TEST_F(DispatchBatchesTest, OnesThatJoinAreWaitedForByNone) {
  Start(2);
  const uint64_t joined = Start(3, true);
  EXPECT_EQ(batches_.joined(), 3);
  EXPECT_TRUE(batches_.may_run_more());
  EXPECT_EQ(batches_.filling_since(true), base::TimePoint::max());
  batches_.Leave(joined, now_);
  EXPECT_EQ(batches_.joined(), 2);
}

TEST_F(DispatchBatchesTest, CountsWhatStartedAndHowLongItTook) {
  const uint64_t first = Start(2);
  Start(1);
  EXPECT_EQ(batches_.Members(), (std::map<uint64_t, int32_t>{{1, 2}, {2, 1}}));
  now_ += seconds(3);
  for (int i = 0; i < 2; ++i) batches_.Leave(first, now_);
  EXPECT_EQ(batches_.counts().batches, 2U);
  EXPECT_EQ(batches_.counts().batched, 3U);
  EXPECT_EQ(batches_.counts().batches_ended, 1U);
  EXPECT_DOUBLE_EQ(batches_.counts().batch_seconds, 3.0);
}

TEST_F(DispatchBatchesTest, APartOfABatchFillsUntilItsTime) {
  EXPECT_EQ(MayStart(1), 0);
  EXPECT_EQ(batches_.filling_since(false), now_);
  EXPECT_EQ(batches_.next_look(), now_ + seconds(1));
  Start(1);
  EXPECT_EQ(batches_.filling_since(false), base::TimePoint::max());
}

}  // namespace
}  // namespace ropeway::gateway
