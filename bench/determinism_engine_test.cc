// The asks' rounds on the default model: what happens to them is counted, and an engine that gives
// more than one answer is caught.
#include "bench/determinism_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "model/gguf.h"

namespace ropeway {
namespace {

std::shared_ptr<const Model> TestModel() {
  const char* path = std::getenv("ROPEWAY_TEST_MODEL");
  if (path == nullptr) return nullptr;
  auto file = GgufFile::Open(path);
  if (!file.ok()) return nullptr;
  auto model = Model::Load(**file, 2, 512);
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
void MatMulOfItsCompany(const Matrix& w, const std::byte* packed, int rows, int panel_begin,
                        int panel_end, float* y, int64_t y_stride) {
  ChooseKernels(nullptr)->matmul(w, packed, rows, panel_begin, panel_end, y, y_stride);
  if (rows % 2 == 1) return;
  const int begin = panel_begin * kPanelCols;
  const int end = std::min(panel_end * kPanelCols, w.n);
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
  EXPECT_EQ(engine.tally().answers(), 16);
  EXPECT_EQ(engine.tally().distinct(), 1);
  EXPECT_EQ(engine.tally().distinct_with_logprobs(), 1);
  EXPECT_EQ(engine.tally().ByTokens()[0].answer.tokens.size(), 12U);
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
  Kernels planted = *ChooseKernels(nullptr);
  planted.matmul = MatMulOfItsCompany;
  DeterminismEngine engine(model, Options(), {&planted});
  ASSERT_TRUE(engine.Run([](const DeterminismRound&) {}).ok());
  EXPECT_GT(engine.tally().distinct_with_logprobs(), 1);
}

}  // namespace
}  // namespace ropeway
