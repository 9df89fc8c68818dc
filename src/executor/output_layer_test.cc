// The largest logit that several workers find part by part is the largest of the whole row.
#include "executor/output_layer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>

#include "executor/test_runner.h"

namespace ropeway::executor::testing {
namespace {

constexpr int kHidden = 64;

class OutputLayerTest : public ::testing::Test {
 protected:
  // The tokens of `rows` rows of hidden states, all at temperature 0; `whole`: with log-probs,
  // which needs the whole row.
  std::vector<core::Sampled> Tokens(const std::vector<float>& hidden, int workers, bool whole,
                                    int part_floats = kLogitsPartFloats,
                                    const std::vector<TokenId>& absent = {}) {
    const int rows = static_cast<int>(hidden.size()) / kHidden;
    PlanLimits limits;
    limits.workers = workers;
    limits.max_rows = limits.max_seqs = limits.num_blocks = rows;
    limits.vocab_size = model::kTinyVocab;
    limits.max_positions = 16;
    const TokenId token = 1;
    std::vector<core::BlockId> blocks(static_cast<size_t>(rows));
    std::iota(blocks.begin(), blocks.end(), 0);
    core::SampleSpec spec;
    spec.params.temperature = 0;
    if (whole) spec.num_logprobs = 0;
    core::Batch batch;
    core::StepResult result;
    for (const core::BlockId& block : blocks) {
      core::BatchItem& item = batch.items.emplace_back();
      item.tokens = {&token, 1};
      item.blocks = {&block, 1};
      item.sample = true;
      item.spec = &spec;
      result.sampled.emplace_back();
    }
    StepPlan plan(limits);
    EXPECT_TRUE(plan.Build(batch).ok());
    base::WorkerTeam team(workers);
    OutputLayer layer(*TinyModel(), *Best(), &team, clock_, rows, absent, part_floats);
    std::copy(hidden.begin(), hidden.end(), layer.hidden());
    team.Run([&](int worker) { layer.Compute(batch, plan, worker, &result); });
    EXPECT_GT(layer.TakeSamplingTime().count(), 0);
    EXPECT_EQ(layer.TakeSamplingTime().count(), 0);
    return result.sampled;
  }

  base::RealClock clock_;
};

TEST_F(OutputLayerTest, FindsTheTokenThatTheWholeRowGives) {
  std::mt19937 rng(5);
  std::normal_distribution<float> normal;
  for (const int workers : {1, 2, 3}) {
    for (const int rows : {1, 2, 5, 63, 64, 65, 130}) {
      std::vector<float> hidden(static_cast<size_t>(rows) * kHidden);
      for (float& x : hidden) x = normal(rng);
      const auto parts = Tokens(hidden, workers, false);
      const auto whole = Tokens(hidden, workers, true);
      int beyond_first_panel = 0;
      for (size_t r = 0; r < parts.size(); ++r) {
        EXPECT_EQ(parts[r].token, whole[r].token)
            << rows << " rows, " << workers << " workers, row " << r;
        EXPECT_FALSE(parts[r].invalid);
        beyond_first_panel += parts[r].token >= kernels::kPanelCols ? 1 : 0;
      }
      if (rows > 60) {
        EXPECT_GT(beyond_first_panel, rows / 2);
      }
    }
  }
}

// Parts of one panel and of two, so that each worker has several, and the last one is not whole.
TEST_F(OutputLayerTest, FindsItInAnyPartOfAnyWorker) {
  constexpr int kPanels = (model::kTinyVocab + kernels::kPanelCols - 1) / kernels::kPanelCols;
  std::mt19937 rng(6);
  std::normal_distribution<float> normal;
  for (const int workers : {1, 2, 3}) {
    for (const int rows : {1, 5, 64}) {
      std::vector<float> hidden(static_cast<size_t>(rows) * kHidden);
      for (float& x : hidden) x = normal(rng);
      const auto whole = Tokens(hidden, workers, true);
      for (const int part_panels : {1, 2}) {
        const auto parts = Tokens(hidden, workers, false, part_panels * rows * kernels::kPanelCols);
        std::vector<int> in_later_parts(static_cast<size_t>(workers));
        for (size_t r = 0; r < parts.size(); ++r) {
          EXPECT_EQ(parts[r].token, whole[r].token)
              << rows << " rows, " << workers << " workers, row " << r;
          EXPECT_FALSE(parts[r].invalid);
          const int panel = parts[r].token / kernels::kPanelCols;
          int owner = 0;
          while (panel >= ShareBegin(kPanels, owner + 1, workers)) ++owner;
          if (panel >= ShareBegin(kPanels, owner, workers) + part_panels) {
            ++in_later_parts[static_cast<size_t>(owner)];
          }
        }
        if (rows < 64) continue;
        // The comparison means something: all workers find tokens behind their first part.
        for (const int found : in_later_parts) EXPECT_GT(found, 2);
      }
    }
  }
}

TEST_F(OutputLayerTest, IdsWithoutATokenAreNotFoundInAnyPart) {
  std::mt19937 rng(7);
  std::normal_distribution<float> normal;
  std::vector<float> hidden(size_t{64} * kHidden);
  for (float& x : hidden) x = normal(rng);
  std::vector<TokenId> absent;
  for (const core::Sampled& s : Tokens(hidden, 1, true)) absent.push_back(s.token);
  std::sort(absent.begin(), absent.end());
  absent.erase(std::unique(absent.begin(), absent.end()), absent.end());
  const auto whole = Tokens(hidden, 1, true, kLogitsPartFloats, absent);
  for (const core::Sampled& s : whole) {
    EXPECT_FALSE(std::binary_search(absent.begin(), absent.end(), s.token));
  }
  for (const int workers : {1, 2, 3}) {
    for (const int part_floats : {1, kLogitsPartFloats}) {
      const auto parts = Tokens(hidden, workers, false, part_floats, absent);
      for (size_t r = 0; r < parts.size(); ++r) EXPECT_EQ(parts[r].token, whole[r].token) << r;
    }
  }
  // All of them: nothing is left to draw.
  absent.resize(model::kTinyVocab);
  std::iota(absent.begin(), absent.end(), 0);
  for (const bool one_row : {false, true}) {
    EXPECT_TRUE(Tokens(hidden, 2, one_row, kLogitsPartFloats, absent)[0].invalid);
  }
}

TEST_F(OutputLayerTest, EqualLogitsGoToTheLowestId) {
  const std::vector<float> zeros(64 * kHidden, 0.0F);
  for (const int workers : {1, 2, 3}) {
    for (const int part_floats : {1, kLogitsPartFloats}) {
      for (const core::Sampled& s : Tokens(zeros, workers, false, part_floats)) {
        EXPECT_EQ(s.token, 0);
        EXPECT_FALSE(s.invalid);
      }
    }
  }
}

TEST_F(OutputLayerTest, ARowWithoutAFiniteLogitIsInvalidAndNoOther) {
  std::vector<float> hidden(3 * kHidden, 0.5F);
  for (int i = kHidden; i < 2 * kHidden; ++i) hidden[static_cast<size_t>(i)] = std::nanf("");
  for (const bool whole : {false, true}) {
    const auto tokens = Tokens(hidden, 2, whole);
    EXPECT_FALSE(tokens[0].invalid);
    EXPECT_TRUE(tokens[1].invalid);
    EXPECT_FALSE(tokens[2].invalid);
  }
}

}  // namespace
}  // namespace ropeway::executor::testing
