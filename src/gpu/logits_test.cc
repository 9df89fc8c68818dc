// The end of a forward pass on a device: as the CPU has it.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "gpu/ops.h"
#include "gpu/test_gpu.h"
#include "gpu/test_ops.h"
#include "kernels/kernels.h"
#include "kernels/test_util.h"

namespace ropeway::gpu {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

class LogitsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(gpu_, nullptr);
    auto ops = Ops::Make(gpu_.get());
    ASSERT_TRUE(ops.ok()) << ops.status().message();
    ops_ = *std::move(ops);
  }

  const std::unique_ptr<Gpu> gpu_ = testing::OpenTestGpu();
  std::unique_ptr<Ops> ops_;
  testing::Rng rng_{1};
};

TEST_F(LogitsTest, AreCappedAndExcludedAsOnTheCpu) {
  constexpr int kStride = 150;
  for (const int n : {1, 63, 64, 65, 149}) {
    for (const float cap : {0.0F, 30.0F}) {
      std::vector<float> expected = testing::Numbers(rng_, size_t{3} * kStride, 50);
      const auto buffer = testing::Upload(gpu_.get(), expected);
      const std::vector<int32_t> absent = {0, n - 1};
      const auto ids = testing::Upload(gpu_.get(), absent);
      ops_->FinishLogits({{buffer.get(), 0}, kStride}, 3, n, cap, {ids.get(), 0}, 2);
      for (int row = 0; row < 3; ++row) {
        float* const own = expected.data() + static_cast<ptrdiff_t>(row) * kStride;
        if (cap > 0.0F) kernels::kReferenceKernels.soft_cap(own, cap, n);
        own[0] = own[n - 1] = kNone;
      }
      EXPECT_TRUE(kernels::testing::AllSameBits(
          expected, testing::Download<float>(gpu_.get(), {buffer.get(), 0}, expected.size())))
          << n;
    }
  }
}

TEST_F(LogitsTest, TheFirstOfTheLargestIsFound) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  std::vector<std::vector<float>> rows;
  for (const size_t n : {1U, 5U, 64U, 65U, 1000U}) {
    rows.push_back(testing::Numbers(rng_, n, 30));
    for (const float all : {2.5F, kNan, kNone}) rows.emplace_back(n, all);
    rows.emplace_back(n, -3.0F).front() = kNan;
    rows.emplace_back(n, -0.0F).back() = 0.0F;
    rows.emplace_back(n, kNone).back() = std::numeric_limits<float>::infinity();
  }
  const auto values = testing::Upload(gpu_.get(), std::vector<float>(1));
  const auto ids = testing::Upload(gpu_.get(), std::vector<int32_t>(1));
  for (const std::vector<float>& row : rows) {
    const auto buffer = testing::Upload(gpu_.get(), row);
    const auto n = static_cast<int>(row.size());
    ops_->FindLargest({{buffer.get(), 0}, n}, 1, n, {values.get(), 0}, {ids.get(), 0});
    float expected = kNone;
    int32_t id = 0;
    for (int i = 0; i < n; ++i) {
      if (row[static_cast<size_t>(i)] > expected) {
        expected = row[static_cast<size_t>(i)];
        id = i;
      }
    }
    EXPECT_EQ(testing::Download<float>(gpu_.get(), {values.get(), 0}, 1)[0], expected) << n;
    EXPECT_EQ(testing::Download<int32_t>(gpu_.get(), {ids.get(), 0}, 1)[0], id) << n;
  }
}

}  // namespace
}  // namespace ropeway::gpu
