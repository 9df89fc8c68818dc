// Prompt log-probs: the same bits for any chunks, threads, batches and kernels, and equal to those
// that generation reports for the same tokens.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "executor/test_forward_oracle.h"
#include "executor/test_runner.h"

namespace ropeway::executor::testing {
namespace {

Sequence Scoring(int prompt_len, int generate, uint64_t seed, int top) {
  Sequence s = MakeSequence(prompt_len, generate, seed, 0.8F);
  s.spec.num_prompt_logprobs = top;
  return s;
}

// Some score, some do not; some only score.
std::vector<Sequence> MixedCrowd() {
  std::vector<Sequence> crowd = Crowd();
  for (size_t i = 0; i < crowd.size(); ++i) {
    if (i % 3 == 2) continue;
    crowd[i].spec.num_prompt_logprobs = static_cast<int32_t>(i % 4);
    if (i % 2 == 0) crowd[i].generate = 0;
  }
  return crowd;
}

TEST(ScoringTest, EveryPromptTokenButTheFirstIsScoredInOrder) {
  const auto crowd = MixedCrowd();
  How how;
  how.chunk = 7;
  const auto outcomes = RunTogether(TinyModel(), how, crowd);
  for (size_t i = 0; i < crowd.size(); ++i) {
    const bool scores = crowd[i].spec.num_prompt_logprobs >= 0;
    ASSERT_EQ(outcomes[i].scored.size(),
              scores ? static_cast<size_t>(crowd[i].prompt_len) - 1 : 0U);
    EXPECT_EQ(outcomes[i].sampled.size(), static_cast<size_t>(crowd[i].generate));
    for (size_t t = 0; t < outcomes[i].scored.size(); ++t) {
      const core::Scored& s = outcomes[i].scored[t];
      EXPECT_EQ(s.position, static_cast<int32_t>(t) + 1);
      EXPECT_EQ(s.token, crowd[i].ids[t + 1]);
      EXPECT_LT(s.logprob, 0.0F);
      ASSERT_EQ(s.top_logprobs.size(), static_cast<size_t>(crowd[i].spec.num_prompt_logprobs));
      for (const TokenLogprob& top : s.top_logprobs) {
        EXPECT_TRUE(top.logprob > s.logprob || top.logprob == s.logprob);
      }
    }
  }
}

TEST(ScoringTest, NothingAroundASequenceChangesItsScores) {
  const auto crowd = MixedCrowd();
  const auto alone = RunAlone(TinyModel(), {}, crowd);
  for (int threads : {1, 2}) {
    for (int chunk : {1, 7, 64, 1024}) {
      How how;
      how.threads = threads;
      how.chunk = chunk;
      how.max_rows = 160;  // More output rows than one tile of logits holds.
      how.shuffle = static_cast<uint32_t>(31 * threads + chunk);
      how.poison = true;
      ExpectSame(alone, RunTogether(TinyModel(), how, crowd),
                 std::to_string(threads) + " threads, chunks of " + std::to_string(chunk));
    }
  }
}

TEST(ScoringTest, EveryInstructionSetGivesTheSameBits) {
  const auto crowd = MixedCrowd();
  How how;
  how.kernels = &kernels::kReferenceKernels;
  const auto reference = RunAlone(TinyModel(), how, crowd);
  int compared = 0;
  for (const char* name : {"avx2", "avx512vnni"}) {
    how.kernels = kernels::KernelsByName(name);
    if (how.kernels == nullptr) continue;
    how.threads = 2;
    how.max_rows = 160;
    ExpectSame(reference, RunTogether(TinyModel(), how, crowd), name);
    ++compared;
  }
  if (compared == 0) GTEST_SKIP() << "needs hardware: AVX2";
}

TEST(ScoringTest, ScoresAreWhatGenerationReportsForTheSameTokens) {
  Sequence generating = MakeSequence(20, 60, 3, 0.9F);
  const auto generated = RunTogether(TinyModel(), {}, {generating})[0];
  Sequence scoring = generating;
  for (const core::Sampled& s : generated.sampled) scoring.ids.push_back(s.token);
  scoring.prompt_len = static_cast<int32_t>(scoring.ids.size());
  scoring.spec.num_prompt_logprobs = generating.spec.num_logprobs;
  scoring.generate = 0;
  for (int chunk : {1, 33, 1024}) {
    How how;
    how.chunk = chunk;
    how.threads = 2;
    how.max_rows = 100;
    const auto scored = RunTogether(TinyModel(), how, {scoring})[0].scored;
    ASSERT_EQ(scored.size(), 79U);
    for (size_t i = 0; i < generated.sampled.size(); ++i) {
      const core::Scored& a = scored[19 + i];
      const core::Sampled& b = generated.sampled[i];
      EXPECT_EQ(a.token, b.token);
      EXPECT_EQ(Bits(a.logprob), Bits(b.logprob)) << i;
      ASSERT_EQ(a.top_logprobs.size(), b.top_logprobs.size());
      for (size_t t = 0; t < a.top_logprobs.size(); ++t) {
        EXPECT_EQ(a.top_logprobs[t].id, b.top_logprobs[t].id);
        EXPECT_EQ(Bits(a.top_logprobs[t].logprob), Bits(b.top_logprobs[t].logprob));
      }
    }
  }
}

TEST(ScoringTest, AgreesWithTheOracle) {
  model::TinyLlamaOptions exact;  // No rounding of activations to 8 bits.
  exact.weights = kernels::WeightType::kF32;
  exact.embedding = kernels::WeightType::kF16;
  const auto model = LoadTiny(exact);
  const Sequence s = Scoring(70, 0, 3, 0);
  const auto scored = RunTogether(model, {}, {s})[0].scored;
  const auto oracle = OracleLogits(*model, s.ids);
  double worst = 0;
  for (const core::Scored& score : scored) {
    const auto& logits = oracle[static_cast<size_t>(score.position) - 1];
    double sum = 0;
    for (const double l : logits) sum += std::exp(l);
    const double exact = logits[static_cast<size_t>(score.token)] - std::log(sum);
    worst = std::max(worst, std::fabs(double{score.logprob} - exact));
  }
  EXPECT_LT(worst, 0.02);
}

TEST(ScoringTest, AResumedSequenceGoesOnWhereItsScoresEnd) {
  const auto whole = RunTogether(TinyModel(), {}, {Scoring(60, 5, 9, 2)})[0];
  // Preempted with 25 scores: all is computed anew, only the rest is scored.
  Sequence resumed = Scoring(60, 5, 9, 2);
  resumed.scored.assign(whole.scored.begin(), whole.scored.begin() + 25);
  How how;
  how.chunk = 16;
  ExpectSame({whole}, RunTogether(TinyModel(), how, {resumed}), "resumed");
}

TEST(ScoringTest, ALongContextIsScoredTheSameWay) {
  model::TinyLlamaOptions options;
  options.context_length = 1400;
  options.layers = 1;
  const auto model = LoadTiny(options);
  const std::vector<Sequence> sequences = {Scoring(1100, 2, 2, 1)};
  for (const kernels::KvType kv_type : {kernels::KvType::kF16, kernels::KvType::kQ8_0}) {
    How how;
    how.kv_type = kv_type;
    how.max_rows = 512;
    const auto one = RunAlone(model, how, sequences);
    how.threads = 3;
    how.max_rows = 100;
    ExpectSame(one, RunTogether(model, how, sequences), "3 threads");
    how.chunk = 1;  // One scored row a step: the splits of its context are merged later.
    ExpectSame(one, RunTogether(model, how, sequences), "3 threads, chunks of 1");
  }
}

TEST(ScoringTest, ABrokenRowFailsOnlyItsSequence) {
  // NaN in one sequence's K and V: its logits are NaN, and its neighbour's are not.
  Runner runner(TinyModel(), {}, 2);
  std::vector<Sequence> two = {MakeSequence(20, 1, 1, 0.0F), MakeSequence(20, 1, 2, 0.9F)};
  runner.Run(&two);
  const std::vector<std::byte> nan(runner.layout().block_bytes, std::byte{0xFF});
  runner.executor().WriteBlock(two[0].blocks[0], nan);
  for (Sequence& s : two) s.generate = 2;
  runner.Run(&two);
  EXPECT_TRUE(two[0].sampled[1].invalid);
  EXPECT_TRUE(std::isnan(two[0].sampled[1].logprob));
  EXPECT_FALSE(two[1].sampled[1].invalid);
  const auto alone = RunTogether(TinyModel(), {}, {MakeSequence(20, 2, 2, 0.9F)})[0];
  EXPECT_EQ(Bits(two[1].sampled[1].logprob), Bits(alone.sampled[1].logprob));
  EXPECT_EQ(two[1].sampled[1].token, alone.sampled[1].token);
}

}  // namespace
}  // namespace ropeway::executor::testing
