// A loaded model: configuration, repacked weights, RoPE table. Immutable after loading.
#ifndef ROPEWAY_MODEL_MODEL_H_
#define ROPEWAY_MODEL_MODEL_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/kernels.h"
#include "model/gguf.h"
#include "model/llama_config.h"
#include "model/weight_arena.h"
#include "ropeway/status.h"

namespace ropeway {

struct LlamaLayer {
  const float* attention_norm = nullptr;  // [hidden_size]
  Matrix q;                               // [num_heads * head_dim, hidden_size]
  Matrix k;                               // [num_kv_heads * head_dim, hidden_size]
  Matrix v;                               // as k
  Matrix o;                               // [hidden_size, num_heads * head_dim]
  const float* ffn_norm = nullptr;        // [hidden_size]
  Matrix gate;                            // [intermediate_size, hidden_size]
  Matrix up;                              // as gate
  Matrix down;                            // [hidden_size, intermediate_size]
};

// Thread rule: immutable after Load; shared freely.
class Model {
 public:
  // Repacks the weights of an open GGUF file, with `threads` threads (at least 1; any number gives
  // the same bytes), and releases the file's mapped pages as it goes. The file is not needed
  // afterwards. `max_positions`: rows of the RoPE table, at most the model's context length; 0: all
  // of these. Errors as for BindLlamaTensors, or kResourceExhausted where memory is short.
  static StatusOr<std::unique_ptr<Model>> Load(const GgufFile& file, int threads,
                                               int32_t max_positions = 0);
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const LlamaConfig& config() const { return config_; }
  const Matrix& token_embedding() const { return token_embedding_; }  // [vocab_size, hidden_size]
  const std::vector<LlamaLayer>& layers() const { return layers_; }
  const float* output_norm() const { return output_norm_; }  // [hidden_size]
  const Matrix& output() const { return output_; }           // As the embedding, which it may be.

  // cos[rope_dim / 2], then sin[rope_dim / 2] for `position`; scaling included.
  const float* rope_row(int32_t position) const {
    return rope_.data() + static_cast<size_t>(position) * static_cast<size_t>(config_.rope_dim);
  }
  int32_t max_positions() const { return max_positions_; }

 private:
  Model() = default;
  friend class ModelLoader;

  LlamaConfig config_;
  Matrix token_embedding_;
  Matrix output_;
  const float* output_norm_ = nullptr;
  std::vector<LlamaLayer> layers_;
  std::vector<float> rope_;
  int32_t max_positions_ = 0;
  WeightArena arena_;  // What all matrices and norms point into.
};

}  // namespace ropeway

#endif  // ROPEWAY_MODEL_MODEL_H_
