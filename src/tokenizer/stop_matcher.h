// Finds stop strings in text that comes in parts.
#ifndef ROPEWAY_TOKENIZER_STOP_MATCHER_H_
#define ROPEWAY_TOKENIZER_STOP_MATCHER_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ropeway {

// The stop string that is complete first counts; of several complete at the same byte, the longest
// (the one that began first). The text before it is emitted, it and what follows are not. Text is
// held back only while it may be the beginning of a stop string. Where both the stop strings and
// the parts are valid UTF-8, so is each emitted part. Time linear in the text. Not thread-safe; one
// per sequence.
class StopMatcher {
 public:
  struct Step {
    std::string text;            // What may be emitted now.
    std::optional<size_t> stop;  // Which stop string is complete: an index, the lowest of equals.
  };

  // REQUIRES: none of `stops` is empty. None at all means that text passes through.
  explicit StopMatcher(std::vector<std::string> stops);

  // REQUIRES: no earlier Step had `stop`, and Finish was not called.
  Step Append(std::string_view text);

  // What was held back, as no more text will come.
  std::string Finish();

 private:
  // Knuth, Morris and Pratt's automaton of one stop string.
  struct Pattern {
    std::string text;
    // [i]: of text's first i + 1 bytes, how many at their end are also the text's beginning (fewer
    // than all).
    std::vector<size_t> borders;
    size_t matched = 0;  // How many bytes at the end of what was read are the text's beginning.
  };

  static void Advance(Pattern& pattern, char byte);

  std::vector<Pattern> patterns_;
  std::string held_;
};

}  // namespace ropeway

#endif  // ROPEWAY_TOKENIZER_STOP_MATCHER_H_
