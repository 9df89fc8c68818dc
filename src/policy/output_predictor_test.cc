#include "policy/output_predictor.h"

#include <gtest/gtest.h>

#include "policy/test_sequences.h"

namespace ropeway::policy {
namespace {

TEST(OutputPredictorTest, StartsWithAGuessAndNeverExceedsTheLimit) {
  OutputPredictor predictor;
  EXPECT_EQ(predictor.Remaining(WaitingSequence(0, 8, 1000)), 128);
  EXPECT_EQ(predictor.Remaining(WaitingSequence(0, 8, 30)), 30);
  EXPECT_EQ(predictor.Remaining(WaitingSequence(0, 8, 0)), 0);
  EXPECT_EQ(predictor.Remaining(RunningSequence(0, 8, 30, 28)), 2);
  EXPECT_EQ(predictor.Remaining(RunningSequence(0, 8, 1000, 100)), 28);
}

TEST(OutputPredictorTest, LearnsByBucketAndFallsBackOnAll) {
  OutputPredictor predictor;
  for (int i = 0; i < 50; ++i) predictor.Learn(16, 10);
  for (int i = 0; i < 3; ++i) predictor.Learn(1000, 700);
  // 1000's bucket has seen too little: the mean of all, which lies between.
  const int32_t all = predictor.Remaining(WaitingSequence(0, 8, 1000));
  EXPECT_GT(all, 10);
  EXPECT_LT(all, 300);
  predictor.Learn(1000, 700);
  EXPECT_EQ(predictor.Remaining(WaitingSequence(0, 8, 1000)), 700);
  EXPECT_EQ(predictor.Remaining(WaitingSequence(0, 8, 513)), 513) << "the same power of two";
  EXPECT_EQ(predictor.Remaining(WaitingSequence(0, 8, 31)), 10);
}

TEST(OutputPredictorTest, FollowsAChange) {
  OutputPredictor predictor;
  for (int i = 0; i < 200; ++i) predictor.Learn(500, 400);
  for (int i = 0; i < 16; ++i) predictor.Learn(500, 20);
  EXPECT_LT(predictor.Remaining(WaitingSequence(0, 8, 500)), 200);
  for (int i = 0; i < 80; ++i) predictor.Learn(500, 20);
  EXPECT_NEAR(predictor.Remaining(WaitingSequence(0, 8, 500)), 20, 3);
}

TEST(OutputPredictorTest, OneThatOutgrewItsPredictionWillDoubleAtLeast) {
  OutputPredictor predictor;
  for (int i = 0; i < 8; ++i) predictor.Learn(4000, 100);
  EXPECT_EQ(predictor.Remaining(RunningSequence(0, 8, 4000, 99)), 1);
  EXPECT_EQ(predictor.Remaining(RunningSequence(0, 8, 4000, 100)), 100);
  EXPECT_EQ(predictor.Remaining(RunningSequence(0, 8, 4000, 1500)), 1500);
  EXPECT_EQ(predictor.Remaining(RunningSequence(0, 8, 4000, 3990)), 10);
}

TEST(OutputPredictorTest, OneThatNoTokenEndsRunsToItsLimit) {
  OutputPredictor predictor;
  for (int i = 0; i < 8; ++i) predictor.Learn(4000, 100);
  core::Sequence sequence = RunningSequence(0, 8, 4000, 10);
  sequence.request.ignore_eos = true;
  EXPECT_EQ(predictor.Remaining(sequence), 3990);
  sequence.request.stop_ids = {7};
  EXPECT_EQ(predictor.Remaining(sequence), 90) << "a stop token may end it";
}

}  // namespace
}  // namespace ropeway::policy
