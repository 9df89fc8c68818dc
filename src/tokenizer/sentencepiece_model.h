// Reads SentencePiece's tokenizer.model: a message of protocol buffers, of which few fields count.
#ifndef ROPEWAY_TOKENIZER_SENTENCEPIECE_MODEL_H_
#define ROPEWAY_TOKENIZER_SENTENCEPIECE_MODEL_H_

#include <string_view>

#include "ropeway/status.h"
#include "tokenizer/vocabulary.h"

namespace ropeway::tokenizer {

// Tokens with their scores and types, the kind of model ("llama" for BPE, "t5" for unigram), and
// how it normalizes. kDataLoss for bytes that are no such model, kUnimplemented for models of words
// or characters.
StatusOr<Vocabulary> ReadSentencePieceModel(std::string_view bytes);

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_SENTENCEPIECE_MODEL_H_
