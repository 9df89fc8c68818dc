#include "engine/failure.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "tokenizer/tokenizer.h"

namespace ropeway::engine {
namespace {

template <typename Exception>
Status FailureOf(const Exception& exception) {
  try {
    throw exception;
  } catch (...) {
    return CurrentFailure("encoding the prompt");
  }
}

TEST(FailureTest, ATextThatCannotBeEncodedIsTheRequestsFault) {
  const Status status = FailureOf(tokenizer::EncodingError("too many steps"));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "too many steps");
  EXPECT_EQ(status.field(), "prompt");
}

TEST(FailureTest, AnyOtherExceptionIsTheProgramsFault) {
  const Status status = FailureOf(std::runtime_error("why"));
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_EQ(status.message(), "encoding the prompt failed: why");
}

}  // namespace
}  // namespace ropeway::engine
