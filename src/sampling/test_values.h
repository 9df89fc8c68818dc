// Values that several of this room's tests use.
#ifndef ROPEWAY_SAMPLING_TEST_VALUES_H_
#define ROPEWAY_SAMPLING_TEST_VALUES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "ropeway/request.h"

namespace ropeway::sampling {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Whether a mask allows the token, as core::TokenMask defines it.
inline bool Allows(std::span<const uint32_t> mask, TokenId id) {
  const auto word = static_cast<size_t>(id) / 32;
  return word < mask.size() && (mask[word] >> (id % 32) & 1U) != 0;
}

inline void Allow(TokenId id, std::vector<uint32_t>* mask) {
  const auto word = static_cast<size_t>(id) / 32;
  mask->resize(std::max(mask->size(), word + 1));
  (*mask)[word] |= 1U << (id % 32);
}

// Words without bits, full ones, and such with few and with many bits.
inline std::vector<uint32_t> RandomMask(size_t words, std::mt19937* random) {
  std::vector<uint32_t> mask(words);
  for (uint32_t& word : mask) {
    const auto bits = static_cast<uint32_t>((*random)());
    const auto more = static_cast<uint32_t>((*random)());
    switch ((*random)() % 4) {
      case 0:
        break;
      case 1:
        word = ~0U;
        break;
      case 2:
        word = bits & more & (bits >> 7);
        break;
      default:
        word = bits | more;
    }
  }
  return mask;
}

}  // namespace ropeway::sampling

#endif  // ROPEWAY_SAMPLING_TEST_VALUES_H_
