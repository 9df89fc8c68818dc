#include "gateway/prefix_ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"

namespace ropeway::gateway {
namespace {

std::string PrefixTextOf(uint64_t seed, size_t bytes) {
  base::SeededRandom random(seed);
  std::string text;
  while (text.size() < bytes) text += static_cast<char>('a' + random.Below(26));
  return text;
}

constexpr auto kAnyReplica = [](int) { return true; };

TEST(PrefixBlocksTest, EqualBeginningsHaveEqualNames) {
  const std::string text = PrefixTextOf(1, 1000);
  const std::vector<uint64_t> all = PrefixBlocks("m", text);
  EXPECT_EQ(all.size(), 1000 / kPrefixBlockBytes);
  const std::vector<uint64_t> part = PrefixBlocks("m", std::string_view(text).substr(0, 500));
  EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin()));
  std::string other = text;
  other[200] = '#';
  const std::vector<uint64_t> changed = PrefixBlocks("m", other);
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i] == changed[i], i < 3) << i;
}

TEST(PrefixBlocksTest, ScopesShareNothing) {
  const std::string text = PrefixTextOf(2, 200);
  EXPECT_NE(PrefixBlocks("a", text), PrefixBlocks("b", text));
  EXPECT_NE(PrefixBlocks("a", text)[0], PrefixBlocks("", "a" + text)[0]);
}

TEST(PrefixBlocksTest, IdsAndShortAndLongPrompts) {
  EXPECT_TRUE(PrefixBlocks("a", PrefixTextOf(3, kPrefixBlockBytes - 1)).empty());
  EXPECT_EQ(PrefixBlocks("a", PrefixTextOf(3, 200'000)).size(), kMaxPrefixBlocks);
  const std::vector<int32_t> ids(40, 7);
  EXPECT_EQ(PrefixBlocks("a", ids).size(), 2U);
}

TEST(HashRingTest, WhenOneGoesOnlyItsKeysMove) {
  const std::vector<HashRing::Node> nodes = {{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}};
  const HashRing ring(nodes);
  std::vector<int> keys(4);
  int moved = 0;
  for (uint64_t i = 0; i < 4000; ++i) {
    const uint64_t key = base::Mix64(9, i);
    const int home = ring.Find(key, 0b1111, kAnyReplica);
    ++keys[static_cast<size_t>(home)];
    const int without = ring.Find(key, 0b1011, kAnyReplica);
    if (home != 2) {
      EXPECT_EQ(without, home);
    } else {
      EXPECT_NE(without, 2);
    }
    moved += without != home ? 1 : 0;
  }
  EXPECT_EQ(moved, keys[2]);
  for (const int count : keys) EXPECT_NEAR(count, 1000, 400);
}

TEST(HashRingTest, WeightsDivideTheKeys) {
  const std::vector<HashRing::Node> nodes = {{"a", 3}, {"b", 1}};
  const HashRing ring(nodes);
  int heavy = 0;
  for (uint64_t i = 0; i < 4000; ++i) heavy += ring.Find(base::Mix64(1, i), 0b11, kAnyReplica) == 0;
  EXPECT_NEAR(heavy, 3000, 700);
}

TEST(HashRingTest, ThoseThatAreNotAcceptedAreSkipped) {
  const std::vector<HashRing::Node> nodes = {{"a", 1}, {"b", 1}, {"c", 1}};
  const HashRing ring(nodes);
  for (uint64_t key = 0; key < 100; ++key) {
    EXPECT_EQ(ring.Find(key, 0b111, [](int replica) { return replica == 1; }), 1);
    EXPECT_EQ(ring.Find(key, 0b101, [](int replica) { return replica == 1; }), -1);
    EXPECT_EQ(ring.Find(key, 0, kAnyReplica), -1);
  }
}

TEST(PrefixTableTest, TheDeepestKnownPieceTells) {
  PrefixTable table(1024);
  table.Note(std::vector<uint64_t>{1, 2, 3, 4}, 0);
  table.Note(std::vector<uint64_t>{1, 2, 13}, 5);
  const std::vector<uint64_t> ask = {1, 2, 3, 4, 99};
  PrefixTable::Match match = table.Find(ask, ~ReplicaMask{0});
  EXPECT_EQ(match.known, 4);
  EXPECT_EQ(match.depth, 4);
  EXPECT_EQ(match.replicas, ReplicaMask{1});
  match = table.Find(ask, ReplicaMask{1} << 5);
  EXPECT_EQ(match.known, 4);
  EXPECT_EQ(match.depth, 2) << "what the other one holds";
  EXPECT_EQ(match.replicas, ReplicaMask{1} << 5);
  EXPECT_EQ(table.Find(std::vector<uint64_t>{7, 2}, ~ReplicaMask{0}).known, 0);
  EXPECT_EQ(table.Depth(ask, 5), 2);
}

TEST(PrefixTableTest, AReplicaThatLostItsCacheIsForgotten) {
  PrefixTable table(64);
  const std::vector<uint64_t> blocks = {1, 2};
  table.Note(blocks, 3);
  table.Note(blocks, 4);
  table.Forget(3);
  EXPECT_EQ(table.Find(blocks, ~ReplicaMask{0}).replicas, ReplicaMask{1} << 4);
  table.Forget(4);
  EXPECT_EQ(table.Find(blocks, ~ReplicaMask{0}).known, 0);
}

TEST(PrefixTableTest, ItIsBoundedAndForgetsTheOldest) {
  PrefixTable table(4);  // One set.
  for (uint64_t block = 1; block <= 4; ++block) table.Note(std::vector<uint64_t>{block}, 0);
  table.Note(std::vector<uint64_t>{1}, 0);  // Used again.
  table.Note(std::vector<uint64_t>{5}, 0);
  const auto known = [&](uint64_t block) {
    return table.Find(std::vector<uint64_t>{block}, 1).known == 1;
  };
  EXPECT_TRUE(known(1));
  EXPECT_FALSE(known(2));
  EXPECT_TRUE(known(3));
  EXPECT_TRUE(known(4));
  EXPECT_TRUE(known(5));
}

TEST(PrefixTableTest, ItGrowsWithWhatItHoldsUpToItsBound) {
  constexpr size_t kMost = 1 << 16;
  PrefixTable table(kMost);
  EXPECT_LE(table.bytes(), 32u << 10);
  base::SeededRandom random(3);
  std::vector<uint64_t> blocks;
  for (int i = 0; i < 20'000; ++i) blocks.push_back(random.Next64());
  for (size_t i = 0; i < blocks.size(); ++i) {
    table.Note(std::span(&blocks[i], 1), 5);
    // It never takes much more than it holds, and less than its bound.
    EXPECT_LE(table.bytes(), std::max<size_t>(PrefixTable::kFirstEntries, 16 * (i + 1)) * 24);
  }
  EXPECT_LE(table.bytes(), kMost * 24);
  size_t known = 0;
  for (const uint64_t& block : blocks) known += table.Depth(std::span(&block, 1), 5) == 1 ? 1 : 0;
  EXPECT_GE(known, blocks.size() * 98 / 100) << "at its bound a third is in use";
  // What it has forgotten makes it no larger.
  PrefixTable small(kMost);
  for (int round = 0; round < 100; ++round) {
    small.Note(std::span(blocks).subspan(static_cast<size_t>(100 * round), 100), 5);
    small.Forget(5);
  }
  EXPECT_LE(small.bytes(), 4 * PrefixTable::kFirstEntries * 24);
}

}  // namespace
}  // namespace ropeway::gateway
