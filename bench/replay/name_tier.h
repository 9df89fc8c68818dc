// A tier that keeps the names of blocks and not their bytes.
#ifndef ROPEWAY_BENCH_REPLAY_NAME_TIER_H_
#define ROPEWAY_BENCH_REPLAY_NAME_TIER_H_

#include <chrono>
#include <deque>
#include <list>
#include <unordered_map>
#include <utility>

#include "base/clock.h"
#include "kvcache/kv_tier.h"

namespace ropeway {

// Takes at once and gives all with the next step: as if reads were never in each other's way. What
// it says a block took, kBlockRead, is weighed against computing it. When it is full, the block
// that was put or found longest ago goes. Thread rule: see KvTier.
class NameTier final : public KvTier {
 public:
  // A block of 16 tokens of SmolLM2-135M (360 KiB) from a disk of 200 MB/s.
  static constexpr Duration kBlockRead = std::chrono::microseconds(1843);

  // REQUIRES: capacity_blocks >= 1.
  explicit NameTier(size_t capacity_blocks) : capacity_(capacity_blocks) {}

  bool Contains(const BlockName& name) const override { return places_.contains(name); }
  bool Put(const BlockName& name, std::span<const std::byte> bytes) override;
  void Flush() override {}
  bool Get(uint64_t ticket, std::vector<BlockName> names) override;
  void Cancel(uint64_t ticket) override;
  std::vector<KvRead> TakeReads(size_t max_blocks) override;
  void SetWake(std::function<void()> /*wake*/) override {}
  void Erase(const BlockName& name) override;
  KvTierUsage Usage() const override;

 private:
  void Touch(const BlockName& name);

  const size_t capacity_;
  std::list<BlockName> order_;  // The first goes first.
  std::unordered_map<BlockName, std::list<BlockName>::iterator, BlockNameHash> places_;
  std::deque<KvRead> reads_;
  uint64_t written_ = 0;
  uint64_t read_ = 0;
  uint64_t evicted_ = 0;
};

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_REPLAY_NAME_TIER_H_
