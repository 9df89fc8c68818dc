// Characters that tokenizers treat apart.
#ifndef ROPEWAY_TOKENIZER_CHARACTERS_H_
#define ROPEWAY_TOKENIZER_CHARACTERS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

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

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_CHARACTERS_H_
