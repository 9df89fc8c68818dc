#include "base/failure.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

namespace ropeway::base {
namespace {

TEST(FailureStatus, AResultSaysHowItsRequestEnded) {
  EXPECT_TRUE(StatusOfEnd(FinishReason::kStop).ok());
  EXPECT_TRUE(StatusOfEnd(FinishReason::kLength).ok());
  EXPECT_EQ(StatusOfEnd(FinishReason::kCancelled).code(), StatusCode::kCancelled);
  EXPECT_EQ(StatusOfEnd(FinishReason::kFailed).code(), StatusCode::kInternal);
}

TEST(FailureStatus, AnExceptionSaysWhatFailed) {
  const auto failure_of = [](const auto& exception) {
    try {
      throw exception;
    } catch (...) {
      return CurrentFailure("the test");
    }
  };
  EXPECT_EQ(failure_of(std::runtime_error("why")).message(), "the test failed: why");
  EXPECT_EQ(failure_of(7).message(), "the test failed");
  EXPECT_EQ(failure_of(std::bad_alloc()).code(), StatusCode::kResourceExhausted);
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
