// Randomness: all of it passes through a Random, and injected faults through FaultPoints, so that a
// seed alone decides a simulation. Sampling draws from a counter-based generator.
#ifndef ROPEWAY_BASE_RANDOM_H_
#define ROPEWAY_BASE_RANDOM_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace ropeway::base {

// A source of random bits. Thread rule: see the implementation.
class Random {
 public:
  virtual ~Random() = default;

  // 64 uniformly distributed bits.
  virtual uint64_t Next64() = 0;

  // Uniform in [0, n). REQUIRES: n > 0.
  uint64_t Below(uint64_t n);

  // Uniform in [low, high]. REQUIRES: low <= high.
  int64_t Between(int64_t low, int64_t high);

  // True with probability p; never for p <= 0, always for p >= 1.
  bool Chance(double p);
};

// The operating system's generator, for seeds of requests. Thread-safe.
class SystemRandom final : public Random {
 public:
  uint64_t Next64() override;
};

// SplitMix64 (Steele, Lea, Flood 2014): state += 0x9E3779B97F4A7C15, and each output is a mix of
// the state. The same seed gives the same numbers on every machine. Not for secrets. Thread rule:
// one thread at a time.
class SeededRandom final : public Random {
 public:
  explicit SeededRandom(uint64_t seed) : state_(seed) {}
  uint64_t Next64() override;

 private:
  uint64_t state_;
};

// Mixes two 64-bit values: SplitMix64's output function. For hashes of trusted input.
uint64_t Mix64(uint64_t a, uint64_t b);

// Named points at which a simulation injects faults. The simulation owns it and enables points;
// without one no point fires. Thread rule: one thread at a time.
class FaultPoints {
 public:
  // Draws from `random`, which must outlive it.
  explicit FaultPoints(Random* random) : random_(random) {}

  // Makes `point` fire with probability `p` at each call of Fires.
  void Enable(std::string_view point, double p);

  // Whether `point` fires now. Hits are counted.
  bool Fires(std::string_view point);

  // How often each enabled point fired.
  const std::map<std::string, uint64_t, std::less<>>& fired() const { return fired_; }

 private:
  Random* const random_;
  std::map<std::string, double, std::less<>> probability_;
  std::map<std::string, uint64_t, std::less<>> fired_;
};

// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11): random bits
// as a pure function of a key and a counter, so that a sequence can be resumed at any position.
using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

// Ten rounds of Philox4x32: four pseudo-random 32-bit words per (counter, key).
std::array<uint32_t, 4> Philox4x32(PhiloxCounter counter, PhiloxKey key);

// The uniform number in [0, 1) that draws the token at `position` of choice `choice` of a request
// with `seed`. Distinct (seed, choice, position) use distinct (key, counter):
//   key     = {low 32 bits of seed, high 32 bits of seed}
//   counter = {low 32 bits of position, high 32 bits of position, choice, 0}
// The result is a multiple of 2^-53: 27 high bits of word 0, then 26 high bits of word 1.
double SampleUniform(uint64_t seed, uint32_t choice, uint64_t position);

}  // namespace ropeway::base

#endif  // ROPEWAY_BASE_RANDOM_H_
