// Shared by this room's tests: tables under test, comparison by bits, aligned matrices of all
// kinds.
#ifndef ROPEWAY_KERNELS_TEST_UTIL_H_
#define ROPEWAY_KERNELS_TEST_UTIL_H_

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/test_cpu_info.h"

namespace ropeway::kernels::testing {

// A test over each table that is not the reference. Skips where the CPU lacks it, and only there.
class TableTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    kernels_ = KernelsByName(GetParam());
    if (kernels_ == nullptr) {
      ASSERT_FALSE(CpuHas(GetParam())) << "the CPU has it, and dispatch.cc does not find it";
      GTEST_SKIP() << "needs hardware: "
                   << (std::string(GetParam()) == "avx2" ? "AVX2, FMA, F16C" : "AVX-512 VNNI");
    }
    ASSERT_STREQ(kernels_->name, GetParam());
    ASSERT_NE(kernels_->matmul, reference_.matmul);
  }

  const Kernels& reference_ = kReferenceKernels;
  const Kernels* kernels_ = nullptr;
};

inline bool SameBits(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

inline ::testing::AssertionResult AllSameBits(const std::vector<float>& expected,
                                              const std::vector<float>& actual) {
  if (expected.size() != actual.size()) return ::testing::AssertionFailure() << "sizes differ";
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!SameBits(expected[i], actual[i])) {
      return ::testing::AssertionFailure() << "at " << i << " of " << expected.size()
                                           << ": expected " << expected[i] << ", got " << actual[i];
    }
  }
  return ::testing::AssertionSuccess();
}

// 64-byte aligned bytes.
class AlignedBytes {
 public:
  explicit AlignedBytes(size_t size)
      : size_(size),
        bytes_(static_cast<std::byte*>(std::aligned_alloc(64, (size + 63) / 64 * 64 + 64))) {
    for (size_t i = 0; i < size; ++i) bytes_.get()[i] = std::byte{0xA5};
  }
  std::byte* get() { return bytes_.get(); }
  const std::byte* get() const { return bytes_.get(); }
  size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  size_t size_;
  std::unique_ptr<std::byte, Free> bytes_;
};

using Rng = std::mt19937;

inline float Normal(Rng& rng) { return std::normal_distribution<float>()(rng); }

// What the values of a test are like.
enum class Values { kNormal, kExtreme, kHostile, kCancelling, kAnyBits };

// Activations: kExtreme has zeros, -0, denormals and huge values, kHostile infinities and NaN too.
// kCancelling: large numbers of both signs among small ones, so that the order of a sum shows.
// kAnyBits: every number that there is, NaN included, by its bits.
inline float Activation(Values values, Rng& rng) {
  if (values == Values::kNormal) return Normal(rng);
  if (values == Values::kAnyBits) return std::bit_cast<float>(static_cast<uint32_t>(rng()));
  if (values == Values::kCancelling) {
    const float large = rng() % 4 == 0 ? 0x1p+24F : 1.0F;
    return large * (rng() % 2 == 0 ? 1.0F : -1.0F) * (1.0F + 0.25F * Normal(rng));
  }
  switch (rng() % (values == Values::kExtreme ? 8 : 200)) {
    case 0:
      return 0.0F;
    case 1:
      return -0.0F;
    case 2:
      return 1e-42F;
    case 3:
      return -3e-39F;
    case 4:
      return values == Values::kExtreme ? 1e30F : HUGE_VALF;
    case 5:
      return values == Values::kExtreme ? -1e30F : std::nanf("");
    case 6:
      return 0.5F;  // Ties in rounding, with a neighbour of 127.
    default:
      return 127.0F * (static_cast<float>(rng() % 511) / 255.0F - 1.0F);
  }
}

// k, or as many elements more as make whole stored blocks.
inline int WholeBlocks(WeightType type, int k) {
  const int block = WeightBlockElements(type);
  return (k + block - 1) / block * block;
}

// One element as GGUF stores it. REQUIRES: the type is not quantised.
inline void PutElement(WeightType type, float value, std::byte* to) {
  const uint16_t half = type == WeightType::kF16
                            ? FloatToHalf(value)
                            : static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
  if (type == WeightType::kF32) {
    std::memcpy(to, &value, sizeof value);
  } else {
    std::memcpy(to, &half, sizeof half);
  }
}

// Rows of a matrix as GGUF stores them. kExtreme: the integers that sum up highest.
inline std::vector<std::byte> RandomRows(WeightType type, int n, int k, Values values, Rng& rng) {
  const size_t row_bytes = WeightRowBytes(type, k);
  std::vector<std::byte> rows(row_bytes * static_cast<size_t>(n));
  const int block = WeightBlockElements(type);
  const size_t block_bytes = row_bytes / static_cast<size_t>(k / block);
  if (block == 1) {
    for (size_t at = 0; at < rows.size(); at += block_bytes) {
      const float value = values == Values::kHostile ? Activation(values, rng) : Normal(rng);
      PutElement(type, value, &rows[at]);
    }
    return rows;
  }
  const auto put_half = [&](std::byte* to, float value) {
    uint16_t half = FloatToHalf(value);
    if (values == Values::kHostile && rng() % 50 == 0) half = static_cast<uint16_t>(rng());
    std::memcpy(to, &half, sizeof half);
  };
  const StoredScales stored = StoredScalesOf(type);
  const std::byte highest = type == WeightType::kQ8_0 ? std::byte{0x80} : std::byte{0xFF};
  for (size_t at = 0; at < rows.size(); at += block_bytes) {
    for (size_t i = 0; i < block_bytes; ++i) {
      rows[at + i] =
          values == Values::kExtreme && rng() % 8 != 0 ? highest : static_cast<std::byte>(rng());
    }
    // K types multiply their scales with integers up to 127.
    const float size = block == 256 ? 0.01F : 1.0F;
    if (stored.scale >= 0) put_half(&rows[at] + stored.scale, size * 0.05F * Normal(rng));
    if (stored.min >= 0) put_half(&rows[at] + stored.min, size * 0.3F * Normal(rng));
    if (type == WeightType::kMXFP4 && (values != Values::kHostile || rng() % 50 != 0)) {
      rows[at] = static_cast<std::byte>(120 + rng() % 8);
    }
  }
  return rows;
}

inline Matrix Pack(WeightType type, int n, int k, const std::vector<std::byte>& rows,
                   AlignedBytes* panels) {
  const Matrix matrix = {.type = type, .n = n, .k = k, .panels = panels->get()};
  PackPanels(type, n, k, rows.data(), 0, matrix.num_panels(), panels->get());
  return matrix;
}

}  // namespace ropeway::kernels::testing

#endif  // ROPEWAY_KERNELS_TEST_UTIL_H_
