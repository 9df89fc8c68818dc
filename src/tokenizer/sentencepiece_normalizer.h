// SentencePiece's normalization of a text, the same for both kinds of its models.
#ifndef ROPEWAY_TOKENIZER_SENTENCEPIECE_NORMALIZER_H_
#define ROPEWAY_TOKENIZER_SENTENCEPIECE_NORMALIZER_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "ropeway/status.h"
#include "tokenizer/char_map.h"
#include "tokenizer/sentencepiece_text.h"
#include "tokenizer/text_model.h"
#include "tokenizer/token_table.h"
#include "tokenizer/vocabulary.h"
#include "tokenizer/work.h"

namespace ropeway::tokenizer {

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
