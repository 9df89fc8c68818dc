// A tier in memory: the double of tests, of the simulation and of replays.
#ifndef ROPEWAY_KVCACHE_TEST_TIER_H_
#define ROPEWAY_KVCACHE_TEST_TIER_H_

#include <deque>
#include <list>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kvcache/kv_tier.h"

namespace ropeway::kvcache {

// Stores what Put is given and reads it when TakeReads asks, unless the public fields say
// otherwise. The simulation derives from it and adds time and faults.
class TestTier : public KvTier {
 public:
  bool Contains(const core::BlockName& name) const override { return blocks.contains(KeyOf(name)); }

  bool Put(const core::BlockName& name, std::vector<std::byte> bytes) override {
    const core::BlockName key = KeyOf(name);
    if (blocks.contains(key)) {
      Touch(key);
      return true;
    }
    if (full) return false;
    while (blocks.size() >= capacity && !order_.empty()) Evict();
    written_bytes_ += bytes.size();
    blocks[key] = std::move(bytes);
    if (capacity != SIZE_MAX) positions_[key] = order_.insert(order_.end(), key);
    ++puts;
    return true;
  }

  void Flush() override { ++flushes; }

  bool Get(uint64_t ticket, std::vector<core::BlockName> names) override {
    if (reject_reads) return false;
    for (size_t i = 0; i < names.size(); ++i) {
      Wanted& wanted = queue_.emplace_back(Wanted{ticket, i, names[i], ReadyAt(), {}, false});
      if (!read_at_once) continue;
      wanted.bytes = Read(names[i]);
      wanted.read = true;
      if (wanted.bytes.empty()) break;
    }
    return true;
  }

  void Cancel(uint64_t ticket) override {
    Drop(ticket);
    cancelled.push_back(ticket);
  }

  std::vector<KvRead> TakeReads(size_t max_blocks) override {
    std::vector<KvRead> reads;
    while (!queue_.empty() && allowed > 0 && reads.size() < max_blocks &&
           queue_.front().ready <= Now()) {
      --allowed;
      Wanted wanted = std::move(queue_.front());
      queue_.pop_front();
      std::vector<std::byte> bytes = wanted.read ? std::move(wanted.bytes) : Read(wanted.name);
      if (bytes.empty()) Drop(wanted.ticket);
      const base::Duration took = bytes.empty() ? base::Duration{} : read_took;
      reads.push_back({wanted.ticket, wanted.index, std::move(bytes), took});
    }
    return reads;
  }

  void SetWake(std::function<void()> /*wake*/) override {}

  void Erase(const core::BlockName& name) override {
    blocks.erase(name);
    const auto found = positions_.find(name);
    if (found == positions_.end()) return;
    order_.erase(found->second);
    positions_.erase(found);
  }

  KvTierUsage Usage() const override {
    return {.on = !off,
            .blocks = blocks.size(),
            .bytes = blocks.size(),
            .capacity_bytes = capacity,
            .pending_bytes = pending,
            .written_bytes = written_bytes_,
            .read_bytes = read_bytes_,
            .rejected_blocks = rejected,
            .evicted_blocks = evicted_blocks_};
  }

  std::unordered_map<core::BlockName, std::vector<std::byte>, core::BlockNameHash> blocks;
  size_t capacity = SIZE_MAX;   // Blocks. Set it before the first Put.
  bool evict_quarters = false;  // A full tier drops its oldest quarter; else the LRU block.
  bool read_at_once = false;    // Get reads the blocks; else TakeReads does.
  base::Duration read_took{};   // KvRead::took of each block.
  size_t allowed = SIZE_MAX;    // Blocks that TakeReads may still give.
  bool full = false;            // Put takes no new block.
  bool off = false;             // As Usage reports it.
  bool reject_reads = false;    // Get begins no read.
  uint64_t pending = 0;         // Bytes, as Usage reports them.
  uint64_t rejected = 0;        // Blocks, as Usage reports them.
  int puts = 0;                 // Of new blocks.
  int flushes = 0;
  std::vector<uint64_t> cancelled;

 protected:
  // The name under which a block is stored.
  virtual core::BlockName KeyOf(const core::BlockName& name) const { return name; }
  virtual base::TimePoint Now() const { return {}; }
  // When a read that begins now is done.
  virtual base::TimePoint ReadyAt() { return {}; }
  // The block's bytes; empty: it cannot be read.
  virtual std::vector<std::byte> Read(const core::BlockName& name) {
    const core::BlockName key = KeyOf(name);
    const auto found = blocks.find(key);
    if (found == blocks.end()) return {};
    Touch(key);
    read_bytes_ += found->second.size();
    return found->second;
  }

  // Drops all reads that were begun.
  void DropReads() { queue_.clear(); }

 private:
  struct Wanted {
    uint64_t ticket;
    size_t index;
    core::BlockName name;
    base::TimePoint ready;
    std::vector<std::byte> bytes;
    bool read;  // `bytes` are what was read.
  };

  void Drop(uint64_t ticket) {
    std::erase_if(queue_, [ticket](const Wanted& wanted) { return wanted.ticket == ticket; });
  }

  void Touch(const core::BlockName& key) {
    const auto found = positions_.find(key);
    if (found != positions_.end() && !evict_quarters) {
      order_.splice(order_.end(), order_, found->second);
    }
  }

  void Evict() {
    const size_t count = evict_quarters ? order_.size() / 4 + 1 : 1;
    for (size_t i = 0; i < count && !order_.empty(); ++i) {
      TestTier::Erase(core::BlockName(order_.front()));
      ++evicted_blocks_;
    }
  }

  std::list<core::BlockName> order_;  // With a capacity: the next to be dropped first.
  std::unordered_map<core::BlockName, std::list<core::BlockName>::iterator, core::BlockNameHash>
      positions_;
  std::deque<Wanted> queue_;
  uint64_t written_bytes_ = 0;
  uint64_t read_bytes_ = 0;
  uint64_t evicted_blocks_ = 0;
};

}  // namespace ropeway::kvcache

#endif  // ROPEWAY_KVCACHE_TEST_TIER_H_
