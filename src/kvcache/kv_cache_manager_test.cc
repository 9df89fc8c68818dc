#include "kvcache/kv_cache_manager.h"

#include <gtest/gtest.h>

namespace ropeway {
namespace {

using Table = std::vector<BlockId>;

TEST(KvCacheManagerTest, BlocksForPositions) {
  EXPECT_EQ(BlocksFor(0), 0);
  EXPECT_EQ(BlocksFor(1), 1);
  EXPECT_EQ(BlocksFor(16), 1);
  EXPECT_EQ(BlocksFor(17), 2);
}

TEST(KvCacheManagerTest, AllocatesAllOrNothing) {
  KvCacheManager kv(3);
  Table a;
  Table b;
  EXPECT_TRUE(kv.Allocate(&a, 17));
  EXPECT_EQ(a.size(), 2U);
  EXPECT_TRUE(kv.Allocate(&a, 32)) << "what it has is enough";
  EXPECT_EQ(a.size(), 2U);
  EXPECT_FALSE(kv.Allocate(&b, 17));
  EXPECT_TRUE(b.empty());
  EXPECT_EQ(kv.pool().num_free(), 1);
  EXPECT_TRUE(kv.Allocate(&b, 16));
  EXPECT_TRUE(kv.CheckIntegrity(std::vector<const Table*>{&a, &b}).ok());
  kv.Release(&a);
  EXPECT_TRUE(a.empty());
  EXPECT_EQ(kv.pool().num_free(), 2);
  EXPECT_TRUE(kv.CheckIntegrity(std::vector<const Table*>{&a, &b}).ok());
}

TEST(KvCacheManagerTest, CheckIntegritySeesLeaksAndSharing) {
  KvCacheManager kv(4);
  Table a;
  Table b;
  ASSERT_TRUE(kv.Allocate(&a, 20));
  ASSERT_TRUE(kv.Allocate(&b, 20));
  EXPECT_NE(kv.CheckIntegrity(std::vector<const Table*>{&a}).message().find("name it 0 times"),
            std::string::npos)
      << "the blocks of b are leaked";
  const Table shared = {a[0], b[1]};
  EXPECT_NE(kv.CheckIntegrity(std::vector<const Table*>{&a, &shared}).message(), "");
  const Table wild = {7};
  EXPECT_NE(kv.CheckIntegrity(std::vector<const Table*>{&a, &b, &wild})
                .message()
                .find("block 7, which does not exist"),
            std::string::npos);
}

}  // namespace
}  // namespace ropeway
