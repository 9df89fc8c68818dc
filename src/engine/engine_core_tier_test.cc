// The engine core with a tier: what goes down, what comes back, and what is computed instead.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <new>
#include <numeric>
#include <vector>

#include "engine/engine_core.h"
#include "engine/test_executor.h"
#include "kvcache/test_tier.h"
#include "policy/policies.h"

namespace ropeway::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Time passes with each look at it, so that steps and reads take some.
class TickingClock final : public base::Clock {
 public:
  base::TimePoint Now() const override { return now += milliseconds(1); }
  mutable base::TimePoint now{1};
};

// The executor, until it is lost.
class LossyExecutor final : public executor::Executor {
 public:
  explicit LossyExecutor(executor::Executor* inner) : inner_(inner) {}
  StatusOr<executor::KvLayout> Init(int64_t bytes, int tokens, int seqs) override {
    return inner_->Init(bytes, tokens, seqs);
  }
  void Launch(const core::Batch& batch) override { inner_->Launch(batch); }
  StatusOr<core::StepResult> Wait() override {
    if (lose) return Status(StatusCode::kUnavailable, "lost");
    return inner_->Wait();
  }
  void ReadBlock(core::BlockId block, std::span<std::byte> bytes) override {
    inner_->ReadBlock(block, bytes);
  }
  Status FinishReads() override {
    Status done = inner_->FinishReads();  // Ends them in any case.
    if (lose) return Status(StatusCode::kInternal, "lost");
    return done;
  }
  void WriteBlock(core::BlockId block, std::span<const std::byte> bytes) override {
    inner_->WriteBlock(block, bytes);
  }
  bool lose = false;

 private:
  executor::Executor* const inner_;
};

// A tier that finds no memory for a block.
class ShortOfMemoryTier final : public kvcache::TestTier {
 public:
  bool Put(const core::BlockName& name, std::vector<std::byte> bytes) override {
    if (!short_of_memory) return TestTier::Put(name, std::move(bytes));
    ++failed;
    throw std::bad_alloc();
  }
  bool short_of_memory = false;
  int failed = 0;
};

// Counts the looks at its usage, because each costs a lock.
class LookedAtTier final : public kvcache::TestTier {
 public:
  kvcache::KvTierUsage Usage() const override {
    ++looks;
    return TestTier::Usage();
  }
  mutable int looks = 0;
};

class EngineCoreTierTest : public testing::Test {
 protected:
  void Start(int32_t blocks, EngineCoreOptions options = {}, kvcache::KvTier* tier = nullptr) {
    const executor::KvLayout layout =
        *executor_.Init(TestExecutor::PoolBytes(blocks), options.scheduler.max_num_batched_tokens,
                        options.scheduler.max_num_seqs);
    executor_.reads_late = [] { return true; };
    options.max_model_len = std::min(1000, blocks * base::kBlockTokens);
    options.check_integrity = true;
    options.tier = tier != nullptr ? tier : &tier_;
    tokens_.clear();
    ended_.clear();
    core_ = std::make_unique<EngineCore>(options, layout, &lossy_, &policy_, &clock_,
                                         [this](std::vector<CoreEvent> events) {
                                           for (CoreEvent& event : events) Receive(event);
                                         });
  }

  void Receive(const CoreEvent& event) {
    if (event.kind == CoreEvent::Kind::kStarted) ++starts_[event.id];
    if (event.kind == CoreEvent::Kind::kToken) tokens_[event.id].push_back(event.sampled.token);
    if (event.kind == CoreEvent::Kind::kFinished) ended_[event.id] = event;
  }

  // Prompts of one family begin alike.
  void Add(RequestId id, int32_t prompt_len, int32_t max_tokens, TokenId family = 0) {
    core::CoreRequest request;
    request.id = id;
    request.prompt.resize(static_cast<size_t>(prompt_len));
    std::iota(request.prompt.begin(), request.prompt.end(), family * 10000);
    request.max_tokens = max_tokens;
    request.spec.seed = static_cast<uint64_t>(prompt_len);
    ASSERT_TRUE(core_->Add(std::move(request)).ok());
  }

  void Step() {
    ASSERT_TRUE(core_->Step());
    const Status status = core_->CheckIntegrity();
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_EQ(executor_.violation(), "");
  }

  void Run() {
    for (int i = 0; !core_->idle(); ++i) {
      ASSERT_LT(i, 5000) << "no end in sight";
      ASSERT_NO_FATAL_FAILURE(Step());
    }
  }

  // All that ended is in the tier.
  void Store() {
    while (core_->Background()) {
    }
    EXPECT_FALSE(core_->has_background());
  }

  const TierTransfers::Counts& transfers() const { return core_->stats().transfers; }

  TestExecutor executor_;
  LossyExecutor lossy_{&executor_};
  policy::FcfsPolicy policy_;
  TickingClock clock_;
  kvcache::TestTier tier_;
  std::unique_ptr<EngineCore> core_;
  std::map<RequestId, int> starts_;
  std::map<RequestId, std::vector<TokenId>> tokens_;
  std::map<RequestId, CoreEvent> ended_;
};

TEST_F(EngineCoreTierTest, AnotherLifeGoesOnWithWhatTheFirstStored) {
  Start(16);
  Add(1, 100, 30);
  Run();
  Store();
  EXPECT_EQ(tier_.puts, 8) << "129 positions were computed";
  EXPECT_EQ(tier_.flushes, 1);
  const std::vector<TokenId> before = tokens_[1];
  Start(16);  // The pool's bytes are gone.
  Add(1, 100, 30);
  Run();
  EXPECT_EQ(tokens_[1], before);
  EXPECT_EQ(ended_[1].cached_tokens, 96);
  EXPECT_EQ(transfers().fetched_blocks, 6U);
  EXPECT_EQ(core_->stats().prompt_tokens, 100U);
  EXPECT_EQ(core_->stats().cached_prompt_tokens, 96U);
  EXPECT_EQ(core_->stats().recomputed_tokens, 0U);
  Store();
  EXPECT_EQ(tier_.puts, 8) << "what it has is not put again";
}

TEST_F(EngineCoreTierTest, ATierShortOfMemoryCostsBlocksAlone) {
  ShortOfMemoryTier tier;
  tier.pending = uint64_t{50} << 20;  // It takes evicted blocks only.
  Start(8, {}, &tier);
  Add(1, 100, 10);
  Run();
  tier.short_of_memory = true;
  Add(2, 100, 10, 1);  // Evicts the first one's blocks when it starts.
  ASSERT_NO_FATAL_FAILURE(Step());
  EXPECT_GT(tier.failed, 0);
  EXPECT_GT(core_->stats().last_rows, 0) << "the step computes all the same";
  EXPECT_EQ(starts_[2], 1);
  EXPECT_GT(transfers().lost_blocks, 0U);
  tier.pending = 0;  // It takes what waits to be stored, too.
  Run();
  EXPECT_EQ(starts_[2], 1);
  EXPECT_EQ(ended_.at(2).completion_tokens, 10);
  EXPECT_EQ(transfers().stored_blocks, 0U);
}

TEST_F(EngineCoreTierTest, UnderPressureAPreemptedOneMovesDownAndComesBack) {
  // Two that fit the pool at first and not to their ends.
  std::map<RequestId, std::vector<TokenId>> alone;
  for (const RequestId id : {1, 2}) {
    Start(100, {.cache = {.prefix_caching = false, .disk_path = {}}});
    Add(id, 40, 120, static_cast<TokenId>(id));
    Run();
    alone[id] = tokens_[id];
  }
  Start(12);
  Add(1, 40, 120, 1);
  Add(2, 40, 120, 2);
  Run();
  EXPECT_EQ(tokens_, alone);
  EXPECT_GT(ended_[2].preemptions, 0);
  EXPECT_GT(transfers().spilled_blocks, 0U);
  EXPECT_GT(transfers().fetched_blocks, 0U);
  EXPECT_EQ(core_->stats().recomputed_tokens, 0U) << "also its partial block came back";
}

TEST_F(EngineCoreTierTest, WithoutATierTheSameIsRecomputed) {
  kvcache::TestTier none;
  none.full = true;
  Start(12, {}, &none);
  Add(1, 40, 120, 1);
  Add(2, 40, 120, 2);
  Run();
  EXPECT_GT(transfers().lost_blocks, 0U);
  EXPECT_GT(core_->stats().recomputed_tokens, 0U);
  EXPECT_EQ(tokens_[1].size(), 120U);
  EXPECT_EQ(tokens_[2].size(), 120U);
}

TEST_F(EngineCoreTierTest, CheckpointAlwaysPutsBeforeThereIsPressure) {
  Start(12, {.cache = {.preempt_checkpoint = "always", .disk_path = {}}});
  Add(1, 60, 120, 1);
  Add(2, 60, 120, 2);
  while (core_->stats().preempted == 0) ASSERT_NO_FATAL_FAILURE(Step());
  ASSERT_NO_FATAL_FAILURE(Step());
  EXPECT_GE(transfers().stored_blocks, 4U);
  EXPECT_LE(transfers().spilled_blocks, 1U) << "only the one evicted at once";
  Run();
}

TEST_F(EngineCoreTierTest, AReadThatBreaksOffIsComputed) {
  Start(16);
  Add(1, 100, 5);
  Run();
  Store();
  const std::vector<TokenId> before = tokens_[1];
  const std::vector<core::BlockName> names = [&] {
    std::vector<TokenId> ids(100);
    std::iota(ids.begin(), ids.end(), 0);
    return core::ChainNames({}, ids);
  }();
  tier_.blocks[names[3]].pop_back();  // Of a wrong size: as good as gone.
  Start(16);
  Add(1, 100, 5);
  Run();
  EXPECT_EQ(tokens_[1], before);
  EXPECT_EQ(ended_[1].cached_tokens, 48);
  EXPECT_EQ(transfers().failed_reads, 1U);
}

TEST_F(EngineCoreTierTest, ALateReadIsGivenUpAndOthersRunOnMeanwhile) {
  Start(32);
  Add(1, 100, 5);
  Run();
  Store();
  Start(32);
  tier_.allowed = 2;  // Then the device hangs.
  Add(1, 100, 5);
  Add(2, 20, 40, 7);
  for (int i = 0; i < 5; ++i) ASSERT_NO_FATAL_FAILURE(Step());
  EXPECT_EQ(core_->stats().fetching, 1);
  EXPECT_GE(tokens_[2].size(), 4U);
  EXPECT_TRUE(tokens_[1].empty());
  clock_.now += seconds(61);
  ASSERT_NO_FATAL_FAILURE(Step());
  EXPECT_EQ(transfers().late_reads, 1U);
  EXPECT_EQ(tier_.cancelled.size(), 1U);
  Run();
  EXPECT_EQ(ended_[1].cached_tokens, 32);
}

TEST_F(EngineCoreTierTest, ATierThatRefusesReadsCostsNothing) {
  Start(16);
  Add(1, 100, 5);
  Run();
  Store();
  tier_.reject_reads = true;
  Start(16);
  Add(1, 100, 5);
  Run();
  EXPECT_EQ(ended_[1].cached_tokens, 0);
  EXPECT_EQ(tokens_[1].size(), 5U);
}

TEST_F(EngineCoreTierTest, ACancelWhileFetchingEndsTheRead) {
  Start(16);
  Add(1, 100, 5);
  Run();
  Store();
  Start(16);
  tier_.allowed = 1;
  Add(1, 100, 5);
  ASSERT_NO_FATAL_FAILURE(Step());
  ASSERT_NO_FATAL_FAILURE(Step());
  ASSERT_EQ(core_->stats().fetching, 1);
  core_->Abort(1, FinishReason::kCancelled);
  EXPECT_TRUE(core_->idle());
  EXPECT_EQ(tier_.cancelled.size(), 1U);
  EXPECT_EQ(core_->stats().held_blocks, 0);
  tier_.allowed = 100;
  Add(2, 100, 5);
  Run();
  EXPECT_EQ(tokens_[2].size(), 5U);
}

TEST_F(EngineCoreTierTest, ALateReadTeachesThatTheDeviceIsSlow) {
  Start(32);
  Add(1, 100, 5);
  Add(3, 100, 1, 9);
  Run();
  Store();
  Start(32);
  tier_.allowed = 0;
  Add(2, 200, 1, 5);  // What computing takes is measured.
  Run();
  Add(1, 100, 5);
  ASSERT_NO_FATAL_FAILURE(Step());
  ASSERT_EQ(core_->stats().fetching, 1);
  EXPECT_STREQ(core_->stats().blocked_by, "a read from the disk tier");
  EXPECT_EQ(core_->stats().blocked_id, 1U);
  clock_.now += seconds(61);
  Run();
  EXPECT_EQ(transfers().late_reads, 1U);
  Add(3, 100, 1, 9);
  Run();
  EXPECT_EQ(transfers().late_reads, 1U) << "it did not ask the tier again";
  EXPECT_EQ(ended_[3].cached_tokens, 0);
}

TEST_F(EngineCoreTierTest, AReadIsNotLateWhileTheTierBringsOthers) {
  Start(64);
  Add(1, 400, 1);
  Add(2, 400, 1, 3);
  Run();
  Store();
  Start(64);
  tier_.allowed = 0;
  Add(1, 400, 1);
  Add(2, 400, 1, 3);
  for (int i = 0; i < 45; ++i) {
    ASSERT_NO_FATAL_FAILURE(Step());
    clock_.now += milliseconds(500);
    tier_.allowed = 1;
  }
  EXPECT_EQ(transfers().late_reads, 0U) << "the second one waits for the first";
  tier_.allowed = 100;
  Run();
  EXPECT_EQ(ended_[2].cached_tokens, 384);
}

TEST_F(EngineCoreTierTest, ATierThatIsOffIsAskedNoMore) {
  Start(16);
  tier_.off = true;
  Add(1, 100, 5);
  Run();
  EXPECT_FALSE(core_->Background());
  EXPECT_FALSE(core_->has_background());
  EXPECT_EQ(tier_.puts, 0);
}

TEST_F(EngineCoreTierTest, WhatTheTierRefusesIsTriedLater) {
  Start(16);
  tier_.full = true;
  Add(1, 100, 5);
  Run();
  EXPECT_FALSE(core_->Background());
  EXPECT_TRUE(core_->has_background());
  tier_.full = false;
  Store();
  EXPECT_EQ(tier_.puts, 6);
}

TEST_F(EngineCoreTierTest, ManyBlocksTakeOneLookAtTheTiersUsage) {
  LookedAtTier tier;
  Start(40, {}, &tier);
  Add(1, 300, 5);
  Run();
  tier.looks = 0;
  const int before = tier.puts;
  core_->Background();
  EXPECT_GT(tier.puts - before, 4);
  EXPECT_EQ(tier.looks, 1);
}

TEST_F(EngineCoreTierTest, NothingOfALostDeviceIsStored) {
  Start(16);
  Add(1, 100, 50);
  for (int i = 0; i < 5; ++i) ASSERT_NO_FATAL_FAILURE(Step());
  lossy_.lose = true;
  ASSERT_TRUE(core_->Step());
  EXPECT_FALSE(core_->device_status().ok());
  EXPECT_FALSE(core_->has_background());
  EXPECT_FALSE(core_->Background());
  EXPECT_EQ(tier_.puts, 0);
}

TEST_F(EngineCoreTierTest, WhatCannotBeReadIsNotStored) {
  Start(16);
  Add(1, 100, 2);
  Run();
  ASSERT_TRUE(core_->has_background());
  const int before = tier_.puts;
  lossy_.lose = true;  // No step has told yet.
  EXPECT_FALSE(core_->Background());
  EXPECT_EQ(tier_.puts, before);
  lossy_.lose = false;
  Store();
  EXPECT_GT(tier_.puts, before);
}

TEST_F(EngineCoreTierTest, ALostDeviceTakesItsBlocksBack) {
  std::vector<kvcache::BlockEvent> told;
  kvcache::BlockEvents block_events([&](std::vector<kvcache::BlockEvent> events) {
    told.insert(told.end(), events.begin(), events.end());
    return true;
  });
  EngineCoreOptions options;
  options.block_events = &block_events;
  Start(16, options);
  Add(1, 100, 50);
  for (int i = 0; i < 5; ++i) ASSERT_NO_FATAL_FAILURE(Step());
  EXPECT_EQ(told.size(), 6U);
  lossy_.lose = true;
  ASSERT_TRUE(core_->Step());
  ASSERT_EQ(told.size(), 7U);
  EXPECT_EQ(told.back().kind, kvcache::BlockEvent::Kind::kCleared);
  EXPECT_EQ(block_events.announced(), 0U);
}

TEST_F(EngineCoreTierTest, WhatATierDroppedIsToldWhileIdle) {
  size_t removed = 0;
  kvcache::BlockEvents block_events([&](const std::vector<kvcache::BlockEvent>& events) {
    for (const kvcache::BlockEvent& event : events) {
      removed += event.kind == kvcache::BlockEvent::Kind::kRemoved ? 1 : 0;
    }
    return true;
  });
  EngineCoreOptions options;
  options.block_events = &block_events;
  Start(60, options);
  for (RequestId id = 1; id <= 6; ++id) {
    Add(id, 800, 1, static_cast<TokenId>(id));
    Run();
    Store();
  }
  ASSERT_GT(block_events.announced(), 250U);
  const size_t there = block_events.announced();
  Add(7, 1, 2);
  Step();
  // Most are in the tier alone.
  tier_.blocks.clear();
  tier_.off = true;
  Run();
  ASSERT_TRUE(block_events.scanning()) << "too few blocks for this test";
  EXPECT_TRUE(core_->has_background());
  for (int calls = 0; core_->has_background() && calls < 1000; ++calls) core_->Background();
  EXPECT_FALSE(block_events.unsettled());
  EXPECT_LE(block_events.announced(), 60U);
  EXPECT_EQ(removed, there - block_events.announced());
}

TEST_F(EngineCoreTierTest, ABusyTierIsLeftAlone) {
  Start(16);
  tier_.pending = uint64_t{1} << 30;
  Add(1, 100, 5);
  Run();
  EXPECT_FALSE(core_->Background());
  EXPECT_TRUE(core_->has_background());
  EXPECT_EQ(tier_.puts, 0);
  tier_.pending = 0;
  Store();
  EXPECT_EQ(tier_.puts, 6);
}

TEST_F(EngineCoreTierTest, WithoutCachingTheTierIsNotUsed) {
  Start(16, {.cache = {.prefix_caching = false, .disk_path = {}}});
  Add(1, 100, 5);
  Run();
  EXPECT_FALSE(core_->has_background());
  EXPECT_EQ(tier_.puts, 0);
}

}  // namespace
}  // namespace ropeway::engine
