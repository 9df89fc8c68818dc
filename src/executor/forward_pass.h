// One forward pass of a transformer over the rows of a StepPlan, by a team of workers.
//
// The plan chooses one of two ways to divide the work, which have the same results:
//  - by output features (few rows): every worker normalizes and packs all rows for itself and
//    computes its part of each matrix's panels, with a barrier after each matrix;
//  - by rows (many): every worker takes its own rows through all matrices, with barriers around
//    attention only.
// Layers with experts share all rows' work among all workers in either case (ExpertLayer).
#ifndef ROPEWAY_EXECUTOR_FORWARD_PASS_H_
#define ROPEWAY_EXECUTOR_FORWARD_PASS_H_

#include <memory>
#include <utility>
#include <vector>

#include "base/worker_team.h"
#include "core/batch.h"
#include "executor/feed_forward.h"
#include "executor/kv_pool.h"
#include "executor/output_layer.h"
#include "executor/row_packer.h"
#include "executor/step_plan.h"
#include "executor/weights.h"
#include "kernels/kernels.h"

namespace ropeway::executor {

// The most rows of a worker that pass through a matrix together: their activations stay in the
// second-level cache from one matrix to the next.
inline constexpr int kTileRows = 64;

// Thread rule: Run from one thread; the team's workers compute inside it.
class ForwardPass {
 public:
  // Allocates everything that a step needs (throws std::bad_alloc). The arguments must outlive it,
  // except for `absent`, which is the OutputLayer's.
  ForwardPass(const Weights& weights, const kernels::Kernels& kernels, const KvPool& pool,
              base::WorkerTeam* team, const base::Clock& clock, const PlanLimits& limits,
              const std::vector<TokenId>& absent = {});

  // Computes K, V, the sampled tokens and the scores. `result` has an entry per output row, whose
  // `top_logprobs` has its final size and, if scored, whose id is set. Allocates nothing.
  // REQUIRES: `plan` was built from `batch`.
  void Run(const core::Batch& batch, StepPlan* plan, core::StepResult* result);

 private:
  // A worker's memory. Rows count from the first of its slice (x) or of the current tile.
  struct Worker {
    int id = 0;
    AlignedArray<float> x;        // [slice rows][hidden]: the residual stream.
    RowPacker packer;             // For tiles.
    AlignedArray<float> gate;     // [tile rows][some panels]
    AlignedArray<float> up;       // [tile rows][some panels]
    AlignedArray<std::byte> ffn;  // [tile rows], packed for the down matrix
    AlignedArray<float> y;        // [tile rows][hidden]
    AlignedArray<float> partial;  // [splits][kAttentionTileRows][group][PartialFloats]

    Worker(int number, RowPacker row_packer) : id(number), packer(std::move(row_packer)) {}
  };

  // Consecutive rows of one slice that pass through a phase together.
  struct Tile {
    int row = 0;  // Index in the row set.
    int rows = 0;
    int x = 0;  // Index of its first row in Worker::x.
  };

  struct Step {
    const core::Batch* batch;
    StepPlan* plan;
    core::StepResult* result;
  };

  // What each phase of a layer works on.
  struct Context {
    const Step* step;
    const RowSet* set;
    UnitQueue* queues;
    Slice slice;
    int layer;
  };

  enum Projections { kQ = 1, kKv = 2 };

  // A matrix whose products are added to the residual stream.
  struct Addend {
    const kernels::Matrix& matrix;
    const float* bias;
    const float* post_norm;  // Applied to the products first; nullptr: none.
    // The norm of the stream after that; nullptr: none.
    const float* out_norm;
    const float* out_norm_bias;
  };

  void RunWorker(const Step& step, Worker* w);
  void Embed(const Context& c, Worker* w);
  void ComputeQkv(const Context& c, int projections, Worker* w);
  void RopeAndStore(const Context& c, int row, int kv_head, int projections);
  // The norm of each head, where the layer has one, then RoPE.
  void PrepareHeads(const Context& c, int row, int heads, const float* norm, float* x);
  void Attend(const Context& c, Worker* w);
  // `next`: the unit that is likely computed next, for prefetching; may be nullptr.
  void AttendUnit(const Context& c, const AttentionUnit& unit, const AttentionUnit* next,
                  Worker* w);
  void MergeDeferred(const Context& c, const Worker& w);
  void ComputeOutputAndFfn(const Context& c, Worker* w);
  // Returns the hidden features of the tile's rows, packed for the down matrix.
  const std::byte* ComputeFfn(const Context& c, const Tile& tile, Worker* w);
  void KeepOutputRows(const Context& all, const Worker& w);

  // y[rows][stride] = packed * m + bias, for the panels of `m` that belong to the slice.
  void Multiply(const kernels::Matrix& m, const float* bias, const Slice& slice,
                const std::byte* packed, int rows, float* y, int64_t stride);
  // x rows += packed * matrix.
  void MultiplyAndAdd(const Addend& addend, const Slice& slice, const Tile& tile,
                      const std::byte* packed, Worker* w);
  // The end of the positions that the item's row at `position` sees.
  int EndSeen(const core::BatchItem& item, int position) const;
  const float* SinkOf(const Context& c, int kv_head, int head) const;

  template <typename Fn>
  void ForEachTile(const Slice& slice, Fn fn);
  // A barrier if workers share rows.
  void SyncParts(const Slice& slice) {
    if (slice.parts > 1) team_->Barrier();
  }

  const Weights& weights_;
  const model::Model& model_;
  const model::ModelConfig& config_;
  const kernels::Kernels& kernels_;
  const KvPool& pool_;
  base::WorkerTeam* const team_;
  const int group_;  // Query heads per KV head.
  const int max_splits_;
  int tile_rows_ = 0;

  // Shared by all workers, indexed by row of the set.
  AlignedArray<float> q_;          // [rows][q_size]
  AlignedArray<float> k_;          // [rows][kv_size]
  AlignedArray<float> v_;          // [rows][kv_size]
  AlignedArray<float> attention_;  // [rows][q_size]
  AlignedArray<std::byte> ffn_;    // [shared rows], packed, if workers share rows
  AlignedArray<float> y_;          // [shared rows][hidden], the same
  AlignedArray<float> deferred_;   // [pairs][splits][group][PartialFloats]
  std::vector<Worker> workers_;
  std::unique_ptr<ExpertLayer> experts_;  // Null: the model has none.
  OutputLayer output_;
};

}  // namespace ropeway::executor

#endif  // ROPEWAY_EXECUTOR_FORWARD_PASS_H_
