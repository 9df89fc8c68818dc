#include "kvcache/kv_cache_manager.h"

#include <gtest/gtest.h>

#include "kvcache/test_kv_cache.h"

namespace ropeway::kvcache {
namespace {

TEST_F(KvCacheTest, AllocatesAllOrNothing) {
  Make(3);
  core::Sequence* a = New(16);
  core::Sequence* b = New(16, 0);
  EXPECT_TRUE(Start(a));
  EXPECT_EQ(a->kv.blocks.size(), 2U);
  EXPECT_TRUE(kv_->Extend(a, 32)) << "what it has is enough";
  EXPECT_EQ(a->kv.blocks.size(), 2U);
  EXPECT_FALSE(Start(b));
  EXPECT_TRUE(b->kv.blocks.empty());
  EXPECT_TRUE(kv_->Extend(a, 33));
  EXPECT_FALSE(kv_->Extend(a, 49));
  EXPECT_EQ(a->kv.blocks.size(), 3U);
  Release(a);
  EXPECT_EQ(kv_->pool().num_free(), 3) << "nothing was computed";
}

TEST_F(KvCacheTest, ARequestFindsWhatAnotherOneComputed) {
  Make(8);
  core::Sequence* a = Run(New(40));
  core::Sequence* b = New(40);
  const CachedPrefix prefix = kv_->Lookup(b);
  EXPECT_EQ(prefix.blocks, 2) << "the last block is not full";
  EXPECT_EQ(prefix.tokens, 32);
  Start(b);
  EXPECT_EQ(b->computed, 32);
  EXPECT_EQ(b->kv.blocks[0], a->kv.blocks[0]) << "while the other one still runs";
  EXPECT_NE(b->kv.blocks[2], a->kv.blocks[2]) << "the partial block is private";
  Release(a);
  Release(b);
  EXPECT_EQ(kv_->pool().num_cached(), 2);
  EXPECT_EQ(kv_->Lookup(New(33, 20)).tokens, 16) << "up to where the ids differ";
}

TEST_F(KvCacheTest, AHitLeavesOneTokenToCompute) {
  Make(8);
  Release(Run(New(32)));
  EXPECT_EQ(kv_->pool().num_cached(), 2);
  EXPECT_EQ(kv_->Lookup(New(32)).tokens, 16);
  EXPECT_EQ(kv_->Lookup(New(33)).tokens, 32);
}

TEST_F(KvCacheTest, OtherRootsShareNothing) {
  Make(8);
  Release(Run(New(40)));
  core::Sequence* other = New(40);
  other->cache_root.bytes[0] = 1;
  EXPECT_EQ(kv_->Lookup(other).tokens, 0);
}

TEST_F(KvCacheTest, WithoutCachingNothingIsKept) {
  Make(8, {.cache = {.prefix_caching = false, .disk_path = {}}});
  Release(Run(New(40)));
  EXPECT_EQ(kv_->pool().num_free(), 8);
  EXPECT_EQ(kv_->Lookup(New(40)).tokens, 0);
  core::Sequence* a = Run(New(40));
  Park(a);
  EXPECT_EQ(a->kv.parked, 0);
  EXPECT_EQ(kv_->pool().num_free(), 8);
  EXPECT_TRUE(Start(a));
  EXPECT_EQ(a->computed, 0);
}

TEST_F(KvCacheTest, WhatOneComputesJustNowIsPendingForOthers) {
  Make(16);
  core::Sequence* a = New(64);
  Start(a);
  Compute(a, 16);
  core::Sequence* b = New(64, 50);
  CachedPrefix prefix = kv_->Lookup(b);
  EXPECT_EQ(prefix.blocks, 1);
  EXPECT_EQ(prefix.pending_end, 3);
  b->sched.follows = prefix.pending_end;
  uint64_t writer = 0;
  EXPECT_TRUE(kv_->StillPending(*b, &writer));
  EXPECT_EQ(writer, a->id());
  Compute(a, 47);
  EXPECT_TRUE(kv_->StillPending(*b, &writer));
  Compute(a, 48);
  EXPECT_FALSE(kv_->StillPending(*b, &writer));
  EXPECT_EQ(kv_->Lookup(b).tokens, 48);
}

TEST_F(KvCacheTest, AWriterThatEndsOrIsPreemptedLeavesNothingPending) {
  for (const bool park : {false, true}) {
    Make(16);
    sequences_.clear();
    core::Sequence* a = New(64);
    Start(a);
    Compute(a, 20);
    if (park) {
      Park(a);
    } else {
      Release(a);
    }
    const CachedPrefix prefix = kv_->Lookup(New(64));
    EXPECT_EQ(prefix.blocks, 1);
    EXPECT_EQ(prefix.pending_end, 0);
  }
}

TEST_F(KvCacheTest, TwoThatComputedTheSameEndUpWithOneBlock) {
  Make(16);
  core::Sequence* a = New(40);
  Start(a);
  core::Sequence* b = New(40);
  Start(b);  // Nothing is computed yet: it computes for itself.
  Compute(a, 40);
  Compute(b, 40);
  EXPECT_EQ(b->kv.blocks[0], a->kv.blocks[0]);
  EXPECT_EQ(b->kv.blocks[1], a->kv.blocks[1]);
  EXPECT_EQ(kv_->pool().num_held(), 4);
  Release(a);
  Release(b);
}

TEST_F(KvCacheTest, SkipsAheadOverWhatOthersPublishedMeanwhile) {
  Make(16);
  core::Sequence* a = New(64);
  Start(a);
  core::Sequence* b = New(64);
  Start(b);
  Compute(b, 16);
  Compute(a, 48);
  kv_->SkipAhead(b);
  CheckSound();
  EXPECT_EQ(b->computed, 48);
  EXPECT_EQ(b->kv.blocks[2], a->kv.blocks[2]);
}

TEST_F(KvCacheTest, AParkedSequenceFindsAllItHad) {
  Make(4);
  core::Sequence* a = Run(New(40));
  const std::vector<core::BlockId> blocks = a->kv.blocks;
  Park(a);
  EXPECT_EQ(kv_->pool().num_held(), 0);
  EXPECT_EQ(kv_->pool().num_claimed(), 3);
  a->Append(5);  // The token that was sampled last.
  EXPECT_TRUE(Start(a));
  EXPECT_EQ(a->computed, 40) << "also the partial block";
  EXPECT_EQ(a->kv.blocks, blocks);
  EXPECT_EQ(kv_->pool().num_claimed(), 0);
  EXPECT_FALSE(kv_->pool().named(a->kv.blocks[2])) << "it is written again";
  Compute(a, 41);
  Release(a);
}

TEST_F(KvCacheTest, AParkedTailIsPrivate) {
  Make(8);
  core::Sequence* a = Run(New(40));
  core::Sequence* b = Run(New(40));
  Park(a);
  Park(b);
  EXPECT_EQ(kv_->pool().num_cached(), 4) << "two shared blocks and a tail each";
  b->Append(5);
  Start(b);
  EXPECT_EQ(b->computed, 40);
  EXPECT_EQ(kv_->pool().num_claimed(), 1) << "a's tail; a's others are held by b";
  a->Append(5);
  Start(a);
  EXPECT_EQ(a->computed, 40);
  EXPECT_NE(a->kv.blocks[2], b->kv.blocks[2]);
  Release(a);
  Release(b);
}

TEST_F(KvCacheTest, ClaimedBlocksAreTheLastToGoAndTheTailFirstOfThem) {
  Make(5);
  core::Sequence* a = Run(New(40));
  Park(a);
  Release(Run(New(17, 0)));  // Takes the two free ones, leaves one cached.
  EXPECT_EQ(kv_->pool().num_cached(), 4);
  core::Sequence* b = New(40, 0);
  EXPECT_TRUE(Start(b));  // Three blocks: one free, one unclaimed, one claimed.
  a->Append(5);
  const CachedPrefix prefix = kv_->Lookup(a);
  EXPECT_EQ(prefix.tokens, 32) << "of its own the partial one went";
  Release(b);
  Release(a);
}

TEST_F(KvCacheTest, AnEndWhilePreemptedLeavesNoClaim) {
  Make(5);
  core::Sequence* a = Run(New(40));
  Park(a);
  Release(a);
  EXPECT_EQ(kv_->pool().num_claimed(), 0);
  EXPECT_EQ(kv_->pool().num_cached(), 2) << "its tail is of no use to others";
  EXPECT_EQ(kv_->pool().num_free(), 3);
}

TEST_F(KvCacheTest, WhatACancelledOneLeavesIsEvictedFromItsEnd) {
  Make(5);
  core::Sequence* a = Run(New(64));
  const std::vector<core::BlockName> names = a->kv.names;
  Park(a);
  Release(a);
  core::Sequence* b = New(20, 0);
  Start(b);  // One free block, and the last of the chain.
  EXPECT_EQ(kv_->pool().Find(names[3]), -1);
  for (const size_t i : {0, 1, 2}) EXPECT_GE(kv_->pool().Find(names[i]), 0) << i;
  Release(b);
}

TEST_F(KvCacheTest, WhatACancelledOneLeavesIsStored) {
  Make(5, {.tier = &tier_});
  core::Sequence* a = Run(New(64));
  Park(a);
  EXPECT_FALSE(kv_->anything_to_store());
  Release(a);
  int stored = 0;
  for (core::BlockId block = -1; kv_->NextToStore(&block);) ++stored;
  EXPECT_EQ(stored, 4);
}

TEST_F(KvCacheTest, WhatIsToBeStoredCanBeForgottenOrTriedAgain) {
  Make(8, {.tier = &tier_});
  Release(Run(New(64)));
  core::BlockId first = -1;
  ASSERT_TRUE(kv_->NextToStore(&first));
  kv_->StoreLater(first);
  int left = 0;
  core::BlockId last = -1;
  while (kv_->NextToStore(&last)) ++left;
  EXPECT_EQ(left, 4);
  EXPECT_EQ(last, first);
  kv_->StoreLater(first);
  kv_->ForgetToStore();
  EXPECT_FALSE(kv_->anything_to_store());
  EXPECT_FALSE(kv_->NextToStore(&last));
  kv_->StoreLater(first);
  EXPECT_TRUE(kv_->NextToStore(&last));
}

TEST_F(KvCacheTest, PromptLogprobsTakeNoHitsButTheirOwn) {
  Make(16);
  Release(Run(New(64)));
  core::Sequence* a = New(64);
  a->spec.num_prompt_logprobs = 0;
  EXPECT_EQ(kv_->Lookup(a).tokens, 0);
  Start(a);
  a->scored = 41;  // The rows of 40 ids are computed.
  Compute(a, 40);
  Park(a);
  EXPECT_EQ(kv_->Lookup(a).tokens, 40);
  a->scored = 33;  // As if less had been scored: the row before id 33 is needed again.
  EXPECT_EQ(kv_->Lookup(a).tokens, 32);
  a->scored = 32;
  EXPECT_EQ(kv_->Lookup(a).tokens, 16);
}

TEST_F(KvCacheTest, TheTierIsAskedBehindThePool) {
  Make(8, {.tier = &tier_});
  const std::vector<core::BlockName> names = core::ChainNames({}, New(70)->ids());
  for (const int i : {0, 1, 2, 3}) tier_.blocks[names[static_cast<size_t>(i)]] = {};
  core::Sequence* a = Run(New(20));
  CachedPrefix prefix = LookupAll(New(70));
  EXPECT_EQ(prefix.blocks, 1);
  EXPECT_EQ(prefix.tier_blocks, 3);
  EXPECT_EQ(prefix.tier_tokens, 48);
  tier_.blocks.erase(names[2]);
  EXPECT_EQ(LookupAll(New(70)).tier_blocks, 1);
  Release(a);
}

TEST_F(KvCacheTest, EndedBlocksAreToBeStoredUnlessTheTierHasThem) {
  Make(8, {.tier = &tier_});
  core::Sequence* a = Run(New(50));
  tier_.blocks[a->kv.names[0]] = {};
  const std::vector<core::BlockName> names = a->kv.names;
  Release(a);
  std::vector<core::BlockName> stored;
  core::BlockId block = -1;
  while (kv_->NextToStore(&block)) stored.push_back(kv_->pool().name(block));
  EXPECT_EQ(stored, (std::vector<core::BlockName>{names[1], names[2]}));
  EXPECT_FALSE(kv_->anything_to_store());
}

TEST_F(KvCacheTest, EvictedBlocksThatAreNotStoredYetAreReported) {
  Make(4, {.tier = &tier_});
  core::Sequence* a = Run(New(33));
  const std::vector<core::BlockName> names = a->kv.names;
  Release(a);
  EXPECT_TRUE(Start(New(50, 0)));  // All four blocks.
  ASSERT_EQ(kv_->evicted().size(), 2U);
  EXPECT_EQ(kv_->evicted()[0].name, names[1]) << "of one chain the last goes first";
  EXPECT_EQ(kv_->evicted()[1].name, names[0]);
  EXPECT_FALSE(kv_->anything_to_store());
}

TEST_F(KvCacheTest, UnderPressureOnlyWhatHasAClaimMovesDown) {
  Make(4, {.tier = &tier_});
  core::Sequence* a = Run(New(40));
  Park(a);
  EXPECT_FALSE(kv_->anything_to_store()) << "there is no pressure yet";
  EXPECT_TRUE(Start(New(50, 0)));
  ASSERT_EQ(kv_->evicted().size(), 3U);
  for (const BlockPool::Evicted& evicted : kv_->evicted()) EXPECT_TRUE(evicted.claimed);
  EXPECT_EQ(kv_->evicted()[0].name, kv_->PartialName(*a));
}

TEST_F(KvCacheTest, CheckpointAlwaysStoresAtOnce) {
  Make(4, {.cache = {.preempt_checkpoint = "always", .disk_path = {}}, .tier = &tier_});
  core::Sequence* a = Run(New(40));
  Park(a);
  int stored = 0;
  core::BlockId block = -1;
  while (kv_->NextToStore(&block)) ++stored;
  EXPECT_EQ(stored, 3);
  tier_.blocks[kv_->PartialName(*a)] = {};
  a->Append(5);
  core::Sequence* b = New(60, 0);
  EXPECT_TRUE(Start(b));
  Release(b);
  for (const core::BlockName& name : a->kv.names) tier_.blocks[name] = {};
  const CachedPrefix prefix = LookupAll(a);
  EXPECT_EQ(prefix.tier_tokens + prefix.tokens, 40);
  EXPECT_TRUE(prefix.tier_partial);
}

// The tail is useful only after all blocks before it: when another sequence no longer computes
// them, the tail must not be read.
TEST_F(KvCacheTest, ATailBehindUnreadBlocksIsNotRead) {
  Make(4, {.tier = &tier_});
  core::Sequence* a = Run(New(40));
  Park(a);
  a->Append(5);
  core::Sequence* b = New(60, 0);
  EXPECT_TRUE(Start(b));
  Release(b);
  tier_.blocks[kv_->PartialName(*a)] = {};
  CachedPrefix prefix = kv_->Lookup(a);
  ASSERT_EQ(prefix.blocks, 0);
  prefix.pending_end = 2;
  kv_->LookInTier(*a, &prefix);
  EXPECT_TRUE(prefix.tier_partial);
  prefix.pending_end = 0;
  kv_->LookInTier(*a, &prefix);
  EXPECT_FALSE(prefix.tier_partial);
  EXPECT_EQ(prefix.tier_tokens, 0);
}

TEST_F(KvCacheTest, CheckIntegritySeesLeaksSharingAndLostClaims) {
  Make(6);
  core::Sequence* a = Run(New(20));
  core::Sequence* b = Run(New(20, 0));
  EXPECT_NE(kv_->CheckIntegrity(std::vector<const core::Sequence*>{a}).message().find("have it"),
            std::string::npos)
      << "the blocks of b are leaked";
  std::swap(b->kv.blocks[1], a->kv.blocks[0]);
  EXPECT_FALSE(kv_->CheckIntegrity(All()).ok());
  std::swap(b->kv.blocks[1], a->kv.blocks[0]);
  a->kv.blocks.push_back(b->kv.blocks[0]);
  EXPECT_FALSE(kv_->CheckIntegrity(All()).ok());
  a->kv.blocks.pop_back();
  a->kv.blocks.push_back(7);
  EXPECT_NE(kv_->CheckIntegrity(All()).message().find("block 7, which does not exist"),
            std::string::npos);
  a->kv.blocks.pop_back();
  CheckSound();
  a->computed = 15;  // As if it would write a published block.
  EXPECT_NE(kv_->CheckIntegrity(All()).message().find("which is shared"), std::string::npos);
  a->computed = 20;
  Park(a);
  const core::BlockClaim claim = a->kv.claims.back();
  a->kv.claims.pop_back();
  EXPECT_NE(kv_->CheckIntegrity(All()).message().find("claims"), std::string::npos);
  a->kv.claims.push_back(claim);
  CheckSound();
}

}  // namespace
}  // namespace ropeway::kvcache
