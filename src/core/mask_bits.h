// Masks of tokens: bit (id & 31) of word (id >> 5) for each token of a vocabulary.
#ifndef ROPEWAY_CORE_MASK_BITS_H_
#define ROPEWAY_CORE_MASK_BITS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "ropeway/request.h"

namespace ropeway::core {

// The words of a mask for so many tokens.
inline size_t MaskWords(int32_t tokens) { return (static_cast<size_t>(tokens) + 31) / 32; }

// Whether the token's bit is set; not where it is beyond the words.
inline bool Allows(std::span<const uint32_t> mask, TokenId id) {
  const auto bit = static_cast<uint32_t>(id);
  return bit / 32 < mask.size() && (mask[bit / 32] >> (bit % 32) & 1U) != 0;
}

// Sets the token's bit. REQUIRES: it is within the words.
inline void Allow(TokenId id, std::span<uint32_t> mask) {
  const auto bit = static_cast<uint32_t>(id);
  mask[bit / 32] |= 1U << (bit % 32);
}

}  // namespace ropeway::core

#endif  // ROPEWAY_CORE_MASK_BITS_H_
