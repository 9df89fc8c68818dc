#include "kvcache/block_events.h"

#include <algorithm>
#include <new>
#include <utility>

namespace ropeway::kvcache {
namespace {

// Of announced_, that are looked at in one call: some 10 microseconds.
constexpr size_t kBucketsPerScan = 128;

}  // namespace

uint64_t EventHash(const core::BlockName& name) {
  uint64_t hash = 0;
  for (size_t i = 0; i < sizeof(hash); ++i) hash = hash << 8U | name.bytes[i];
  return hash;
}

void BlockEvents::Stored(const core::BlockName& name, const core::BlockName* parent,
                         std::span<const TokenId> ids) noexcept {
  try {
    if (announced_.contains(name)) return;
    BlockEvent event{.kind = BlockEvent::Kind::kStored, .hash = EventHash(name)};
    if (parent != nullptr) event.parent = EventHash(*parent);
    event.ids.assign(ids.begin(), ids.end());
    events_.push_back(std::move(event));
    try {
      announced_.insert(name);
    } catch (const std::bad_alloc&) {
      events_.pop_back();
    }
  } catch (const std::bad_alloc&) {
    // A router does without it.
  }
}

void BlockEvents::OnNameForgotten(const core::BlockName& name) noexcept {
  const core::BlockName plain = core::GroupName(name, group_);
  if (!announced_.contains(plain)) return;
  try {
    suspects_.push_back(plain);
  } catch (const std::bad_alloc&) {
    lost_ = true;
  }
}

bool BlockEvents::IsThere(const core::BlockName& name, const BlockPool& pool,
                          const KvTier* tier) const {
  const core::BlockName stored = core::GroupName(name, group_);
  const core::BlockId block = pool.Find(stored);
  if (block >= 0 && !pool.pending(block)) return true;
  return tier != nullptr && tier->Contains(stored);
}

void BlockEvents::RemoveIfGone(const core::BlockName& name, const BlockPool& pool,
                               const KvTier* tier) {
  if (!announced_.contains(name) || IsThere(name, pool, tier)) return;
  events_.push_back({.kind = BlockEvent::Kind::kRemoved, .hash = EventHash(name)});
  announced_.erase(name);
}

void BlockEvents::ScanForDropped(const BlockPool& pool, const KvTier* tier) {
  if (tier == nullptr) return;
  const KvTierUsage usage = tier->Usage();
  const uint64_t dropped = usage.evicted_blocks + usage.rejected_blocks;
  if (dropped != tier_dropped_ || usage.on != tier_on_) {
    tier_dropped_ = dropped;
    tier_on_ = usage.on;
    // A tier that is full drops some in every step: a scan that began anew each time would never
    // reach the end.
    (scanning_ ? again_ : scanning_) = true;
  }
  if (!scanning_) return;
  // The table has grown: its names are in other buckets now.
  if (buckets_ != announced_.bucket_count()) bucket_ = 0;
  buckets_ = announced_.bucket_count();
  const size_t end = std::min(buckets_, bucket_ + kBucketsPerScan);
  std::vector<core::BlockName> gone;
  for (; bucket_ < end; ++bucket_) {
    for (auto name = announced_.begin(bucket_); name != announced_.end(bucket_); ++name) {
      if (!IsThere(*name, pool, tier)) gone.push_back(*name);
    }
  }
  for (const core::BlockName& name : gone) RemoveIfGone(name, pool, tier);
  if (bucket_ < buckets_) return;
  bucket_ = 0;
  scanning_ = std::exchange(again_, false);
}

void BlockEvents::Settle(const BlockPool& pool, const KvTier* tier) noexcept {
  try {
    for (const core::BlockName& name : suspects_) RemoveIfGone(name, pool, tier);
    suspects_.clear();
    ScanForDropped(pool, tier);
  } catch (const std::bad_alloc&) {
    lost_ = true;
  }
  if (lost_) {
    Clear();
  } else if (!events_.empty() && !publish_(std::exchange(events_, {}))) {
    Forget();
  }
}

// What a reader has been told is not true any more. Blocks are told of again once they are used,
// computed or read again.
void BlockEvents::Forget() noexcept {
  announced_.clear();
  suspects_.clear();
  events_.clear();
  scanning_ = again_ = lost_ = false;
  bucket_ = 0;
}

void BlockEvents::Clear() noexcept {
  Forget();
  try {
    events_.push_back({.kind = BlockEvent::Kind::kCleared});
    // Without room its readers forget all the same.
    publish_(std::exchange(events_, {}));
  } catch (const std::bad_alloc&) {
    lost_ = true;
  }
}

}  // namespace ropeway::kvcache
