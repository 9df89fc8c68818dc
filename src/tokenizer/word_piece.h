// WordPiece (Devlin et al. 2019), the vocabulary of BERT and of many models of embeddings.
#ifndef ROPEWAY_TOKENIZER_WORD_PIECE_H_
#define ROPEWAY_TOKENIZER_WORD_PIECE_H_

#include <memory>

#include "ropeway/status.h"
#include "tokenizer/text_model.h"
#include "tokenizer/token_table.h"
#include "tokenizer/vocabulary.h"

namespace ropeway::tokenizer {

// Encodes like BERT: control characters are dropped; words end at white space; each character of
// punctuation (with ASCII's symbols) and each Chinese one is a word; accents and capitals are
// dropped as the vocabulary says. A word is divided by the longest token that begins the rest of
// it. One that has no such division, or more than 100 characters, becomes the unknown token.
//
// Errors name the GGUF field. `table` must outlive the model.
StatusOr<std::unique_ptr<const TextModel>> MakeWordPiece(const Vocabulary& vocabulary,
                                                         const TokenTable* table);

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_WORD_PIECE_H_
