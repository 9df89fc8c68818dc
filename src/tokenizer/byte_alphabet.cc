#include "tokenizer/byte_alphabet.h"

#include <array>

#include "base/utf8.h"

namespace ropeway {
namespace {

constexpr char32_t kFirstStandIn = 0x100;
constexpr size_t kStandIns = 68;

bool IsItself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<std::string, 256> letters;
  std::array<uint8_t, kStandIns> stood_for{};

  Alphabet() {
    size_t stand_ins = 0;
    for (unsigned byte = 0; byte < 256; ++byte) {
      if (IsItself(byte)) {
        AppendUtf8(byte, letters[byte]);
      } else {
        stood_for[stand_ins] = static_cast<uint8_t>(byte);
        AppendUtf8(kFirstStandIn + stand_ins++, letters[byte]);
      }
    }
  }
};

const Alphabet& TheAlphabet() {
  static const Alphabet alphabet;
  return alphabet;
}

}  // namespace

std::string_view ByteToLetter(uint8_t byte) { return TheAlphabet().letters[byte]; }

std::string ToByteLetters(std::string_view bytes) {
  std::string letters;
  letters.reserve(bytes.size() * 2);
  for (const char byte : bytes) letters += ByteToLetter(static_cast<uint8_t>(byte));
  return letters;
}

std::optional<std::string> FromByteLetters(std::string_view letters) {
  std::string bytes;
  bytes.reserve(letters.size());
  for (size_t at = 0; at < letters.size();) {
    const Utf8Step step = StepUtf8(letters, at);
    if (step.kind != Utf8Kind::kValid) return std::nullopt;
    at += step.length;
    if (step.code_point < 256 && IsItself(step.code_point)) {
      bytes.push_back(static_cast<char>(step.code_point));
    } else if (step.code_point >= kFirstStandIn && step.code_point < kFirstStandIn + kStandIns) {
      bytes.push_back(static_cast<char>(TheAlphabet().stood_for[step.code_point - kFirstStandIn]));
    } else {
      return std::nullopt;
    }
  }
  return bytes;
}

}  // namespace ropeway
