// The Tokenizer seam: text to token ids and back.
#ifndef ROPEWAY_TOKENIZER_TOKENIZER_H_
#define ROPEWAY_TOKENIZER_TOKENIZER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "ropeway/request.h"
#include "tokenizer/spans.h"

namespace ropeway::tokenizer {

struct EncodeOptions {
  bool add_special = true;    // Add the tokens that begin and end a text by the model's file (BOS).
  bool parse_special = true;  // Recognise special tokens in the text.
  // With parse_special: a special token with a byte in these spans (spans.h) is ordinary text all
  // the same, because it comes from a message and not from the template (ChatTemplate).
  std::span<const Span> quoted = {};
  // The last of the ids that the text goes on from; none: it begins a text. What a tokenizer does
  // at the beginning of a text, such as writing a space before it, it does not do behind others.
  std::optional<TokenId> after = {};
  // Whether the text may have tokens that a folder names and for which the model has no row.
  // Without it they are an EncodingError: no such id may reach a model.
  bool without_row = false;
};

// Thrown where a text cannot be encoded as the model's file says, such as by a split pattern that
// takes too many steps for it: an error of the request, not of the program.
struct EncodingError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A text on its way to ids, in pieces: a long text need not keep a thread from all others. Thread
// rule: one thread at a time.
class Encoding {
 public:
  static constexpr size_t kNoLimit = SIZE_MAX;

  virtual ~Encoding() = default;

  // Goes on for about `work` units (work.h), at least one. Returns whether it ended: all ids are
  // there, or there are more than Tokenizer::Begin's `most`. Throws EncodingError.
  virtual bool Run(size_t work) = 0;

  // The ids so far.
  const std::vector<TokenId>& ids() const { return ids_; }
  std::vector<TokenId> TakeIds() { return std::move(ids_); }
  // The whole text has at least so many, by what is known now.
  size_t least() const { return std::max(least_, ids_.size()); }
  // The memory that it takes by now, besides the text.
  virtual size_t bytes() const { return ids_.capacity() * sizeof(TokenId); }

 protected:
  std::vector<TokenId> ids_;
  size_t least_ = 0;
};

// Const and thread-safe after construction.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Any bytes are valid input. Byte-level BPE keeps them all; other kinds may normalize the text,
  // and have no token for a part of it. Throws EncodingError.
  virtual std::vector<TokenId> Encode(std::string_view text,
                                      const EncodeOptions& options) const = 0;

  // Begins to encode `text`, to the same ids as Encode, in pieces. It ends early, with a part of
  // the ids or none, once there are known to be more than `most`. The text, options.quoted and the
  // tokenizer must outlive it.
  virtual std::unique_ptr<Encoding> Begin(std::string_view text, const EncodeOptions& options,
                                          size_t most = Encoding::kNoLimit) const = 0;

  // The token's bytes; a special (control) token has none unless `with_special`.
  // REQUIRES: 0 <= id < vocab_size(), or Encode gave it. Valid as long as the tokenizer.
  virtual std::string_view Bytes(TokenId id, bool with_special = false) const = 0;

  // How many of the first bytes of `text` `id` stands for where it follows `before` (none: where it
  // begins a text): its bytes, unless Encode adds or takes white space there. Nullopt if the text
  // does not begin so.
  virtual std::optional<size_t> Covers(std::string_view text, TokenId id,
                                       std::optional<TokenId> before) const = 0;

  // Whether generation ends at `id` (end of sequence, of turn, of text).
  virtual bool IsEnd(TokenId id) const = 0;

  // Whether `id` is a control token.
  virtual bool IsSpecial(TokenId id) const = 0;

  // Whether `id` is only a row of the vocabulary and no token: it is never generated.
  virtual bool IsUnused(TokenId /*id*/) const { return false; }

  // The tokens for which the model has a row: the ids below it. (See EncodeOptions::without_row.)
  virtual int32_t vocab_size() const = 0;

  // The id of the token with exactly this text (e.g. "<|im_end|>"), if there is one.
  virtual std::optional<TokenId> Find(std::string_view token) const = 0;

  virtual std::optional<TokenId> bos() const = 0;
  virtual std::optional<TokenId> eos() const = 0;
  // The token that Encode adds behind a text, if it adds one.
  virtual std::optional<TokenId> text_end() const { return std::nullopt; }
};

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_TOKENIZER_H_
