// A model file's tokenizer metadata as plain values. The engine fills it from the file; the
// tokenizer's factory validates it.
#ifndef ROPEWAY_TOKENIZER_VOCABULARY_H_
#define ROPEWAY_TOKENIZER_VOCABULARY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ropeway/request.h"

namespace ropeway::tokenizer {

// The values of tokenizer.ggml.token_type.
enum class TokenType : int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

// Each field's comment names its GGUF key.
struct Vocabulary {
  std::string model;                // tokenizer.ggml.model, e.g. "gpt2" for byte-level BPE.
  std::string pre;                  // tokenizer.ggml.pre: the pre-tokenizer.
  std::vector<std::string> tokens;  // tokenizer.ggml.tokens, by id, as in the file.
  std::vector<int32_t> types;  // tokenizer.ggml.token_type, one per token, or none: all normal.
  std::vector<std::string> merges;  // tokenizer.ggml.merges, "left right", best first.

  std::optional<TokenId> bos;  // tokenizer.ggml.bos_token_id
  std::optional<TokenId> eos;  // tokenizer.ggml.eos_token_id
  std::optional<TokenId> eot;  // tokenizer.ggml.eot_token_id
  std::optional<TokenId> eom;  // tokenizer.ggml.eom_token_id
  std::optional<TokenId> unk;  // tokenizer.ggml.unknown_token_id

  // Whether a text begins with bos or ends with eos; absent: the default of the pre-tokenizer.
  std::optional<bool> add_bos;    // tokenizer.ggml.add_bos_token
  std::optional<bool> add_eos;    // tokenizer.ggml.add_eos_token
  bool add_space_prefix = false;  // tokenizer.ggml.add_space_prefix; unused by byte-level BPE.

  std::string chat_template;  // tokenizer.chat_template; "" if absent.
};

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_VOCABULARY_H_
