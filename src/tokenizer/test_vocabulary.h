// Small vocabularies for tests.
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

// What the vocabularies of SentencePiece have before their pieces.
inline constexpr TokenId kUnknownToken = 0;
inline constexpr TokenId kBosToken = 1;
inline constexpr TokenId kEosToken = 2;
inline constexpr TokenId kByteTokens = 3;  // 256 of them.

// `model` with those and `pieces`, whose scores are -1, -2, and so on; then `control` and
// `user_defined`. Spaces are written "▁". Without `bytes` the tokens of bytes are unused ones.
Vocabulary MakeSentencePieceVocabulary(const std::string& model,
                                       const std::vector<std::string>& pieces, bool bytes = true,
                                       const std::vector<std::string>& control = {},
                                       const std::vector<std::string>& user_defined = {});

// "[UNK]", "[CLS]", "[SEP]", then `pieces` as GGUF has them: "▁word", "ing".
Vocabulary MakeWordPieceVocabulary(const std::vector<std::string>& pieces);

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_TEST_VOCABULARY_H_
