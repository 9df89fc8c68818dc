// SentencePiece's normalization of a text, the same for both kinds of its models.
#ifndef ROPEWAY_TOKENIZER_SENTENCEPIECE_NORMALIZER_H_
#define ROPEWAY_TOKENIZER_SENTENCEPIECE_NORMALIZER_H_

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ropeway/status.h"
#include "tokenizer/text_model.h"
#include "tokenizer/token_table.h"
#include "tokenizer/vocabulary.h"
#include "tokenizer/work.h"

namespace ropeway::tokenizer {

// Whether a space may be written before a segment that comes after `before`.
bool MayHaveSpacePrefix(SpacePrefix prefix, Before before);
// Whether a space is written before the segment `text` that comes after `before`.
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

// Const and thread-safe after construction.
class CharMap {
 public:
  // From tokenizer.ggml.precompiled_charsmap: the number of bytes of a double array (Aoe 1989, in
  // darts-clone's form), the array, then texts that each end in a zero byte. "" maps nothing. The
  // array is not checked as a whole: a wrong one maps to something else, within the texts.
  static StatusOr<CharMap> Create(std::string_view bytes);

  struct Mapping {
    size_t length = 0;  // Bytes that are mapped; 0: none.
    std::string_view to;
  };

  // The longest beginning of text.substr(at) that is mapped.
  Mapping Find(std::string_view text, size_t at) const;

 private:
  CharMap() = default;

  std::vector<uint32_t> units_;
  std::string texts_;
};

// A vocabulary's rules: its table of characters, what it does with spaces, and its symbols, which
// the table leaves alone. Const and thread-safe after construction.
class SentencePieceRules {
 public:
  // Errors name the GGUF field. `table` must outlive the rules.
  static StatusOr<SentencePieceRules> Create(const Vocabulary& vocabulary, const TokenTable* table);

  SpacePrefix prefix() const { return prefix_; }
  bool remove_extra_spaces() const { return remove_extra_spaces_; }
  // See Vocabulary.
  bool keeps_first_space() const { return keeps_first_space_; }
  bool maps_space_symbol() const { return maps_space_symbol_; }
  const CharMap& char_map() const { return char_map_; }
  const SpecialTokens& symbols() const { return *symbols_; }
  // Whether what is normalized has a character for each character of the text.
  bool keeps_characters() const { return keeps_characters_; }

 private:
  explicit SentencePieceRules(CharMap char_map) : char_map_(std::move(char_map)) {}

  CharMap char_map_;
  const SpecialTokens* symbols_ = nullptr;
  SpacePrefix prefix_ = SpacePrefix::kNone;
  bool remove_extra_spaces_ = false;
  bool keeps_first_space_ = false;
  bool maps_space_symbol_ = false;  // The table makes a space of "▁".
  bool keeps_characters_ = true;
};

// Normalizes a text, word by word.
class NormalizedWords {
 public:
  // Both must outlive it.
  NormalizedWords(const SentencePieceRules* rules, const WordBounds* bounds)
      : rules_(*rules), bounds_(*bounds) {}

  void Begin(std::string_view text, Before before);

  // Drops the word and goes on until the next one is whole. Returns whether it is; false: no work
  // is left. It is empty where there are no more.
  bool Next(Work* work);

  std::string_view word() const { return word_; }
  size_t bytes() const { return word_.capacity() > kMostKept ? word_.capacity() : 0; }

 private:
  // What a word may leave allocated.
  static constexpr size_t kMostKept = size_t{1} << 16U;

  bool KeepsFirstSpace() const;
  void DropWord();
  void TakeLetters(Work* work);
  bool TakeLetter();
  bool WriteSpace();
  bool EndsWord() const;
  void EndText();

  const SentencePieceRules& rules_;
  const WordBounds& bounds_;
  std::string_view text_;
  size_t at_ = 0;              // Up to where the text was normalized.
  std::string_view letters_;   // What of that is in no word yet.
  size_t spaces_ = 0;          // Spaces that come before those letters.
  bool prefix_ = false;        // A space may have to come first.
  bool drops_spaces_ = false;  // Those that what is normalized next begins with.
  bool whole_ = false;         // The word is.
  std::string word_;
};

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_SENTENCEPIECE_NORMALIZER_H_
