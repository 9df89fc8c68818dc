// The KV blocks as ids: who holds them, what they are named, and which of them are cached. Their
// bytes are the executor's.
#ifndef ROPEWAY_KVCACHE_BLOCK_POOL_H_
#define ROPEWAY_KVCACHE_BLOCK_POOL_H_

#include <cstdint>
#include <vector>

#include "core/batch.h"
#include "core/block_name.h"
#include "core/sequence.h"
#include "kvcache/eviction_queue.h"
#include "ropeway/status.h"

namespace ropeway {

// What a block of a sequence is worth to those who come after it; see EvictionQueue.
struct BlockWorth {
  int32_t chain_tokens = 0;  // Of the longest chain it was part of.
  bool reused = false;
  Retention retention = Retention::kNormal;
};

// A block is held (references > 0), free (none, and nameless), or cached: not held, kept under its
// name for a later hit, until its place is needed. A held block may have a name too, so that others
// share it. A name is `pending` until the block's bytes are computed: its writer holds it then.
//
// All memory is taken by the constructor. Thread rule: the engine thread.
class BlockPool {
 public:
  // What Take drove out.
  struct Evicted {
    BlockId block = 0;  // Its bytes are there until its new holder writes.
    BlockName name;
    bool claimed = false;
  };

  // REQUIRES: num_blocks >= 0.
  explicit BlockPool(int32_t num_blocks, EvictionPolicy eviction = EvictionPolicy::kCost);

  // Takes a free block, or else the cached one that is to go first, with one reference and no name.
  // `evicted` is set where the block was cached; its block is -1 otherwise.
  // REQUIRES: num_free() + num_cached() > 0.
  BlockId Take(Evicted* evicted);

  // Adds a reference to a held or cached block.
  void Ref(BlockId block);
  // Another request than the one that computed the block uses it.
  void SetReused(BlockId block) { worth_[Index(block)].reused = true; }

  // Drops a reference; the last one makes the block cached where it has a name, else free.
  // REQUIRES: the block is held; a pending name is forgotten before the last reference goes.
  void Unref(BlockId block, const BlockWorth& worth);

  // The block of that name, pending or not; -1: none.
  BlockId Find(const BlockName& name) const;
  // REQUIRES: the block is held and has no name; no other block has this one.
  void SetName(BlockId block, const BlockName& name, uint64_t writer);
  // The bytes are computed: the name is pending no more. REQUIRES: named.
  void SetComputed(BlockId block) { writer_[Index(block)] = kNoWriter; }
  // The block's bytes are nothing that others may rely on; a cached one is free then.
  // REQUIRES: named, without a claim.
  void ForgetName(BlockId block);

  bool named(BlockId block) const { return named_[Index(block)]; }
  const BlockName& name(BlockId block) const { return names_[Index(block)]; }
  bool pending(BlockId block) const { return named(block) && writer_[Index(block)] != kNoWriter; }
  // The sequence that computes it. REQUIRES: pending.
  uint64_t writer(BlockId block) const { return writer_[Index(block)]; }
  // Grows whenever the block loses its name: what a BlockClaim or a later look compares.
  uint32_t epoch(BlockId block) const { return epoch_[Index(block)]; }

  // A claim keeps a cached block behind all that have none. REQUIRES: named, not pending.
  void Claim(BlockId block) { ++claims_[Index(block)]; }
  // REQUIRES: the block has a claim. A cached block goes back among those that have none.
  void Unclaim(BlockId block);
  int32_t claims(BlockId block) const { return claims_[Index(block)]; }

  int32_t references(BlockId block) const { return references_[Index(block)]; }
  int32_t num_blocks() const { return static_cast<int32_t>(references_.size()); }
  int32_t num_free() const { return static_cast<int32_t>(free_.size()); }
  int32_t num_held() const { return num_held_; }
  int32_t num_cached() const { return queue_.size(); }
  // Of the cached ones, those with a claim.
  int32_t num_claimed() const { return queue_.num_claimed(); }
  uint64_t evictions() const { return evictions_; }

  // free + held + cached = all, each block on the list of its kind, each name found under it, and
  // nothing pending that nobody holds. O(blocks).
  Status CheckIntegrity() const;

 private:
  static constexpr uint64_t kNoWriter = 0;  // Sequence ids are never 0.

  static size_t Index(BlockId block) { return static_cast<size_t>(block); }
  size_t Bucket(const BlockName& name) const { return BlockNameHash()(name) & bucket_mask_; }
  void Enqueue(BlockId block);

  std::vector<int32_t> references_;  // By block, as all that follow.
  std::vector<BlockId> free_;        // Last in, first out: the block most likely still in a cache.
  std::vector<uint8_t> named_;
  std::vector<BlockName> names_;
  std::vector<uint64_t> writer_;
  std::vector<uint32_t> epoch_;
  std::vector<int32_t> claims_;
  std::vector<BlockWorth> worth_;
  // Names to blocks: chains through next_, which needs no memory beyond this.
  std::vector<BlockId> buckets_;
  std::vector<BlockId> next_;
  size_t bucket_mask_ = 0;
  EvictionQueue queue_;
  int32_t num_held_ = 0;
  uint64_t evictions_ = 0;
};

}  // namespace ropeway

#endif  // ROPEWAY_KVCACHE_BLOCK_POOL_H_
