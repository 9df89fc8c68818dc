// The KV cache as block tables and names: the blocks of each sequence, cache hits, and what is kept
// of a sequence that stops.
#ifndef ROPEWAY_KVCACHE_KV_CACHE_MANAGER_H_
#define ROPEWAY_KVCACHE_KV_CACHE_MANAGER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "core/batch.h"
#include "core/sequence.h"
#include "kvcache/block_events.h"
#include "kvcache/block_pool.h"
#include "kvcache/kv_tier.h"
#include "kvcache/kv_windows.h"
#include "kvcache/tier_cost.h"
#include "ropeway/options.h"
#include "ropeway/status.h"

namespace ropeway::kvcache {

// The cached blocks that are still to be stored in the tier, in order. It holds no references: a
// block that is evicted first leaves the queue. Thread rule: the engine thread.
class WriteBackQueue {
 public:
  explicit WriteBackQueue(int32_t num_blocks) : blocks_(num_blocks, EvictionPolicy::kLru) {}

  // No effect if the block is queued already.
  void Add(core::BlockId block) {
    if (!blocks_.queued(block)) blocks_.Push(block, 0);
  }
  // Removes the block. False if it was not queued.
  bool Remove(core::BlockId block);
  // Takes the next block that still has a name and is not in `tier`; false: none is left.
  bool Next(const BlockPool& pool, const KvTier* tier, core::BlockId* block);

  void Clear();

  int32_t size() const { return blocks_.size(); }

 private:
  EvictionQueue blocks_;  // All are in one class, so first in, first out.
};

struct KvCacheOptions {
  int32_t num_blocks = 0;
  size_t block_bytes = 0;
  std::vector<int32_t> windows = {0};  // One per group of layers: see KvWindows.
  // Without prefix_caching no block is kept or shared; a preempted sequence is recomputed.
  CacheOptions cache{};
  EvictionPolicy eviction = EvictionPolicy::kCost;
  const KvTier* tier = nullptr;  // Null: none. Must outlive the manager.
  // Is told which blocks there are; null: none. Must outlive the manager.
  BlockEvents* events = nullptr;
};

// The cached part of a sequence's context when it starts. A block counts if it is there
// for all groups; groups with a window need only what the rows behind the prefix see.
struct CachedPrefix {
  int32_t blocks = 0;    // Full ones, in the pool.
  bool partial = false;  // The parked tail is in the pool too.
  int32_t tokens = 0;    // Positions of both.
  // Set by LookInTier: the following blocks that the tier has (after the pending ones, if any), and
  // whether it has the parked tail after them.
  int32_t tier_blocks = 0;
  bool tier_partial = false;
  int32_t tier_tokens = 0;
  int32_t tier_reads = 0;  // Blocks to read for them, of all groups; the pool has the rest.
  // Another sequence is computing or reading blocks [blocks, pending_end).
  int32_t pending_end = 0;

  void ForgetTier() {
    tier_blocks = tier_tokens = tier_reads = 0;
    tier_partial = false;
  }
};

// What a read from the tier brings: a block of one group.
struct KvPage {
  core::BlockName name;
  core::BlockId block = 0;  // Where it goes.
  int32_t computed = 0;     // The sequence's, once this page and those before it have arrived.
  bool tail = false;        // It is the parked tail, which no other sequence can use.
};

// A full block of a running sequence is named when the sequence starts (pending, if its ids are
// known), and published once it is computed; from then on it is shared and read-only. The last,
// partial block is private: it gets a name only when its sequence is preempted, from its ids, their
// number and the sequence's id.
// The words (published, parked, tail, page) are defined in docs/kv_cache.md.
//
// The constructor and Reserve allocate all memory. Thread rule: the engine thread.
class KvCacheManager {
 public:
  explicit KvCacheManager(const KvCacheOptions& options);

  // Allocates all memory that `sequence` needs for `positions` positions, in `groups` groups of
  // layers; to be called before Start, Extend or OnComputed. Throws std::bad_alloc with nothing
  // lost.
  static void Reserve(core::Sequence* sequence, int32_t positions, int32_t groups = 1);

  bool caching() const { return options_.cache.prefix_caching; }
  // Whether a preempted sequence finds what it computed, as long as its blocks are there.
  bool KeepsBlocksOf(const core::Sequence& sequence) const {
    return options_.cache.prefix_caching && !sequence.spec.needs_all_rows();
  }
  // The cached prefix of a sequence that is to start or resume: at most all ids but one. A sequence
  // with prompt log-probs has no hits, and when it resumes only those before the rows that are not
  // scored yet.
  CachedPrefix Lookup(core::Sequence* sequence) const;
  // Adds the tier's blocks. It is asked for each block, so only for a sequence that can start.
  // REQUIRES: `prefix` is what Lookup just returned, and the sequence has not started.
  void LookInTier(const core::Sequence& sequence, CachedPrefix* prefix) const;
  // Whether the block that the sequence follows is still being computed; `writer` is set to the
  // sequence that does.
  bool StillPending(const core::Sequence& sequence, uint64_t* writer) const;

  // Whether the pool has the blocks to start the sequence if `more` of them were free.
  bool Fits(const core::Sequence& sequence, const CachedPrefix& prefix, int32_t positions,
            int32_t more = 0) const;
  // Blocks that preempting the running sequence would free, except the hits of `urgent` in
  // `prefix`.
  int32_t HeldAlone(const core::Sequence& sequence, const core::Sequence& urgent,
                    const CachedPrefix& prefix) const;
  // Fills a starting sequence's block table for `positions` positions, with the blocks of `prefix`,
  // and sets `computed` to the positions that the pool has. Of groups with a window it takes
  // KvWindows::MostTaken blocks, see Cover. REQUIRES: Fits; `prefix` is what Lookup just returned,
  // with what LookInTier set if it is read.
  void Start(core::Sequence* sequence, const CachedPrefix& prefix, int32_t positions);

  // Extends the table to hold `positions` positions. All or nothing.
  bool Extend(core::Sequence* sequence, int32_t positions);

  // Takes the blocks that are missing for the sequence's next `tokens` positions, within its table,
  // as far as the pool has them. Returns how many of the positions have their blocks then. Without
  // windows all have them since Start.
  int32_t Cover(core::Sequence* sequence, int32_t tokens);

  // `sequence->computed` has grown (by a step, or by blocks that were read): publishes full
  // blocks, and gives back those that no row of it sees any more.
  void OnComputed(core::Sequence* sequence);

  // Takes over the blocks that this sequence would compute next and another one has published. To
  // be called where the sequence's next position begins a block.
  void SkipAhead(core::Sequence* sequence);

  // The sequence is preempted: its blocks stay cached, with its claim.
  void Park(core::Sequence* sequence);

  // The sequence ends: its table and claims are cleared; its computed blocks stay cached.
  void Release(core::Sequence* sequence);

  // The blocks that Start, Extend and Cover evicted since the last ClearEvicted, and that should be
  // stored in the tier. Their bytes are in the pool until the next step computes.
  std::span<const BlockPool::Evicted> evicted() const { return evicted_; }
  void ClearEvicted() { evicted_.clear(); }

  // The next block to store in the tier; false: none.
  bool NextToStore(core::BlockId* block) { return store_.Next(pool_, options_.tier, block); }
  bool anything_to_store() const { return store_.size() > 0; }
  // `block`, just taken from NextToStore, could not be stored now.
  void StoreLater(core::BlockId block) { store_.Add(block); }
  // The tier is off.
  void ForgetToStore() { store_.Clear(); }

  // To be called after each step: see BlockEvents.
  void SettleEvents() {
    if (options_.events != nullptr) options_.events->Settle(pool_, options_.tier);
  }
  // Another call of SettleEvents is needed: in time, or at once.
  bool events_unsettled() const {
    return options_.events != nullptr && options_.events->unsettled();
  }
  bool events_scanning() const { return options_.events != nullptr && options_.events->scanning(); }
  // The blocks are not to be used any more.
  void ClearEvents() {
    if (options_.events != nullptr) options_.events->Clear();
  }

  // The parked tail's name. REQUIRES: sequence.parked is not a multiple of kBlockTokens, and the
  // names of the full blocks before it are known.
  static core::BlockName PartialName(const core::Sequence& sequence);

  // Whether to read the tier's blocks of `prefix`, and not to recompute them.
  bool ReadIsCheaper(const CachedPrefix& prefix);
  // What to read for a fetching sequence: for `blocks` full blocks behind those that it has
  // computed, then its parked tail if `tail`. Throws std::bad_alloc.
  std::vector<KvPage> PagesToRead(const core::Sequence& sequence, int32_t blocks, bool tail) const;
  // The sequence's read is over. If it brought less than all, what was shared for it is given back.
  void ReadEnded(core::Sequence* sequence);

  // The blocks of the sequence's table; of those that it shares its part.
  double HeldBlocks(const core::Sequence& sequence) const;

  ReadCost& read_cost() { return read_cost_; }
  const KvWindows& windows() const { return windows_; }
  const BlockPool& pool() const { return pool_; }
  const KvCacheOptions& options() const { return options_; }

  // Checks the pool, that exactly `sequences`, which must be all there are, hold its references and
  // claims, and that no sequence is about to write a shared block.
  Status CheckIntegrity(std::span<const core::Sequence* const> sequences) const;

 private:
  void NameUpTo(core::Sequence* sequence, int32_t blocks) const;
  int32_t MostHits(const core::Sequence& sequence) const;
  // The end of the blocks from `begin` on that one other sequence computes or reads; 0: none does.
  int32_t PendingEnd(const core::Sequence& sequence, int32_t begin, int32_t full) const;
  static bool HasParkedTail(const core::Sequence& sequence) {
    return sequence.kv.parked % base::kBlockTokens != 0;
  }
  // Whether the sequence parked a tail that it may use.
  bool HasTail(const core::Sequence& sequence) const;
  // REQUIRES: the name of block `index` is known.
  static core::BlockName NameOf(const core::Sequence& sequence, int32_t index, int32_t group) {
    return core::GroupName(sequence.kv.names[static_cast<size_t>(index)], group);
  }
  size_t Entry(int32_t index, int32_t group) const {
    return static_cast<size_t>(index) * static_cast<size_t>(windows_.groups()) +
           static_cast<size_t>(group);
  }
  core::BlockId& At(core::Sequence* sequence, int32_t index, int32_t group) const {
    return sequence->kv.blocks[Entry(index, group)];
  }
  // Whether the block of the sequence's table is not its own to write.
  bool IsShared(const core::Sequence& sequence, core::BlockId block) const {
    return pool_.named(block) && !(pool_.pending(block) && pool_.writer(block) == sequence.id());
  }
  core::BlockId Take();
  bool Has(int32_t blocks) const { return blocks <= pool_.num_free() + pool_.num_cached(); }
  void MapHits(core::Sequence* sequence, const CachedPrefix& prefix);
  void TakeTails(core::Sequence* sequence, int32_t index);
  // Takes what is missing of blocks [begin, end) of the table, which grows if it is shorter.
  void Fill(core::Sequence* sequence, int32_t begin, int32_t end);
  int32_t NumMissing(const core::Sequence& sequence, int32_t begin, int32_t end) const;
  // Names the sequence's own blocks of [begin, end), whose ids are known, as pending ones.
  void NamePending(core::Sequence* sequence, int32_t begin, int32_t end);
  void GiveBackUnseen(core::Sequence* sequence);
  void Publish(core::Sequence* sequence, int32_t index, int32_t group);
  // Tells of the sequence's block, which is computed. No effect if it is known.
  void Announce(const core::Sequence& sequence, int32_t index, int32_t group) const;
  void AnnounceHits(const core::Sequence& sequence, int32_t end) const;
  // The block of a sequence that stops, published if it was private because another sequence had
  // its name when it was computed. -1: it stays private, or it was given back.
  core::BlockId PublishLate(core::Sequence* sequence, int32_t index, int32_t group);
  void ForgetPending(core::Sequence* sequence);
  void DropClaims(core::Sequence* sequence);
  // Frees the parked tail, which no other sequence can use. REQUIRES: the sequence has no claims.
  void ForgetTail(const core::Sequence& sequence);
  void DropReferences(core::Sequence* sequence);
  void ClaimBlock(core::Sequence* sequence, core::BlockId block);
  void StoreIfMissing(core::BlockId block);
  // Whether block `index` of a sequence that ended is for the tier. With a window, only blocks that
  // a sequence sees that goes on from its end, or comes with the same prompt.
  bool IsWorthStoring(const core::Sequence& sequence, int32_t computed, int32_t index,
                      int32_t group) const;
  Status CheckCounts(std::span<const core::Sequence* const> sequences) const;
  Status CheckWritable(const core::Sequence& sequence) const;
  Status CheckKept(const core::Sequence& sequence) const;

  const KvCacheOptions options_;
  const KvWindows windows_;
  BlockPool pool_;
  ReadCost read_cost_;
  WriteBackQueue store_;
  std::vector<BlockPool::Evicted> evicted_;
};

}  // namespace ropeway::kvcache

#endif  // ROPEWAY_KVCACHE_KV_CACHE_MANAGER_H_
