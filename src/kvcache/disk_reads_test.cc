#include "kvcache/disk_reads.h"

#include <gtest/gtest.h>

#include "kvcache/test_disk_tier.h"

namespace ropeway {
namespace {

using BlockBytes = std::vector<std::byte>;

TEST(DiskReads, ComeInOrder) {
  DiskReads reads;
  reads.Begin(7, {TestName(1), TestName(2)});
  reads.Begin(8, {TestName(3)});
  for (int i = 0; i < 3; ++i) reads.Deliver(reads.Next().get(), BlockBytes(10));
  EXPECT_EQ(reads.Next(), nullptr);
  EXPECT_EQ(reads.bytes(), 30U);
  std::vector<KvRead> taken = reads.Take(2);
  ASSERT_EQ(taken.size(), 2U);
  EXPECT_EQ(taken[0].ticket, 7U);
  EXPECT_EQ(taken[0].index, 0U);
  EXPECT_EQ(taken[1].index, 1U);
  taken = reads.Take(2);
  ASSERT_EQ(taken.size(), 1U);
  EXPECT_EQ(taken[0].ticket, 8U);
  EXPECT_FALSE(reads.any());
  EXPECT_EQ(reads.bytes(), 0U);
}

TEST(DiskReads, ABlockThatCannotBeHadEndsTheRead) {
  DiskReads reads;
  reads.Begin(7, {TestName(1), TestName(2), TestName(3)});
  reads.Deliver(reads.Next().get(), BlockBytes(10));
  reads.Deliver(reads.Next().get(), {});
  EXPECT_EQ(reads.Next(), nullptr);
  const std::vector<KvRead> taken = reads.Take(9);
  ASSERT_EQ(taken.size(), 2U);
  EXPECT_TRUE(taken[1].bytes.empty());
  EXPECT_EQ(taken[1].index, 1U);
}

TEST(DiskReads, NothingComesOfACancelledOne) {
  DiskReads reads;
  reads.Begin(7, {TestName(1), TestName(2)});
  reads.Begin(8, {TestName(3)});
  const std::shared_ptr<DiskReads::Job> under_way = reads.Next();
  reads.Deliver(under_way.get(), BlockBytes(10));
  reads.Cancel(7);
  reads.Begin(7, {TestName(4)});  // The ticket may be used again at once.
  reads.Deliver(under_way.get(), BlockBytes(10));
  EXPECT_FALSE(reads.any());
  EXPECT_EQ(reads.bytes(), 0U);
  reads.Deliver(reads.Next().get(), BlockBytes(1));
  reads.Deliver(reads.Next().get(), BlockBytes(2));
  const std::vector<KvRead> taken = reads.Take(9);
  ASSERT_EQ(taken.size(), 2U);
  EXPECT_EQ(taken[0].ticket, 8U);
  EXPECT_EQ(taken[1].ticket, 7U);
  EXPECT_EQ(taken[1].bytes.size(), 2U);
}

TEST(DiskReads, AllEnd) {
  DiskReads reads;
  reads.Begin(7, {TestName(1), TestName(2)});
  reads.Begin(8, {TestName(3)});
  reads.Deliver(reads.Next().get(), BlockBytes(10));
  reads.EndAll();
  const std::vector<KvRead> taken = reads.Take(9);
  ASSERT_EQ(taken.size(), 3U);
  EXPECT_EQ(taken[0].bytes.size(), 10U);
  EXPECT_TRUE(taken[1].bytes.empty());
  EXPECT_TRUE(taken[2].bytes.empty());
}

}  // namespace
}  // namespace ropeway
