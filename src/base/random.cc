#include "base/random.h"

#include <random>

namespace ropeway::base {
namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53U;
constexpr uint32_t kMultiplier1 = 0xCD9E8D57U;
constexpr uint32_t kWeyl0 = 0x9E3779B9U;  // The golden ratio ...
constexpr uint32_t kWeyl1 = 0xBB67AE85U;  // ... and sqrt(3) - 1, as fractions of 2^32.
constexpr int kRounds = 10;

PhiloxCounter Round(const PhiloxCounter& c, const PhiloxKey& key) {
  const uint64_t product0 = uint64_t{kMultiplier0} * c[0];
  const uint64_t product1 = uint64_t{kMultiplier1} * c[2];
  return {static_cast<uint32_t>(product1 >> 32) ^ c[1] ^ key[0], static_cast<uint32_t>(product1),
          static_cast<uint32_t>(product0 >> 32) ^ c[3] ^ key[1], static_cast<uint32_t>(product0)};
}

}  // namespace

// The bias of the remainder is below n / 2^64. A fixed number of draws per call keeps traces
// aligned.
uint64_t Random::Below(uint64_t n) { return Next64() % n; }

int64_t Random::Between(int64_t low, int64_t high) {
  return low + static_cast<int64_t>(Below(static_cast<uint64_t>(high - low) + 1));
}

bool Random::Chance(double p) {
  // 53 bits: the precision of a double.
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

std::array<uint32_t, 4> Philox4x32(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < kRounds; ++round) {
    counter = Round(counter, key);
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

double SampleUniform(uint64_t seed, uint32_t choice, uint64_t position) {
  const PhiloxKey key = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  const PhiloxCounter counter = {static_cast<uint32_t>(position),
                                 static_cast<uint32_t>(position >> 32), choice, 0};
  const auto words = Philox4x32(counter, key);
  const uint64_t bits = (uint64_t{words[0] >> 5} << 26) | (words[1] >> 6);
  return static_cast<double>(bits) * 0x1p-53;
}

}  // namespace ropeway::base
