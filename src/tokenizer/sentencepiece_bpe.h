// SentencePiece's BPE, the vocabulary of Llama 2, Mistral, Gemma, Phi-3 and others.
#ifndef ROPEWAY_TOKENIZER_SENTENCEPIECE_BPE_H_
#define ROPEWAY_TOKENIZER_SENTENCEPIECE_BPE_H_

#include <memory>

#include "ropeway/status.h"
#include "tokenizer/text_model.h"
#include "tokenizer/token_table.h"
#include "tokenizer/vocabulary.h"

namespace ropeway::tokenizer {

// Encodes like SentencePiece by the vocabulary's scores, or like Hugging Face `tokenizers` by its
// merges. A character without a token becomes the tokens of its bytes; where one of those is
// missing too, the unknown token, one for several such characters in a row. Each byte that is not
// UTF-8 is taken for a character. Tokens of type kUnused are never made.
//
// Errors name the GGUF field. `table` must outlive the model.
StatusOr<std::unique_ptr<const TextModel>> MakeSentencePieceBpe(const Vocabulary& vocabulary,
                                                                const TokenTable* table);

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_SENTENCEPIECE_BPE_H_
