#include "scheduler/batch_size_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace ropeway::scheduler {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr milliseconds kTarget(100);

void Steps(BatchSizeControl* control, int count, milliseconds step) {
  for (int i = 0; i < count; ++i) control->OnStep(step, 1.0);
}

void Requests(BatchSizeControl* control, int count, milliseconds latency) {
  for (int i = 0; i < count; ++i) control->OnRequest(latency);
}

AimdBatchSize Aimd(int max_num_seqs, int start = 64, milliseconds request_target = {}) {
  return {
      {.name = "aimd", .start = start, .step_target = kTarget, .request_target = request_target},
      max_num_seqs};
}

TEST(BatchSizeControlTest, MadeByName) {
  for (const char* name : {"fixed", "aimd", "memory"}) {
    for (const int max_num_seqs : {1, 6, 64, 500}) {
      const BatchSizeOptions options{.name = name, .step_target = kTarget};
      ASSERT_TRUE(CheckBatchSize(options).ok());
      const auto control = MakeBatchSizeControl(options, max_num_seqs);
      EXPECT_GE(control->limit(), 1);
      EXPECT_LE(control->limit(), max_num_seqs);
    }
  }
  const auto fixed = MakeBatchSizeControl({.name = "fixed", .step_target = kTarget}, 500);
  Steps(fixed.get(), 1000, milliseconds(900));
  EXPECT_EQ(fixed->limit(), 500);
}

TEST(BatchSizeControlTest, BadInputIsNamed) {
  const Status name = CheckBatchSize({.name = "pid"});
  EXPECT_EQ(name.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(name.field(), "batch_control");
  EXPECT_THAT(name.message(), HasSubstr("\"pid\" is unknown: expected fixed, aimd or memory"));
  for (const char* control : {"fixed", "aimd", "memory"}) {
    const Status target = CheckBatchSize({.name = control, .step_target = milliseconds(0)});
    EXPECT_EQ(target.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(target.field(), "step_target");
    EXPECT_THAT(target.message(), HasSubstr("step_target 0ms: expected a time above 0"));
    for (const int start : {0, 7, 65}) {
      const Status status = CheckBatchSize({.name = control, .start = start});
      EXPECT_EQ(status.field(), "aimd_start");
      EXPECT_THAT(status.message(), HasSubstr("between 8 and 64, not " + std::to_string(start)));
    }
    EXPECT_TRUE(CheckBatchSize({.name = control, .start = 8}).ok());
    EXPECT_TRUE(CheckBatchSize({.name = control, .start = 64}).ok());
    EXPECT_EQ(CheckBatchSize({.name = control, .request_target = milliseconds(-1)}).field(),
              "request_target");
  }
}

TEST(AimdBatchSizeTest, StartsAtItsStartWithinItsBounds) {
  EXPECT_EQ(AimdBatchSize({}, 64).limit(), 32) << "the default";
  EXPECT_EQ(Aimd(64, 20).limit(), 20);
  EXPECT_EQ(Aimd(64, 1).limit(), 8);
  EXPECT_EQ(Aimd(200, 100).limit(), 64);
  EXPECT_EQ(Aimd(12, 32).limit(), 12);
}

TEST(AimdBatchSizeTest, FallsByFourAfterTwentySamplesAboveTheTarget) {
  AimdBatchSize control = Aimd(64);
  Steps(&control, 19, milliseconds(121));
  EXPECT_EQ(control.limit(), 64);
  Steps(&control, 1, milliseconds(121));
  EXPECT_EQ(control.limit(), 60);
  Steps(&control, 20 * 30, milliseconds(121));
  EXPECT_EQ(control.limit(), 8) << "the lower bound";
}

TEST(AimdBatchSizeTest, RisesByFourBelowTheTargetAndStaysBetween) {
  AimdBatchSize control = Aimd(40);
  Steps(&control, 20 * 15, milliseconds(200));
  ASSERT_EQ(control.limit(), 8);
  // After 15 windows at 200 ms, windows at 10 ms; 20 of them all count.
  int windows = 0;
  for (; control.limit() == 8 && windows < 100; ++windows) Steps(&control, 20, milliseconds(10));
  EXPECT_EQ(windows, 14) << "6 at 200 ms and 14 at 10 ms: a mean of 67 ms";
  Steps(&control, 20 * 30, milliseconds(10));
  EXPECT_EQ(control.limit(), 40) << "max_num_seqs";
  Steps(&control, 20 * 30, milliseconds(100));
  EXPECT_EQ(control.limit(), 40) << "at the target nothing changes";
}

TEST(AimdBatchSizeTest, TheTailOfAWindowCounts) {
  AimdBatchSize control = Aimd(64);
  Steps(&control, 19, milliseconds(10));
  Steps(&control, 1, milliseconds(500));
  EXPECT_EQ(control.limit(), 60);
}

TEST(AimdBatchSizeTest, LatenciesOfRequestsCountWithATarget) {
  AimdBatchSize unwatched = Aimd(64);
  Requests(&unwatched, 100, milliseconds(60'000));
  EXPECT_EQ(unwatched.limit(), 64);

  AimdBatchSize control = Aimd(64, 32, milliseconds(2000));
  Requests(&control, 19, milliseconds(100));
  EXPECT_EQ(control.limit(), 32);
  Requests(&control, 1, milliseconds(2401));
  EXPECT_EQ(control.limit(), 28) << "the longest of 20";
  Steps(&control, 20, milliseconds(10));
  EXPECT_EQ(control.limit(), 28) << "steps are short, but requests are late";
  // The mean of 2 windows: 2.4 s and 0.1 s.
  Requests(&control, 20, milliseconds(100));
  EXPECT_EQ(control.limit(), 32);
  Steps(&control, 20 * 20, milliseconds(150));
  EXPECT_LT(control.limit(), 32);
  const int low = control.limit();
  Requests(&control, 20, milliseconds(100));
  EXPECT_EQ(control.limit(), low) << "requests are early, but steps are long";
}

TEST(AimdBatchSizeTest, FewSlotsAreTheBound) {
  AimdBatchSize control = Aimd(3);
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
}  // namespace ropeway::scheduler
