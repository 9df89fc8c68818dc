// The asks' rounds on the default model: what happens to them is counted, and an engine that gives
// more than one answer is caught.
#include "bench/determinism.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>
#include <tuple>

#include "model/gguf.h"
#include "model/open_model.h"

namespace ropeway::bench {
namespace {

std::shared_ptr<const executor::Weights> TestModel() {
  const char* path = std::getenv("ROPEWAY_TEST_MODEL");
  if (path == nullptr) return nullptr;
  auto file = model::OpenModel(path);
  if (!file.ok()) return nullptr;
  auto model = executor::Weights::Load(**file, 2, 512);
  if (!model.ok()) return nullptr;
  return *std::move(model);
}

DeterminismEngineOptions Options() {
  DeterminismEngineOptions options;
  for (int i = 0; i < 40; ++i) options.prompt.push_back(1000 + 91 * i);
  options.asks = 16;
  options.output_tokens = 12;
  options.rounds = 2;
  return options;
}

// As a kernel that multiplies one row otherwise than several would make them: the lowest bits of
// the result depend on the company.
void MatMulOfItsCompany(const kernels::Matrix& w, const std::byte* packed, int rows,
                        int panel_begin, int panel_end, float* y, int64_t y_stride) {
  kernels::ChooseKernels(nullptr)->matmul(w, packed, rows, panel_begin, panel_end, y, y_stride);
  if (rows % 2 == 1) return;
  const int begin = panel_begin * kernels::kPanelCols;
  const int end = std::min(panel_end * kernels::kPanelCols, w.n);
  for (int r = 0; r < rows; ++r) {
    for (int c = begin; c < end; ++c) y[r * y_stride + c] *= 1.0F + 0x1p-20F;
  }
}

TEST(DeterminismEngine, OneOutputAndEveryAskIsCounted) {
  const auto model = TestModel();
  ASSERT_NE(model, nullptr) << "ROPEWAY_TEST_MODEL must name the default model's file";
  DeterminismEngine engine(model, Options(), TablesToAsk());
  std::vector<DeterminismRound> rounds;
  const Status status = engine.Run([&](const DeterminismRound& r) { rounds.push_back(r); });
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_EQ(rounds.size(), 2U);
  ASSERT_EQ(engine.outputs().size(), 1U);
  EXPECT_EQ(engine.outputs()[0].count, 16);
  EXPECT_EQ(engine.outputs()[0].tokens.size(), 12U);
  EXPECT_EQ(engine.outputs()[0].logprobs.size(), 12U);
  EXPECT_EQ(rounds[0].asks + rounds[1].asks, 15);  // The first was alone.
  for (const DeterminismRound& round : rounds) {
    EXPECT_GT(round.company, 0);
    EXPECT_GT(round.most_rows, 1);
    EXPECT_LE(round.most_rows, round.settings.max_num_batched_tokens);
    EXPECT_LE(round.chunked, round.asks);
    EXPECT_LE(round.preempted, round.preemptions);
    EXPECT_EQ(round.distinct, 1);
  }
}

TEST(DeterminismEngine, TheSameSeedGivesTheSameSteps) {
  const auto model = TestModel();
  ASSERT_NE(model, nullptr);
  const auto shapes = [&](uint64_t seed) {
    DeterminismEngineOptions options = Options();
    options.seed = seed;
    DeterminismEngine engine(model, options, TablesToAsk());
    std::vector<int64_t> numbers;
    EXPECT_TRUE(
        engine
            .Run([&](const DeterminismRound& r) {
              numbers.insert(numbers.end(), {r.steps, r.rows, r.company, r.chunked, r.preemptions});
            })
            .ok());
    return numbers;
  };
  EXPECT_EQ(shapes(7), shapes(7));
  EXPECT_NE(shapes(7), shapes(8));
}

TEST(DeterminismEngine, AnEngineWhoseCompanyShowsIsCaught) {
  const auto model = TestModel();
  ASSERT_NE(model, nullptr);
  kernels::Kernels planted = *kernels::ChooseKernels(nullptr);
  planted.matmul = MatMulOfItsCompany;
  DeterminismEngine engine(model, Options(), {&planted});
  ASSERT_TRUE(engine.Run([](const DeterminismRound&) {}).ok());
  EXPECT_GT(engine.outputs().size(), 1U);
}

TEST(DeterminismRounds, SettingsVaryAndAreSound) {
  base::SeededRandom random(3);
  const std::vector<const kernels::Kernels*> tables = TablesToAsk();
  ASSERT_FALSE(tables.empty());
  constexpr int kLongest = 224;
  constexpr int kLongestBlocks = 14;
  std::set<std::string> names;
  std::set<int> threads;
  std::set<int> chunks;
  std::set<std::tuple<std::string, bool, bool>> cached;
  int tight = 0;
  for (int round = 0; round < 40; ++round) {
    const RoundSettings s = DrawSettings(round, tables, kLongest, 4, &random);
    names.insert(s.kernels->name);
    threads.insert(s.threads);
    cached.emplace(s.kernels->name, s.threads == 1, s.prefix_caching);
    chunks.insert(s.max_prefill_chunk);
    EXPECT_GE(s.max_num_batched_tokens, s.max_num_seqs);
    EXPECT_GE(s.max_num_seqs, 2);
    EXPECT_GT(s.num_blocks, kLongestBlocks);
    EXPECT_LE(s.max_prefill_chunk, 32);
    tight += s.num_blocks <= 2 * kLongestBlocks ? 1 : 0;
  }
  EXPECT_EQ(names.size(), tables.size());
  EXPECT_TRUE(threads.contains(1));
  EXPECT_TRUE(threads.contains(2));
  EXPECT_FALSE(threads.contains(5));
  EXPECT_GE(chunks.size(), 10U);
  // With and without the cache for each table and for one thread and more.
  EXPECT_EQ(cached.size(), 2 * 2 * tables.size());
  EXPECT_GE(tight, 30);
  EXPECT_LT(tight, 40);
}

TEST(DeterminismRounds, TablesAreTheBestAndWhatElseRunsHere) {
  const std::vector<const kernels::Kernels*> tables = TablesToAsk();
  ASSERT_FALSE(tables.empty());
  EXPECT_EQ(tables.front(), kernels::ChooseKernels(nullptr));
  std::set<const kernels::Kernels*> distinct(tables.begin(), tables.end());
  EXPECT_EQ(distinct.size(), tables.size());
}

TEST(DeterminismRounds, TheCompanyIsMixed) {
  base::SeededRandom random(4);
  std::set<size_t> lengths;
  int greedy = 0;
  int logprobs = 0;
  for (int i = 0; i < 200; ++i) {
    const core::CoreRequest request = DrawCompany(static_cast<RequestId>(i), 1000, &random);
    lengths.insert(request.prompt.size());
    EXPECT_LE(request.prompt.size(), static_cast<size_t>(kMaxCompanyPrompt));
    EXPECT_GE(request.max_tokens, 1);
    EXPECT_LE(request.max_tokens, kMaxCompanyTokens);
    for (const TokenId id : request.prompt) {
      ASSERT_GE(id, 0);
      ASSERT_LT(id, 1000);
    }
    greedy += request.spec.params.temperature == 0 ? 1 : 0;
    logprobs += request.spec.num_logprobs >= 0 ? 1 : 0;
  }
  EXPECT_GE(lengths.size(), 50U);
  EXPECT_GT(greedy, 20);
  EXPECT_LT(greedy, 180);
  EXPECT_GT(logprobs, 20);
}

}  // namespace
}  // namespace ropeway::bench
