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
#include "tokenizer/split_patterns.h"
#include "tokenizer/work.h"

namespace ropeway::tokenizer {

// A regular expression that splits text. Const and thread-safe after construction. Where a match
// exceeds the limits, there is no text left out and no piece made up: EncodingError (tokenizer.h)
// is thrown.
class SplitPattern {
 public:
  struct Limits {
    size_t jit_stack_bytes = size_t{1} << 20U;  // For compiled code.
    uint32_t heap_limit_kib = 64 * 1024;        // For the interpreting matcher.
    uint32_t match_limit = 10'000'000;          // For one match at one place, in either matcher.
    // Whether each step of a match is counted, which takes time: for patterns that may look at a
    // text over and over. The others have no limit beside those above.
    bool counts_steps = true;
  };

  // Counted steps that a text may take, over all of its patterns: a byte that was passed or an item
  // of the pattern that was tried. The patterns of known models take less than ten per byte.
  static constexpr size_t kSteps = 1'000'000;
  static constexpr size_t kStepsPerByte = 128;

  // How often a match took a fallback. None changes the pieces of a match within the limits.
  struct Detours {
    size_t large_stack = 0;  // Repeated with the large JIT stack.
    size_t interpreted = 0;  // Repeated by the interpreting matcher.
  };

  // Fails if `expression` is not a valid pattern (PCRE2 syntax; of characters: UTF-8 and Unicode
  // properties), or has what changes a match's beginning or PCRE2's rules: \K, \Q, \c, (*, (?C.
  static StatusOr<SplitPattern> Create(const std::string& expression, Limits limits,
                                       SplitUnit unit = SplitUnit::kCharacters);
  static StatusOr<SplitPattern> Create(const std::string& expression) {
    return Create(expression, Limits());
  }

  // Appends to `pieces` the pieces of each of `texts`, in order: each match, and each stretch
  // between matches. They are views of `texts` and cover all of it. Each text is matched
  // separately: a lookahead sees nothing beyond its end. REQUIRES: a pattern of bytes, or each of
  // `texts` is valid UTF-8.
  Detours Split(const std::vector<std::string_view>& texts,
                std::vector<std::string_view>& pieces) const;

  // A walk through texts that can be interrupted in each one (pre_tokenizer.cc).
  class Matcher;

 private:
  friend class PreTokenizer;
  struct Code;  // The compiled pattern.
  SplitPattern(std::shared_ptr<const Code> code, Limits limits);

  std::shared_ptr<const Code> code_;
  Limits limits_;
};

// What a walk through the pieces of a text came to.
enum class SplitStep {
  kPiece,  // The next piece.
  kPause,  // No work is left for this call.
  kEnd,    // There are no more.
};

// The split patterns of a model. Const and thread-safe after construction.
class PreTokenizer {
 public:
  // By the value of tokenizer.ggml.pre. The error for an unknown one lists those that are
  // supported.
  static StatusOr<PreTokenizer> Create(const std::string& name);

  // Makes one from a tokenizer.json's patterns, at least one.
  static StatusOr<PreTokenizer> Create(const std::vector<std::string>& patterns,
                                       bool ignore_merges);

  // The pieces of `text` in order, which cover all of it. Views of `text`.
  // REQUIRES: `text` is valid UTF-8.
  std::vector<std::string_view> Split(std::string_view text) const;

  // The same, piece by piece, of one text after the other. A single match is not left before its
  // end: a word of a megabyte takes some milliseconds. One thread at a time.
  class Cursor {
   public:
    // `owner` must outlive it. Throws std::bad_alloc.
    explicit Cursor(const PreTokenizer* owner);
    ~Cursor();
    Cursor(const Cursor&) = delete;
    Cursor& operator=(const Cursor&) = delete;

    // REQUIRES: `text` is valid UTF-8; it must outlive the walk through it.
    void Begin(std::string_view text);
    // A piece is never empty. Throws EncodingError; the cursor is of no use then.
    SplitStep Next(Work* work, std::string_view* piece);

   private:
    std::vector<std::unique_ptr<SplitPattern::Matcher>> levels_;  // One for each pattern.
    size_t level_ = 0;  // The newest piece's level; pieces above are within a piece too.
    size_t steps_ = SplitPattern::kSteps;  // Left to all texts to come and those before.
  };

  // Whether a piece that is a token becomes that token, without merges.
  bool ignore_merges() const { return ignore_merges_; }

  // Whether texts begin with the bos token if the file does not say.
  bool adds_bos() const { return adds_bos_; }

 private:
  PreTokenizer() = default;
  Status Add(std::string_view expression, SplitUnit unit, bool counts_steps);

  std::vector<SplitPattern> patterns_;  // Each splits the pieces of the previous one.
  bool ignore_merges_ = false;
  bool adds_bos_ = false;
};

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_PRE_TOKENIZER_H_
