// Invariant 1 on the real model: what a request gets depends on the request alone, to the bit.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/layout.h"
#include "sameness_harness.h"

namespace ropeway::testing {
namespace {

constexpr int kRequests = 30;

// More than the longest request's 39 blocks, and far less than all want together.
constexpr int kSmallPool = 150;

const std::map<RequestId, Output>& Alone() {
  static const std::map<RequestId, Output> outputs =
      RunAlone(DifferentRequests(kRequests), ChooseKernels(nullptr));
  return outputs;
}

class Sameness : public ::testing::TestWithParam<CrowdOptions> {};

TEST_P(Sameness, CrowdEqualsAlone) {
  const RunResult crowd =
      RunCrowd(DifferentRequests(kRequests), GetParam(), ChooseKernels(nullptr));
  ASSERT_EQ(crowd.outputs.size(), static_cast<size_t>(kRequests));
  for (const auto& [id, output] : Alone()) {
    EXPECT_EQ(crowd.outputs.at(id).tokens, output.tokens) << "request " << id;
    EXPECT_EQ(crowd.outputs.at(id).logprob_bits, output.logprob_bits) << "request " << id;
  }
  // It counts only if it really was a crowd.
  EXPECT_GE(crowd.shape.mean_rows(), 8);
  EXPECT_GT(crowd.shape.mixed_steps, 0);
  EXPECT_TRUE(crowd.shape.chunks.contains(GetParam().chunk));
  EXPECT_LE(*crowd.shape.chunks.rbegin(), GetParam().chunk);
  if (GetParam().pool_blocks == kSmallPool) {
    EXPECT_GT(crowd.shape.preemptions, 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(
    ChunksThreadsPools, Sameness,
    ::testing::Values(
        CrowdOptions{.chunk = 1, .threads = 1, .arrival_seed = 1},
        CrowdOptions{.chunk = 1, .threads = 2, .pool_blocks = kSmallPool, .arrival_seed = 2},
        CrowdOptions{.chunk = 7, .threads = 2, .arrival_seed = 3},
        CrowdOptions{.chunk = 7, .threads = 1, .pool_blocks = kSmallPool, .arrival_seed = 4},
        CrowdOptions{.chunk = 64, .threads = 1, .arrival_seed = 5},
        CrowdOptions{.chunk = 64, .threads = 2, .pool_blocks = kSmallPool, .arrival_seed = 6},
        CrowdOptions{.chunk = 512, .threads = 2, .arrival_seed = 7},
        CrowdOptions{.chunk = 512, .threads = 1, .pool_blocks = kSmallPool, .arrival_seed = 8}),
    [](const auto& info) {
      const CrowdOptions& o = info.param;
      return "Chunk" + std::to_string(o.chunk) + "Threads" + std::to_string(o.threads) + "Pool" +
             std::to_string(o.pool_blocks);
    });

// A planted kernel: with two rows or more it adds up the first and the second half of each sum
// apart, as a kernel tuned for batches might. Only then does the company change a request's bits.
void ReorderingMatMul(const Matrix& w, const std::byte* packed, int rows, int panel_begin,
                      int panel_end, float* y, int64_t y_stride) {
  const Kernels& real = *ChooseKernels(nullptr);
  if (rows < 2 || WeightBlockElements(w.type) == 1) {
    real.matmul(w, packed, rows, panel_begin, panel_end, y, y_stride);
    return;
  }
  const int blocks = w.k / static_cast<int>(kQuantBlock);
  const int half = blocks / 4 * 2;  // Even: two blocks of Q8_0 lie together.
  for (int panel = panel_begin; panel < panel_end; ++panel) {
    const int n = std::min(kPanelCols, w.n - panel * kPanelCols);
    const std::byte* weights = w.panels + PanelBytes(w.type, w.k) * static_cast<size_t>(panel);
    for (int row = 0; row < rows; row += kRowGroup) {
      const int group = std::min(kRowGroup, rows - row);
      const std::byte* x =
          packed + PackedRowsBytes(w.type, kRowGroup, w.k) * static_cast<size_t>(row / kRowGroup);
      float sums[2][kRowGroup][kPanelCols];
      for (int h = 0; h < 2; ++h) {
        const int first = h == 0 ? 0 : half;
        const int k = (h == 0 ? half : blocks - half) * static_cast<int>(kQuantBlock);
        const Matrix part{w.type, n, k,
                          weights + PanelBytes(w.type, first * static_cast<int>(kQuantBlock))};
        real.matmul(part, x + static_cast<size_t>(first) * kPackedBlockBytes, group, 0, 1,
                    &sums[h][0][0], kPanelCols);
      }
      for (int r = 0; r < group; ++r) {
        float* to = y + (row + r) * y_stride + panel * kPanelCols;
        for (int c = 0; c < n; ++c) to[c] = sums[0][r][c] + sums[1][r][c];
      }
    }
  }
}

TEST(SamenessPlant, AKernelThatReordersItsSumsIsCaught) {
  Kernels planted = *ChooseKernels(nullptr);
  planted.matmul = ReorderingMatMul;
  const auto requests = DifferentRequests(kRequests);
  const RunResult crowd = RunCrowd(requests, {.threads = 2, .arrival_seed = 7}, &planted);
  // Only long prompts have two rows alone, so a request of one prompt token is alone as it should
  // be.
  int different = 0;
  for (const auto& [id, output] : RunAlone(requests, &planted)) {
    different += crowd.outputs.at(id) == output ? 0 : 1;
  }
  EXPECT_GT(different, 0);
}

}  // namespace
}  // namespace ropeway::testing
