#include "bench/determinism_rounds.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <tuple>

namespace ropeway {
namespace {

TEST(DeterminismRounds, SettingsVaryAndAreSound) {
  SeededRandom random(3);
  const std::vector<const Kernels*> tables = TablesToAsk();
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
  const std::vector<const Kernels*> tables = TablesToAsk();
  ASSERT_FALSE(tables.empty());
  EXPECT_EQ(tables.front(), ChooseKernels(nullptr));
  std::set<const Kernels*> distinct(tables.begin(), tables.end());
  EXPECT_EQ(distinct.size(), tables.size());
}

TEST(DeterminismRounds, TheCompanyIsMixed) {
  SeededRandom random(4);
  std::set<size_t> lengths;
  int greedy = 0;
  int logprobs = 0;
  for (int i = 0; i < 200; ++i) {
    const CoreRequest request = DrawCompany(static_cast<RequestId>(i), 1000, &random);
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
}  // namespace ropeway
