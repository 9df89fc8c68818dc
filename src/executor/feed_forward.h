// What the feed-forward networks of all kinds have in common.
#ifndef ROPEWAY_EXECUTOR_FEED_FORWARD_H_
#define ROPEWAY_EXECUTOR_FEED_FORWARD_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/worker_team.h"
#include "executor/row_packer.h"
#include "executor/step_plan.h"
#include "executor/weights.h"
#include "kernels/kernels.h"

namespace ropeway::executor {

// Panels of gate and up that are multiplied before their activation combines them: a tile's rows by
// so many panels stay in the first two caches. Fewer rows than kFewRows are bound by memory: they
// stream all of gate, then all of up, which is 5 to 11 % faster than alternating.
inline constexpr int kFfnPanels = 8;
inline constexpr int kFewRows = 8;
inline constexpr int kBlockPanels = 2;  // Panels whose features make one quantisation block.

// Whether rows that are packed for one of the matrices serve the other.
inline bool SamePacking(const kernels::Matrix& a, const kernels::Matrix& b) {
  return kernels::RowPackingOf(a.type) == kernels::RowPackingOf(b.type);
}

// y[rows][stride] += bias, of `cols` elements; nullptr: none.
void AddBias(const kernels::Kernels& kernels, const float* bias, int rows, int cols, float* y,
             int64_t stride);

// y[rows][stride] = the features of panels [begin, end) of the matrix, with their bias.
void MultiplyPanels(const kernels::Kernels& kernels, const kernels::Matrix& m, const float* bias,
                    const std::byte* packed, int rows, int begin, int end, float* y,
                    int64_t stride);

// Combines `cols` columns of gate and up, [rows][stride], in `gate`.
void ActivateRows(const kernels::Kernels& kernels, model::Activation activation, int rows, int cols,
                  float* gate, const float* up, int64_t stride);

// Packs columns [col, col + cols) of the rows that `m` will be multiplied with.
void PackColumns(const kernels::Kernels& kernels, const kernels::Matrix& m, const float* x,
                 int64_t stride, int rows, int col, int cols, std::byte* packed);

// Chooses `config.used` experts of one row: those with the largest logits, of equal ones the first;
// NaN counts as less than any number. ids: ascending; weights: of each of them. `scratch` has room
// for a number per expert.
void ChooseExperts(const kernels::Kernels& kernels, const model::ExpertsConfig& config,
                   const float* logits, float* scratch, int32_t* ids, float* weights);

// The feed-forward network of a layer with experts (Shazeer et al. 2017).
//
// The rows of a step are gathered by expert, so that each expert's weights are read once however
// many rows go through it. All workers compute each phase together: first each row's experts, then
// the hidden features of all experts, divided by their cost, then the outputs, divided by columns.
// A row's output is summed over its experts in the order of their numbers: it depends neither on
// that division nor on the rows that share an expert with it.
//
// Thread rule: Compute by all workers of the team at once; the rest from the thread that runs it.
class ExpertLayer {
 public:
  // Allocates everything that a step needs (throws std::bad_alloc). The arguments must outlive it.
  // REQUIRES: the model has experts.
  ExpertLayer(const Weights& weights, const kernels::Kernels& kernels, base::WorkerTeam* team,
              int max_rows);

  // x += the layer's output, for all `rows` rows of a set. `x`: the rows of the worker's slice.
  // REQUIRES: every worker of the team calls it with its own number and slice.
  void Compute(const LayerWeights& layer, const Slice& slice, int rows, int worker, float* x);

  // Experts that some row went through, summed over the layers since the last call.
  // REQUIRES: no Compute is running.
  int64_t TakeExpertsRead() { return std::exchange(experts_read_, 0); }

 private:
  // A row that goes through an expert.
  struct Use {
    int32_t row;
    float weight;
  };
  // The rows that go through one expert: uses [begin, end) of the list, and where their hidden
  // features lie, packed for its down matrix.
  struct Group {
    int32_t begin = 0;
    int32_t end = 0;
    size_t hidden = 0;

    int rows() const { return end - begin; }
  };
  struct Worker {
    Worker(int number, RowPacker row_packer) : id(number), packer(std::move(row_packer)) {}
    int id;
    RowPacker packer;                // For the router.
    AlignedArray<float> rows;        // [kRowGroup][hidden]
    AlignedArray<float> scratch;     // [experts]
    AlignedArray<std::byte> packed;  // [max rows], packed for gate or up
    AlignedArray<float> gate;        // [max rows][some panels]
    AlignedArray<float> up;          // as gate
    std::vector<Use> uses;           // All experts' uses, one after another.
    std::vector<Group> groups;       // One per expert; the last one has all rows.
  };

  // Normalizes the rows of the worker's part and chooses their experts.
  void Route(const LayerWeights& layer, const Slice& slice, int rows, const float* x, Worker* w);
  void RouteTile(const LayerWeights& layer, int row, int rows, Worker* w);
  void ListUses(const LayerWeights& layer, int rows, Worker* w) const;
  const FfnWeights& NetworkOf(const LayerWeights& layer, size_t group) const {
    return group < layer.experts.size() ? layer.experts[group] : layer.shared;
  }
  // The worker's part of all experts' hidden features.
  void ComputeHidden(const LayerWeights& layer, Worker* w);
  void ComputeBlocks(const FfnWeights& ffn, const Group& group, int panel_begin, int panel_end,
                     Worker* w);
  const std::byte* PackUses(kernels::WeightType type, const Group& group, Worker* w);
  // The worker's columns of all rows' outputs.
  void ComputeOutputs(const LayerWeights& layer, int rows, Worker* w);

  const model::ModelConfig& config_;
  const kernels::Kernels& kernels_;
  base::WorkerTeam* const team_;
  const int hidden_;
  const int64_t logits_stride_;

  // Shared by all workers, indexed by row.
  AlignedArray<float> normed_;        // [rows][hidden]
  AlignedArray<float> logits_;        // [rows][logits_stride_]
  AlignedArray<int32_t> chosen_;      // [rows][used]
  AlignedArray<float> weights_;       // [rows][used]
  AlignedArray<float> shared_;        // [rows]: the weight of the expert of all rows.
  AlignedArray<std::byte> features_;  // Each expert's rows, packed for its down matrix.
  AlignedArray<float> sums_;          // [rows][hidden]
  std::vector<Worker> workers_;
  int64_t experts_read_ = 0;  // Worker 0's.
};

}  // namespace ropeway::executor

#endif  // ROPEWAY_EXECUTOR_FEED_FORWARD_H_
