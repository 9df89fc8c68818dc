// The hyperparameters of architecture `llama`, read from a GGUF file's metadata.
#ifndef ROPEWAY_MODEL_LLAMA_CONFIG_H_
#define ROPEWAY_MODEL_LLAMA_CONFIG_H_

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"
#include "model/gguf.h"
#include "model/rope.h"
#include "ropeway/status.h"

namespace ropeway {

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
  RopeParams rope;  // rope.dim == rope_dim.

  int32_t q_size() const { return num_heads * head_dim; }
  int32_t kv_size() const { return num_kv_heads * head_dim; }
  // One KV block over all layers and heads: [layer][kv head], each as KvHeadBlockBytes describes.
  size_t kv_block_bytes(KvType type) const {
    return KvHeadBlockBytes(type, head_dim) * static_cast<size_t>(num_kv_heads) *
           static_cast<size_t>(num_layers);
  }
};

// Reads and checks the metadata; tensors are checked by BindLlamaTensors, which also sets
// vocab_size and tied_output. kDataLoss for a missing or impossible value, kUnimplemented for
// another architecture or a feature that Ropeway lacks; each with one sentence naming the key.
// Allocates nothing that grows with a number from the file.
StatusOr<LlamaConfig> ReadLlamaConfig(const GgufFile& file);

}  // namespace ropeway

#endif  // ROPEWAY_MODEL_LLAMA_CONFIG_H_
