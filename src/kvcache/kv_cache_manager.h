// The KV cache as block tables and names: which blocks a sequence has, which it finds again, and
// what becomes of them when it stops.
#ifndef ROPEWAY_KVCACHE_KV_CACHE_MANAGER_H_
#define ROPEWAY_KVCACHE_KV_CACHE_MANAGER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "core/batch.h"
#include "core/sequence.h"
#include "kvcache/block_pool.h"
#include "kvcache/kv_tier.h"
#include "kvcache/read_cost.h"
#include "kvcache/write_back_queue.h"
#include "ropeway/status.h"

namespace ropeway {

// Blocks that hold `positions` positions.
inline int32_t BlocksFor(int64_t positions) {
  return static_cast<int32_t>((positions + kBlockTokens - 1) / kBlockTokens);
}

struct KvCacheOptions {
  int32_t num_blocks = 0;
  size_t block_bytes = 0;
  // False: no block is kept or shared; a preempted sequence is computed anew.
  bool caching = true;
  EvictionPolicy eviction = EvictionPolicy::kCost;
  // What a preempted sequence holds goes to the tier at once, not only under pressure.
  bool checkpoint_always = false;
  const KvTier* tier = nullptr;  // Null: none. Must outlive the manager.
};

// What there is of a sequence's context when it starts.
struct CachedPrefix {
  int32_t blocks = 0;    // Full ones, in the pool.
  BlockId partial = -1;  // The tail that it parked, in the pool; -1: not there.
  int32_t tokens = 0;    // Positions of both.
  // Set by LookInTier. What the tier has behind these (behind the pending ones, where there are):
  // full blocks, and whether the parked tail after them.
  int32_t tier_blocks = 0;
  bool tier_partial = false;
  int32_t tier_tokens = 0;
  // Blocks [blocks, pending_end) are being computed or read by one other sequence.
  int32_t pending_end = 0;
};

// Names: a full block of a running sequence is named when the sequence starts (pending, where its
// ids are known), and published once it is computed; from then on others share it, and nobody
// writes it. The last, partial block is private: it gets a name only when its sequence is
// preempted, made of its ids, their number and the sequence's id.
//
// All memory is taken by the constructor and by Reserve. Thread rule: the engine thread.
class KvCacheManager {
 public:
  explicit KvCacheManager(const KvCacheOptions& options);

  // Takes all memory that `sequence` needs for at most `positions` positions; to be called before
  // they are started, extended or computed. Throws std::bad_alloc with nothing lost.
  static void Reserve(Sequence* sequence, int32_t positions);

  // What is cached of the ids of a sequence that is to start or resume: at most all but one of
  // them. One that wants log-probs of its prompt finds nothing, and when it resumes no more than
  // leaves to be computed what is not scored yet.
  CachedPrefix Lookup(Sequence* sequence) const;
  // Adds what the tier has. Asks it for each block: not for those who cannot start anyway.
  // REQUIRES: `prefix` is what Lookup just returned, and the sequence has not started.
  void LookInTier(const Sequence& sequence, CachedPrefix* prefix) const;
  // Whether the block that the sequence follows is still being computed, and by whom.
  bool StillPending(const Sequence& sequence, uint64_t* writer) const;

  // Whether there are blocks to start the sequence with, were so many `more` of them free.
  bool Fits(const Sequence& sequence, const CachedPrefix& prefix, int32_t positions,
            int32_t more = 0) const;
  // Blocks that others could have if the running sequence gave way, but for those that `urgent`,
  // whose `prefix` it is, would find itself.
  int32_t HeldAlone(const Sequence& sequence, const Sequence& urgent,
                    const CachedPrefix& prefix) const;
  // Gives a starting sequence its table for `positions` positions, with the blocks of `prefix`, and
  // sets `computed` to those of the pool. REQUIRES: Fits; `prefix` is what Lookup just returned.
  void Start(Sequence* sequence, const CachedPrefix& prefix, int32_t positions);

  // Extends the table to hold `positions` positions. All or nothing.
  bool Extend(Sequence* sequence, int32_t positions);

  // `sequence->computed` has grown (by a step, or by blocks that were read): publishes what is
  // full.
  void OnComputed(Sequence* sequence);

  // Where another sequence has published the blocks that this one would compute next: takes them
  // over. To be called where the sequence's next position begins a block.
  void SkipAhead(Sequence* sequence);

  // The sequence stops, and may go on later: its blocks stay cached, with its claim.
  void Park(Sequence* sequence);

  // The sequence ends: its table is empty, its claims are gone; what was computed stays cached.
  void Release(Sequence* sequence);

  // What was driven out by Start and Extend since the last ClearEvicted, and ought to be stored in
  // the tier: the bytes are in the pool until the next step computes.
  std::span<const BlockPool::Evicted> evicted() const { return evicted_; }
  void ClearEvicted() { evicted_.clear(); }

  // The next block to be stored in the tier for later; false: none.
  bool NextToStore(BlockId* block) { return store_.Next(pool_, options_.tier, block); }
  bool anything_to_store() const { return store_.size() > 0; }
  // `block`, just taken by NextToStore, could not be stored now.
  void StoreLater(BlockId block) { store_.Add(block); }
  // The tier takes nothing any more.
  void ForgetToStore() { store_.Clear(); }

  // The parked tail's name. REQUIRES: sequence.parked is no multiple of kBlockTokens, and the names
  // of the full blocks before it are known.
  static BlockName PartialName(const Sequence& sequence);

  // Whether to read what the tier has of `prefix`.
  bool ReadIsCheaper(const CachedPrefix& prefix);

  ReadCost& read_cost() { return read_cost_; }
  const BlockPool& pool() const { return pool_; }
  const KvCacheOptions& options() const { return options_; }

  // Checks the pool; that references and claims are exactly those of `sequences`, which are all
  // there are; and that no sequence is about to write a block that others may use.
  Status CheckIntegrity(std::span<const Sequence* const> sequences) const;

 private:
  void NameUpTo(Sequence* sequence, int32_t blocks) const;
  int32_t MostHits(const Sequence& sequence) const;
  // Whether it parked a tail that it may use.
  bool HasTail(const Sequence& sequence) const;
  BlockId Take();
  bool Has(int32_t blocks) const { return blocks <= pool_.num_free() + pool_.num_cached(); }
  void Publish(Sequence* sequence, int32_t index);
  // The sequence stops: its block `index`, which others may use from now on; a private one, whose
  // name another sequence had when it was computed, may be published now. -1: nobody may use it.
  BlockId PublishLate(Sequence* sequence, int32_t index);
  void ForgetPending(Sequence* sequence);
  void DropClaims(Sequence* sequence);
  // Nobody else can use the tail that it parked. REQUIRES: it has no claims.
  void ForgetTail(const Sequence& sequence);
  void DropReferences(Sequence* sequence);
  void ClaimBlock(Sequence* sequence, BlockId block);
  void StoreIfMissing(BlockId block);
  Status CheckCounts(std::span<const Sequence* const> sequences) const;
  Status CheckWritable(const Sequence& sequence) const;

  const KvCacheOptions options_;
  BlockPool pool_;
  ReadCost read_cost_;
  WriteBackQueue store_;
  std::vector<BlockPool::Evicted> evicted_;
};

}  // namespace ropeway

#endif  // ROPEWAY_KVCACHE_KV_CACHE_MANAGER_H_
