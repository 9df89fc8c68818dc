// The KV cache of a model some of whose layers see a window of the last positions only.
#include <gtest/gtest.h>

#include <algorithm>

#include "kvcache/test_kv_cache.h"

namespace ropeway::kvcache {
namespace {

// Two groups of layers. Those of the second one see 20 positions.
class KvCacheWindowsTest : public KvCacheTest {
 protected:
  void MakeWindows(int32_t blocks, KvCacheOptions options = {}) {
    options.windows = {0, 20};
    Make(blocks, options);
  }

  static core::BlockId At(const core::Sequence* sequence, size_t index, size_t group) {
    return sequence->kv.blocks[2 * index + group];
  }

  // The blocks that it has of the group with the window, as text: "45" are the fifth and sixth.
  static std::string Kept(const core::Sequence* sequence) {
    std::string text;
    for (size_t i = 0; 2 * i < sequence->kv.blocks.size(); ++i) {
      if (At(sequence, i, 1) != core::kNoBlock) text += std::to_string(i);
    }
    return text;
  }

  // Computes as many positions in a step as have blocks, at most `chunk`, up to `to`.
  void ComputeSteps(core::Sequence* sequence, int32_t to, int32_t chunk = 16) {
    while (sequence->computed < to) {
      const int32_t tokens = kv_->Cover(sequence, std::min(chunk, to - sequence->computed));
      CheckSound();
      ASSERT_GT(tokens, 0) << "at " << sequence->computed;
      Compute(sequence, sequence->computed + tokens);
    }
  }

  core::Sequence* RunSteps(core::Sequence* sequence) {
    EXPECT_TRUE(Start(sequence));
    ComputeSteps(sequence, sequence->num_ids());
    return sequence;
  }

  // Starts it with what the tier has.
  CachedPrefix StartReading(core::Sequence* sequence) {
    const CachedPrefix prefix = LookupAll(sequence);
    EXPECT_TRUE(kv_->Fits(*sequence, prefix, sequence->num_ids() + 1));
    kv_->Start(sequence, prefix, sequence->num_ids() + 1);
    sequence->state = core::SequenceState::kFetching;
    CheckSound();
    return prefix;
  }

  void StoreInTier(const std::vector<core::BlockName>& names, size_t begin, size_t end,
                   int32_t group) {
    for (size_t i = begin; i < end; ++i) tier_.blocks[core::GroupName(names[i], group)] = {};
  }
};

TEST_F(KvCacheWindowsTest, ASequenceGivesBackWhatNoRowSees) {
  MakeWindows(40);
  core::Sequence* a = New(100);
  ASSERT_TRUE(Start(a));
  EXPECT_EQ(a->kv.blocks.size(), 14U);
  EXPECT_EQ(kv_->pool().num_held(), 7 + 3);
  EXPECT_EQ(Kept(a), "012");
  ComputeSteps(a, 32);
  EXPECT_EQ(Kept(a), "012");
  ComputeSteps(a, 48);
  EXPECT_EQ(Kept(a), "12") << "the row at 48 sees 29 .. 48";
  EXPECT_EQ(kv_->pool().num_cached(), 1) << "others may still find it";
  ComputeSteps(a, 60);
  EXPECT_EQ(Kept(a), "123") << "a sequence may go on from 48 again";
  ComputeSteps(a, 100);
  EXPECT_EQ(Kept(a), "456");
  EXPECT_EQ(kv_->pool().num_held(), 7 + 3);
  Release(a);
  EXPECT_EQ(kv_->pool().num_held(), 0);
  EXPECT_EQ(kv_->pool().num_cached(), 6 + 6);
}

TEST_F(KvCacheWindowsTest, WithoutCachingTheyAreFreeAtOnce) {
  MakeWindows(40, {.cache = {.prefix_caching = false, .disk_path = {}}});
  core::Sequence* a = RunSteps(New(100));
  EXPECT_EQ(Kept(a), "456");
  EXPECT_EQ(kv_->pool().num_free(), 30);
  Release(a);
  EXPECT_EQ(kv_->pool().num_free(), 40);
}

TEST_F(KvCacheWindowsTest, AHitTakesWhatTheRowBehindItSees) {
  MakeWindows(40);
  core::Sequence* a = RunSteps(New(100));
  core::Sequence* b = New(100);
  EXPECT_EQ(kv_->Lookup(b).tokens, 96);
  ASSERT_TRUE(Start(b));
  EXPECT_EQ(Kept(b), "456");
  EXPECT_EQ(At(b, 3, 0), At(a, 3, 0));
  EXPECT_EQ(At(b, 5, 1), At(a, 5, 1));
  EXPECT_NE(At(b, 6, 1), At(a, 6, 1)) << "the partial block is private";
  // A shorter prefix finds what `a` gave back.
  core::Sequence* c = New(60, 40);
  EXPECT_EQ(kv_->Lookup(c).tokens, 32);
  ASSERT_TRUE(Start(c));
  EXPECT_EQ(Kept(c), "0123");
  Release(a);
  Release(b);
  Release(c);
}

// Blocks 0 and 1 of the window are evicted, the first that were given back.
TEST_F(KvCacheWindowsTest, AHitNeedsWhatTheRowBehindItSees) {
  MakeWindows(12);
  core::Sequence* a = RunSteps(New(100));
  Release(a);
  EXPECT_EQ(kv_->pool().evictions(), 2U);
  EXPECT_EQ(kv_->Lookup(New(100)).tokens, 96);
  EXPECT_EQ(kv_->Lookup(New(70, 64)).tokens, 64) << "needs blocks 2 and 3";
  EXPECT_EQ(kv_->Lookup(New(60, 48)).tokens, 0) << "needs blocks 1 and 2";
  EXPECT_EQ(kv_->Lookup(New(60, 20)).tokens, 0) << "needs block 0";
}

TEST_F(KvCacheWindowsTest, APromptGoesOnAsFarAsBlocksAreThere) {
  MakeWindows(11);
  core::Sequence* a = New(100);
  ASSERT_TRUE(Start(a));
  EXPECT_EQ(kv_->Cover(a, 100), 64);
  Compute(a, 64);
  EXPECT_EQ(kv_->Cover(a, 36), 32);
  Compute(a, 96);
  EXPECT_EQ(kv_->Cover(a, 4), 4);
  Compute(a, 100);
  Release(a);
}

TEST_F(KvCacheWindowsTest, APromptWaitsWhereNoBlockIsLeft) {
  MakeWindows(20);
  core::Sequence* a = New(100);
  core::Sequence* b = New(100, 0);
  ASSERT_TRUE(Start(a));
  ASSERT_TRUE(Start(b));
  EXPECT_EQ(kv_->Cover(a, 100), 48);
  Compute(a, 48);
  EXPECT_EQ(kv_->Cover(b, 100), 64) << "it takes what the other one gave back";
  EXPECT_EQ(kv_->Cover(a, 1), 0);
  Compute(b, 50);
  EXPECT_EQ(kv_->Cover(a, 1), 1) << "and the other way round";
  EXPECT_EQ(kv_->Cover(b, 14), 14) << "it has them";
  Compute(b, 52);
  EXPECT_EQ(kv_->Cover(a, 20), 16);
  Compute(a, 64);
  Park(b);
  EXPECT_EQ(kv_->Cover(a, 20), 20);
  Release(a);
  Release(b);
}

TEST_F(KvCacheWindowsTest, ADecodingSequenceExtendsAllGroups) {
  MakeWindows(10);
  core::Sequence* a = New(62);
  ASSERT_TRUE(Start(a));
  ComputeSteps(a, 62);
  EXPECT_EQ(kv_->pool().num_held(), 4 + 3);
  while (a->num_ids() < 65) a->Append(0);
  EXPECT_TRUE(kv_->Extend(a, 64));
  Compute(a, 64);
  EXPECT_EQ(Kept(a), "23");
  EXPECT_TRUE(kv_->Extend(a, 65));
  EXPECT_EQ(Kept(a), "234");
  EXPECT_EQ(a->kv.blocks.size(), 10U);
  core::Sequence* b = New(10, 0);
  ASSERT_TRUE(Start(b));
  while (a->num_ids() < 82) a->Append(0);
  Compute(a, 80);
  EXPECT_EQ(Kept(a), "34");
  EXPECT_FALSE(kv_->Extend(a, 81)) << "one block is left, and two are missing";
  EXPECT_EQ(a->kv.blocks.size(), 10U);
  Release(b);
  EXPECT_TRUE(kv_->Extend(a, 81));
  Release(a);
}

TEST_F(KvCacheWindowsTest, AParkedSequenceFindsAllThatItsNextRowsSee) {
  MakeWindows(13);
  core::Sequence* a = RunSteps(New(100));
  const std::vector<core::BlockId> blocks = a->kv.blocks;
  Park(a);
  EXPECT_EQ(kv_->pool().num_held(), 0);
  EXPECT_EQ(kv_->pool().num_claimed(), 7 + 3);
  a->Append(5);
  ASSERT_TRUE(Start(a));
  EXPECT_EQ(a->computed, 100) << "also the partial blocks";
  EXPECT_EQ(a->kv.blocks, blocks);
  EXPECT_EQ(kv_->pool().num_claimed(), 0);
  Park(a);
  // One tail alone is of no use.
  core::Sequence* b = New(30, 0);
  ASSERT_TRUE(Start(b));
  EXPECT_EQ(kv_->Lookup(a).tokens, 96);
  Release(b);
  ASSERT_TRUE(Start(a));
  EXPECT_EQ(a->computed, 96);
  ComputeSteps(a, 101);
  Release(a);
}

TEST_F(KvCacheWindowsTest, WhatOneComputesJustNowIsPendingForOthers) {
  MakeWindows(40);
  core::Sequence* a = New(64);
  ASSERT_TRUE(Start(a));
  ComputeSteps(a, 16);
  core::Sequence* b = New(64, 50);
  const CachedPrefix prefix = kv_->Lookup(b);
  EXPECT_EQ(prefix.blocks, 1);
  EXPECT_EQ(prefix.pending_end, 3);
  b->sched.follows = prefix.pending_end;
  uint64_t writer = 0;
  EXPECT_TRUE(kv_->StillPending(*b, &writer));
  EXPECT_EQ(writer, a->id());
  ComputeSteps(a, 64);
  EXPECT_FALSE(kv_->StillPending(*b, &writer));
  EXPECT_EQ(kv_->Lookup(b).tokens, 48);
}

TEST_F(KvCacheWindowsTest, SkipsAheadOverWhatOthersPublishedMeanwhile) {
  MakeWindows(40);
  core::Sequence* a = New(100);
  ASSERT_TRUE(Start(a));
  core::Sequence* b = New(100);
  ASSERT_TRUE(Start(b));
  ComputeSteps(b, 16);
  ComputeSteps(a, 96);
  kv_->SkipAhead(b);
  CheckSound();
  EXPECT_EQ(b->computed, 96);
  EXPECT_EQ(At(b, 5, 0), At(a, 5, 0));
  EXPECT_EQ(At(b, 5, 1), At(a, 5, 1));
  EXPECT_EQ(Kept(b), "45");
  ComputeSteps(b, 100);
  Release(a);
  Release(b);
}

TEST_F(KvCacheWindowsTest, TheTierIsAskedForWhatTheRowBehindSees) {
  MakeWindows(40, {.tier = &tier_});
  const std::vector<core::BlockName> names = core::ChainNames({}, New(70)->ids());
  StoreInTier(names, 0, 4, 0);
  StoreInTier(names, 2, 4, 1);
  CachedPrefix prefix = LookupAll(New(70));
  EXPECT_EQ(prefix.tier_blocks, 4);
  EXPECT_EQ(prefix.tier_tokens, 64);
  EXPECT_EQ(prefix.tier_reads, 4 + 2);
  tier_.blocks.erase(core::GroupName(names[3], 1));
  EXPECT_EQ(LookupAll(New(70)).tier_blocks, 0) << "48 tokens need the window's block 1";
  StoreInTier(names, 1, 2, 1);
  prefix = LookupAll(New(70));
  EXPECT_EQ(prefix.tier_blocks, 3);
  EXPECT_EQ(prefix.tier_reads, 3 + 2);
}

TEST_F(KvCacheWindowsTest, AReadBringsWhatTheRowBehindSees) {
  MakeWindows(40, {.tier = &tier_});
  core::Sequence* a = New(70);
  const std::vector<core::BlockName> names = core::ChainNames({}, a->ids());
  StoreInTier(names, 0, 3, 0);
  StoreInTier(names, 1, 3, 1);
  const CachedPrefix prefix = StartReading(a);
  ASSERT_EQ(prefix.tier_blocks, 3);
  const std::vector<KvPage> pages = kv_->PagesToRead(*a, prefix.tier_blocks, prefix.tier_partial);
  ASSERT_EQ(static_cast<int32_t>(pages.size()), prefix.tier_reads);
  for (size_t i = 0; i < pages.size(); ++i) {
    EXPECT_EQ(pages[i].computed, i + 1 < pages.size() ? 0 : 48) << "all of them, or none";
    EXPECT_TRUE(tier_.blocks.contains(pages[i].name));
    EXPECT_FALSE(pages[i].tail);
  }
  EXPECT_EQ(pages[1].block, At(a, 1, 0));
  EXPECT_EQ(pages[2].block, At(a, 1, 1));
  Compute(a, 48);
  kv_->ReadEnded(a);
  a->state = core::SequenceState::kPrefilling;
  EXPECT_EQ(Kept(a), "123");
  ComputeSteps(a, 70);
  Release(a);
}

// The pool has most of what the read is for. If the rest does not come, it is given back.
TEST_F(KvCacheWindowsTest, AFailedReadLeavesNothingThatIsShared) {
  MakeWindows(12, {.tier = &tier_});
  Release(RunSteps(New(100)));
  core::Sequence* a = New(60, 48);
  ASSERT_EQ(kv_->Lookup(a).tokens, 0) << "the window's block 1 was evicted";
  const std::vector<core::BlockName> names = core::ChainNames({}, a->ids());
  StoreInTier(names, 1, 2, 1);
  const CachedPrefix prefix = StartReading(a);
  EXPECT_EQ(prefix.tier_blocks, 3);
  EXPECT_EQ(prefix.tier_reads, 1);
  EXPECT_EQ(At(a, 2, 0), kv_->pool().Find(names[2]));
  kv_->ReadEnded(a);
  a->state = core::SequenceState::kPrefilling;
  CheckSound();
  EXPECT_EQ(a->computed, 0);
  EXPECT_EQ(At(a, 2, 0), core::kNoBlock);
  EXPECT_NE(At(a, 1, 1), core::kNoBlock) << "its own";
  ComputeSteps(a, 60);
  EXPECT_EQ(kv_->Lookup(New(60, 48)).tokens, 48);
  Release(a);
}

TEST_F(KvCacheWindowsTest, AParkedTailComesFromTheTierInAllGroups) {
  MakeWindows(12, {.tier = &tier_});
  core::Sequence* a = RunSteps(New(40));
  Park(a);
  a->Append(5);
  core::Sequence* b = New(80, 0);
  ASSERT_TRUE(Start(b));
  ComputeSteps(b, 80);
  Release(b);
  const core::BlockName tail = kv_->PartialName(*a);
  for (const int32_t group : {0, 1}) {
    StoreInTier(a->kv.names, 0, 2, group);
    EXPECT_FALSE(LookupAll(a).tier_partial) << group;
    tier_.blocks[core::GroupName(tail, group)] = {};
  }
  const CachedPrefix prefix = StartReading(a);
  EXPECT_TRUE(prefix.tier_partial);
  EXPECT_EQ(prefix.tokens + prefix.tier_tokens, 40);
  const std::vector<KvPage> pages = kv_->PagesToRead(*a, prefix.tier_blocks, prefix.tier_partial);
  ASSERT_GE(pages.size(), 2U);
  EXPECT_TRUE(pages[pages.size() - 2].tail);
  EXPECT_TRUE(pages.back().tail);
  EXPECT_EQ(pages.back().computed, 40);
  Compute(a, 40);
  kv_->ReadEnded(a);
  a->state = core::SequenceState::kPrefilling;
  ComputeSteps(a, 41);
  Release(a);
}

// Of the window: what a sequence sees that goes on from the end, or comes with the same prompt.
TEST_F(KvCacheWindowsTest, WhatEndedIsStoredWithTwoWindows) {
  MakeWindows(40, {.tier = &tier_});
  core::Sequence* a = New(100);
  a->prompt_len = 62;
  Release(RunSteps(a));
  std::vector<core::BlockName> stored;
  for (core::BlockId block = -1; kv_->NextToStore(&block);) {
    stored.push_back(kv_->pool().name(block));
  }
  std::vector<core::BlockName> expected = a->kv.names;
  ASSERT_EQ(expected.size(), 6U);
  for (const size_t i : {1, 2, 4, 5}) {
    expected.push_back(core::GroupName(a->kv.names[i], 1));
  }
  EXPECT_EQ(stored.size(), expected.size());
  for (const core::BlockName& name : expected) {
    EXPECT_NE(std::find(stored.begin(), stored.end(), name), stored.end());
    tier_.blocks[name] = {};
  }
  MakeWindows(40, {.tier = &tier_});
  sequences_.clear();
  EXPECT_EQ(LookupAll(New(62)).tier_tokens, 48);
  EXPECT_EQ(LookupAll(New(110)).tier_tokens, 96);
  EXPECT_EQ(LookupAll(New(80)).tier_tokens, 48) << "as far as there is a whole window";
}

TEST_F(KvCacheWindowsTest, HeldBlocksAreCountedInPart) {
  MakeWindows(40);
  core::Sequence* a = RunSteps(New(100));
  EXPECT_EQ(kv_->HeldBlocks(*a), 7 + 3);
  core::Sequence* b = New(100);
  ASSERT_TRUE(Start(b));
  EXPECT_EQ(kv_->HeldBlocks(*a), 3 + 1 + 1 + 1);
  EXPECT_EQ(kv_->HeldBlocks(*b), 3 + 1 + 1 + 1);
  EXPECT_EQ(kv_->HeldAlone(*a, *b, {}), 1 + 1);
  Release(a);
  Release(b);
}

// What is to be read of the window lies in the middle of the table.
TEST_F(KvCacheWindowsTest, HeldBlocksAreCountedBehindAGap) {
  MakeWindows(40, {.tier = &tier_});
  core::Sequence* a = New(200);
  const std::vector<core::BlockName> names = core::ChainNames({}, a->ids());
  StoreInTier(names, 0, 8, 0);
  StoreInTier(names, 6, 8, 1);
  ASSERT_EQ(StartReading(a).tier_blocks, 8);
  EXPECT_EQ(Kept(a), "678");
  EXPECT_EQ(kv_->HeldBlocks(*a), 13 + 3);
  kv_->ReadEnded(a);
  EXPECT_EQ(kv_->HeldBlocks(*a), 13 + 3);
  Release(a);
}

TEST_F(KvCacheWindowsTest, AModelMayHaveWindowsInAllLayers) {
  KvCacheOptions options;
  options.windows = {20};
  Make(6, options);
  core::Sequence* a = New(200);
  ASSERT_TRUE(Start(a));
  ComputeSteps(a, 200);
  EXPECT_LE(kv_->pool().num_held(), 5);
  Release(a);
  EXPECT_EQ(kv_->Lookup(New(200)).tokens, 192) << "the end is there";
  EXPECT_EQ(kv_->Lookup(New(100)).tokens, 0) << "the beginning was evicted";
}

TEST_F(KvCacheWindowsTest, CheckIntegritySeesWhatWasLostOrKept) {
  MakeWindows(40);
  core::Sequence* a = RunSteps(New(100));
  const core::BlockId lost = a->kv.blocks[2 * 4 + 1];
  a->kv.blocks[2 * 4 + 1] = core::kNoBlock;
  a->kv.blocks[2 * 1 + 1] = lost;
  EXPECT_FALSE(kv_->CheckIntegrity(All()).ok());
  a->kv.blocks[2 * 1 + 1] = core::kNoBlock;
  a->kv.blocks[2 * 4 + 1] = lost;
  CheckSound();
}

}  // namespace
}  // namespace ropeway::kvcache
