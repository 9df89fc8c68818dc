// A loaded model: configuration, repacked weights, RoPE table. Immutable after loading.
#ifndef ROPEWAY_MODEL_MODEL_H_
#define ROPEWAY_MODEL_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "model/gguf.h"
#include "ropeway/status.h"

namespace ropeway {

// The hyperparameters of architecture `llama`, each checked against the tensors' shapes.
struct LlamaConfig {
  int32_t num_layers = 0;
  int32_t hidden_size = 0;
  int32_t num_heads = 0;
  int32_t num_kv_heads = 0;  // Divides num_heads.
  int32_t head_dim = 0;      // A multiple of 16, at most 256.
  int32_t rope_dim = 0;      // Even, at most head_dim.
  int32_t intermediate_size = 0;
  int32_t vocab_size = 0;
  int32_t context_length = 0;
  float rms_norm_eps = 1e-5F;
  bool tied_output = false;

  int32_t q_size() const { return num_heads * head_dim; }
  int32_t kv_size() const { return num_kv_heads * head_dim; }
  // One KV block over all layers and heads: [layer][kv head]{K [head_dim][16], V [16][head_dim]}
  // f16.
  size_t kv_head_block_bytes() const { return size_t{2} * kKvBlockTokens * head_dim * 2; }
  size_t kv_block_bytes() const {
    return kv_head_block_bytes() * static_cast<size_t>(num_kv_heads) *
           static_cast<size_t>(num_layers);
  }
};

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
  // Repacks the weights of an open GGUF file, with `threads` threads, and releases the file's
  // mapped pages as it goes. The file is not needed afterwards. `max_positions`: rows of the RoPE
  // table; 0: the model's context length.
  static StatusOr<std::unique_ptr<Model>> Load(const GgufFile& file, int threads,
                                               int32_t max_positions = 0);
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const LlamaConfig& config() const { return config_; }
  const Matrix& token_embedding() const { return token_embedding_; }  // [vocab_size, hidden_size]
  const std::vector<LlamaLayer>& layers() const { return layers_; }
  const float* output_norm() const { return output_norm_; }  // [hidden_size]
  const Matrix& output() const {
    return output_;
  }  // [vocab_size, hidden_size]; may be the embedding.

  // cos[rope_dim / 2], then sin[rope_dim / 2] for `position`; scaling included.
  const float* rope_row(int32_t position) const {
    return rope_.data() + static_cast<size_t>(position) * static_cast<size_t>(config_.rope_dim);
  }
  int32_t max_positions() const { return max_positions_; }

 private:
  Model() = default;
  friend class ModelLoader;

  struct Arena;  // 64-byte aligned memory (large pages where there are some) of all weights.
  LlamaConfig config_;
  Matrix token_embedding_;
  Matrix output_;
  const float* output_norm_ = nullptr;
  std::vector<LlamaLayer> layers_;
  std::vector<float> rope_;
  int32_t max_positions_ = 0;
  std::unique_ptr<Arena> arena_;
};

}  // namespace ropeway

#endif  // ROPEWAY_MODEL_MODEL_H_
