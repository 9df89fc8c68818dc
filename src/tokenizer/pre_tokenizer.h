// Splits text into the pieces within which BPE merges.
#ifndef ROPEWAY_TOKENIZER_PRE_TOKENIZER_H_
#define ROPEWAY_TOKENIZER_PRE_TOKENIZER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ropeway/status.h"

namespace ropeway::tokenizer {

// A regular expression that splits text. Const and thread-safe after construction.
class SplitPattern {
 public:
  struct Limits {
    size_t jit_stack_bytes = size_t{1} << 20U;  // Of compiled code.
    uint32_t heap_limit_kib = 64 * 1024;        // Of the interpreting matcher.
    uint32_t match_limit = 10'000'000;          // Steps of one match, in either matcher.
  };

  // How often a match took a fallback. None changes the pieces of a match within the limits.
  struct Detours {
    size_t large_stack = 0;  // Repeated with the large JIT stack.
    size_t interpreted = 0;  // Repeated by the interpreting matcher.
    size_t cut = 0;          // Both matchers exceeded their limits: cut after kCutBytes.
  };

  // The length of a piece whose match exceeds the limits (rounded up to whole characters).
  static constexpr size_t kCutBytes = 4096;

  // Fails if `expression` is not a valid pattern (PCRE2 syntax, UTF-8 and Unicode properties).
  static StatusOr<SplitPattern> Create(const std::string& expression, Limits limits);
  static StatusOr<SplitPattern> Create(const std::string& expression) {
    return Create(expression, Limits());
  }

  // Appends to `pieces` the pieces of each of `texts`, in order: each match, and each stretch
  // between matches. They are views of `texts` and cover all of it. Each text is matched
  // separately: a lookahead sees nothing beyond its end. REQUIRES: each of `texts` is valid UTF-8.
  Detours Split(const std::vector<std::string_view>& texts,
                std::vector<std::string_view>& pieces) const;

 private:
  struct Code;    // The compiled pattern.
  class Matcher;  // The state of one call of Split.
  SplitPattern(std::shared_ptr<const Code> code, Limits limits);

  std::shared_ptr<const Code> code_;
  Limits limits_;
};

// The split patterns of a family of models. Const and thread-safe after construction.
class PreTokenizer {
 public:
  // By the value of tokenizer.ggml.pre. The error for an unknown one lists those that are
  // supported.
  static StatusOr<PreTokenizer> Create(const std::string& name);

  // The pieces of `text` in order, which cover all of it. Views of `text`.
  // REQUIRES: `text` is valid UTF-8.
  std::vector<std::string_view> Split(std::string_view text) const;

  // Whether a piece that is a token becomes that token, without merges.
  bool ignore_merges() const { return ignore_merges_; }

  // Whether texts begin with the bos token if the file does not say.
  bool adds_bos() const { return adds_bos_; }

 private:
  PreTokenizer() = default;

  std::vector<SplitPattern> patterns_;  // Each splits the pieces of the previous one.
  bool ignore_merges_ = false;
  bool adds_bos_ = false;
};

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_PRE_TOKENIZER_H_
