// The Tokenizer seam: text to token ids and back.
#ifndef ROPEWAY_TOKENIZER_TOKENIZER_H_
#define ROPEWAY_TOKENIZER_TOKENIZER_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ropeway/request.h"

namespace ropeway::tokenizer {

struct EncodeOptions {
  bool add_special = true;    // Add the tokens that begin and end a text by the model's file (BOS).
  bool parse_special = true;  // Recognise special tokens in the text.
};

// Const and thread-safe after construction.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Any bytes are valid input; invalid UTF-8 round-trips too.
  virtual std::vector<TokenId> Encode(std::string_view text,
                                      const EncodeOptions& options) const = 0;

  // The token's bytes; those of a special (control) token are empty unless `with_special`.
  // REQUIRES: 0 <= id < vocab_size(). Valid as long as the tokenizer.
  virtual std::string_view Bytes(TokenId id, bool with_special = false) const = 0;

  // Whether generation ends at `id` (end of sequence, of turn, of text).
  virtual bool IsEnd(TokenId id) const = 0;

  // Whether `id` is a control token.
  virtual bool IsSpecial(TokenId id) const = 0;

  virtual int32_t vocab_size() const = 0;

  // The id of the token with exactly this text (e.g. "<|im_end|>"), if there is one.
  virtual std::optional<TokenId> Find(std::string_view token) const = 0;

  virtual std::optional<TokenId> bos() const = 0;
  virtual std::optional<TokenId> eos() const = 0;
};

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_TOKENIZER_H_
