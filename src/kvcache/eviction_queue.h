// Which cached block goes first when the pool needs its place.
#ifndef ROPEWAY_KVCACHE_EVICTION_QUEUE_H_
#define ROPEWAY_KVCACHE_EVICTION_QUEUE_H_

#include <array>
#include <cstdint>
#include <vector>

#include "core/batch.h"
#include "core/sequence.h"
#include "ropeway/status.h"

namespace ropeway {

enum class EvictionPolicy {
  kCost,  // See EvictionQueue.
  kLru,   // The least recently used first: for comparison.
};

// GreedyDual (Young 1994, "The k-server dual and loose competitiveness for paging"; with costs: Cao
// & Irani 1997, section 3): a block that becomes cached gets the credit L + weight of its class,
// the block with the least credit goes first, and L becomes that credit. So each block ages by what
// is evicted after it, and one of weight 2 outlives twice as many evictions as one of weight 1.
// Within a class credits only grow, so a list per class in order of arrival and a look at the heads
// of all lists finds the least: O(1) per block.
//
// The class says what a block is worth: the cost to recompute it (a token costs more the more
// positions it attends to, so blocks of long chains cost more), whether it was ever used a second
// time, and the retention priority of the request. A block's class only grows while it is cached:
// so a parent, which is used whenever its child is, never goes before it; of one chain the last
// block goes first.
//
// Blocks with a claim (of a preempted sequence) stand behind all others, whatever their class: the
// claim that is oldest goes first.
//
// Thread rule: the engine thread.
class EvictionQueue {
 public:
  // The levels of cost, each with reuse or not and by retention, and one for claims.
  static constexpr int kNumCosts = 6;
  static constexpr int kNumClasses = kNumCosts * 2 * kNumRetentions;
  static constexpr int kClaimed = kNumClasses;

  // The class of a block of a chain of `chain_tokens` tokens.
  static int ClassOf(int32_t chain_tokens, bool reused, Retention retention);

  EvictionQueue(int32_t num_blocks, EvictionPolicy policy);

  // `block` goes last of its class. REQUIRES: it is not queued; 0 <= its_class <= kClaimed.
  void Push(BlockId block, int its_class);
  // REQUIRES: it is queued.
  void Remove(BlockId block);
  // The block that is to go, removed. REQUIRES: size() > 0.
  BlockId Pop();

  bool queued(BlockId block) const { return class_[static_cast<size_t>(block)] >= 0; }
  int32_t size() const { return size_; }
  int32_t num_claimed() const { return sizes_[kClaimed]; }

  // Each list is whole, and its credits do not fall. O(blocks).
  Status CheckIntegrity() const;

 private:
  struct List {
    BlockId first = -1;
    BlockId last = -1;
  };

  const EvictionPolicy policy_;
  std::array<List, kNumClasses + 1> lists_;
  std::array<int32_t, kNumClasses + 1> sizes_{};
  int32_t size_ = 0;
  double level_ = 0;  // L.
  // By block.
  std::vector<BlockId> next_;
  std::vector<BlockId> previous_;
  std::vector<int8_t> class_;  // -1: not queued.
  std::vector<double> credit_;
};

}  // namespace ropeway

#endif  // ROPEWAY_KVCACHE_EVICTION_QUEUE_H_
