#include "bench/replay/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/test_executor.h"
#include "kvcache/test_tier.h"
#include "policy/policies.h"

namespace ropeway::bench {
namespace {

using testing::HasSubstr;

std::vector<TokenId> Ids(int from, int count) {
  std::vector<TokenId> ids;
  for (int i = 0; i < count; ++i) ids.push_back(from + i);
  return ids;
}

ReplayRequest Ask(double arrival, std::vector<TokenId> prompt, int32_t output = 4) {
  return {base::TimePoint(static_cast<int64_t>(arrival * 1e9)), std::move(prompt), output};
}

ReplayResult MustReplay(const ReplayOptions& options, const std::vector<ReplayRequest>& requests) {
  const auto result = Replay(options, requests.size(), [&](size_t i) { return requests[i]; });
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result.ok() ? *result : ReplayResult{};
}

ReplayOptions Pool(int32_t blocks) {
  ReplayOptions options;
  options.pool_blocks = blocks;
  return options;
}

TEST(Replay, FindsAgainWhatWasComputed) {
  // The second prompt is the first one and 40 tokens more: 64 of the first are in whole blocks.
  const std::vector<ReplayRequest> requests = {Ask(0, Ids(0, 70)), Ask(9, Ids(0, 110)),
                                               Ask(18, Ids(500, 30))};
  const ReplayResult found = MustReplay(Pool(100), requests);
  EXPECT_EQ(found.requests, 3);
  EXPECT_EQ(found.prompt_tokens, 70 + 110 + 30);
  EXPECT_EQ(found.cached_tokens, 64);
  EXPECT_EQ(found.output_tokens, 12);
  EXPECT_EQ(found.tier_tokens, 0);
  // The last token of an answer is never computed on.
  EXPECT_EQ(found.computed_rows, 210 - 64 + 3 * 3);
  EXPECT_GE(base::ToSeconds(found.makespan), 18);
  EXPECT_LT(base::ToSeconds(found.makespan), 19);
  const StepTime cost;
  EXPECT_EQ(found.saved_work, cost.OfChunk(0, 64));
  EXPECT_EQ(found.work, cost.OfChunk(0, 70) + cost.OfChunk(0, 110) + cost.OfChunk(0, 30));
  ReplayOptions off = Pool(100);
  off.caching = false;
  EXPECT_EQ(MustReplay(off, requests).cached_tokens, 0);
  EXPECT_EQ(MustReplay(off, requests).computed_rows, 210 + 3 * 3);
}

TEST(Replay, APromptIsNeverFoundWhole) {
  const ReplayResult found =
      MustReplay(Pool(100), {Ask(0, Ids(0, 64)), Ask(9, Ids(0, 64)), Ask(18, Ids(0, 65))});
  EXPECT_EQ(found.cached_tokens, 48 + 64);
}

TEST(Replay, WhatOneAnswerSaidNobodyElseFinds) {
  // 17 tokens of answer fill a block with the prompt's last tokens; the next prompt goes on alike.
  const ReplayResult found =
      MustReplay(Pool(100), {Ask(0, Ids(0, 31), 40), Ask(9, Ids(0, 90), 40)});
  EXPECT_EQ(found.cached_tokens, 16);
}

TEST(Replay, APoolThatIsTooSmallForgetsAndATierDoesNot) {
  // Three prompts of 10 blocks take turns in a pool of 16.
  std::vector<ReplayRequest> requests;
  for (int i = 0; i < 9; ++i) requests.push_back(Ask(i, Ids(1000 * (i % 3), 160)));
  ReplayOptions lru = Pool(16);
  lru.eviction = kvcache::EvictionPolicy::kLru;
  const ReplayResult small = MustReplay(lru, requests);
  EXPECT_EQ(small.requests, 9);
  EXPECT_LT(small.hit_share(), 0.3);
  EXPECT_GT(MustReplay(Pool(64), requests).hit_share(), 0.59);  // 6 * 144 of 9 * 160 tokens.
  lru.tier_blocks = 100;
  const ReplayResult tiered = MustReplay(lru, requests);
  EXPECT_EQ(tiered.requests, 9);
  EXPECT_GT(tiered.hit_share(), 0.5);
  EXPECT_GT(tiered.tier_tokens, 0);
}

// Reads are handed over between steps, which take longer than they: that does not make them slow.
TEST(Replay, UnderLoadATierWithRoomForAllFindsWhatAPoolWithRoomForAllDoes) {
  std::vector<ReplayRequest> requests;
  for (int i = 0; i < 400; ++i) {
    std::vector<TokenId> prompt = Ids(1000 * (i % 20), 48);  // One of 20 beginnings ...
    const std::vector<TokenId> own = Ids(100'000 + 1000 * i, 400);
    prompt.insert(prompt.end(), own.begin(), own.end());
    requests.push_back(Ask(0.15 * i, std::move(prompt), 2));
  }
  ReplayOptions small = Pool(120);  // A pool for four requests forgets most of them.
  small.tier_blocks = 100'000;
  const double tiered = MustReplay(small, requests).hit_share();
  EXPECT_GT(tiered, 0.95 * MustReplay(Pool(100'000), requests).hit_share());
}

TEST(Replay, TheSameRequestsGiveTheSameFigures) {
  std::vector<ReplayRequest> requests;
  for (int i = 0; i < 40; ++i) requests.push_back(Ask(0.01 * i, Ids(100 * (i % 7), 90), 20));
  const ReplayResult one = MustReplay(Pool(60), requests);
  const ReplayResult two = MustReplay(Pool(60), requests);
  EXPECT_EQ(one.cached_tokens, two.cached_tokens);
  EXPECT_EQ(one.steps, two.steps);
  EXPECT_EQ(one.makespan, two.makespan);
  EXPECT_EQ(one.requests, 40);
}

// Tenant "b" first, whatever arrived first.
class BFirst final : public policy::SchedulingPolicy {
 public:
  const char* name() const override { return "b first"; }
  policy::Rank RankOf(const core::Job& sequence) const override {
    return {{sequence.request.tenant == "b" ? 0 : 1, static_cast<int64_t>(sequence.order), 0}};
  }
  size_t PickVictim(std::span<const core::Sequence* const> candidates) const override {
    return candidates.size() - 1;
  }
};

TEST(Replay, TellsTokensAndAsksThePolicyOfTenants) {
  std::vector<ReplayRequest> requests;
  for (int i = 0; i < 6; ++i) {
    requests.push_back(Ask(0, Ids(100 * i, 20), 3));
    requests.back().tenant = i < 5 ? "a" : "b";
  }
  std::vector<size_t> order;
  std::vector<base::TimePoint> times;
  ReplayOptions options = Pool(100);
  options.max_num_seqs = 1;
  options.on_token = [&](size_t request, base::TimePoint at) {
    order.push_back(request);
    times.push_back(at);
  };
  MustReplay(options, requests);
  ASSERT_EQ(order.size(), 18U);
  EXPECT_EQ(order[0], 0U);
  EXPECT_EQ(order[15], 5U);
  EXPECT_GT(times[0], base::TimePoint{});
  for (size_t i = 1; i < times.size(); ++i) EXPECT_GT(times[i], times[i - 1]);
  order.clear();
  BFirst policy;
  options.policy = &policy;
  MustReplay(options, requests);
  EXPECT_EQ(order[0], 5U);
  EXPECT_EQ(order[3], 0U);
}

TEST(Replay, AClosedLoopGoesOnUntilTheLastArrival) {
  constexpr int kOutput = 5;
  std::vector<ReplayRequest> requests = {Ask(0.3, Ids(0, 20), kOutput),
                                         Ask(1, Ids(50, 20), kOutput)};
  for (int i = 2; i < 1000; ++i) requests.push_back(Ask(0, Ids(100 * i, 20), kOutput));
  ReplayOptions options = Pool(100);
  options.users = 3;
  options.loop_count = 998;
  std::map<size_t, base::TimePoint> sent;
  std::map<size_t, int> tokens;
  size_t most = 0;
  const auto in_flight = [&] {
    return static_cast<size_t>(std::count_if(sent.begin(), sent.end(), [&](const auto& one) {
      return one.first >= 2 && tokens[one.first] < kOutput;
    }));
  };
  options.on_arrival = [&](size_t request, base::TimePoint at) {
    sent[request] = at;
    most = std::max(most, in_flight());
  };
  options.on_token = [&](size_t request, base::TimePoint) { ++tokens[request]; };
  const auto result = Replay(options, 2, [&](size_t i) { return requests[i]; });
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(most, 3U);
  EXPECT_EQ(in_flight(), 0U);
  EXPECT_EQ(static_cast<size_t>(result->requests), sent.size());
  EXPECT_GT(sent.size(), 50U);
  EXPECT_LT(sent.size(), 1000U);
  for (const auto& [request, at] : sent)
    EXPECT_LE(at, requests[1].arrival + options.cost.step * 100);
  // Without arrivals all of the loop's are sent.
  options.loop_count = 40;
  sent.clear();
  const auto all = Replay(options, 0, [&](size_t i) { return requests[i + 2]; });
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->requests, 40);
}

// The longest time to the first token of class high beside a saturating class low, in seconds.
double LongestHighTtft(const std::string& policy_name, int64_t* preemptions) {
  std::vector<ReplayRequest> requests;
  for (int i = 0; i < 20; ++i) {
    requests.push_back(Ask(3 + 0.37 * i, Ids(100 * i, 64), 64));
    requests.back().priority = Priority::kHigh;
  }
  for (int i = 20; i < 400; ++i) {
    requests.push_back(Ask(0, Ids(100 * i, 64), 64));
    requests.back().priority = Priority::kLow;
  }
  const auto policy = policy::MakePolicy({.policy = policy_name});
  EXPECT_TRUE(policy.ok());
  ReplayOptions options = Pool(2000);
  options.max_num_seqs = 16;
  options.users = 32;
  options.loop_count = 380;
  options.as_served = true;
  options.policy = policy->get();
  std::map<size_t, base::TimePoint> first;
  options.on_token = [&](size_t request, base::TimePoint at) { first.emplace(request, at); };
  const auto result = Replay(options, 20, [&](size_t i) { return requests[i]; });
  EXPECT_TRUE(result.ok()) << result.status().message();
  if (!result.ok()) return 0;
  *preemptions = result->preemptions;
  double longest = 0;
  for (size_t i = 0; i < 20; ++i) {
    longest = std::max(longest, base::ToSeconds(first[i] - requests[i].arrival));
  }
  return longest;
}

TEST(Replay, AsServedClassesGoFirst) {
  int64_t preemptions = 0;
  EXPECT_LT(LongestHighTtft("priority+fair", &preemptions), 0.1);
  EXPECT_GT(preemptions, 0);
  EXPECT_GT(LongestHighTtft("fcfs", &preemptions), 0.3);
  EXPECT_EQ(preemptions, 0);
}

TEST(Replay, ARequestThatCannotFitIsAnError) {
  const std::vector<ReplayRequest> requests = {Ask(0, Ids(0, 200))};
  const auto result = Replay(Pool(10), 1, [&](size_t i) { return requests[i]; });
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.status().message(), HasSubstr("max_model_len 160"));
  EXPECT_FALSE(Replay(Pool(0), 1, [&](size_t i) { return requests[i]; }).ok());
  EXPECT_EQ(MustReplay(Pool(10), {}).requests, 0);
}

TEST(StepTime, AddsUpToTheSameWhateverTheChunks) {
  const StepTime cost;
  EXPECT_EQ(cost.OfChunk(0, 100), cost.OfChunk(0, 30) + cost.OfChunk(30, 70));
  EXPECT_EQ(cost.OfRequest(100, 0, 1), cost.OfChunk(0, 100));
  EXPECT_EQ(cost.OfRequest(100, 64, 3),
            cost.OfChunk(64, 36) + cost.OfDecode(100) + cost.OfDecode(101));
  // 100 tokens that attend to 5,050 positions.
  EXPECT_EQ(cost.OfChunk(0, 100), 100 * cost.prefill + 5050 * cost.prefill_position);
}

core::BlockName Name(uint8_t number) {
  core::BlockName name;
  name.bytes[0] = number;
  return name;
}

TEST(TestTier, EvictsTheLeastRecentlyUsedBlock) {
  kvcache::TestTier tier;
  tier.capacity = 2;
  EXPECT_TRUE(tier.Put(Name(1), std::vector<std::byte>(1)));
  EXPECT_TRUE(tier.Put(Name(2), std::vector<std::byte>(1)));
  EXPECT_TRUE(tier.Put(Name(1), std::vector<std::byte>(1)));  // Used again.
  EXPECT_TRUE(tier.Put(Name(3), std::vector<std::byte>(1)));
  EXPECT_TRUE(tier.Contains(Name(1)));
  EXPECT_FALSE(tier.Contains(Name(2)));
  EXPECT_EQ(tier.Usage().blocks, 2U);
  EXPECT_EQ(tier.Usage().evicted_blocks, 1U);
  tier.Erase(Name(1));
  tier.Erase(Name(9));
  EXPECT_FALSE(tier.Contains(Name(1)));
}

TEST(TestTier, AReadEndsWithTheFirstMissingBlock) {
  kvcache::TestTier tier;
  tier.capacity = 8;
  tier.read_at_once = true;
  for (const uint8_t n : {1, 2, 4}) tier.Put(Name(n), std::vector<std::byte>(1));
  EXPECT_TRUE(tier.Get(7, {Name(1), Name(2), Name(3), Name(4)}));
  EXPECT_TRUE(tier.Get(8, {Name(4)}));
  EXPECT_TRUE(tier.Get(9, {Name(1)}));
  tier.Cancel(9);
  const std::vector<kvcache::KvRead> first = tier.TakeReads(2);
  const std::vector<kvcache::KvRead> rest = tier.TakeReads(100);
  ASSERT_EQ(first.size(), 2U);
  ASSERT_EQ(rest.size(), 2U);
  EXPECT_EQ(first[1].index, 1U);
  EXPECT_EQ(first[1].bytes.size(), 1U);
  EXPECT_EQ(rest[0].ticket, 7U);
  EXPECT_TRUE(rest[0].bytes.empty());
  EXPECT_EQ(rest[1].ticket, 8U);
  EXPECT_FALSE(rest[1].bytes.empty());
}

TEST(TestExecutor, WithoutKvStepsTakeTimeAndSequencesDiffer) {
  base::VirtualClock clock;
  engine::TestExecutor executor(engine::TestExecutor::Kv::kNone);
  executor.before_step = [&clock](const core::Batch& batch) {
    clock.Advance(StepTime{}.OfBatch(batch));
    return Status();
  };
  const auto layout = executor.Init(12, 8, 8);
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->num_blocks, 12);
  const TokenId token = 7;
  core::Batch batch;
  for (const uint64_t sequence : {1, 2, 3}) {
    core::BatchItem& item = batch.items.emplace_back();
    item.sequence = sequence;
    item.start = 5;
    item.tokens = {&token, 1};
    item.sample = sequence != 3;
  }
  executor.Launch(batch);
  const auto result = executor.Wait();
  ASSERT_TRUE(result.ok());
  ASSERT_EQ(result->sampled.size(), 2U);
  EXPECT_EQ(result->sampled[1].sequence, 2U);
  EXPECT_NE(result->sampled[0].token, result->sampled[1].token);
  EXPECT_GE(result->sampled[0].token, kFirstGeneratedId);
  EXPECT_EQ(clock.Now(), StepTime{}.OfBatch(batch));
  EXPECT_EQ(executor.rows(), 3);
}

}  // namespace
}  // namespace ropeway::bench
