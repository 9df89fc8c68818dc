// A tokenizer for tests that need one to be made.
#ifndef ROPEWAY_TOKENIZER_TEST_TOKENIZER_H_
#define ROPEWAY_TOKENIZER_TEST_TOKENIZER_H_

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "tokenizer/make_tokenizer.h"

namespace ropeway::tokenizer {

// nullptr, and a failure of the test, if the vocabulary is rejected.
inline std::unique_ptr<Tokenizer> MustMakeTokenizer(Vocabulary vocabulary) {
  StatusOr<std::unique_ptr<Tokenizer>> tokenizer = MakeTokenizer(std::move(vocabulary));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_TEST_TOKENIZER_H_
