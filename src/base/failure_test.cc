#include "base/failure.h"

#include <gtest/gtest.h>

#include <new>

namespace ropeway::base {
namespace {

TEST(FailureStatus, AResultSaysHowItsRequestEnded) {
  EXPECT_TRUE(StatusOfEnd(FinishReason::kStop).ok());
  EXPECT_TRUE(StatusOfEnd(FinishReason::kLength).ok());
  EXPECT_EQ(StatusOfEnd(FinishReason::kCancelled).code(), StatusCode::kCancelled);
  EXPECT_EQ(StatusOfEnd(FinishReason::kFailed).code(), StatusCode::kInternal);
}

TEST(FailureStatus, ItIsTriedUntilThereIsMemory) {
  int tries = 0;
  EXPECT_EQ(RetryUntilMemory([&] {
              if (++tries < 3) throw std::bad_alloc();
              return tries;
            }),
            3);
}

}  // namespace
}  // namespace ropeway::base
