#include "kvcache/block_pool.h"

#include <gtest/gtest.h>

#include <map>

#include "base/random.h"

namespace ropeway {
namespace {

void ExpectSound(const BlockPool& pool) {
  const Status status = pool.CheckIntegrity();
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_EQ(pool.num_free() + pool.num_cached() + pool.num_held(), pool.num_blocks());
}

TEST(BlockPoolTest, GivesEachBlockOnceAndTakesItBack) {
  BlockPool pool(3);
  EXPECT_EQ(pool.Take(), 0);
  EXPECT_EQ(pool.Take(), 1);
  EXPECT_EQ(pool.Take(), 2);
  EXPECT_EQ(pool.num_free(), 0);
  EXPECT_EQ(pool.num_held(), 3);
  pool.Ref(1);
  pool.Unref(1);
  EXPECT_EQ(pool.num_free(), 0) << "one reference is left";
  pool.Unref(1);
  EXPECT_EQ(pool.num_free(), 1);
  EXPECT_EQ(pool.Take(), 1);
  ExpectSound(pool);
}

TEST(BlockPoolTest, AnySequenceOfCallsKeepsItSound) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    SeededRandom random(seed);
    BlockPool pool(static_cast<int32_t>(random.Between(1, 20)));
    std::map<BlockId, int32_t> model;  // Held blocks and their references.
    for (int i = 0; i < 300; ++i) {
      const uint64_t what = random.Below(3);
      if (what == 0 && pool.num_free() > 0) {
        const BlockId block = pool.Take();
        ASSERT_TRUE(model.emplace(block, 1).second) << "block " << block << " was held";
      } else if (what > 0 && !model.empty()) {
        auto it = std::next(model.begin(), static_cast<int64_t>(random.Below(model.size())));
        if (what == 1) {
          pool.Ref(it->first);
          ++it->second;
        } else {
          pool.Unref(it->first);
          if (--it->second == 0) model.erase(it);
        }
      }
      ASSERT_EQ(pool.num_held(), static_cast<int32_t>(model.size()));
      for (const auto& [block, references] : model) ASSERT_EQ(pool.references(block), references);
      ASSERT_NO_FATAL_FAILURE(ExpectSound(pool));
    }
  }
}

#ifdef NDEBUG
// A release build does not stop at the second Unref itself; the check finds it afterwards.
TEST(BlockPoolTest, CheckIntegritySeesABlockGivenBackTwice) {
  BlockPool pool(2);
  const BlockId block = pool.Take();
  pool.Unref(block);
  pool.Unref(block);
  EXPECT_FALSE(pool.CheckIntegrity().ok());
}
#else
TEST(BlockPoolDeathTest, GivingABlockBackTwiceEndsADebugBuild) {
  BlockPool pool(2);
  const BlockId block = pool.Take();
  pool.Unref(block);
  EXPECT_DEATH(pool.Unref(block), "references");
}
#endif

}  // namespace
}  // namespace ropeway
