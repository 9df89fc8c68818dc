#include "kvcache/write_back_queue.h"

#include <algorithm>

namespace ropeway {

// Twice the blocks: a block that was removed and added again stands in it twice.
WriteBackQueue::WriteBackQueue(int32_t num_blocks)
    : ring_(2 * static_cast<size_t>(num_blocks) + 1), queued_(static_cast<size_t>(num_blocks), 0) {}

void WriteBackQueue::Add(BlockId block) {
  uint8_t& queued = queued_[static_cast<size_t>(block)];
  if (queued != 0) return;
  if (used_ == ring_.size()) {
    // Too many were removed: close the gaps.
    size_t kept = 0;
    for (size_t i = 0; i < used_; ++i) {
      const BlockId other = ring_[(first_ + i) % ring_.size()];
      uint8_t& state = queued_[static_cast<size_t>(other)];
      if (state != 1) continue;
      state = 2;  // Seen: a second entry of it is a gap.
      ring_[(first_ + kept++) % ring_.size()] = other;
    }
    for (size_t i = 0; i < kept; ++i) {
      queued_[static_cast<size_t>(ring_[(first_ + i) % ring_.size()])] = 1;
    }
    used_ = kept;
  }
  queued = 1;
  ring_[(first_ + used_++) % ring_.size()] = block;
  ++size_;
}

bool WriteBackQueue::Remove(BlockId block) {
  uint8_t& queued = queued_[static_cast<size_t>(block)];
  if (queued == 0) return false;
  queued = 0;
  --size_;
  return true;
}

void WriteBackQueue::Clear() {
  for (size_t i = 0; i < used_; ++i) {
    queued_[static_cast<size_t>(ring_[(first_ + i) % ring_.size()])] = 0;
  }
  used_ = 0;
  size_ = 0;
}

bool WriteBackQueue::Next(const BlockPool& pool, const KvTier* tier, BlockId* block) {
  while (used_ > 0) {
    const BlockId next = ring_[first_];
    first_ = (first_ + 1) % ring_.size();
    --used_;
    if (!Remove(next)) continue;
    if (!pool.named(next) || pool.pending(next) || tier->Contains(pool.name(next))) continue;
    *block = next;
    return true;
  }
  return false;
}

}  // namespace ropeway
