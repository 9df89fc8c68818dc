// Unicode's normalization forms and properties, by utf8proc.
#ifndef ROPEWAY_TOKENIZER_UNICODE_FORM_H_
#define ROPEWAY_TOKENIZER_UNICODE_FORM_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/work.h"

namespace ropeway::tokenizer {

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

#endif  // ROPEWAY_TOKENIZER_UNICODE_FORM_H_
