// Each architecture on a tiny random model: the forward pass agrees with plain double precision,
// and nothing around a sequence changes a bit of it. Against transformers:
// tests/architectures_golden_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "executor/test_forward_oracle.h"
#include "executor/test_runner.h"
#include "model/test_tiny_models.h"

namespace ropeway::executor::testing {
namespace {

const std::shared_ptr<const model::Model>& ModelNamed(const std::string& name) {
  static std::map<std::string, std::shared_ptr<const model::Model>> models;
  std::shared_ptr<const model::Model>& model = models[name];
  if (model == nullptr) model = LoadGguf(model::TinyModel(name));
  return model;
}

// Requests of lengths around the edges of blocks and of the models' windows (20, 24 and 40).
std::vector<Sequence> SmallCrowd() {
  std::vector<Sequence> crowd;
  const std::vector<int> prompts = {1, 17, 24, 41, 90, 33};
  for (size_t i = 0; i < prompts.size(); ++i) {
    crowd.push_back(MakeSequence(prompts[i], 7, i + 1, i % 3 == 0 ? 0.0F : 0.9F));
    crowd.back().joins = static_cast<int32_t>(i / 2);
  }
  crowd[2].spec.num_prompt_logprobs = 2;
  return crowd;
}

class Architecture : public ::testing::TestWithParam<std::string> {
 protected:
  const std::shared_ptr<const model::Model>& model_ = ModelNamed(GetParam());
};

INSTANTIATE_TEST_SUITE_P(ExecutorTest, Architecture, ::testing::ValuesIn(model::TinyModelNames()),
                         [](const auto& info) { return info.param; });

TEST_P(Architecture, AgreesWithTheOracle) {
  Sequence s = MakeSequence(96, 0, 3, 0.0F);
  s.spec.num_prompt_logprobs = model_->config().vocab_size;
  const auto oracle = OracleLogits(*model_, s.ids);
  How how;
  how.chunk = 40;
  const Outcome outcome = RunTogether(model_, how, {s})[0];
  ASSERT_EQ(outcome.scored.size(), s.ids.size() - 1);
  double worst = 0;
  for (size_t i = 0; i < outcome.scored.size(); ++i) {
    double sum = 0;
    for (const double logit : oracle[i]) sum += std::exp(logit);
    for (const TokenLogprob& top : outcome.scored[i].top_logprobs) {
      const double expected = oracle[i][static_cast<size_t>(top.id)] - std::log(sum);
      worst = std::max(worst, std::fabs(double{top.logprob} - expected));
    }
  }
  // Where float and double round a K or V to different numbers in f16.
  EXPECT_LT(worst, 2e-3);
}

TEST_P(Architecture, NothingAroundASequenceChangesIt) {
  const auto crowd = SmallCrowd();
  for (const kernels::KvType kv_type : {kernels::KvType::kF16, kernels::KvType::kQ8_0}) {
    How how;
    how.kv_type = kv_type;
    const auto alone = RunAlone(model_, how, crowd);
    for (const int threads : {1, 2, 3}) {
      how.threads = threads;
      how.chunk = threads == 1 ? 1 : 5 * threads;
      how.max_rows = 100;
      how.shuffle = static_cast<uint32_t>(threads);
      how.poison = true;
      ExpectSame(alone, RunTogether(model_, how, crowd),
                 std::to_string(threads) + " threads, " + kernels::KvTypeName(kv_type));
    }
  }
}

TEST_P(Architecture, EveryInstructionSetGivesTheSameBits) {
  for (const auto weights : {kernels::WeightType::kF32, kernels::WeightType::kQ8_0}) {
    const auto model = LoadGguf(model::TinyModel(GetParam(), weights));
    const auto crowd = SmallCrowd();
    How how;
    how.kernels = &kernels::kReferenceKernels;
    how.max_rows = 100;
    const auto reference = RunTogether(model, how, crowd);
    how.threads = 2;
    for (const char* name : {"avx2", "avx512vnni"}) {
      how.kernels = kernels::KernelsByName(name);
      if (how.kernels != nullptr) ExpectSame(reference, RunTogether(model, how, crowd), name);
    }
  }
}

TEST_P(Architecture, WhatNoRowSeesMayBeGone) {
  const auto crowd = SmallCrowd();
  How how;
  how.threads = 2;
  const auto kept = RunTogether(model_, how, crowd);
  how.drop_unseen = true;
  for (const int chunk : {1, 7, 1024}) {
    how.chunk = chunk;
    ExpectSame(kept, RunTogether(model_, how, crowd), "chunks of " + std::to_string(chunk));
  }
}

// Windows and experts do something: without them, other tokens or log-probs come out.
TEST(ArchitectureEffects, WindowsChangeWhatIsComputed) {
  model::GgufWriter wide = model::TinyModel("mistral");
  wide.Remove("llama.attention.sliding_window");
  const std::vector<Sequence> one = {MakeSequence(60, 3, 5, 0.0F)};
  std::string where;
  EXPECT_FALSE(Same(RunTogether(ModelNamed("mistral"), {}, one),
                    RunTogether(LoadGguf(wide), {}, one), &where));
}

// A context beyond kSplitTokens whose window begins in the split before: whole units and deferred
// merges leave out what no row sees.
TEST(ArchitectureEffects, WindowsAcrossSplits) {
  model::GgufWriter writer = model::TinyModel("gptoss");
  writer.SetUint32("gpt-oss.context_length", 2048);
  writer.SetUint32("gpt-oss.attention.sliding_window", 100);
  const auto model = LoadGguf(writer);
  const std::vector<Sequence> sequences = {MakeSequence(1030, 120, 2, 0.7F)};
  How how;
  how.max_rows = 512;
  const auto one = RunAlone(model, how, sequences);
  for (const int threads : {2, 3}) {
    how.threads = threads;
    how.drop_unseen = threads == 3;
    ExpectSame(one, RunAlone(model, how, sequences), std::to_string(threads) + " threads");
  }
}

// One expert's rows are gathered however many they are, and its weights are read once.
TEST(ArchitectureEffects, ExpertsAreReadOnceAStep) {
  const auto& model = ModelNamed("qwen3moe");
  CpuExecutor executor(model, Best(), 2);
  ASSERT_TRUE(executor.Init(kPoolBytes, 64, 1).ok());
  const Sequence s = MakeSequence(64, 0, 1, 0.0F);
  std::vector<core::BlockId> blocks = {0, 1, 2, 3};
  core::Batch batch;
  core::BatchItem& item = batch.items.emplace_back();
  item.blocks = blocks;
  int64_t read = 0;
  for (const size_t rows : {1, 63}) {
    item.tokens = std::span<const TokenId>(s.ids).subspan(static_cast<size_t>(item.start), rows);
    executor.Launch(batch);
    const auto result = executor.Wait();
    ASSERT_TRUE(result.ok());
    read = result->experts_read;
    item.start += static_cast<int32_t>(rows);
    const int layers = model->config().num_layers;
    // Nothing is sampled: the last layer computes K and V alone.
    EXPECT_GE(read, rows == 1 ? 3 * (layers - 1) : 4 * (layers - 1));
    EXPECT_LE(read, rows == 1 ? 3 * (layers - 1) : 8 * (layers - 1));
  }
}

TEST(ChooseExpertsTest, TheLargestLogitsWinAndTiesGoToTheFirst) {
  model::ExpertsConfig config;
  config.count = 6;
  config.used = 3;
  const std::vector<float> logits = {1.0F, 3.0F, 3.0F, -2.0F, 3.0F, 3.0F};
  std::vector<float> scratch(6);
  std::vector<int32_t> ids(3);
  std::vector<float> weights(3);
  const auto choose = [&](const std::vector<float>& of) {
    ChooseExperts(*Best(), config, of.data(), scratch.data(), ids.data(), weights.data());
  };
  choose(logits);
  EXPECT_EQ(ids, (std::vector<int32_t>{1, 2, 4}));
  for (const float weight : weights) EXPECT_FLOAT_EQ(weight, 1.0F / 3);
  config.normalized = false;
  choose(logits);
  double all = 0;
  for (const float logit : logits) all += std::exp(double{logit});
  for (const float weight : weights) EXPECT_NEAR(weight, std::exp(3.0) / all, 1e-6);
  // A broken row goes through some experts, and comes out broken.
  const float nan = std::nanf("");
  choose({nan, nan, 0.5F, nan, nan, nan});
  EXPECT_EQ(ids, (std::vector<int32_t>{0, 1, 2}));
  choose(std::vector<float>(6, nan));
  EXPECT_EQ(ids, (std::vector<int32_t>{0, 1, 2}));
  EXPECT_TRUE(std::isnan(weights[0]));
}

}  // namespace
}  // namespace ropeway::executor::testing
