// A model's weights, packed as the kernels of every device read them.
#ifndef ROPEWAY_EXECUTOR_WEIGHTS_H_
#define ROPEWAY_EXECUTOR_WEIGHTS_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <vector>

#include "base/page_arena.h"
#include "kernels/kernels.h"
#include "model/gguf.h"
#include "model/model.h"
#include "model/model_tensors.h"
#include "ropeway/status.h"

namespace ropeway::executor {

// A matrix without panels, or a null pointer, is one that the model does not have; a bias has an
// element for each output feature of its matrix.

// A feed-forward network, or one expert.
struct FfnWeights {
  kernels::Matrix gate;  // [intermediate size, hidden_size]
  kernels::Matrix up;    // as gate
  kernels::Matrix down;  // [hidden_size, intermediate size]
  const float* gate_bias = nullptr;
  const float* up_bias = nullptr;
  const float* down_bias = nullptr;
};

// Either the layer has a network of its own, or a router and experts.
struct LayerWeights : FfnWeights {
  const float* attention_norm = nullptr;       // [hidden_size]
  const float* attention_norm_bias = nullptr;  // LayerNorm only.
  kernels::Matrix q;                           // [num_heads * head_dim, hidden_size]
  kernels::Matrix k;                           // [num_kv_heads * head_dim, hidden_size]
  kernels::Matrix v;                           // as k
  kernels::Matrix o;                           // [hidden_size, num_heads * head_dim]
  const float* q_bias = nullptr;
  const float* k_bias = nullptr;
  const float* v_bias = nullptr;
  const float* o_bias = nullptr;
  const float* q_norm = nullptr;               // [head_dim], of each head before RoPE.
  const float* k_norm = nullptr;               // as q_norm
  const float* sinks = nullptr;                // [num_heads]: see Kernels::attention_merge.
  const float* attention_post_norm = nullptr;  // [hidden_size], of what attention adds.
  const float* ffn_norm = nullptr;             // [hidden_size]
  const float* ffn_norm_bias = nullptr;        // LayerNorm only.
  const float* ffn_post_norm = nullptr;        // [hidden_size], of what the network adds.
  // Of the residual stream after attention, and after the network; [hidden_size].
  const float* attention_out_norm = nullptr;
  const float* attention_out_norm_bias = nullptr;
  const float* ffn_out_norm = nullptr;
  const float* ffn_out_norm_bias = nullptr;
  kernels::Matrix router;  // [experts, hidden_size]
  const float* router_bias = nullptr;
  std::vector<FfnWeights> experts;
  kernels::Matrix shared_gate;  // [1, hidden_size]
  FfnWeights shared;            // The expert of all rows.
};

// Calls fn(matrix) for each matrix that the layer has.
template <typename Fn>
void ForEachMatrix(const LayerWeights& layer, const Fn& fn) {
  const auto of = [&fn](std::initializer_list<const kernels::Matrix*> matrices) {
    for (const kernels::Matrix* matrix : matrices) {
      if (matrix->panels != nullptr) fn(*matrix);
    }
  };
  of({&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down, &layer.router,
      &layer.shared_gate, &layer.shared.gate, &layer.shared.up, &layer.shared.down});
  for (const FfnWeights& expert : layer.experts) of({&expert.gate, &expert.up, &expert.down});
}

// Thread rule: all calls from any thread; nothing that they return changes.
class Weights {
 public:
  // Repacks the weights of an open file with `threads` >= 1 threads (any number gives the same
  // bytes). The file is not needed afterwards; if it changes meanwhile the load fails (kDataLoss),
  // as it does where a weight, or the scale of a block of them, is not a finite number.
  // `max_positions` as for model::Model::Make. Errors as for model::BindTensors, or
  // kResourceExhausted if memory or threads are short.
  static StatusOr<std::unique_ptr<Weights>> Load(const model::GgufFile& file, int threads,
                                                 int32_t max_positions = 0);
  Weights(const Weights&) = delete;
  Weights& operator=(const Weights&) = delete;

  // The model that they are of. It may outlive them, where a device has a copy.
  const std::shared_ptr<const model::Model>& model() const { return model_; }
  const model::ModelConfig& config() const { return model_->config(); }
  // [vocab_size, hidden_size].
  const kernels::Matrix& token_embedding() const { return token_embedding_; }
  const std::vector<LayerWeights>& layers() const { return layers_; }
  // [context_length, hidden_size], of PositionKind::kLearned.
  const kernels::Matrix& position_embedding() const { return position_embedding_; }
  // [hidden_size]; nullptr: the model has none.
  const float* type_embedding() const { return type_embedding_; }  // Of all tokens.
  const float* embedding_norm() const { return embedding_norm_; }
  const float* embedding_norm_bias() const { return embedding_norm_bias_; }
  const float* output_norm() const { return output_norm_; }
  const float* output_norm_bias() const { return output_norm_bias_; }  // LayerNorm only.
  // [vocab_size, hidden_size]; may be tied. Of causal models only.
  const kernels::Matrix& output() const { return output_; }

  uint64_t bytes() const { return arena_.size(); }  // Of all matrices and norms.

 private:
  class Loader;  // weights.cc

  Weights() = default;

  std::shared_ptr<const model::Model> model_;
  kernels::Matrix token_embedding_;
  kernels::Matrix position_embedding_;
  kernels::Matrix output_;
  const float* type_embedding_ = nullptr;
  const float* embedding_norm_ = nullptr;
  const float* embedding_norm_bias_ = nullptr;
  const float* output_norm_ = nullptr;
  const float* output_norm_bias_ = nullptr;
  std::vector<LayerWeights> layers_;
  base::PageArena arena_;  // Owns all matrices and norms.
};

// Bytes that the tensors take in memory once they are loaded.
uint64_t LoadedBytes(const model::ModelTensors& tensors);

}  // namespace ropeway::executor

#endif  // ROPEWAY_EXECUTOR_WEIGHTS_H_
