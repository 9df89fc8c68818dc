#include "scheduler/batch_size_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace ropeway {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr Duration kTarget = milliseconds(100);

void Steps(BatchSizeControl* control, int count, milliseconds step) {
  for (int i = 0; i < count; ++i) control->OnStep(step, 1.0);
}

TEST(BatchSizeControlTest, MadeByName) {
  for (const char* name : {"fixed", "aimd", "memory"}) {
    for (const int max_num_seqs : {1, 6, 64, 500}) {
      const auto control = MakeBatchSizeControl(
          {.name = name, .max_num_seqs = max_num_seqs, .step_target = kTarget});
      ASSERT_TRUE(control.ok());
      EXPECT_GE((*control)->limit(), 1);
      EXPECT_LE((*control)->limit(), max_num_seqs);
    }
  }
  const auto fixed =
      MakeBatchSizeControl({.name = "fixed", .max_num_seqs = 500, .step_target = kTarget});
  Steps(fixed->get(), 1000, milliseconds(900));
  EXPECT_EQ((*fixed)->limit(), 500);
}

TEST(BatchSizeControlTest, BadInputIsNamed) {
  const Status name =
      MakeBatchSizeControl({.name = "pid", .max_num_seqs = 64, .step_target = kTarget}).status();
  EXPECT_EQ(name.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(name.field(), "batch_control");
  EXPECT_THAT(name.message(), HasSubstr("\"pid\" is unknown: expected fixed, aimd or memory"));
  for (const char* control : {"fixed", "aimd", "memory"}) {
    const Status target =
        MakeBatchSizeControl({.name = control, .max_num_seqs = 64, .step_target = milliseconds(0)})
            .status();
    EXPECT_EQ(target.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(target.field(), "step_target");
    EXPECT_THAT(target.message(), HasSubstr("step_target 0ms: expected a time above 0"));
  }
}

TEST(AimdBatchSizeTest, FallsByFourAtTheEndOfAWindowAboveTheTarget) {
  AimdBatchSize control(64, kTarget);
  EXPECT_EQ(control.limit(), 64);
  Steps(&control, 49, milliseconds(121));
  EXPECT_EQ(control.limit(), 64);
  Steps(&control, 1, milliseconds(121));
  EXPECT_EQ(control.limit(), 60);
  Steps(&control, 50 * 30, milliseconds(121));
  EXPECT_EQ(control.limit(), 8) << "the lower bound";
}

TEST(AimdBatchSizeTest, RisesByFourBelowTheTargetAndStaysBetween) {
  AimdBatchSize control(40, kTarget);
  Steps(&control, 50 * 15, milliseconds(200));
  ASSERT_EQ(control.limit(), 8);
  // After 15 windows at 200 ms, windows at 10 ms; 20 of them all count.
  int windows = 0;
  for (; control.limit() == 8 && windows < 100; ++windows) Steps(&control, 50, milliseconds(10));
  EXPECT_EQ(windows, 14) << "6 at 200 ms and 14 at 10 ms: a mean of 67 ms";
  Steps(&control, 50 * 30, milliseconds(10));
  EXPECT_EQ(control.limit(), 40) << "max_num_seqs";
  Steps(&control, 50 * 30, milliseconds(100));
  EXPECT_EQ(control.limit(), 40) << "at the target nothing changes";
}

TEST(AimdBatchSizeTest, TheTailOfAWindowCounts) {
  AimdBatchSize control(64, kTarget);
  Steps(&control, 49, milliseconds(10));
  Steps(&control, 1, milliseconds(500));
  EXPECT_EQ(control.limit(), 60);
}

TEST(AimdBatchSizeTest, FewSlotsAreTheBound) {
  AimdBatchSize control(3, kTarget);
  Steps(&control, 500, milliseconds(500));
  EXPECT_EQ(control.limit(), 3);
}

TEST(MemoryBatchSizeTest, FollowsTheFreePartWithHysteresis) {
  MemoryBatchSize control(64);
  EXPECT_EQ(control.limit(), 16);
  control.OnStep({}, 0.5);
  EXPECT_EQ(control.limit(), 16);
  control.OnStep({}, 0.49);
  EXPECT_EQ(control.limit(), 4);
  control.OnStep({}, 0.9);
  EXPECT_EQ(control.limit(), 4);
  control.OnStep({}, 0.91);
  EXPECT_EQ(control.limit(), 16);
  MemoryBatchSize small(2);
  small.OnStep({}, 0.1);
  EXPECT_EQ(small.limit(), 2);
}

}  // namespace
}  // namespace ropeway
