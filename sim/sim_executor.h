// The simulation's device: TestExecutor's tokens, a cost in virtual time, and faults.
#ifndef ROPEWAY_SIM_SIM_EXECUTOR_H_
#define ROPEWAY_SIM_SIM_EXECUTOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "base/random.h"
#include "engine/test_executor.h"
#include "executor/executor.h"
#include "plant.h"
#include "sim_clock.h"

namespace ropeway::sim {

// A step costs 1 ms, 50 us a row and 1 us for each 10 positions that a row attends to.
class SimExecutor final : public Executor {
 public:
  // `clock` and `faults` must outlive it. `scope_of`: see TestExecutor. `prompt_len_of`: of a
  // sequence, for prompt_rows.
  SimExecutor(SimClock* clock, FaultPoints* faults, Plant plant,
              std::function<int32_t(uint64_t)> scope_of,
              std::function<int32_t(uint64_t)> prompt_len_of)
      : clock_(clock), faults_(faults), plant_(plant), prompt_len_of_(std::move(prompt_len_of)) {
    device_.scope_of = std::move(scope_of);
  }

  StatusOr<KvLayout> Init(int64_t kv_cache_bytes, int max_num_batched_tokens,
                          int max_num_seqs) override;
  void Launch(const Batch& batch) override;
  StatusOr<StepResult> Wait() override;
  void ReadBlock(BlockId block, std::span<std::byte> bytes) const override;
  void WriteBlock(BlockId block, std::span<const std::byte> bytes) override;

  // Positions of the sequence's prompt that were computed since Init.
  int32_t prompt_rows(uint64_t sequence) const {
    const auto it = prompt_rows_.find(sequence);
    return it == prompt_rows_.end() ? 0 : it->second;
  }

  // The next step fails.
  void LoseDevice() { lost_ = true; }

  // What no executor could have computed; empty: nothing (see TestExecutor).
  const std::string& violation() const { return device_.violation(); }
  const std::string& foreign_read() const { return device_.foreign_read(); }

 private:
  void CorruptRecomputed();

  SimClock* const clock_;
  FaultPoints* const faults_;
  const Plant plant_;
  const std::function<int32_t(uint64_t)> prompt_len_of_;
  TestExecutor device_;
  Batch batch_;
  bool lost_ = false;
  int memory_gone_ = 0;  // Steps for which it still is.
  std::map<uint64_t, int32_t> prompt_rows_;
  std::map<uint64_t, int32_t> written_;  // Plant::kDiff: by sequence, positions ever computed.
};

}  // namespace ropeway::sim

#endif  // ROPEWAY_SIM_SIM_EXECUTOR_H_
