// For tests of Ops: the device with its operations, and floats in its memory amid guards.
#ifndef ROPEWAY_GPU_TEST_OPS_H_
#define ROPEWAY_GPU_TEST_OPS_H_

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "gpu/ops.h"
#include "gpu/test_gpu.h"
#include "kernels/test_util.h"

namespace ropeway::gpu::testing {

using Rng = std::mt19937;

using kernels::testing::AllSameBits;

// Mostly numbers of ordinary size, and `odd` times in a thousand one that needs care.
inline float Number(Rng& rng, int odd) {
  using Limits = std::numeric_limits<float>;
  const float kOdd[] = {0.0F,
                        -0.0F,
                        Limits::infinity(),
                        -Limits::infinity(),
                        Limits::quiet_NaN(),
                        std::bit_cast<float>(0x7FC12345U),
                        Limits::denorm_min(),
                        -3e-39F,
                        Limits::max(),
                        1e-31F,
                        -90.0F,
                        89.0F,
                        65520.0F,
                        -6e-8F};
  if (static_cast<int>(rng() % 1000) < odd) return kOdd[rng() % std::size(kOdd)];
  return std::normal_distribution<float>()(rng) * (rng() % 8 == 0 ? 20.0F : 1.0F);
}

inline std::vector<float> Numbers(Rng& rng, size_t count, int odd = 0) {
  std::vector<float> numbers(count);
  for (float& x : numbers) x = Number(rng, odd);
  return numbers;
}

// Rows of floats here and on the device, at an offset in a larger buffer, so that what an operation
// writes beside them is seen.
class TestRows {
 public:
  TestRows(Gpu* gpu, Rng& rng, int rows, int stride, int odd = 0)
      : gpu_(gpu),
        stride_(stride),
        host_(Numbers(rng, kBefore + static_cast<size_t>(rows) * static_cast<size_t>(stride) + 9,
                      odd)),
        device_(Upload(gpu, host_)) {}

  Rows rows() const { return {view(), stride_}; }
  View view() const { return {device_.get(), kBefore * sizeof(float)}; }
  // The row as it was, or as the test expects it to be. After a change of what an operation reads:
  // Send.
  float* row(int r) { return host_.data() + kBefore + static_cast<int64_t>(r) * stride_; }

  void Send() { device_ = Upload(gpu_, host_); }

  // In memory of its own.
  TestRows Copy() const { return TestRows(gpu_, stride_, host_); }

  // The device has what is here.
  ::testing::AssertionResult Match() const { return Match(*this); }
  ::testing::AssertionResult Match(const TestRows& expected) const {
    return AllSameBits(expected.host_, Download<float>(gpu_, {device_.get(), 0}, host_.size()));
  }

 private:
  TestRows(Gpu* gpu, int stride, std::vector<float> host)
      : gpu_(gpu), stride_(stride), host_(std::move(host)), device_(Upload(gpu, host_)) {}

  static constexpr size_t kBefore = 5;

  Gpu* gpu_;
  int stride_;
  std::vector<float> host_;
  std::unique_ptr<Buffer> device_;
};

class OpsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    gpu_ = OpenTestGpu();
    ASSERT_NE(gpu_, nullptr);
    auto ops = Ops::Make(gpu_.get());
    ASSERT_TRUE(ops.ok()) << ops.status().message();
    ops_ = *std::move(ops);
  }
  static void TearDownTestSuite() {
    ops_.reset();
    gpu_.reset();
  }
  void SetUp() override { ASSERT_NE(ops_, nullptr); }

  static inline std::unique_ptr<Gpu> gpu_;
  static inline std::unique_ptr<Ops> ops_;
};

}  // namespace ropeway::gpu::testing

#endif  // ROPEWAY_GPU_TEST_OPS_H_
