// The simulation's device and tier: the doubles of the engine's tests with virtual time and faults.
#ifndef ROPEWAY_SIM_DOUBLES_H_
#define ROPEWAY_SIM_DOUBLES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "engine/test_executor.h"
#include "kvcache/test_tier.h"
#include "plant.h"
#include "setup.h"

namespace ropeway::sim {

// A step costs 1 ms, 50 us a row, 1 us for each 10 positions that a row attends to, and what
// sampling takes (SamplingTime).
class SimExecutor final : public engine::TestExecutor {
 public:
  // `clock` and `faults` must outlive it. `prompt_len_of` gives a sequence's prompt length, for
  // prompt_rows; it may be empty.
  SimExecutor(base::VirtualClock* clock, base::FaultPoints* faults, Plant plant,
              std::function<int32_t(uint64_t)> prompt_len_of);

  StatusOr<executor::KvLayout> Init(int64_t kv_cache_bytes, int max_num_batched_tokens,
                                    int max_num_seqs) override;
  Status FinishReads() override;

  // Positions of the sequence's prompt that were computed since Init.
  int32_t prompt_rows(uint64_t sequence) const {
    const auto it = prompt_rows_.find(sequence);
    return it == prompt_rows_.end() ? 0 : it->second;
  }

  // How long a step takes for `tokens` positions of a sequence from `start` on, without sampling.
  static base::Duration TimeOf(int32_t start, int32_t tokens);
  // How long this item of `request` takes in a step, with sampling.
  static base::Duration TimeOf(const core::StepContent::Item& item,
                               const core::CoreRequest& request);

  // Called with each batch that was computed.
  std::function<void(const core::Batch& batch)> on_computed;

  // The next step fails, and what is to be read before it.
  void LoseDevice() { lost_ = true; }

 private:
  Status BeforeStep(const core::Batch& batch);
  void AfterStep(const core::Batch& batch, core::StepResult* result);

  base::VirtualClock* const clock_;
  base::FaultPoints* const faults_;
  const std::function<int32_t(uint64_t)> prompt_len_of_;
  bool lost_ = false;
  int memory_gone_ = 0;  // Steps that still fail for memory.
  std::map<uint64_t, int32_t> prompt_rows_;
  // Plant::kDiff: by sequence, positions ever computed; and what is computed again.
  std::map<uint64_t, int32_t> written_;
  std::vector<std::vector<TokenId>> changed_tokens_;
};

// A disk tier's promises: blocks are found under their names or not at all, and what was flushed
// survives Kill. Fault points:
//   tier_slow   a read takes 1000 times as long
//   tier_full   a block is not taken
//   tier_lossy  a block that is there cannot be read
//   tier_torn   a block is damaged: read, found broken and dropped
//   tier_off    it turns itself off, for good (until a kill)
class SimTier final : public kvcache::TestTier {
 public:
  // The (sequence, block of it) that a name without its length could mean; nullopt: no partial
  // block. For Plant::kPartialName alone.
  using PartialOf =
      std::function<std::optional<std::pair<uint64_t, int32_t>>(const core::BlockName&)>;

  SimTier(const TierSetup& setup, const base::VirtualClock* clock, base::FaultPoints* faults,
          Plant plant, PartialOf partial_of);

  bool Contains(const core::BlockName& name) const override {
    return !off && kvcache::TestTier::Contains(name);
  }
  bool Put(const core::BlockName& name, std::vector<std::byte> bytes) override;
  void Flush() override;
  bool Get(uint64_t ticket, std::vector<core::BlockName> names) override {
    return !off && kvcache::TestTier::Get(ticket, std::move(names));
  }
  void Erase(const core::BlockName& name) override;

  // Ends the process: what was not flushed is lost, and so is what was being read.
  void Kill();

  // Blocks from before the last kill that were found again.
  uint64_t found_after_kill() const { return found_after_kill_; }

 private:
  using Names = std::unordered_set<core::BlockName, core::BlockNameHash>;

  core::BlockName KeyOf(const core::BlockName& name) const override;
  base::TimePoint Now() const override { return clock_->Now(); }
  base::TimePoint ReadyAt() override;
  std::vector<std::byte> Read(const core::BlockName& name) override;

  const TierSetup setup_;
  const base::VirtualClock* const clock_;
  base::FaultPoints* const faults_;
  const Plant plant_;
  const PartialOf partial_of_;
  base::TimePoint busy_until_{0};
  Names durable_;
  Names old_;  // Stored before the last kill.
  int unflushed_ = 0;
  uint64_t found_after_kill_ = 0;
};

}  // namespace ropeway::sim

#endif  // ROPEWAY_SIM_DOUBLES_H_
