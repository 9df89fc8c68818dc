// Builds the executor's batch from the scheduler's output, and checks the executor's result.
#ifndef ROPEWAY_ENGINE_BATCH_BUILDER_H_
#define ROPEWAY_ENGINE_BATCH_BUILDER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/batch.h"
#include "core/sequence.h"
#include "ropeway/status.h"
#include "scheduler/scheduler_output.h"

namespace ropeway::engine {

// One step's batch, whose items refer to the sequences.
//
// Thread rule: the engine thread.
class BatchBuilder {
 public:
  // The sequence's work behind a batch item, by the item's index in the batch.
  struct Work {
    scheduler::ScheduledItem planned;
    // The log-probs of its prompt, filled in from the result; their memory is reserved.
    std::vector<core::Scored> scored;
  };

  // `groups`: of layers, with blocks of their own (KvLayout).
  explicit BatchBuilder(int max_items, int32_t groups = 1);

  // Begins the batch of step `step`.
  void Begin(uint64_t step);

  // Adds an item, and reserves all memory that its result will need: in the sequence's ids for the
  // sampled token, and for the log-probs of its prompt. Throws std::bad_alloc with nothing added.
  void Add(const scheduler::ScheduledItem& planned);

  // Adds all padding rows of the step, which read the block `scratch` alone. REQUIRES: after all
  // other items. Throws std::bad_alloc with nothing added.
  void AddPadding(std::span<const scheduler::PaddingItem> planned, core::BlockId scratch);

  const core::Batch& batch() const { return batch_; }
  std::vector<Work>& work() { return work_; }

  // OK if `result` answers this batch, item by item. An executor that answers anything else is
  // trusted no more than one that fails.
  Status CheckResult(const core::StepResult& result) const;

  // Moves the log-probs of a prompt's ids out of the result into the work of the item that asked
  // for them, and counts them as scored; a prompt's first id has NaN. `next`: how many of
  // result->scored are taken, also by the items before. REQUIRES: the result was checked.
  void TakeScored(size_t item, core::StepResult* result, size_t* next);

  // The same for the sum of hidden states that the item has added to.
  void TakePooled(size_t item, core::StepResult* result, size_t* next);

  // Appends what each sequence computes in the step. Throws std::bad_alloc with some appended.
  void NoteItems(std::vector<core::StepContent::Item>* items) const;

 private:
  const int32_t groups_;
  core::Batch batch_;
  std::vector<Work> work_;  // One for each of the batch's items but padding.
  std::vector<TokenId> padding_tokens_;
  std::vector<core::BlockId> padding_blocks_;
};

}  // namespace ropeway::engine

#endif  // ROPEWAY_ENGINE_BATCH_BUILDER_H_
