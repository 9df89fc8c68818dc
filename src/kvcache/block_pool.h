// The KV blocks as ids: references, names, cached blocks and their eviction. The executor has the
// bytes.
#ifndef ROPEWAY_KVCACHE_BLOCK_POOL_H_
#define ROPEWAY_KVCACHE_BLOCK_POOL_H_

#include <array>
#include <cstdint>
#include <vector>

#include "core/batch.h"
#include "core/block_name.h"
#include "core/sequence.h"
#include "ropeway/status.h"

namespace ropeway::kvcache {

enum class EvictionPolicy {
  kCost,  // See EvictionQueue.
  kLru,   // Least recently used: a baseline.
};

// GreedyDual (Young 1994, "The k-server dual and loose competitiveness for paging"; with costs: Cao
// & Irani 1997, section 3): a block that becomes cached gets the credit L + weight of its class,
// the block with the least credit goes first, and L becomes that credit. So each block ages by what
// is evicted after it, and one of weight 2 outlives twice as many evictions as one of weight 1.
// Within a class credits only grow, so with a list per class in order of arrival the least credit
// is at the head of one of the lists: O(1) per block.
//
// The class follows from the cost to recompute the block (a token costs more the more positions it
// attends to, so blocks of long chains cost more), from whether it was ever reused, and from the
// retention priority of the request. A block's class only grows while it is cached, so a parent,
// which is used whenever its child is, is never evicted before it: of one chain the last block goes
// first.
//
// Blocks with a claim (of a preempted sequence) are evicted after all others, the oldest claim
// first.
//
// Thread rule: the engine thread.
class EvictionQueue {
 public:
  // One class per level of cost, reuse and retention, and one for claims.
  static constexpr int kNumCosts = 6;
  static constexpr int kNumClasses = kNumCosts * 2 * kNumCacheRetentions;
  static constexpr int kClaimed = kNumClasses;

  // The class of a block of a chain of `chain_tokens` tokens.
  static int ClassOf(int32_t chain_tokens, bool reused, CacheRetention retention);

  EvictionQueue(int32_t num_blocks, EvictionPolicy policy);

  // Appends `block` to its class. REQUIRES: it is not queued; 0 <= its_class <= kClaimed.
  void Push(core::BlockId block, int its_class);
  // REQUIRES: it is queued.
  void Remove(core::BlockId block);
  // Removes and returns the block to evict. REQUIRES: size() > 0.
  core::BlockId Pop();

  bool queued(core::BlockId block) const { return At(block).its_class >= 0; }
  int32_t size() const { return size_; }
  int32_t num_claimed() const { return lists_[kClaimed].size; }

  // Checks that each list is consistent and its credits do not decrease. O(blocks).
  Status CheckIntegrity() const;

 private:
  struct List {
    core::BlockId first = -1;
    core::BlockId last = -1;
    int32_t size = 0;
  };
  struct Node {
    core::BlockId next = -1;
    core::BlockId previous = -1;
    int8_t its_class = -1;  // -1: not queued.
    double credit = 0;
  };
  Node& At(core::BlockId block) { return nodes_[static_cast<size_t>(block)]; }
  const Node& At(core::BlockId block) const { return nodes_[static_cast<size_t>(block)]; }

  const EvictionPolicy policy_;
  std::array<List, kNumClasses + 1> lists_;
  int32_t size_ = 0;
  double level_ = 0;         // L.
  std::vector<Node> nodes_;  // By block.
};

// What decides a block's eviction class; see EvictionQueue.
struct BlockWorth {
  int32_t chain_tokens = 0;  // The longest chain that contained it.
  bool reused = false;
  CacheRetention retention = CacheRetention::kNormal;
};

// Is told what BlockPool forgets.
class NameWatcher {
 public:
  virtual ~NameWatcher() = default;
  virtual void OnNameForgotten(const core::BlockName& name) noexcept = 0;
};

// A block is held (references > 0), free (no references, no name), or cached: no references, kept
// under its name for a later hit until it is evicted. A held block may have a name too, so that
// sequences share it. A name is `pending` until the block's bytes are computed; its writer holds it
// until then.
// The words (held, cached, pending, claim, epoch) are defined in docs/kv_cache.md.
//
// The constructor allocates all memory. Thread rule: the engine thread.
class BlockPool {
 public:
  // A block that Take evicted.
  struct Evicted {
    core::BlockId block = 0;  // Its bytes are intact until its new holder writes.
    core::BlockName name;
    bool claimed = false;
  };

  // REQUIRES: num_blocks >= 0.
  explicit BlockPool(int32_t num_blocks, EvictionPolicy eviction = EvictionPolicy::kCost);

  // Takes a free block, or else evicts a cached one; it has one reference and no name.
  // `evicted->block` is -1 where nothing was evicted.
  // REQUIRES: num_free() + num_cached() > 0.
  core::BlockId Take(Evicted* evicted);

  // Adds a reference to a held or cached block.
  void Ref(core::BlockId block);
  // Notes that a request uses the block which another one computed.
  void SetReused(core::BlockId block) { At(block).worth.reused = true; }

  // Drops a reference. Without references a block with a name is cached, one without is free.
  // REQUIRES: the block is held; a pending name is forgotten before the last reference is dropped.
  void Unref(core::BlockId block, const BlockWorth& worth);

  // The block with this name, pending or not; -1: none.
  core::BlockId Find(const core::BlockName& name) const;
  // REQUIRES: the block is held and has no name; no other block has this one.
  void SetName(core::BlockId block, const core::BlockName& name, uint64_t writer);
  // The bytes are computed, the name is no longer pending. REQUIRES: named.
  void SetComputed(core::BlockId block) { At(block).writer = kNoWriter; }
  // Removes the name; a cached block becomes free. REQUIRES: named, without a claim.
  void ForgetName(core::BlockId block);
  // Is told of names that are removed; must outlive the pool.
  void set_watcher(NameWatcher* watcher) { watcher_ = watcher; }

  bool named(core::BlockId block) const { return At(block).named; }
  const core::BlockName& name(core::BlockId block) const { return At(block).name; }
  bool pending(core::BlockId block) const { return named(block) && writer(block) != kNoWriter; }
  // The sequence that computes it. REQUIRES: pending.
  uint64_t writer(core::BlockId block) const { return At(block).writer; }
  // Increases whenever the block loses its name; a BlockClaim compares it.
  uint32_t epoch(core::BlockId block) const { return At(block).epoch; }

  // Adds a claim: the block is evicted after all blocks without one. REQUIRES: named, not pending.
  void Claim(core::BlockId block) { ++At(block).claims; }
  // Drops a claim. REQUIRES: the block has one.
  void Unclaim(core::BlockId block);
  int32_t claims(core::BlockId block) const { return At(block).claims; }

  int32_t references(core::BlockId block) const { return At(block).references; }
  int32_t num_blocks() const { return static_cast<int32_t>(blocks_.size()); }
  int32_t num_free() const { return static_cast<int32_t>(free_.size()); }
  int32_t num_held() const { return num_held_; }
  int32_t num_cached() const { return queue_.size(); }
  // Cached blocks with a claim.
  int32_t num_claimed() const { return queue_.num_claimed(); }
  uint64_t evictions() const { return evictions_; }

  // Checks that free + held + cached = all, that each block is on the list of its state and is
  // found under its name, and that no cached block is pending. O(blocks).
  Status CheckIntegrity() const;

 private:
  static constexpr uint64_t kNoWriter = 0;  // Sequence ids are never 0.

  struct Block {
    int32_t references = 0;
    int32_t claims = 0;
    uint32_t epoch = 0;
    bool named = false;
    core::BlockName name;
    uint64_t writer = kNoWriter;
    BlockWorth worth;
    core::BlockId next = -1;  // In the same bucket of names.
  };

  Block& At(core::BlockId block) { return blocks_[static_cast<size_t>(block)]; }
  const Block& At(core::BlockId block) const { return blocks_[static_cast<size_t>(block)]; }
  size_t Bucket(const core::BlockName& name) const {
    return core::BlockNameHash()(name) & bucket_mask_;
  }
  void Enqueue(core::BlockId block);

  std::vector<Block> blocks_;
  std::vector<core::BlockId> free_;  // A stack: the last block is most likely in the CPU's cache.
  // A hash table from names to blocks, chained through Block::next: it never allocates.
  std::vector<core::BlockId> buckets_;
  size_t bucket_mask_ = 0;
  EvictionQueue queue_;
  NameWatcher* watcher_ = nullptr;  // Null: none.
  int32_t num_held_ = 0;
  uint64_t evictions_ = 0;
};

}  // namespace ropeway::kvcache

#endif  // ROPEWAY_KVCACHE_BLOCK_POOL_H_
