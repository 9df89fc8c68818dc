// The simulation's tier: blocks in memory, with the time and the misfortunes of a disk.
#ifndef ROPEWAY_SIM_SIM_TIER_H_
#define ROPEWAY_SIM_SIM_TIER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/random.h"
#include "kvcache/kv_tier.h"
#include "plant.h"
#include "setup.h"
#include "sim_clock.h"

namespace ropeway::sim {

// Keeps what a disk tier promises: blocks are found under their names or not at all, and what was
// flushed survives Kill. Fault points:
//   tier_slow   a read takes 1000 times as long
//   tier_full   a block is not taken
//   tier_lossy  a block that is there cannot be read
//   tier_torn   a block is damaged: read, found broken and dropped
//   tier_off    it turns itself off, for good (until a kill)
class SimTier final : public KvTier {
 public:
  // Which (sequence, block of it) a name without its length could mean; nullopt: none of a partial
  // block. For Plant::kPartialName alone.
  using PartialOf = std::function<std::optional<std::pair<uint64_t, int32_t>>(const BlockName&)>;

  SimTier(const TierSetup& setup, SimClock* clock, FaultPoints* faults, Plant plant,
          PartialOf partial_of)
      : setup_(setup),
        clock_(clock),
        faults_(faults),
        plant_(plant),
        partial_of_(std::move(partial_of)) {}

  bool Contains(const BlockName& name) const override;
  bool Put(const BlockName& name, std::span<const std::byte> bytes) override;
  void Flush() override;
  bool Get(uint64_t ticket, std::vector<BlockName> names) override;
  void Cancel(uint64_t ticket) override;
  std::vector<KvRead> TakeReads(size_t max_blocks) override;
  void SetWake(std::function<void()> /*wake*/) override {}
  void Erase(const BlockName& name) override;
  KvTierUsage Usage() const override;

  // The process is gone: what was not flushed is lost, and so is what was being read.
  void Kill();

  // Blocks of before the last kill that were found again.
  uint64_t found_after_kill() const { return found_after_kill_; }

 private:
  struct Block {
    std::vector<std::byte> bytes;
    bool durable = false;
    bool old = false;  // Of before the last kill.
  };
  struct Wanted {
    uint64_t ticket;
    size_t index;
    BlockName name;
    TimePoint ready;
  };
  using Blocks = std::unordered_map<BlockName, Block, BlockNameHash>;

  // The name under which the block is kept: its own, or what a plant makes of it.
  BlockName KeyOf(const BlockName& name) const;
  std::vector<std::byte> Read(const BlockName& name);
  void DropOldest();

  const TierSetup setup_;
  SimClock* const clock_;
  FaultPoints* const faults_;
  const Plant plant_;
  const PartialOf partial_of_;
  bool off_ = false;
  Blocks blocks_;
  std::deque<BlockName> order_;  // Oldest first; may name blocks that are gone.
  std::deque<Wanted> reads_;
  TimePoint busy_until_{0};
  int unflushed_ = 0;
  uint64_t found_after_kill_ = 0;
};

}  // namespace ropeway::sim

#endif  // ROPEWAY_SIM_SIM_TIER_H_
