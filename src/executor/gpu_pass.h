// One forward pass on a device other than the CPU: asks for all rows of a
// StepPlan, layer after layer, and gets the logits and the hidden states that
// are wanted.
#ifndef ROPEWAY_EXECUTOR_GPU_PASS_H_
#define ROPEWAY_EXECUTOR_GPU_PASS_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/batch.h"
#include "executor/gpu_model.h"
#include "executor/step_plan.h"
#include "gpu/ops.h"
#include "model/model.h"
#include "ropeway/status.h"

namespace ropeway::executor {

// The KV cache in the device's memory, as KvPool has it.
struct GpuKvPool {
  kernels::KvType type = kernels::KvType::kF16;
  model::KvGroups groups;
  std::unique_ptr<gpu::Buffer> memory;
  int32_t num_blocks = 0;
  size_t block_bytes = 0;
  size_t head_bytes = 0;
};

// The most rows whose logits are computed together: GpuPass::logits_rows, if a step has so many.
inline constexpr int kGpuLogitsRows = 64;

// Thread rule: one thread, Gpu's. What Begin asks for happens until the next
// Gpu::Finish, and the plan and the pass's own memory are read until then.
class GpuPass {
 public:
  // Allocates the memory of every step. The arguments must outlive it.
  // kResourceExhausted: memory is short, the host's or the device's.
  static StatusOr<std::unique_ptr<GpuPass>> Make(const model::Model& model, const GpuModel& weights,
                                                 const GpuKvPool& pool, gpu::Gpu* gpu,
                                                 gpu::Ops* ops, const PlanLimits& limits,
                                                 const std::vector<TokenId>& absent);

  // Computes K and V of all rows, and the last hidden states of the output rows.
  void Begin(const core::Batch& batch, const StepPlan& plan);
  // The logits of output rows [begin, begin + rows), rows <= logits_rows(), finished as
  // FinishLogits has it, to the host: [rows][vocab_size].
  void GetLogits(int begin, int rows, std::span<float> logits);
  // Only the largest of each row, as Ops::FindLargest has it.
  void GetLargest(int begin, int rows, std::span<float> logits, std::span<TokenId> ids);
  // The last hidden states of output rows [begin, begin + rows), after the
  // final norm if there is one, to the host: [rows][hidden_size].
  void GetHidden(int begin, int rows, std::span<float> hidden);

  // The most rows of GetLogits and GetLargest.
  int logits_rows() const { return logits_rows_; }
  // Between the host and the device since the last call.
  int64_t TakeCopiedBytes() { return std::exchange(copied_bytes_, 0); }
  // Experts whose weights were read, as StepResult::experts_read, since the last call.
  int64_t TakeExpertsRead() { return std::exchange(experts_read_, 0); }
  // Of the device's memory.
  int64_t bytes() const;

 private:
  // What the device is told of a set of rows, and the host's copy of it.
  struct RowInputs {
    std::vector<int32_t> ids;           // Tokens; of output rows: their places among all rows.
    std::vector<int32_t> positions;     // For positions' embeddings.
    std::vector<int32_t> slots;         // Where K and V are stored; -1: nowhere.
    std::vector<int32_t> ends;          // A row sees the positions before this one.
    std::vector<int32_t> row_tables;    // Where its block table begins.
    std::vector<int32_t> splits;        // Of each group of layers: the most that a row sees.
    std::vector<float> cos_sin;         // [rows][rope.dim], of layers that see all positions ...
    std::vector<float> window_cos_sin;  // ... and of those with a window.
    gpu::View at_ids, at_positions, at_slots, at_ends, at_row_tables, at_cos_sin, at_window;
    int rows = 0;
  };

  GpuPass(const model::Model& model, const GpuModel& weights, const GpuKvPool& pool, gpu::Gpu* gpu,
          gpu::Ops* ops, int max_rows);
  Status Allocate(const PlanLimits& limits, const std::vector<TokenId>& absent);
  void Send(gpu::View to, std::span<const std::byte> bytes);
  void Get(gpu::View from, std::span<std::byte> bytes);
  // The last hidden states of output rows [begin, begin + rows), after the final norm.
  gpu::Rows NormOutputs(int begin, int rows);
  void ComputeLogits(int begin, int rows);
  Status AllocateInputs(const PlanLimits& limits, RowInputs* inputs);
  StatusOr<gpu::View> AllocateBytes(size_t bytes);

  void FillTables(const core::Batch& batch);
  void Fill(const core::Batch& batch, const RowSet& set, RowInputs* inputs);
  void Send(RowInputs* inputs);

  void Embed(const RowInputs& in);
  enum Projections { kQ = 1, kKv = 2 };
  // Of the rows in x.
  void ComputeQkv(const RowInputs& in, int layer, int projections, gpu::Rows x);
  void Attend(const RowInputs& in, int layer);
  void FinishLayer(const RowInputs& in, int layer, gpu::Rows x);
  void ComputeExperts(const RowInputs& in, const GpuLayer& layer, gpu::Rows x);
  void RotateHeads(const RowInputs& in, int layer, int heads, gpu::View norm, gpu::Rows x);
  gpu::KvView KvOf(const RowInputs& in, int layer) const;

  // The model's norm; x where there is none.
  gpu::Rows Norm(gpu::Rows x, gpu::View weight, gpu::View bias, int rows, gpu::Rows to);
  // Packs the rows if one of the matrices wants that.
  void PackFor(std::initializer_list<const gpu::DeviceMatrix*> matrices, gpu::Rows x, int rows);
  void Multiply(const gpu::DeviceMatrix& matrix, gpu::Rows x, int rows, gpu::Rows y,
                const gpu::RowMatrices& which = {});
  void AddToStream(gpu::View post_norm, gpu::View out_norm, gpu::View out_norm_bias, int rows,
                   gpu::Rows x);
  void RunFfn(const GpuFfn& ffn, gpu::Rows in, int rows, int inner, gpu::Rows out,
              const gpu::RowMatrices& first = {}, const gpu::RowMatrices& second = {});

  const int logits_rows_;
  const model::Model& model_;
  const model::ModelConfig& config_;
  const GpuModel& weights_;
  const GpuKvPool& pool_;
  gpu::Gpu& gpu_;
  gpu::Ops& ops_;

  std::vector<std::unique_ptr<gpu::Buffer>> buffers_;
  RowInputs all_;
  RowInputs outputs_;
  std::vector<int32_t> tables_;        // The block tables of all items.
  std::vector<int32_t> table_begins_;  // Of each item.
  gpu::View at_tables_;

  gpu::Rows x_;       // [rows][hidden]: the residual stream.
  gpu::Rows last_;    // The same of the output rows.
  gpu::Rows normed_;  // As x_.
  gpu::Rows q_;
  gpu::Rows k_;
  gpu::Rows v_;
  gpu::Rows attention_;
  gpu::View partials_;  // Of attention, while its splits are computed apart.
  gpu::Rows y_;         // [rows][hidden]
  gpu::View gate_;      // [rows, or uses of experts][intermediate size]
  gpu::View up_;        // as gate_
  gpu::PackedRows packed_;
  gpu::Rows logits_;       // [logits_rows_][vocab_size]
  gpu::View largest_;      // [logits_rows_] f32
  gpu::View largest_ids_;  // [logits_rows_] int32
  gpu::View absent_;       // Ids that are no token.
  int absent_count_ = 0;
  int64_t copied_bytes_ = 0;
  int64_t experts_read_ = 0;
  gpu::Rows router_logits_;  // [rows][experts]
  gpu::View chosen_;         // [rows][used]
  gpu::View chosen_weights_;
  gpu::Rows shared_weights_;  // [rows][1]
  gpu::Rows expert_outputs_;  // [rows * used][hidden]
};

}  // namespace ropeway::executor

#endif  // ROPEWAY_EXECUTOR_GPU_PASS_H_
