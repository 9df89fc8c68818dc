// How one step's rows and attention problems are dealt out to the workers. Nothing here changes a
// result, only who computes it.
#ifndef ROPEWAY_EXECUTOR_STEP_PLAN_H_
#define ROPEWAY_EXECUTOR_STEP_PLAN_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/batch.h"
#include "ropeway/status.h"

namespace ropeway {

// With fewer rows per worker, all workers compute all rows, each a part of the output features;
// else each worker takes its own rows through the network.
inline constexpr int kMinRowsPerWorker = 8;

// Rows of one sequence whose queries read the same K and V together.
inline constexpr int kAttentionTileRows = 16;

// What a plan is made for.
struct PlanLimits {
  int workers = 1;
  int max_rows = 1;  // max_num_batched_tokens
  int max_seqs = 1;
  int vocab_size = 0;
  int max_positions = 0;
  int num_blocks = 0;
  int num_kv_heads = 1;
};

// Rows [row, row + rows) of a RowSet, consecutive positions of one item, against one KV head, over
// the splits [split_begin, split_end) of the context.
struct AttentionUnit {
  int32_t row = 0;
  int32_t rows = 0;
  int32_t kv_head = 0;
  int32_t split_begin = 0;
  int32_t split_end = 0;
};

// A worker's own part of the attention units; who is done with his helps the others.
struct alignas(64) UnitQueue {
  std::atomic<int32_t> next{0};
  int32_t begin = 0;
  int32_t end = 0;
};

// Rows that pass through a layer together.
struct RowSet {
  std::vector<int32_t> item;      // Of each row: index of its batch item ...
  std::vector<int32_t> position;  // ... and absolute position.
  bool by_rows = false;           // Each worker has its own rows (else its own output features).
  std::vector<AttentionUnit> units;
  // A unit covers one split only; the partial results are merged after all are there.
  bool deferred_merge = false;

  int size() const { return static_cast<int>(item.size()); }
};

// A row whose logits are wanted: for the token that comes after it, either drawn or already known.
struct OutputRow {
  int32_t row = 0;      // Its index among all rows.
  int32_t sampled = 0;  // Index in StepResult.sampled, or -1 ...
  int32_t scored = 0;   // ... and then that in StepResult.scored.
};

// The part of a RowSet that is one worker's: some rows, and of each matrix's panels part `part` of
// `parts`.
struct Slice {
  int row_begin = 0;
  int row_end = 0;
  int part = 0;
  int parts = 1;

  int rows() const { return row_end - row_begin; }
};

Slice SliceOf(const RowSet& set, int worker, int workers);

// The share of `count` things that falls to part `part` of `parts`: [ShareBegin(part),
// ShareBegin(part
// + 1)).
inline int ShareBegin(int count, int part, int parts) {
  return static_cast<int>(int64_t{count} * part / parts);
}

// Keeps its memory from step to step.
class StepPlan {
 public:
  explicit StepPlan(const PlanLimits& limits);

  // kInternal where the batch breaks Launch's requirements: computing it would corrupt memory.
  Status Build(const Batch& batch);

  const RowSet& all() const { return all_; }  // Every token of the batch.
  // The rows whose logits are wanted, in the order of items, then of positions.
  const RowSet& outputs() const { return outputs_; }
  const std::vector<OutputRow>& output_rows() const { return output_rows_; }  // Of each.

  UnitQueue* all_queues() { return all_queues_.get(); }
  UnitQueue* output_queues() { return output_queues_.get(); }

  // At most so many (row, KV head) pairs have a deferred merge.
  static int MaxDeferredPairs(int workers) { return 2 * workers; }

 private:
  Status Check(const Batch& batch) const;
  Status CheckItem(const BatchItem& item) const;
  Status CheckIds(const BatchItem& item) const;
  void AddOutputs(size_t index, const BatchItem& item, int first_row);
  void AddUnits(int first_row, int rows, int start, RowSet* set) const;
  void SplitUnits(RowSet* set);
  void Finish(RowSet* set, UnitQueue* queues);

  const PlanLimits limits_;
  RowSet all_;
  RowSet outputs_;
  std::vector<OutputRow> output_rows_;
  std::vector<AttentionUnit> whole_;  // SplitUnits' own.
  int32_t num_sampled_ = 0;
  int32_t num_scored_ = 0;
  std::unique_ptr<UnitQueue[]> all_queues_;
  std::unique_ptr<UnitQueue[]> output_queues_;
};

}  // namespace ropeway

#endif  // ROPEWAY_EXECUTOR_STEP_PLAN_H_
