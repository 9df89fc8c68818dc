// The seam between what all tokenizers do with a text and what each kind of vocabulary does with
// the ordinary text between two added tokens.
#ifndef ROPEWAY_TOKENIZER_TEXT_MODEL_H_
#define ROPEWAY_TOKENIZER_TEXT_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "ropeway/request.h"
#include "tokenizer/work.h"

namespace ropeway::tokenizer {

// What stands before a segment, which is ordinary text up to the next added token.
enum class Before {
  kNothing,     // It begins the text.
  kAddedToken,  // An added token.
  kText,        // Ordinary text that was encoded earlier.
};

// Encodes one segment after the other. One thread at a time.
class SegmentEncoder {
 public:
  virtual ~SegmentEncoder() = default;

  // REQUIRES: `text` is not empty; it must outlive the segment's encoding.
  virtual void Begin(std::string_view text, Before before) = 0;

  // Goes on and appends the ids. Returns whether the segment is encoded; false: no work is left.
  virtual bool Run(Work* work, std::vector<TokenId>* ids) = 0;

  // The memory that it takes.
  virtual size_t bytes() const = 0;
};

// One kind of vocabulary. Const and thread-safe after construction.
class TextModel {
 public:
  virtual ~TextModel() = default;

  // It must not outlive this.
  virtual std::unique_ptr<SegmentEncoder> NewEncoder() const = 0;

  // Whether a token covers no more of a text than it has bytes, of those bytes that are such.
  virtual bool Counts(uint8_t byte) const = 0;

  // Whether it writes a space of its own before some segment that comes after `before`.
  virtual bool AddsSpace(Before /*before*/) const { return false; }

  // Whether texts begin with the bos token if the vocabulary does not say.
  virtual bool adds_bos() const { return false; }
};

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_TEXT_MODEL_H_
