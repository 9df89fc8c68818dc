// Added tokens that a tokenizer.json calls `normalized`: `tokenizers` looks for them in the text
// that its normalizer has made of what lies between the others, and normalizes their texts too.
#ifndef ROPEWAY_TOKENIZER_HF_NORMALIZED_TOKENS_H_
#define ROPEWAY_TOKENIZER_HF_NORMALIZED_TOKENS_H_

#include <map>
#include <vector>

#include "ropeway/request.h"
#include "ropeway/status.h"
#include "tokenizer/hf_added_tokens.h"
#include "tokenizer/hf_text_steps.h"

namespace ropeway::tokenizer {

// Which of `tokens` are found only behind a space (Vocabulary::behind_space). All others are found
// in the text as it is; kUnimplemented, naming its field, for one that would be found otherwise.
StatusOr<std::vector<TokenId>> TokensBehindSpace(const std::map<TokenId, AddedToken>& tokens,
                                                 const TextSteps& steps);

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_HF_NORMALIZED_TOKENS_H_
