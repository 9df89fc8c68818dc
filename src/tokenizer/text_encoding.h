// The encoding of one text by any kind of vocabulary, in pieces.
#ifndef ROPEWAY_TOKENIZER_TEXT_ENCODING_H_
#define ROPEWAY_TOKENIZER_TEXT_ENCODING_H_

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "tokenizer/special_tokens.h"
#include "tokenizer/text_model.h"
#include "tokenizer/token_table.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/work.h"

namespace ropeway::tokenizer {

// How much of a text a token can cover: a lower bound of a text's tokens that costs a look at it.
// Const and thread-safe after construction.
class TokenLengths {
 public:
  TokenLengths(const TokenTable& table, const TextModel& model);

  // Whether any byte counts; otherwise nothing is known.
  bool known() const { return counts_.any(); }
  bool Counts(uint8_t byte) const { return counts_[byte]; }
  // The most bytes, of those that count, of a token whose first ones are these; at least 1.
  size_t LongestFrom(uint8_t first, uint8_t second) const {
    return longest_[static_cast<size_t>(first) << 8U | second];
  }

 private:
  std::bitset<256> counts_;
  std::vector<uint32_t> longest_;  // By two bytes.
};

// What stands before a segment that comes after this token. Behind one that takes a space along the
// segment goes on.
Before BeforeSegment(const TokenTable& table, std::optional<TokenId> token);

// It looks for the added tokens; the segments between them are the model's.
class TextEncoding final : public Encoding {
 public:
  // What a tokenizer has for all of its texts.
  struct Parts {
    std::unique_ptr<const TokenTable> table;
    std::unique_ptr<const TextModel> model;
    std::unique_ptr<const TokenLengths> lengths;
    std::optional<TokenId> begin;  // Added before a text.
    std::optional<TokenId> end;    // Added behind a text.
  };

  TextEncoding(const Parts* parts, std::string_view text, const EncodeOptions& options,
               size_t most);

  bool Run(size_t units) override;
  size_t bytes() const override { return Encoding::bytes() + segment_->bytes(); }

 private:
  enum class Stage {
    kCount,    // How many ids there must be, by the lengths of tokens alone.
    kFind,     // The next added token.
    kSegment,  // Ordinary text before it.
    kEnd,
  };

  void Advance(Work* work);
  void Count(Work* work);
  void CountAt(size_t longest);
  void Find(Work* work);
  void BeginSegment(Work* work);
  void EndSegment(Work* work);
  // Throws EncodingError for an id for which the model has no row.
  void CheckRows();
  // Begins after the white space that the token before takes along.
  void SkipSpace(TokenId before, Work* work);

  const TokenTable& table_;
  const TextModel& model_;
  const TokenLengths& lengths_;
  const std::optional<TokenId> end_id_;
  const std::string_view text_;
  const EncodeOptions options_;
  const size_t most_;
  Stage stage_;

  // kCount. Positions count only the bytes that count.
  size_t counted_ = 0;  // Bytes of the text that were looked at.
  int before_ = -1;     // The byte at position_; -1: none was found yet.
  size_t position_ = 0;
  size_t reach_ = 0;     // What least_ tokens can cover, at most.
  size_t furthest_ = 0;  // What one more could.

  // kFind.
  size_t found_from_ = 0;  // No added token begins in [ordinary_, found_from_).
  size_t quoted_ = 0;      // The first quoted span that ends after found_from_.
  std::optional<SpecialTokens::Found> found_;

  // kSegment: the text [ordinary_, ordinary_end_).
  size_t ordinary_ = 0;
  size_t ordinary_end_ = 0;
  Before comes_after_ = Before::kNothing;
  const std::unique_ptr<SegmentEncoder> segment_;
  size_t checked_ = 0;  // Ids that CheckRows has seen.
};

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_TEXT_ENCODING_H_
