// How SentencePiece writes a text: spaces as "▁", one more of them in front, and words.
#ifndef ROPEWAY_TOKENIZER_SENTENCEPIECE_TEXT_H_
#define ROPEWAY_TOKENIZER_SENTENCEPIECE_TEXT_H_

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tokenizer/text_model.h"
#include "tokenizer/vocabulary.h"

namespace ropeway::tokenizer {

// Whether a space may be written before a segment that comes after `before`,
bool MayHaveSpacePrefix(SpacePrefix prefix, Before before);
// and whether it is, where the segment is `text`.
bool HasSpacePrefix(SpacePrefix prefix, Before before, std::string_view text);

// Where a text can be cut without a token across the cut. Few tokens have a space behind another
// character, so it may be cut before nearly each of its spaces, and its words are encoded one by
// one.
class WordBounds {
 public:
  // Notes what a token spans.
  void Add(std::string_view token);

  // Whether a text may be cut before a space, by the last byte before it ("▁", if that is a space).
  bool MayCutAfter(uint8_t byte) const { return !spanned_[byte]; }

 private:
  std::bitset<256> spanned_;
};

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_SENTENCEPIECE_TEXT_H_
