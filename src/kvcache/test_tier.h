// A tier in memory for tests; the test decides when reads are delivered.
#ifndef ROPEWAY_KVCACHE_TEST_TIER_H_
#define ROPEWAY_KVCACHE_TEST_TIER_H_

#include <deque>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kvcache/kv_tier.h"

namespace ropeway {

class TestTier final : public KvTier {
 public:
  bool Contains(const BlockName& name) const override { return blocks.contains(name); }

  bool Put(const BlockName& name, std::span<const std::byte> bytes) override {
    if (full) return false;
    blocks[name].assign(bytes.begin(), bytes.end());
    ++puts;
    return true;
  }

  void Flush() override { ++flushes; }

  bool Get(uint64_t ticket, std::vector<BlockName> names) override {
    if (reject_reads) return false;
    for (size_t i = 0; i < names.size(); ++i) queue.push_back({ticket, i, names[i]});
    return true;
  }

  void Cancel(uint64_t ticket) override {
    std::erase_if(queue, [ticket](const Wanted& wanted) { return wanted.ticket == ticket; });
    cancelled.push_back(ticket);
  }

  // Delivers up to `allowed` blocks in all.
  std::vector<KvRead> TakeReads(size_t max_blocks) override {
    std::vector<KvRead> reads;
    while (!queue.empty() && allowed > 0 && reads.size() < max_blocks) {
      --allowed;
      const Wanted wanted = queue.front();
      queue.pop_front();
      const auto it = blocks.find(wanted.name);
      reads.push_back({wanted.ticket, wanted.index,
                       it == blocks.end() ? std::vector<std::byte>() : it->second});
      if (it == blocks.end()) {
        std::erase_if(queue, [&](const Wanted& other) { return other.ticket == wanted.ticket; });
      }
    }
    return reads;
  }

  void SetWake(std::function<void()>) override {}
  void Erase(const BlockName& name) override { blocks.erase(name); }
  KvTierUsage Usage() const override {
    return {.on = !off, .blocks = blocks.size(), .pending_bytes = pending};
  }

  std::unordered_map<BlockName, std::vector<std::byte>, BlockNameHash> blocks;
  size_t allowed = 1000000;  // Blocks that may still be read.
  bool full = false;
  bool off = false;
  bool reject_reads = false;
  uint64_t pending = 0;
  int puts = 0;
  int flushes = 0;
  std::vector<uint64_t> cancelled;

 private:
  struct Wanted {
    uint64_t ticket;
    size_t index;
    BlockName name;
  };
  std::deque<Wanted> queue;
};

}  // namespace ropeway

#endif  // ROPEWAY_KVCACHE_TEST_TIER_H_
