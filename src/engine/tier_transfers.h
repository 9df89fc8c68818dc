// Moves the bytes of KV blocks between the executor's pool and a tier. kvcache decides which.
#ifndef ROPEWAY_ENGINE_TIER_TRANSFERS_H_
#define ROPEWAY_ENGINE_TIER_TRANSFERS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "core/sequence.h"
#include "executor/executor.h"
#include "kvcache/kv_cache_manager.h"
#include "kvcache/kv_tier.h"

namespace ropeway::engine {

// Moves bytes on the engine thread, a few blocks at a time; the tier's threads do the rest. Without
// a tier every method does nothing.
//
// A block that is to be stored is only begun to be read, before a step computes, and handed to the
// tier when it has. In between the tier does not have the block, and nothing asks for it: schedules
// are made, reads taken and events settled while no block is under way.
//
// Thread rule: the engine thread.
class TierTransfers {
 public:
  struct Counts {
    uint64_t stored_blocks = 0;   // Handed to the tier, for whatever reason.
    uint64_t spilled_blocks = 0;  // Stored blocks that were evicted ones.
    uint64_t lost_blocks = 0;     // Evicted while the tier took no more.
    uint64_t fetched_blocks = 0;  // Read back.
    uint64_t failed_reads = 0;    // Reads that brought less than was asked for.
    uint64_t late_reads = 0;      // Failed reads that were given up after their time limit.
    base::Duration fetch_time{};  // Sum over all reads, from the request to the end.
  };

  // The reads of a preempted or new sequence have ended.
  using DoneFn = std::function<void(core::Sequence*)>;

  // All pointers must outlive it; `tier` may be null. At most `max_reads` reads are under way.
  TierTransfers(kvcache::KvTier* tier, executor::Executor* executor, kvcache::KvCacheManager* kv,
                const base::Clock* clock, int max_reads, DoneFn done);

  // Begins to store the evicted blocks. REQUIRES: called after each Schedule, before the step
  // computes.
  void StoreEvicted();

  // Begins the read of a fetching sequence: `blocks` full blocks behind those it has computed, then
  // its parked tail if `tail`. If no read can begin, it is done at once. Never throws.
  void Begin(core::Sequence* sequence, int32_t blocks, bool tail);
  // Ends the sequence's read, if there is one.
  void Cancel(core::Sequence* sequence);
  // Copies the blocks that the tier has read into the pool, for about kTakeTime or an eighth of the
  // last step's time, and ends the reads that are done or late. A read is late if the tier has
  // brought nothing for any sequence for its time limit.
  void TakeReads(base::Duration last_step);
  static constexpr base::Duration kTakeTime = std::chrono::milliseconds(3);
  // The sequence that has waited longest for the tier; null: none waits.
  const core::Sequence* oldest() const;

  // Begins to store up to `max_blocks` waiting blocks, as long as the tier has little pending.
  // Returns whether more are left that it would take at once. REQUIRES: as StoreEvicted, or no step
  // runs.
  bool StoreSome(int max_blocks);
  // Hands what was begun to the tier. REQUIRES: the executor's Wait has just returned OK.
  void HandOver() { HandOver(true); }
  // Ends, after each step and each other StoreSome, what is still under way. False if the tier did
  // not take it all, or the device is lost.
  bool FinishStores();
  // The device is lost: nothing that was begun is stored.
  void DropStores();
  // Blocks wait to be stored, or to be flushed.
  bool anything_to_store() const {
    return tier_ != nullptr && (kv_->anything_to_store() || unflushed_);
  }

  const Counts& counts() const { return counts_; }

 private:
  struct Read {
    core::Sequence* sequence = nullptr;
    std::vector<kvcache::KvPage> pages;
    size_t next = 0;  // The first of `pages` that is still to come.
    base::TimePoint begun{};
    base::Duration limit{};
    int64_t bytes = 0;      // Arrived so far.
    base::Duration took{};  // The tier's work for `bytes`.
  };
  struct Store {
    core::BlockId block = -1;
    core::BlockName name;
    bool evicted = false;
    std::vector<std::byte> bytes;  // The executor may still write them.
  };

  size_t block_bytes() const { return kv_->options().block_bytes; }
  uint64_t store_bytes() const { return stores_.size() * block_bytes(); }
  // False if the tier takes no more, or there is no memory for it.
  bool BeginStore(core::BlockId block, const core::BlockName& name, bool evicted);
  // `arrived`: the bytes are there; else they are nothing. False if the tier did not take them all.
  bool HandOver(bool arrived);
  bool Put(Store* store);
  void Take(const kvcache::KvRead& block);
  void End(std::vector<Read>::iterator read);
  void Drop(std::vector<Read>::iterator read);
  void Done(core::Sequence* sequence);
  std::vector<Read>::iterator Find(uint64_t ticket);

  kvcache::KvTier* const tier_;
  executor::Executor* const executor_;
  kvcache::KvCacheManager* const kv_;
  const base::Clock* const clock_;
  const DoneFn done_;
  std::vector<Store> stores_;  // Begun.
  std::vector<Read> reads_;
  uint64_t next_ticket_ = 1;
  base::TimePoint last_end_{};    // When the last read ended: the next read's time begins there.
  base::TimePoint last_block_{};  // When the tier brought something.
  bool unflushed_ = false;        // Something was put since the last flush.
  bool flushes_ = false;          // All that waited is begun, and nothing of it was refused.
  Counts counts_;
};

}  // namespace ropeway::engine

#endif  // ROPEWAY_ENGINE_TIER_TRANSFERS_H_
