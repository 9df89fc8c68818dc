// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11): random bits
// as a pure function of a key and a counter, so that a sequence can be resumed at any position.
//
// Thread rule: pure functions.
#ifndef ROPEWAY_BASE_PHILOX_H_
#define ROPEWAY_BASE_PHILOX_H_

#include <array>
#include <cstdint>

namespace ropeway {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

// Ten rounds of Philox4x32: four 32-bit words that look random, one set per (counter, key).
std::array<uint32_t, 4> Philox4x32(PhiloxCounter counter, PhiloxKey key);

// The uniform number in [0, 1) that draws the token at `position` of choice `choice` of a request
// with `seed`. Distinct (seed, choice, position) use distinct (key, counter):
//   key     = {low 32 bits of seed, high 32 bits of seed}
//   counter = {low 32 bits of position, high 32 bits of position, choice, 0}
// The result is a multiple of 2^-53: 27 high bits of word 0, then 26 high bits of word 1.
double SampleUniform(uint64_t seed, uint32_t choice, uint64_t position);

}  // namespace ropeway

#endif  // ROPEWAY_BASE_PHILOX_H_
