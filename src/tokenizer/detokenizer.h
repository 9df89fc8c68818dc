// From tokens to the text that a client sees: UTF-8 across tokens, and stop strings.
#ifndef ROPEWAY_TOKENIZER_DETOKENIZER_H_
#define ROPEWAY_TOKENIZER_DETOKENIZER_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ropeway::tokenizer {

// Turns the bytes of one token after another into text. The results of Append and Finish,
// concatenated, are ReplaceInvalidUtf8 of all bytes, however they were split. Not thread-safe; one
// per sequence.
class Detokenizer {
 public:
  // The complete characters so far. An incomplete character is held back (at most 3 bytes).
  std::string Append(std::string_view bytes);

  // Ends the text: U+FFFD for an incomplete character, or nothing. A new text may follow.
  std::string Finish();

 private:
  std::string pending_;  // Empty, or the beginning of a character.
};

// Finds stop strings in text that comes in parts. The stop string that is complete first counts; of
// several complete at the same byte, the longest. The text before it is emitted, it and the text
// after it are not. Text is held back only while it may be the beginning of a stop string. If the
// stop strings and the parts are valid UTF-8, so is each emitted part. Linear time. Not
// thread-safe; one per sequence.
class StopMatcher {
 public:
  struct Step {
    std::string text;            // To be emitted now.
    std::optional<size_t> stop;  // The index of the complete stop string, the lowest of equals.
  };

  // REQUIRES: none of `stops` is empty. Without stops all text passes through.
  explicit StopMatcher(std::vector<std::string> stops);

  // REQUIRES: no earlier Step had `stop`, and Finish was not called.
  Step Append(std::string_view text);

  // Ends the text: returns what was held back.
  std::string Finish();

 private:
  // The Knuth-Morris-Pratt automaton of one stop string.
  struct Pattern {
    std::string text;
    // [i]: the length of the longest proper prefix of the text that ends at byte i.
    std::vector<size_t> borders;
    size_t matched = 0;  // The length of the longest prefix that ends at the last byte read.
  };

  static void Advance(Pattern& pattern, char byte);

  std::vector<Pattern> patterns_;
  std::string held_;
};

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_DETOKENIZER_H_
