// Invariant 1 on the real model: what a request gets depends on the request alone, to the bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "determinism_harness.h"
#include "kernels/layout.h"
#include "kernels/test_cpu_info.h"

namespace ropeway::test::testing {
namespace {

constexpr int kRequests = 30;

// More than the longest request's 39 blocks, and far less than all want together.
constexpr int kSmallPool = 150;

// The crowd: different requests, and three choices of one of them.
constexpr RequestId kFirstChoice = 100;
std::vector<core::CoreRequest> Requests() {
  std::vector<core::CoreRequest> requests = DifferentRequests(kRequests);
  core::CoreRequest chosen = requests[7];
  chosen.id = kFirstChoice;
  for (core::CoreRequest& choice : ChoicesOf(chosen, 3)) requests.push_back(std::move(choice));
  return requests;
}

// With the KV type f16; determinism_cache_test runs both.
const std::map<RequestId, Output>& Alone() {
  static const std::map<RequestId, Output> outputs =
      RunAlone(Requests(), kernels::ChooseKernels(nullptr));
  return outputs;
}

// What all these tests run on, by /proc/cpuinfo and ROPEWAY_ISA.
TEST(DeterminismKernels, TheBestTableOfThisCpuIsTheOneThatRuns) {
  ASSERT_NE(kernels::ChooseKernels(nullptr), nullptr);
  EXPECT_EQ(kernels::ChooseKernels(nullptr)->name, kernels::testing::ExpectedTable());
}

// The engine computes with the table that it is given, and with no other one.
std::atomic<int> calls_of_matmul{0};
std::atomic<int> calls_of_attention{0};
std::atomic<int> calls_of_rms_norm{0};
TEST(DeterminismKernels, TheGivenTableIsTheOneThatComputes) {
  kernels::Kernels counting = *kernels::ChooseKernels(nullptr);
  counting.matmul = [](auto... args) {
    ++calls_of_matmul;
    kernels::ChooseKernels(nullptr)->matmul(args...);
  };
  counting.attention = [](auto... args) {
    ++calls_of_attention;
    kernels::ChooseKernels(nullptr)->attention(args...);
  };
  counting.rms_norm = [](auto... args) {
    ++calls_of_rms_norm;
    kernels::ChooseKernels(nullptr)->rms_norm(args...);
  };
  const std::vector<core::CoreRequest> one = {DifferentRequests(2)[1]};
  const RunResult counted = RunCrowd(one, {}, &counting);
  EXPECT_EQ(counted.outputs, RunAlone(one, kernels::ChooseKernels(nullptr)));
  const auto layers = static_cast<int>(TestModel()->layers().size());
  // A layer has at least three matrix products (q/k/v may be one, and gate/up), an attention and
  // two norms, each of at least one call.
  EXPECT_GE(calls_of_matmul, 4 * layers * counted.shape.steps);
  EXPECT_GE(calls_of_attention, layers * counted.shape.steps);
  EXPECT_GE(calls_of_rms_norm, 2 * layers * counted.shape.steps);
}

class Determinism : public ::testing::TestWithParam<CrowdOptions> {};

TEST_P(Determinism, CrowdEqualsAlone) {
  const RunResult crowd = RunCrowd(Requests(), GetParam(), kernels::ChooseKernels(nullptr));
  ASSERT_EQ(crowd.outputs.size(), Requests().size());
  for (const auto& [id, output] : Alone()) {
    EXPECT_EQ(crowd.outputs.at(id).tokens, output.tokens) << "request " << id;
    EXPECT_EQ(crowd.outputs.at(id).logprob_bits, output.logprob_bits) << "request " << id;
    EXPECT_EQ(crowd.outputs.at(id).scored, output.scored) << "request " << id;
    EXPECT_EQ(crowd.outputs.at(id).scored_bits, output.scored_bits) << "request " << id;
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
    ChunksThreadsPools, Determinism,
    ::testing::Values(
        CrowdOptions{.chunk = 1, .threads = 2, .pool_blocks = kSmallPool, .arrival_seed = 2},
        CrowdOptions{.chunk = 7, .threads = 1, .arrival_seed = 3},
        // What is preempted is computed anew from its ids.
        CrowdOptions{.chunk = 64,
                     .threads = 2,
                     .pool_blocks = kSmallPool,
                     .arrival_seed = 6,
                     .prefix_caching = false},
        CrowdOptions{.chunk = 512, .threads = 2, .arrival_seed = 7},
        CrowdOptions{.chunk = 512, .threads = 1, .pool_blocks = kSmallPool, .arrival_seed = 8}),
    [](const auto& info) {
      const CrowdOptions& o = info.param;
      return "Chunk" + std::to_string(o.chunk) + "Threads" + std::to_string(o.threads) + "Pool" +
             std::to_string(o.pool_blocks);
    });

// That the requests ask for what they are there for; the tests above hold for whatever comes out.
TEST(DeterminismChoices, PromptsAreScoredAndChoicesDiffer) {
  const std::map<RequestId, Output>& outputs = Alone();
  int scored = 0;
  for (const core::CoreRequest& request : Requests()) {
    const Output& output = outputs.at(request.id);
    const bool scores = request.spec.num_prompt_logprobs >= 0;
    scored += scores ? 1 : 0;
    EXPECT_EQ(output.scored, scores ? request.prompt : std::vector<TokenId>());
    EXPECT_GE(static_cast<int32_t>(output.tokens.size()), request.spec.params.min_tokens);
    if (request.max_tokens == 0) {
      EXPECT_TRUE(output.tokens.empty());
    }
  }
  EXPECT_GE(scored, 6);
  // Choice 0 is what a request without choices gets; the others differ.
  const core::CoreRequest base = Requests()[7];
  EXPECT_EQ(outputs.at(kFirstChoice), outputs.at(base.id));
  EXPECT_NE(outputs.at(kFirstChoice + 1).tokens, outputs.at(base.id).tokens);
  EXPECT_NE(outputs.at(kFirstChoice + 2).tokens, outputs.at(kFirstChoice + 1).tokens);
}

// Each of the sampler's parameters turns a request's tokens into others. On the whole model: one of
// few layers repeats itself whatever the parameters.
TEST(DeterminismRequests, ParametersHaveTheirEffect) {
  std::vector<core::CoreRequest> with;
  std::vector<core::CoreRequest> without;
  for (core::CoreRequest request : Requests()) {
    const SamplingParams& p = request.spec.params;
    if (p.repetition_penalty == 1.0F && p.logit_bias.empty() && p.typical_p == 1.0F) continue;
    if (request.id >= kFirstChoice || request.max_tokens == 0) continue;
    with.push_back(request);
    SamplingParams plain = p;
    plain.repetition_penalty = plain.typical_p = 1.0F;
    plain.presence_penalty = plain.frequency_penalty = 0.0F;
    plain.logit_bias.clear();
    request.spec.params = plain;
    without.push_back(std::move(request));
  }
  ASSERT_GE(without.size(), 8U);
  const RunResult drawn = RunCrowd(with, {.threads = 2}, kernels::ChooseKernels(nullptr));
  const RunResult plain = RunCrowd(without, {.threads = 2}, kernels::ChooseKernels(nullptr));
  for (const auto& [id, output] : plain.outputs) {
    EXPECT_NE(output.tokens, drawn.outputs.at(id).tokens);
  }
}

// Teacher-forced log-probs of a text that was generated are those reported with its tokens.
TEST(DeterminismScoring, GeneratedTextScoresAsItWasReported) {
  for (core::CoreRequest request : Requests()) {
    if (request.id != 2 && request.id != 10) continue;
    request.spec.num_logprobs = 3;
    const Output generated = RunAlone({request}, kernels::ChooseKernels(nullptr)).at(request.id);
    ASSERT_GT(generated.tokens.size(), 10U);
    const size_t prompt = request.prompt.size();
    request.prompt.insert(request.prompt.end(), generated.tokens.begin(), generated.tokens.end());
    request.max_tokens = 0;
    request.spec.num_prompt_logprobs = 3;
    request.spec.params = {};
    for (const int chunk : {1, 50, 512}) {
      const RunResult run =
          RunCrowd({request}, {.chunk = chunk, .threads = 2}, kernels::ChooseKernels(nullptr));
      const Output& scored = run.outputs.at(request.id);
      ASSERT_EQ(scored.scored, request.prompt);
      // Per id a log-prob and three pairs; nothing is known of the tops of the first.
      ASSERT_GE(scored.scored_bits.size(), generated.logprob_bits.size());
      const std::vector<uint32_t> tail(
          scored.scored_bits.end() - static_cast<std::ptrdiff_t>(generated.logprob_bits.size()),
          scored.scored_bits.end());
      EXPECT_EQ(tail, generated.logprob_bits) << "chunks of " << chunk << ", after " << prompt;
    }
  }
}

// A planted kernel: with two rows or more it adds up the first and the second half of each sum
// apart, as a kernel tuned for batches might. Only then does the company change a request's bits.
void ReorderingMatMul(const kernels::Matrix& w, const std::byte* packed, int rows, int panel_begin,
                      int panel_end, float* y, int64_t y_stride) {
  const kernels::Kernels& real = *kernels::ChooseKernels(nullptr);
  if (rows < 2 || kernels::WeightBlockElements(w.type) == 1) {
    real.matmul(w, packed, rows, panel_begin, panel_end, y, y_stride);
    return;
  }
  const int blocks = w.k / static_cast<int>(kernels::kQuantBlock);
  const int half = blocks / 4 * 2;  // Even: two blocks of Q8_0 lie together.
  for (int panel = panel_begin; panel < panel_end; ++panel) {
    const int n = std::min(kernels::kPanelCols, w.n - panel * kernels::kPanelCols);
    const std::byte* weights =
        w.panels + kernels::PanelBytes(w.type, w.k) * static_cast<size_t>(panel);
    for (int row = 0; row < rows; row += kernels::kRowGroup) {
      const int group = std::min(kernels::kRowGroup, rows - row);
      const std::byte* x = packed + kernels::PackedRowsBytes(w.type, kernels::kRowGroup, w.k) *
                                        static_cast<size_t>(row / kernels::kRowGroup);
      float sums[2][kernels::kRowGroup][kernels::kPanelCols];
      for (int h = 0; h < 2; ++h) {
        const int first = h == 0 ? 0 : half;
        const int k = (h == 0 ? half : blocks - half) * static_cast<int>(kernels::kQuantBlock);
        const kernels::Matrix part{
            w.type, n, k,
            weights + kernels::PanelBytes(w.type, first * static_cast<int>(kernels::kQuantBlock))};
        real.matmul(part, x + static_cast<size_t>(first) * kernels::kPackedBlockBytes, group, 0, 1,
                    &sums[h][0][0], kernels::kPanelCols);
      }
      for (int r = 0; r < group; ++r) {
        float* to = y + (row + r) * y_stride + panel * kernels::kPanelCols;
        for (int c = 0; c < n; ++c) to[c] = sums[0][r][c] + sums[1][r][c];
      }
    }
  }
}

TEST(DeterminismPlant, AKernelThatReordersItsSumsIsCaught) {
  kernels::Kernels planted = *kernels::ChooseKernels(nullptr);
  planted.matmul = ReorderingMatMul;
  const auto requests = DifferentRequests(8);
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
}  // namespace ropeway::test::testing
