// What is measured: the matrix products and attention problems of a model, without their weights.
#ifndef ROPEWAY_BENCH_KERNELS_SHAPES_H_
#define ROPEWAY_BENCH_KERNELS_SHAPES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "model/model_tensors.h"

namespace ropeway::bench {

// Matrices of one type that multiply the same rows, which are packed once for all of them: q, k and
// v, or gate and up, or one matrix alone.
struct MatMulShape {
  std::string label;  // "q/k/v", "o", "gate/up", "down", "output".
  kernels::WeightType type = kernels::WeightType::kF32;
  int k = 0;            // Input features.
  std::vector<int> n;   // Output features of each matrix.
  int count = 1;        // How often it occurs in one forward pass.
  bool logits = false;  // Only for rows whose logits are wanted; workers always split its columns.
  // Of logits: only the largest of each row is wanted, and each part of them is searched while it
  // lies in the cache; else whole rows are written to memory.
  bool greedy = false;

  int total_n() const;
  size_t weight_bytes() const;
  // Multiplications and additions of one row.
  double ops_per_row() const;
  // "576 x 576+192+192".
  std::string Size() const;
};

// The attention of one layer.
struct AttentionShape {
  int num_kv_heads = 1;
  int group = 1;  // Query heads that share a KV head.
  int head_dim = 64;
  int num_layers = 1;
  kernels::KvType kv_type = kernels::KvType::kF16;
};

struct ModelShapes {
  std::string name;
  std::vector<MatMulShape> layers;  // Each distinct one of a layer, in a layer's order.
  MatMulShape output;               // For rows whose logits are wanted.
  AttentionShape attention;
  int hidden_size = 0;

  // All matrices that a forward pass reads: layers and output.
  size_t weight_bytes() const;
  // The type with the most weights in the layers.
  kernels::WeightType main_type() const;
};

// The shapes of a file's model. `name` stands in the report.
ModelShapes ShapesOf(const model::ModelTensors& tensors, const std::string& name);

// Llama-3.2-1B (its published config.json), its layers of type `type`, its output of
// `output_type`: products only, no attention.
ModelShapes OneBillionShapes(kernels::WeightType type, kernels::WeightType output_type);

// The product that makes logits, for each of several vocabularies (of 49k to 256k tokens) at
// `hidden` input features: first with whole rows, then greedy.
std::vector<MatMulShape> VocabularyShapes(kernels::WeightType type, int hidden);

}  // namespace ropeway::bench

#endif  // ROPEWAY_BENCH_KERNELS_SHAPES_H_
