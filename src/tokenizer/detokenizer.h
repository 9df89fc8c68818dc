// Turns the bytes of one token after another into text.
#ifndef ROPEWAY_TOKENIZER_DETOKENIZER_H_
#define ROPEWAY_TOKENIZER_DETOKENIZER_H_

#include <string>
#include <string_view>

namespace ropeway {

// All that Append and Finish return, put together, is ReplaceInvalidUtf8 of all bytes put together,
// however they were cut. Not thread-safe; one per sequence.
class Detokenizer {
 public:
  // The text that became certain: always whole characters. A character that is not complete yet is
  // held back (at most 3 bytes).
  std::string Append(std::string_view bytes);

  // What was held back, as no more bytes will come: U+FFFD, or nothing. Ready for a new text then.
  std::string Finish();

 private:
  std::string pending_;  // Empty, or the beginning of a character.
};

}  // namespace ropeway

#endif  // ROPEWAY_TOKENIZER_DETOKENIZER_H_
