// How blocks come from the executor, whose bytes arrive late, to the tier.
#include "engine/tier_transfers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/block_name.h"
#include "engine/test_engine_core.h"
#include "engine/test_failing_new.h"
#include "kvcache/test_kv_cache.h"

namespace ropeway::engine {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr std::byte kPoison = TestExecutor::kPoison;

// A pool in which each byte of a block is its id. Reads bring kPoison until they end.
class LateExecutor final : public executor::Executor {
 public:
  StatusOr<executor::KvLayout> Init(int64_t, int, int) override { return executor::KvLayout{}; }
  void Launch(const core::Batch&) override {}
  StatusOr<core::StepResult> Wait() override {
    if (lost) return Status(StatusCode::kInternal, "lost");
    EndReads();
    return core::StepResult{};
  }
  void ReadBlock(core::BlockId block, std::span<std::byte> bytes) override {
    std::fill(bytes.begin(), bytes.end(), kPoison);
    begun_.emplace_back(block, bytes);
  }
  void WriteBlock(core::BlockId, std::span<const std::byte>) override {}
  Status FinishReads() override {
    ++finishes;
    if (lost) begun_.clear();
    EndReads();
    return lost ? Status(StatusCode::kInternal, "lost") : Status();
  }

  bool lost = false;
  int finishes = 0;

 private:
  void EndReads() {
    for (const auto& [block, bytes] : begun_) {
      std::fill(bytes.begin(), bytes.end(), static_cast<std::byte>(block));
    }
    begun_.clear();
  }

  std::vector<std::pair<core::BlockId, std::span<std::byte>>> begun_;
};

class TierTransfersTest : public kvcache::KvCacheTest {
 protected:
  // A pool of `blocks` blocks, `stored` of them cached and waiting to be stored.
  void Begin(int32_t blocks, int32_t stored, size_t block_bytes) {
    kv_ = std::make_unique<kvcache::KvCacheManager>(
        kvcache::KvCacheOptions{.num_blocks = blocks, .block_bytes = block_bytes, .tier = &tier_});
    transfers_ = std::make_unique<TierTransfers>(&tier_, &executor_, kv_.get(), &clock_, 1,
                                                 [](core::Sequence*) {});
    core::Sequence* sequence = Run(New(stored * base::kBlockTokens));
    for (int32_t i = 0; i < stored; ++i) {
      ids_[sequence->kv.names[static_cast<size_t>(i)]] =
          sequence->kv.blocks[static_cast<size_t>(i)];
    }
    Release(sequence);
  }

  // Another sequence takes the pool's free blocks and `blocks` of the cached ones.
  void Evict(int32_t blocks) {
    const int32_t taken = kv_->pool().num_free() + blocks;
    ASSERT_TRUE(Start(New(taken * base::kBlockTokens - 1, 0)));
    ASSERT_EQ(kv_->evicted().size(), static_cast<size_t>(blocks));
  }

  // The tier has nothing but the bytes that were in the pool.
  void ExpectSound() {
    for (const auto& [name, bytes] : tier_.blocks) {
      const auto id = static_cast<std::byte>(ids_.at(name));
      EXPECT_EQ(bytes.size(), kv_->options().block_bytes);
      EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(), [id](std::byte b) { return b == id; }));
    }
  }

  const TierTransfers::Counts& counts() const { return transfers_->counts(); }

  FixedClock clock_;
  LateExecutor executor_;
  std::unique_ptr<TierTransfers> transfers_;
  std::unordered_map<core::BlockName, core::BlockId, core::BlockNameHash> ids_;
};

TEST_F(TierTransfersTest, AStepsWaitBringsWhatWasBegunBeforeIt) {
  Begin(8, 6, 32);
  Evict(2);
  transfers_->StoreEvicted();
  EXPECT_FALSE(transfers_->StoreSome(4)) << "none is left";
  EXPECT_EQ(tier_.puts, 0);
  ASSERT_TRUE(executor_.Wait().ok());
  transfers_->HandOver();
  EXPECT_EQ(tier_.puts, 6);
  EXPECT_EQ(counts().stored_blocks, 6U);
  EXPECT_EQ(counts().spilled_blocks, 2U);
  EXPECT_EQ(counts().lost_blocks, 0U);
  EXPECT_EQ(tier_.flushes, 0);
  EXPECT_TRUE(transfers_->FinishStores());
  EXPECT_EQ(executor_.finishes, 0) << "nothing was left to wait for";
  EXPECT_EQ(tier_.flushes, 1);
  EXPECT_FALSE(transfers_->anything_to_store());
  ExpectSound();
}

TEST_F(TierTransfersTest, WithoutAStepItWaits) {
  Begin(8, 6, 32);
  EXPECT_TRUE(transfers_->StoreSome(4));
  EXPECT_TRUE(transfers_->FinishStores());
  EXPECT_EQ(tier_.puts, 4);
  EXPECT_EQ(tier_.flushes, 0);
  EXPECT_EQ(executor_.finishes, 1);
  EXPECT_FALSE(transfers_->StoreSome(4));
  EXPECT_TRUE(transfers_->FinishStores());
  EXPECT_EQ(tier_.puts, 6);
  EXPECT_EQ(tier_.flushes, 1);
  ExpectSound();
}

TEST_F(TierTransfersTest, WhatWasStoredIsFlushedAlsoWhereTheStepEndsASequence) {
  Begin(12, 6, 32);
  core::Sequence* const other = Run(New(3 * base::kBlockTokens, 0));
  EXPECT_FALSE(transfers_->StoreSome(8));
  ASSERT_TRUE(executor_.Wait().ok());
  transfers_->HandOver();
  Release(other);
  EXPECT_TRUE(transfers_->FinishStores());
  EXPECT_EQ(tier_.puts, 6);
  EXPECT_EQ(tier_.flushes, 1);
  EXPECT_TRUE(transfers_->anything_to_store());
}

TEST_F(TierTransfersTest, LittleIsUnderWayAtOnce) {
  Begin(6, 5, 6 * kMiB);
  transfers_->StoreSome(2);
  EXPECT_EQ(executor_.finishes, 0);
  transfers_->StoreSome(2);
  EXPECT_EQ(executor_.finishes, 1) << "18 MiB are too much";
  EXPECT_EQ(tier_.puts, 2);
  EXPECT_TRUE(transfers_->FinishStores());
  EXPECT_EQ(tier_.puts, 4);
  ExpectSound();
}

TEST_F(TierTransfersTest, ABlockBeyondTheBoundGoesAlone) {
  Begin(4, 2, 17 * kMiB);
  transfers_->StoreSome(2);
  EXPECT_EQ(tier_.puts, 1);
  EXPECT_TRUE(transfers_->FinishStores());
  EXPECT_EQ(tier_.puts, 2);
  ExpectSound();
}

TEST_F(TierTransfersTest, WhatIsUnderWayCountsAsPending) {
  Begin(7, 6, 4 * kMiB);
  tier_.pending = 14 * kMiB;
  Evict(2);
  transfers_->StoreEvicted();
  EXPECT_FALSE(transfers_->StoreSome(4)) << "22 MiB are little, 26 are not";
  EXPECT_TRUE(transfers_->FinishStores());
  EXPECT_EQ(tier_.puts, 3);
  EXPECT_EQ(tier_.flushes, 0);
  EXPECT_TRUE(transfers_->anything_to_store());
}

TEST_F(TierTransfersTest, ADeviceThatIsLostMeanwhileStoresNothing) {
  Begin(8, 6, 32);
  Evict(2);
  transfers_->StoreEvicted();
  transfers_->StoreSome(4);
  executor_.lost = true;
  EXPECT_FALSE(transfers_->FinishStores());
  EXPECT_EQ(tier_.puts, 0);
  EXPECT_EQ(counts().stored_blocks, 0U);
  EXPECT_EQ(counts().spilled_blocks, 0U);
  EXPECT_EQ(counts().lost_blocks, 2U);
  EXPECT_TRUE(transfers_->anything_to_store()) << "the other four are in the pool";
}

TEST_F(TierTransfersTest, WhatIsDroppedIsReadToItsEndAndNotStored) {
  Begin(8, 6, 32);
  Evict(2);
  transfers_->StoreEvicted();
  transfers_->StoreSome(2);
  transfers_->DropStores();
  EXPECT_EQ(executor_.finishes, 1) << "the device wrote into memory that was freed";
  EXPECT_EQ(tier_.puts, 0);
  EXPECT_EQ(counts().lost_blocks, 2U);
}

TEST_F(TierTransfersTest, ATierThatRefusesOneIsAskedForNoOther) {
  Begin(8, 6, 32);
  Evict(2);
  transfers_->StoreEvicted();
  transfers_->StoreSome(4);
  tier_.full = true;
  EXPECT_FALSE(transfers_->FinishStores());
  EXPECT_EQ(counts().lost_blocks, 2U);
  tier_.full = false;
  transfers_->StoreSome(8);
  EXPECT_TRUE(transfers_->FinishStores());
  EXPECT_EQ(tier_.puts, 4);
  EXPECT_EQ(counts().stored_blocks, 4U);
  ExpectSound();
}

TEST_F(TierTransfersTest, WithoutMemoryABlockIsLostOrStoredLater) {
  Begin(8, 6, 4096);
  Evict(2);
  {
    const FailingNew failing(2, 1000, 4096);
    transfers_->StoreEvicted();
    EXPECT_FALSE(transfers_->StoreSome(4));
    EXPECT_TRUE(failing.fired());
  }
  EXPECT_TRUE(transfers_->FinishStores());
  EXPECT_EQ(counts().spilled_blocks, 1U);
  EXPECT_EQ(counts().lost_blocks, 1U);
  transfers_->StoreSome(4);
  EXPECT_TRUE(transfers_->FinishStores());
  EXPECT_EQ(tier_.puts, 5);
  ExpectSound();
}

// The core's steps with an executor whose reads are late.
class StoringStepTest : public EngineCoreTest {
 protected:
  // The next step evicts blocks of a sequence that has ended.
  void Begin() {
    EngineCoreOptions options;
    options.tier = &tier_;
    executor_.reads_late = [] { return true; };
    tier_.pending = uint64_t{50} << 20;  // It takes evicted blocks only.
    Start(9, options);
    ASSERT_TRUE(Add(1, 100, 10).ok());
    RunToEnd();
    ASSERT_EQ(tier_.puts, 0);
    ASSERT_TRUE(Add(2, 100, 10).ok());
  }

  void FailStep(Status status) {
    executor_.before_step = [status](const core::Batch&) { return status; };
    ASSERT_TRUE(core_->Step());
    executor_.before_step = nullptr;
  }

  // The tier has the first one's blocks with its K and V.
  void ExpectSound() {
    std::vector<TokenId> ids = MakeRequest(1, 100, 0).prompt;
    ids.insert(ids.end(), tokens_.at(1).begin(), tokens_.at(1).end());
    const std::vector<core::BlockName> names = core::ChainNames({}, ids);
    EXPECT_FALSE(tier_.blocks.empty());
    for (const auto& [name, bytes] : tier_.blocks) {
      const auto at = std::find(names.begin(), names.end(), name) - names.begin();
      ASSERT_LT(at, std::ssize(names));
      for (int i = 0; i < base::kBlockTokens; ++i) {
        TestExecutor::Slot slot;
        std::memcpy(&slot, bytes.data() + static_cast<size_t>(i) * sizeof slot, sizeof slot);
        EXPECT_EQ(slot.token, ids[static_cast<size_t>(at * base::kBlockTokens + i)]);
      }
    }
  }

  const TierTransfers::Counts& counts() const { return core_->stats().transfers; }

  kvcache::TestTier tier_;
};

TEST_F(StoringStepTest, EvictedBlocksAreStoredAsTheyWereBeforeIt) {
  ASSERT_NO_FATAL_FAILURE(Begin());
  StepChecked();
  EXPECT_GT(tier_.puts, 0);
  EXPECT_EQ(counts().spilled_blocks, static_cast<uint64_t>(tier_.puts));
  EXPECT_EQ(counts().lost_blocks, 0U);
  ExpectSound();
}

TEST_F(StoringStepTest, ShortOfMemoryItStoresThemAllTheSame) {
  ASSERT_NO_FATAL_FAILURE(Begin());
  FailStep(Status(StatusCode::kResourceExhausted, "out of memory"));
  EXPECT_EQ(core_->stats().last_rows, 0);
  EXPECT_GT(tier_.puts, 0);
  EXPECT_EQ(counts().lost_blocks, 0U);
  ExpectSound();
  RunToEnd();
  EXPECT_EQ(tokens_[2].size(), 10U);
}

TEST_F(StoringStepTest, AStepThatLosesTheDeviceLosesThem) {
  ASSERT_NO_FATAL_FAILURE(Begin());
  FailStep(Status(StatusCode::kUnavailable, "lost"));
  EXPECT_FALSE(core_->device_status().ok());
  EXPECT_EQ(tier_.puts, 0);
  EXPECT_EQ(counts().stored_blocks, 0U);
  EXPECT_GT(counts().lost_blocks, 0U);
}

}  // namespace
}  // namespace ropeway::engine
