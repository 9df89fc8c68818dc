// Byte-level BPE, the vocabulary of GPT-2, Llama 3, Qwen, SmolLM, gpt-oss and many others.
#ifndef ROPEWAY_TOKENIZER_BYTE_LEVEL_BPE_H_
#define ROPEWAY_TOKENIZER_BYTE_LEVEL_BPE_H_

#include <memory>

#include "ropeway/status.h"
#include "tokenizer/text_model.h"
#include "tokenizer/token_table.h"
#include "tokenizer/vocabulary.h"

namespace ropeway::tokenizer {

// Encodes like Hugging Face `tokenizers` with the same vocabulary and merges. Each byte that is not
// UTF-8 becomes one token. There is no Unicode normalization, unless the vocabulary asks for one:
// decoding returns the encoded bytes.
//
// A vocabulary need not have a token for each of the 256 bytes (SmolLM2's lacks 21 rare ones, such
// as 0x04 and 0xF5); such bytes are dropped, as in `tokenizers`.
//
// Errors name the GGUF field. `table` must outlive the model.
StatusOr<std::unique_ptr<const TextModel>> MakeByteLevelBpe(const Vocabulary& vocabulary,
                                                            const TokenTable* table);

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_BYTE_LEVEL_BPE_H_
