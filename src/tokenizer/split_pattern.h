// One regular expression that cuts text into pieces.
#ifndef ROPEWAY_TOKENIZER_SPLIT_PATTERN_H_
#define ROPEWAY_TOKENIZER_SPLIT_PATTERN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ropeway/status.h"

namespace ropeway {

// Const and thread-safe after construction.
class SplitPattern {
 public:
  struct Limits {
    size_t jit_stack_bytes = size_t{1} << 20U;  // What compiled code may use at most.
    uint32_t heap_limit_kib = 64 * 1024;        // What the interpreting matcher may use at most.
    uint32_t match_limit = 10'000'000;          // Steps of one match, in either matcher.
  };

  // How often a match left the usual path. None of it changes the pieces of a pattern that stays
  // within the limits.
  struct Detours {
    size_t large_stack = 0;  // Matched again with the large JIT stack.
    size_t interpreted = 0;  // Matched again by the interpreting matcher.
    size_t cut = 0;          // No matcher stayed within its limits: cut after kCutBytes.
  };

  // Where no matcher can say where a piece ends, it ends after so many bytes (whole characters).
  static constexpr size_t kCutBytes = 4096;

  // Fails where `expression` is not a pattern (PCRE2 syntax, UTF-8 and Unicode properties).
  static StatusOr<SplitPattern> Create(const std::string& expression, Limits limits);
  static StatusOr<SplitPattern> Create(const std::string& expression) {
    return Create(expression, Limits());
  }

  // Appends to `pieces` the pieces of each of `texts`, in order: each match, and each stretch
  // between matches. Together they are all of the text. Views of `texts`. Each text is matched for
  // itself: a lookahead sees nothing beyond its end. REQUIRES: each of `texts` is valid UTF-8.
  Detours Split(const std::vector<std::string_view>& texts,
                std::vector<std::string_view>& pieces) const;

 private:
  struct Code;    // The compiled pattern.
  class Matcher;  // What one call of Split needs.
  SplitPattern(std::shared_ptr<const Code> code, Limits limits);

  std::shared_ptr<const Code> code_;
  Limits limits_;
};

}  // namespace ropeway

#endif  // ROPEWAY_TOKENIZER_SPLIT_PATTERN_H_
