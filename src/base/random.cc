#include "base/random.h"

#include <random>

namespace ropeway {

// The remainder's bias is below n / 2^64, and a fixed number of draws per call keeps traces in
// step.
uint64_t Random::Below(uint64_t n) { return Next64() % n; }

int64_t Random::Between(int64_t low, int64_t high) {
  return low + static_cast<int64_t>(Below(static_cast<uint64_t>(high - low) + 1));
}

bool Random::Chance(double p) {
  // 53 bits: what a double holds.
  return static_cast<double>(Next64() >> 11) * 0x1.0p-53 < p;
}

uint64_t SystemRandom::Next64() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

uint64_t SeededRandom::Next64() {
  state_ += 0x9E3779B97F4A7C15U;
  return Mix64(state_, 0);
}

uint64_t Mix64(uint64_t a, uint64_t b) {
  uint64_t z = a ^ (b * 0x9E3779B97F4A7C15U);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

void FaultPoints::Enable(std::string_view point, double p) {
  probability_[std::string(point)] = p;
  fired_.try_emplace(std::string(point), 0);
}

bool FaultPoints::Fires(std::string_view point) {
  const auto it = probability_.find(point);
  if (it == probability_.end() || !random_->Chance(it->second)) return false;
  ++fired_.find(point)->second;
  return true;
}

}  // namespace ropeway
