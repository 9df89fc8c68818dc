// The loops in plain C++, which bound what `reference` can reach, and the choice of loops by name.
#include "bench/kernels/peaks.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/kernels.h"

namespace ropeway::bench {
namespace {

constexpr int kChains = 16;

uint64_t Int8Dot(int64_t rounds) {
  uint8_t a[kChains];
  int8_t b[kChains];
  uint32_t sum[kChains] = {};
  for (int c = 0; c < kChains; ++c) {
    a[c] = static_cast<uint8_t>(c + 3);
    b[c] = static_cast<int8_t>(c - 5);
  }
  for (int64_t i = 0; i < rounds; ++i) {
    asm volatile("" : : "r"(a), "r"(b) : "memory");  // They may have changed: no product is known.
    for (int c = 0; c < kChains; ++c) sum[c] += static_cast<uint32_t>(int{a[c]} * int{b[c]});
  }
  uint64_t all = 0;
  for (const uint32_t s : sum) all += s;
  return all;
}

uint64_t F32Fma(int64_t rounds) {
  float sum[kChains] = {};
  float a = 1e-3F;
  float b = 1e-3F;
  for (int64_t i = 0; i < rounds; ++i) {
    asm volatile("" : "+r"(a), "+r"(b));
    for (float& s : sum) s = std::fma(a, b, s);
  }
  uint64_t all = 0;
  for (const float s : sum) all += std::bit_cast<uint32_t>(s);
  return all;
}

uint64_t Sweep(const std::byte* memory, size_t bytes) {
  constexpr size_t kWords = kSweepBytes / sizeof(uint64_t);
  uint64_t sum[8] = {};
  for (size_t at = 0; at < bytes; at += kSweepBytes) {
    uint64_t words[kWords];
    std::memcpy(words, memory + at, kSweepBytes);
    for (size_t i = 0; i < kWords; ++i) sum[i % 8] += words[i];
  }
  uint64_t all = 0;
  for (const uint64_t s : sum) all += s;
  return all;
}

}  // namespace

const PeakLoops kReferencePeaks = {
    .name = "reference",
    .int8_dot = Int8Dot,
    .int8_ops = 2.0 * kChains,
    .f32_fma = F32Fma,
    .f32_ops = 2.0 * kChains,
    .sweep = Sweep,
};

const char* const kTableNames[] = {"avx512vnni", "avx2", "reference", nullptr};

const PeakLoops* PeakLoopsByName(const char* name) {
  if (kernels::KernelsByName(name) == nullptr) return nullptr;
  static constexpr const PeakLoops* kAll[] = {&kReferencePeaks, &kAvx2Peaks, &kAvx512VnniPeaks};
  for (const PeakLoops* loops : kAll) {
    if (std::strcmp(loops->name, name) == 0) return loops;
  }
  return nullptr;
}

}  // namespace ropeway::bench
