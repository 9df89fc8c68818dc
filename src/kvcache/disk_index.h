// Which blocks the disk tier has, and in which generation: in memory, so that the question costs no
// access to the disk.
#ifndef ROPEWAY_KVCACHE_DISK_INDEX_H_
#define ROPEWAY_KVCACHE_DISK_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/block_name.h"

namespace ropeway {

// A block is queued (its bytes are in memory only), then written to a generation, then flushed with
// it. One that is stored may be queued again, to move to a newer generation: the old copy serves
// until the new one is written.
//
// Thread rule: guarded by its owner. What may throw std::bad_alloc then has changed nothing.
class DiskIndex {
 public:
  struct Entry {
    uint32_t generation = 0;  // 0: in none yet.
    bool flushed = false;     // A copy outlives the process.
    uint64_t sequence = 0;    // Of the Put that queued it last; later Puts have larger ones.
    std::shared_ptr<const std::vector<std::byte>> queued;  // nullptr: not queued.
  };

  // nullptr: none. Valid until the next change.
  const Entry* Find(const BlockName& name) const;

  // Throws std::bad_alloc.
  void Queue(const BlockName& name, uint64_t sequence,
             std::shared_ptr<const std::vector<std::byte>> bytes);

  // Reserves what Written of one block takes. Throws std::bad_alloc.
  void Reserve(uint32_t generation);
  // What was queued under this sequence is in `generation` now. False where that is not wanted any
  // more: the block was erased, or erased and queued anew.
  bool Written(const BlockName& name, uint64_t sequence, uint32_t generation);
  // What was written to `generation` under these names is flushed now.
  void Flushed(std::span<const BlockName> names, uint32_t generation);

  // Blocks that were flushed by an earlier process; they take the place of older ones of the same
  // name. Throws std::bad_alloc.
  void AddStored(std::vector<BlockName> names, uint32_t generation);

  // The block is to be had no more. False where there is none.
  bool Erase(const BlockName& name);

  // Forgets up to `count` of the blocks of a generation that is dropped; true: it has no more.
  // `*dropped` grows by the number of blocks that are to be had no more.
  bool DropSome(uint32_t generation, size_t count, uint64_t* dropped);

  void Clear();

  uint64_t flushed() const { return flushed_; }  // Blocks.

 private:
  std::unordered_map<BlockName, Entry, BlockNameHash> entries_;
  // By generation, the names that were ever written to it; some have moved or are gone.
  std::map<uint32_t, std::vector<BlockName>> names_;
  uint64_t flushed_ = 0;
};

}  // namespace ropeway

#endif  // ROPEWAY_KVCACHE_DISK_INDEX_H_
