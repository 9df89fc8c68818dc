// A small byte-level vocabulary for tests.
#ifndef ROPEWAY_TOKENIZER_TEST_VOCABULARY_H_
#define ROPEWAY_TOKENIZER_TEST_VOCABULARY_H_

#include <string>
#include <vector>

#include "tokenizer/vocabulary.h"

namespace ropeway::tokenizer {

// The 256 bytes (a byte's id is its value), then one token for each of `merges` ("left right"),
// then `control` and `user_defined`.
Vocabulary MakeVocabulary(const std::string& pre, const std::vector<std::string>& merges,
                          const std::vector<std::string>& control = {},
                          const std::vector<std::string>& user_defined = {});

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_TEST_VOCABULARY_H_
