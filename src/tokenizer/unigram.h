// SentencePiece's unigram language model (Kudo 2018), the vocabulary of T5 and XLM-RoBERTa.
#ifndef ROPEWAY_TOKENIZER_UNIGRAM_H_
#define ROPEWAY_TOKENIZER_UNIGRAM_H_

#include <memory>

#include "ropeway/status.h"
#include "tokenizer/text_model.h"
#include "tokenizer/token_table.h"
#include "tokenizer/vocabulary.h"

namespace ropeway::tokenizer {

// Encodes like SentencePiece: the text is normalized by the vocabulary's character map and its rule
// for spaces; of all divisions into tokens of type kNormal and symbols, that of the highest sum of
// scores is taken, the sums in double precision. A character without a token costs 10 more than the
// worst token and becomes the tokens of its bytes, or the unknown token, one for several in a row.
// So decoding returns the normalized text at best. Bytes that are not UTF-8 are U+FFFD.
//
// Errors name the GGUF field. `table` must outlive the model.
StatusOr<std::unique_ptr<const TextModel>> MakeUnigram(const Vocabulary& vocabulary,
                                                       const TokenTable* table);

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_UNIGRAM_H_
