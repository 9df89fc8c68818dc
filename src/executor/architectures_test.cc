// Each architecture on a tiny random model: the forward pass agrees with plain double precision,
// and nothing around a sequence changes a bit of it. Against transformers:
// tests/architectures_golden_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "executor/test_forward_oracle.h"
#include "executor/test_runner.h"
#include "model/test_tiny_models.h"

namespace ropeway::executor::testing {
namespace {

const std::shared_ptr<const Weights>& ModelNamed(const std::string& name) {
  static std::map<std::string, std::shared_ptr<const Weights>> models;
  std::shared_ptr<const Weights>& model = models[name];
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
  const std::shared_ptr<const Weights>& model_ = ModelNamed(GetParam());
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
  std::vector<kernels::WeightType> types = {kernels::WeightType::kF32, kernels::WeightType::kQ8_0};
  // Experts are packed in ways of their own; gpt-oss's files have experts in MXFP4.
  if (model_->config().experts.count > 0) {
    types.insert(types.end(), {kernels::WeightType::kQ5_0, kernels::WeightType::kIQ4_NL,
                               kernels::WeightType::kMXFP4});
  }
  for (const kernels::WeightType weights : types) {
    const auto model = LoadGguf(model::TinyModel(GetParam(), weights));
    const auto crowd = SmallCrowd();
    How how;
    how.kernels = &kernels::kReferenceKernels;
    how.max_rows = 100;
    const auto reference = RunTogether(model, how, crowd);
    how.threads = 2;
    for (const char* name : {"avx2", "avx512vnni"}) {
      how.kernels = kernels::KernelsByName(name);
      if (how.kernels != nullptr) {
        ExpectSame(reference, RunTogether(model, how, crowd),
                   std::string(name) + ", " + kernels::WeightTypeName(weights));
      }
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

// Activations in 8 bits leave the log-probs of a position where they belong, except where a router
// chooses another expert for it, which all later positions see. In a simulation of that rounding
// the median cosine is above 0.9996; measured with these models it is 0.9985 at least.
void ExpectNearTheOracle(const model::GgufWriter& writer, const std::string& what) {
  const auto model = LoadGguf(writer);
  Sequence s = MakeSequence(65, 0, 3, 0.0F);
  s.spec.num_prompt_logprobs = model->config().vocab_size;
  const auto oracle = OracleLogits(*model, s.ids);
  const Outcome outcome = RunTogether(model, {}, {s})[0];
  ASSERT_EQ(outcome.scored.size(), 64U);
  std::vector<double> cosines;
  for (size_t i = 0; i < outcome.scored.size(); ++i) {
    std::vector<double> logprobs(oracle[i].size());
    for (const TokenLogprob& top : outcome.scored[i].top_logprobs) {
      logprobs.at(static_cast<size_t>(top.id)) = double{top.logprob};
    }
    cosines.push_back(CenteredCosine(logprobs, oracle[i]));
  }
  std::sort(cosines.begin(), cosines.end());
  EXPECT_GT(cosines[32], 0.998) << what;
  EXPECT_GT(cosines[12], 0.995) << what;
}

TEST(ArchitectureEffects, QuantisedExpertsAgreeWithTheOracle) {
  using kernels::WeightType;
  for (const char* name : {"mixtral", "qwen2moe", "qwen3moe", "gptoss"}) {
    for (const WeightType type :
         {WeightType::kQ8_0, WeightType::kQ5_0, WeightType::kIQ4_NL, WeightType::kMXFP4}) {
      ExpectNearTheOracle(model::TinyModel(name, type),
                          std::string(name) + " in " + kernels::WeightTypeName(type));
    }
  }
  // What a file in Q4_K_M has; its gate and down matrices want differently packed rows.
  ExpectNearTheOracle(model::WideTinyExperts(WeightType::kQ4_K, WeightType::kQ6_K),
                      "Q4_K and Q6_K");
  ExpectNearTheOracle(model::WideTinyExperts(WeightType::kIQ4_XS, WeightType::kQ2_K),
                      "IQ4_XS and Q2_K");
}

// How often products read a panel of weights, and the rows that they multiplied with it.
struct PanelReads {
  int times = 0;
  int rows = 0;
};
std::mutex panel_reads_mutex;
std::map<const std::byte*, PanelReads> panel_reads;  // By the panels' addresses.

void NotingMatmul(const kernels::Matrix& w, const std::byte* packed, int rows, int panel_begin,
                  int panel_end, float* y, int64_t y_stride) {
  {
    const std::lock_guard<std::mutex> lock(panel_reads_mutex);
    for (int panel = panel_begin; panel < panel_end; ++panel) {
      PanelReads& reads = panel_reads[w.PanelRange(panel, panel + 1).panels];
      ++reads.times;
      reads.rows += rows;
    }
  }
  Best()->matmul(w, packed, rows, panel_begin, panel_end, y, y_stride);
}

// Of a matrix, all of whose panels must have been read alike.
PanelReads ReadsOf(const kernels::Matrix& m) {
  const PanelReads first = panel_reads[m.panels];
  for (int panel = 1; panel < m.num_panels(); ++panel) {
    const PanelReads reads = panel_reads[m.PanelRange(panel, panel + 1).panels];
    EXPECT_EQ(reads.times, first.times) << "panel " << panel;
    EXPECT_EQ(reads.rows, first.rows) << "panel " << panel;
  }
  return first;
}

// The reads of all three matrices of a network.
PanelReads ReadsOf(const FfnWeights& network) {
  const PanelReads up = ReadsOf(network.up);
  for (const kernels::Matrix* m : {&network.gate, &network.down}) {
    const PanelReads reads = ReadsOf(*m);
    EXPECT_EQ(reads.times, up.times);
    EXPECT_EQ(reads.rows, up.rows);
  }
  return up;
}

// Runs the next `rows` ids of a sequence as a step of their own that samples nothing.
int64_t ExpertsReadInAStep(CpuExecutor* executor, core::Batch* batch, const Sequence& s,
                           int32_t rows) {
  core::BatchItem& item = batch->items[0];
  item.tokens = std::span<const TokenId>(s.ids).subspan(static_cast<size_t>(item.start),
                                                        static_cast<size_t>(rows));
  panel_reads.clear();
  executor->Launch(*batch);
  const auto result = executor->Wait();
  EXPECT_TRUE(result.ok());
  item.start += rows;
  return result.ok() ? result->experts_read : -1;
}

// An expert's rows are gathered however many they are: over all workers, a product with each panel
// of its weights is computed once in a step, or never, with all rows that go through it.
TEST(ArchitectureEffects, ExpertsAreReadOnceAStep) {
  kernels::Kernels noting = *Best();
  noting.matmul = NotingMatmul;
  for (const char* name : {"mixtral", "qwen2moe", "qwen3moe", "gptoss"}) {
    SCOPED_TRACE(name);
    const auto& model = ModelNamed(name);
    CpuExecutor executor(model, &noting, 3);
    const auto layout = executor.Init(kPoolBytes, 64, 1);
    ASSERT_TRUE(layout.ok());
    const Sequence s = MakeSequence(64, 0, 1, 0.0F);
    std::vector<core::BlockId> blocks(4 * layout->windows.size());
    std::iota(blocks.begin(), blocks.end(), 0);
    core::Batch batch;
    batch.items.emplace_back().blocks = blocks;
    for (const int32_t rows : {1, 63}) {
      const int64_t counted = ExpertsReadInAStep(&executor, &batch, s, rows);
      int64_t read = 0;
      for (const LayerWeights& layer : model->layers()) {
        // Nothing is sampled: the last layer computes K and V alone.
        const bool last = &layer == &model->layers().back();
        int uses = 0;
        for (const FfnWeights& expert : layer.experts) {
          const PanelReads reads = ReadsOf(expert);
          EXPECT_LE(reads.times, 1);
          read += reads.times;
          uses += reads.rows;
        }
        EXPECT_EQ(uses, last ? 0 : rows * model->config().experts.used);
        if (layer.shared.up.panels == nullptr) continue;
        EXPECT_EQ(ReadsOf(layer.shared).times, last ? 0 : 1);
        EXPECT_EQ(ReadsOf(layer.shared).rows, last ? 0 : rows);
      }
      // The counter of the statistics says the same.
      EXPECT_EQ(counted, read);
    }
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
