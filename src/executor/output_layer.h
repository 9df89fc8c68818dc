// The end of a forward pass: turns the last hidden states of the rows that are wanted into tokens
// and scores, and adds those of embeddings.
//
// The logits of a row that needs only the largest one (temperature 0, no penalties, no mask, no
// log-probs) are never written to memory: each part of them is searched while it is in the cache.
// The ids that are no token are excluded before anything reads the logits, so nothing can bring
// them back.
#ifndef ROPEWAY_EXECUTOR_OUTPUT_LAYER_H_
#define ROPEWAY_EXECUTOR_OUTPUT_LAYER_H_

#include <vector>

#include "base/clock.h"
#include "base/worker_team.h"
#include "core/batch.h"
#include "executor/row_packer.h"
#include "executor/step_plan.h"
#include "executor/weights.h"
#include "kernels/kernels.h"
#include "sampling/sampler.h"

namespace ropeway::executor {

// The most rows whose logits are computed together.
inline constexpr int kMaxLogitsRows = 64;

// Logits that are searched at once; they fit in the second-level cache.
inline constexpr int kLogitsPartFloats = 16384;

// Thread rule: Compute by all workers of the team at once; the rest from the thread that runs it.
class OutputLayer {
 public:
  // Allocates everything that a step needs (throws std::bad_alloc). The references must outlive it.
  // `absent`: ids that are no token, ascending: their logits are minus infinity.
  // `part_floats` does not affect results; a part is at least one panel for each row.
  OutputLayer(const Weights& weights, const kernels::Kernels& kernels, base::WorkerTeam* team,
              const base::Clock& clock, int max_rows, std::vector<TokenId> absent = {},
              int part_floats = kLogitsPartFloats);

  // The hidden states, before the final norm, that the caller fills in: [max_rows][hidden], in the
  // order of StepPlan::outputs().
  float* hidden() const { return hidden_.data(); }

  // Computes and samples, or pools, all output rows of the plan. Allocates nothing.
  // REQUIRES: every worker of the team calls it with its own number, after it has written its part
  // of hidden(); `result` as for ForwardPass::Run.
  void Compute(const core::Batch& batch, const StepPlan& plan, int worker,
               core::StepResult* result);

  // The longest time that a worker has spent on sampling since the last call, the matrix product
  // excluded. REQUIRES: no Compute is running.
  base::Duration TakeSamplingTime();

 private:
  struct Best {
    float logit;
    TokenId token;
  };
  struct alignas(64) Worker {
    Worker(const Weights& weights, const kernels::Kernels& kernels, int rows, int part_floats);
    RowPacker packer;
    sampling::Sampler sampler;
    AlignedArray<float> part;  // [rows][columns of a part]
    std::vector<Best> best;    // For each row, among this worker's columns.
    base::Duration sampling{};
  };
  // Rows [begin, begin + rows) of the outputs.
  struct Chunk {
    const core::Batch* batch;
    const StepPlan* plan;
    core::StepResult* result;
    int begin;
    int rows;
  };

  // A worker's panels of the output matrix.
  struct Panels {
    int begin;
    int end;
  };
  Panels PanelsOf(int worker) const;
  int PartPanels(int rows) const;
  void FindLargest(const Chunk& chunk, const std::byte* packed, int worker);
  void Finish(int rows, int first, int cols, float* logits, int64_t stride) const;
  void ReportBest(const Chunk& chunk, int row) const;
  void Pool(const StepPlan& plan, int worker, core::StepResult* result);

  const Weights& weights_;
  const kernels::Kernels& kernels_;
  base::WorkerTeam* const team_;
  const base::Clock& clock_;
  const std::vector<TokenId> absent_;
  const int part_floats_;
  const int logits_rows_;
  const int64_t logits_stride_;
  AlignedArray<float> hidden_;
  AlignedArray<float> logits_;  // [logits_rows_][logits_stride_]
  std::vector<Worker> workers_;
};

}  // namespace ropeway::executor

#endif  // ROPEWAY_EXECUTOR_OUTPUT_LAYER_H_
