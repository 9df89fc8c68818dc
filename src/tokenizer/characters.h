// Characters that tokenizers treat apart, and Unicode's forms of them.
#ifndef ROPEWAY_TOKENIZER_CHARACTERS_H_
#define ROPEWAY_TOKENIZER_CHARACTERS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/work.h"

namespace ropeway::tokenizer {

// U+2581, by which SentencePiece and WordPiece write a space in a token.
inline constexpr std::string_view kSpaceSymbol = "\xE2\x96\x81";

// Whether Unicode calls the character White_Space.
bool IsWhiteSpace(char32_t c);

// The bytes of white space that `text` begins with, and those that it ends with.
size_t LeadingSpace(std::string_view text);
size_t TrailingSpace(std::string_view text);

// The bytes of the space (" " or "▁") that `text` begins with, and of that which it ends with; 0:
// there is none.
size_t FirstSpace(std::string_view text);
size_t LastSpace(std::string_view text);

// Whether a character of white space has this byte.
bool IsByteOfSpace(uint8_t byte);

// The length of the character at text[at]: of what is not UTF-8, 1.
size_t CharacterLength(std::string_view text, size_t at);

// What of a character's general category matters here.
enum class CharacterKind {
  kOther,
  kNonspacingMark,  // Mn
  kMark,            // Mc, Me
  kPunctuation,     // P*
  kControl,         // C*: control, format, unassigned, private use.
};
CharacterKind KindOf(char32_t c);

// The character's lower case, by itself: of a capital sigma always the one within words.
void AppendLowercase(char32_t c, std::u32string* text);

// The canonical decomposition of a character (form D, of one character alone).
void AppendDecomposed(char32_t c, std::u32string* text);

// Composes texts (form C), in parts. One thread at a time. What combines with what is looked for
// among kMostTogether characters: more marks on one letter are not reordered as one.
class Composer {
 public:
  static constexpr size_t kMostTogether = 256;

  // REQUIRES: `text` is valid UTF-8; it must outlive its composition.
  void Begin(std::string_view text);
  // Goes on and appends to `out`. Returns whether all is there; false: no work is left.
  bool Run(Work* work, std::string* out);

 private:
  // The end of what may combine with text_[at_].
  size_t BlockEnd(size_t* characters) const;
  void ComposeBlock(std::string_view block, size_t characters, std::string* out);

  std::string_view text_;
  size_t at_ = 0;
  std::vector<int32_t> code_points_;
};

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_CHARACTERS_H_
