// All randomness passes through a Random, and all planned misfortune through FaultPoints, so that a
// seed alone decides a simulation.
#ifndef ROPEWAY_BASE_RANDOM_H_
#define ROPEWAY_BASE_RANDOM_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace ropeway {

// Thread rule: see the implementation.
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

// The operating system's generator: for seeds of requests. Thread-safe.
class SystemRandom final : public Random {
 public:
  uint64_t Next64() override;
};

// SplitMix64 (Steele, Lea, Flood 2014): state += 0x9E3779B97F4A7C15, and each output is a mix of
// the state. The same seed gives the same numbers on every machine. Not for secrets. One thread at
// a time.
class SeededRandom final : public Random {
 public:
  explicit SeededRandom(uint64_t seed) : state_(seed) {}
  uint64_t Next64() override;

 private:
  uint64_t state_;
};

// One well-mixed 64-bit value of two: SplitMix64's output function. For hashes where no one
// attacks.
uint64_t Mix64(uint64_t a, uint64_t b);

// Named places where something may go wrong on purpose. Owned by a simulation, which enables points
// and hands them to what consults them; without it no point ever fires.
// Thread rule: one thread at a time.
class FaultPoints {
 public:
  // Draws from `random`, which must outlive it.
  explicit FaultPoints(Random* random) : random_(random) {}

  // Lets `point` fire with probability `p` each time it is consulted.
  void Enable(std::string_view point, double p);

  // Whether `point` fires now; each true is counted.
  bool Fires(std::string_view point);

  // How often each enabled point fired; enabled ones that did not are 0.
  const std::map<std::string, uint64_t, std::less<>>& fired() const { return fired_; }

 private:
  Random* const random_;
  std::map<std::string, double, std::less<>> probability_;
  std::map<std::string, uint64_t, std::less<>> fired_;
};

}  // namespace ropeway

#endif  // ROPEWAY_BASE_RANDOM_H_
