// The alphabet of byte-level BPE (from GPT-2): each byte is written as one printable character, so
// that tokens stand in a file as text. Bytes that are printable in Latin-1 are themselves; the
// other 68 are U+0100, U+0101, ... in order of the byte.
#ifndef ROPEWAY_TOKENIZER_BYTE_ALPHABET_H_
#define ROPEWAY_TOKENIZER_BYTE_ALPHABET_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ropeway {

// The character (UTF-8) that stands for `byte`.
std::string_view ByteToLetter(uint8_t byte);

// `bytes`, each written as its character.
std::string ToByteLetters(std::string_view bytes);

// The bytes that `letters` stand for; nullopt if a character of it stands for no byte.
std::optional<std::string> FromByteLetters(std::string_view letters);

}  // namespace ropeway

#endif  // ROPEWAY_TOKENIZER_BYTE_ALPHABET_H_
