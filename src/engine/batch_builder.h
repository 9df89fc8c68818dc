// From the scheduler's plan to the executor's batch, and the check of what comes back.
#ifndef ROPEWAY_ENGINE_BATCH_BUILDER_H_
#define ROPEWAY_ENGINE_BATCH_BUILDER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/batch.h"
#include "core/sequence.h"
#include "ropeway/status.h"
#include "scheduler/schedule.h"

namespace ropeway {

// One step's batch. Its items keep their vectors' memory from step to step.
//
// Thread rule: the engine thread.
class BatchBuilder {
 public:
  // What a batch item stands for, by its index in the batch.
  struct Work {
    ScheduledItem planned;
    // The log-probs of its prompt that its result brings, to be filled in; room for all is there.
    std::vector<Scored> scored;
  };

  explicit BatchBuilder(int max_items);

  // Begins the batch of step `step`.
  void Begin(uint64_t step);

  // Adds an item, and takes all memory that its result will need: room in the sequence's ids for
  // what is sampled, and for the log-probs of its prompt. Throws std::bad_alloc with nothing added.
  void Add(const ScheduledItem& planned);

  // Adds rows that stand for nobody and read the block `scratch` alone. After all others. Throws
  // std::bad_alloc with nothing added.
  void AddPadding(const PaddingItem& planned, BlockId scratch);

  const Batch& batch() const { return batch_; }
  std::vector<Work>& work() { return work_; }

  // OK where `result` is one of this batch: an executor that answers for others than asked can no
  // more be trusted than one that fails.
  Status CheckResult(const StepResult& result) const;

 private:
  Status CheckSampled(const StepResult& result) const;
  Status CheckScored(const StepResult& result) const;

  Batch batch_;
  std::vector<Work> work_;              // One for each of the batch's items but padding.
  std::vector<BatchItem> spare_items_;  // Beyond this step's number, for their memory.
};

}  // namespace ropeway

#endif  // ROPEWAY_ENGINE_BATCH_BUILDER_H_
