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

constexpr TokenId kUntouched = -7;  // In a result that nothing was written to.

struct Row {
  core::SampleSpec spec;
  const core::TokenMask* mask = nullptr;
};

Row GreedyRow(int32_t num_logprobs, const core::TokenMask* mask = nullptr) {
  Row row;
  row.spec.params.temperature = 0;
  row.spec.num_logprobs = num_logprobs;
  row.mask = mask;
  return row;
}

class OutputLayerTest : public ::testing::Test {
 protected:
  // What rows of hidden states give, each sampled as its Row says.
  std::vector<core::Sampled> Sample(const std::vector<float>& hidden, const std::vector<Row>& rows,
                                    int workers, int part_floats = kLogitsPartFloats,
                                    const std::vector<TokenId>& absent = {}) {
    const int count = static_cast<int>(rows.size());
    PlanLimits limits;
    limits.workers = workers;
    limits.max_rows = limits.max_seqs = limits.num_blocks = count;
    limits.vocab_size = model::kTinyVocab;
    limits.max_positions = 16;
    const TokenId token = 1;
    std::vector<core::BlockId> blocks(rows.size());
    std::iota(blocks.begin(), blocks.end(), 0);
    core::Batch batch;
    core::StepResult result;
    for (size_t i = 0; i < rows.size(); ++i) {
      core::BatchItem& item = batch.items.emplace_back();
      item.tokens = {&token, 1};
      item.blocks = {&blocks[i], 1};
      item.sample = true;
      item.spec = &rows[i].spec;
      item.mask = rows[i].mask;
      core::Sampled& sampled = result.sampled.emplace_back();
      sampled.token = kUntouched;
      sampled.top_logprobs.resize(static_cast<size_t>(std::max(rows[i].spec.num_logprobs, 0)));
    }
    StepPlan plan(limits);
    EXPECT_TRUE(plan.Build(batch).ok());
    base::WorkerTeam team(workers);
    OutputLayer layer(*TinyModel(), *Best(), &team, clock_, count, absent, part_floats);
    std::copy(hidden.begin(), hidden.end(), layer.hidden());
    team.Run([&](int worker) { layer.Compute(batch, plan, worker, &result); });
    EXPECT_GT(layer.TakeSamplingTime().count(), 0);
    EXPECT_EQ(layer.TakeSamplingTime().count(), 0);
    return result.sampled;
  }

  // The tokens of rows of hidden states, all at temperature 0; `whole`: with log-probs, which needs
  // the whole row.
  std::vector<core::Sampled> Tokens(const std::vector<float>& hidden, int workers, bool whole,
                                    int part_floats = kLogitsPartFloats,
                                    const std::vector<TokenId>& absent = {}) {
    const std::vector<Row> rows(hidden.size() / kHidden, GreedyRow(whole ? 0 : -1));
    return Sample(hidden, rows, workers, part_floats, absent);
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

std::vector<float> RandomHidden(int rows, uint32_t seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  std::vector<float> hidden(static_cast<size_t>(rows) * kHidden);
  for (float& x : hidden) x = normal(rng);
  return hidden;
}

bool Has(const core::TokenMask& mask, TokenId id) {
  return (mask.words[static_cast<size_t>(id) / 32] >> (id % 32) & 1U) != 0;
}

// Every third row is masked: it gets its largest allowed logit, and log-probs as without a mask.
TEST_F(OutputLayerTest, AMaskHoldsItsOwnRowAlone) {
  constexpr int kRows = 70;  // Two chunks.
  const auto hidden = RandomHidden(kRows, 8);
  const auto plain = Tokens(hidden, 1, false);
  const auto ranked = Sample(hidden, std::vector<Row>(kRows, GreedyRow(model::kTinyVocab)), 1);
  std::vector<uint32_t> words((model::kTinyVocab + 31) / 32);
  std::mt19937 rng(3);
  for (uint32_t& word : words) word = static_cast<uint32_t>(rng()) & static_cast<uint32_t>(rng());
  const core::TokenMask mask = {words, true};
  for (const int workers : {1, 2, 3}) {
    for (const int32_t logprobs : {-1, model::kTinyVocab}) {
      std::vector<Row> rows(kRows, GreedyRow(-1));
      for (size_t r = 0; r < kRows; r += 3) rows[r] = GreedyRow(logprobs, &mask);
      const auto tokens = Sample(hidden, rows, workers);
      int changed = 0;
      for (size_t r = 0; r < kRows; ++r) {
        EXPECT_FALSE(tokens[r].invalid);
        if (r % 3 != 0) {
          EXPECT_EQ(tokens[r].token, plain[r].token) << workers << " workers, row " << r;
          continue;
        }
        const auto& order = ranked[r].top_logprobs;
        const auto best = std::find_if(order.begin(), order.end(), [&](const TokenLogprob& entry) {
          return Has(mask, entry.id);
        });
        EXPECT_EQ(tokens[r].token, best->id) << workers << " workers, row " << r;
        changed += tokens[r].token != plain[r].token ? 1 : 0;
        if (logprobs < 0) continue;
        EXPECT_EQ(Bits(tokens[r].logprob), Bits(best->logprob));
        for (size_t i = 0; i < order.size(); ++i) {
          ASSERT_EQ(tokens[r].top_logprobs[i].id, order[i].id);
          ASSERT_EQ(Bits(tokens[r].top_logprobs[i].logprob), Bits(order[i].logprob));
        }
      }
      EXPECT_GT(changed, 10);
    }
  }
}

TEST_F(OutputLayerTest, EqualLogitsGoToTheLowestAllowedId) {
  const std::vector<uint32_t> words = {0, 0b10100};
  const core::TokenMask mask = {words, true};
  const std::vector<float> zeros(2 * kHidden, 0.0F);
  const auto tokens = Sample(zeros, {GreedyRow(-1), GreedyRow(-1, &mask)}, 2);
  EXPECT_EQ(tokens[0].token, 0);
  EXPECT_EQ(tokens[1].token, 34);
}

TEST_F(OutputLayerTest, AMaskThatAllowsNoTokenMakesItsRowInvalidAndNoOther) {
  const auto hidden = RandomHidden(3, 9);
  const auto plain = Tokens(hidden, 1, false);
  const std::vector<uint32_t> zeros((model::kTinyVocab + 31) / 32);
  const std::vector<uint32_t> absent_only = {1U << 5};
  // No bit, no word, and the bit of an id that is no token.
  for (const std::span<const uint32_t> words :
       {std::span(zeros), std::span<const uint32_t>(), std::span(absent_only)}) {
    const core::TokenMask mask = {words, true};
    for (const float temperature : {0.0F, 1.0F}) {
      std::vector<Row> rows(3, GreedyRow(-1));
      rows[1].mask = &mask;
      rows[1].spec.params.temperature = temperature;
      const auto tokens = Sample(hidden, rows, 2, kLogitsPartFloats, {5});
      EXPECT_TRUE(tokens[1].invalid);
      for (const size_t other : {0U, 2U}) {
        EXPECT_FALSE(tokens[other].invalid);
        EXPECT_EQ(tokens[other].token, plain[other].token);
      }
    }
  }
}

TEST_F(OutputLayerTest, NothingIsSampledForARowWhoseMaskIsNotReady) {
  const auto hidden = RandomHidden(3, 10);
  const auto plain = Tokens(hidden, 1, false);
  const std::vector<uint32_t> words = {~0U};
  const core::TokenMask waiting = {words, false};
  const core::TokenMask ready = {words, true};
  // Alone among greedy rows, and beside a row whose whole logits are computed.
  for (const bool beside_masked : {false, true}) {
    std::vector<Row> rows = {GreedyRow(-1), GreedyRow(3, &waiting), GreedyRow(-1)};
    if (beside_masked) rows[2].mask = &ready;
    const auto tokens = Sample(hidden, rows, 2);
    EXPECT_EQ(tokens[0].token, plain[0].token);
    EXPECT_EQ(tokens[1].token, kUntouched);
    EXPECT_FALSE(tokens[1].invalid);
    EXPECT_EQ(tokens[1].took.count(), 0);
    if (beside_masked) {
      EXPECT_LT(tokens[2].token, 32);
      EXPECT_GT(tokens[2].took.count(), 0);
    } else {
      EXPECT_EQ(tokens[2].token, plain[2].token);
    }
  }
}

}  // namespace
}  // namespace ropeway::executor::testing
