// How one step's rows and attention problems are divided among the workers. This never affects a
// result.
#ifndef ROPEWAY_EXECUTOR_STEP_PLAN_H_
#define ROPEWAY_EXECUTOR_STEP_PLAN_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/batch.h"
#include "ropeway/status.h"

namespace ropeway::executor {

// With fewer rows per worker, all workers compute all rows, each a part of the output features;
// else each worker takes its own rows through all layers.
inline constexpr int kMinRowsPerWorker = 8;

// Rows of one sequence whose queries share each read of K and V.
inline constexpr int kAttentionTileRows = 16;

// Bounds of every batch, and the sizes of the model and the team.
struct PlanLimits {
  int workers = 1;
  int max_rows = 1;  // max_num_batched_tokens
  int max_seqs = 1;
  int vocab_size = 0;
  int max_positions = 0;
  int num_blocks = 0;
  int num_kv_heads = 1;
  std::vector<int32_t> windows = {0};  // One per group of layers: see KvLayout.
  bool causal = true;                  // As in ModelConfig.
};

// What Executor::Init says of arguments that cannot be: kInvalidArgument, with the field.
Status CheckLimits(int64_t kv_cache_bytes, int threads, int max_num_batched_tokens,
                   int max_num_seqs);

// The first position that the row at `position` sees in layers with this window (0: none).
constexpr int FirstSeen(int window, int position) {
  return window > 0 && position >= window ? position + 1 - window : 0;
}

// Rows [row, row + rows) of a RowSet, consecutive positions of one item, against one KV head, over
// the splits [split_begin, split_end) of the context.
struct AttentionUnit {
  int32_t row = 0;
  int32_t rows = 0;
  int32_t kv_head = 0;
  int32_t split_begin = 0;
  int32_t split_end = 0;
};

// A worker's part of the attention units. A worker that is done takes from the others' queues.
struct alignas(64) UnitQueue {
  std::atomic<int32_t> next{0};
  int32_t begin = 0;
  int32_t end = 0;
};

// Rows that pass through a layer together.
struct RowSet {
  std::vector<int32_t> item;      // For each row: the index of its batch item.
  std::vector<int32_t> position;  // For each row: its absolute position.
  bool by_rows = false;           // Each worker has its own rows (else its own output features).
  std::vector<AttentionUnit> units;
  // A unit covers one split only; partial results are merged when all units are done.
  bool deferred_merge = false;

  int size() const { return static_cast<int>(item.size()); }
};

// A row whose last hidden state is wanted: to draw the next token, to score a known one, or for an
// embedding.
struct OutputRow {
  int32_t row = 0;      // Index among all rows.
  int32_t sampled = 0;  // Index in StepResult.sampled, or -1 if scored.
  int32_t scored = 0;   // Index in StepResult.scored, or -1 if sampled.
};

// The rows [begin, end) of the outputs, which an item adds to its StepResult.pooled.
struct PooledRows {
  int32_t begin = 0;
  int32_t end = 0;
};

// A worker's part of a RowSet: some rows, and part `part` of `parts` of each matrix's panels.
struct Slice {
  int row_begin = 0;
  int row_end = 0;
  int part = 0;
  int parts = 1;

  int rows() const { return row_end - row_begin; }
};

Slice SliceOf(const RowSet& set, int worker, int workers);

// Part `part` of `parts` of `count` things is [ShareBegin(part), ShareBegin(part + 1)).
inline int ShareBegin(int count, int part, int parts) {
  return static_cast<int>(int64_t{count} * part / parts);
}

// Keeps its memory from step to step.
class StepPlan {
 public:
  explicit StepPlan(const PlanLimits& limits);

  // kInternal if the batch violates what Launch requires: computing it would corrupt memory.
  Status Build(const core::Batch& batch);

  const RowSet& all() const { return all_; }  // Every token of the batch.
  // The rows whose last hidden states are wanted: first those with logits, in the order of items,
  // then of positions; then those that are pooled.
  const RowSet& outputs() const { return outputs_; }
  int num_logits() const { return num_sampled_ + num_scored_; }
  // By index in StepResult.pooled.
  const std::vector<PooledRows>& pooled() const { return pooled_; }
  const std::vector<OutputRow>& output_rows() const {
    return output_rows_;
  }  // Parallel to outputs.

  UnitQueue* all_queues() { return all_queues_.get(); }
  UnitQueue* output_queues() { return output_queues_.get(); }

  // The most (row, KV head) pairs that have a deferred merge.
  static int MaxDeferredPairs(int workers) { return 2 * workers; }

 private:
  Status Check(const core::Batch& batch) const;
  Status CheckItem(const core::BatchItem& item) const;
  Status CheckBlocks(const core::BatchItem& item, int64_t end) const;
  Status CheckIds(const core::BatchItem& item) const;
  void AddOutputs(size_t index, const core::BatchItem& item, int first_row);
  void AddPooled(size_t index, const core::BatchItem& item, int first_row);
  // `end`: of the item's positions.
  void AddUnits(int first_row, int rows, int start, int end, RowSet* set) const;
  void SplitUnits(RowSet* set);
  void Finish(const core::Batch& batch, RowSet* set, UnitQueue* queues);

  const PlanLimits limits_;
  RowSet all_;
  RowSet outputs_;
  std::vector<OutputRow> output_rows_;
  std::vector<PooledRows> pooled_;
  std::vector<AttentionUnit> whole_;  // Scratch of SplitUnits.
  int32_t num_sampled_ = 0;
  int32_t num_scored_ = 0;
  std::unique_ptr<UnitQueue[]> all_queues_;
  std::unique_ptr<UnitQueue[]> output_queues_;
};

}  // namespace ropeway::executor

#endif  // ROPEWAY_EXECUTOR_STEP_PLAN_H_
