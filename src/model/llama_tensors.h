// The tensors of a llama model by their places in it, each checked against the configuration.
#ifndef ROPEWAY_MODEL_LLAMA_TENSORS_H_
#define ROPEWAY_MODEL_LLAMA_TENSORS_H_

#include <vector>

#include "model/gguf.h"
#include "model/llama_config.h"
#include "ropeway/status.h"

namespace ropeway {

// Pointers into the file's table; they live as long as the GgufFile.
struct LlamaLayerTensors {
  const GgufTensor* attention_norm = nullptr;
  const GgufTensor* q = nullptr;
  const GgufTensor* k = nullptr;
  const GgufTensor* v = nullptr;
  const GgufTensor* o = nullptr;
  const GgufTensor* ffn_norm = nullptr;
  const GgufTensor* gate = nullptr;
  const GgufTensor* up = nullptr;
  const GgufTensor* down = nullptr;
};

struct LlamaTensors {
  LlamaConfig config;  // Complete.
  const GgufTensor* token_embedding = nullptr;
  const GgufTensor* output_norm = nullptr;
  const GgufTensor* output = nullptr;  // nullptr: the embedding's.
  std::vector<LlamaLayerTensors> layers;
  std::vector<float> rope_divisors;  // Of each rotated pair; empty where the file has none.
};

// Reads the configuration, finds every tensor and checks type and shape. A tensor that a llama
// model of ours has no place for (a bias, an expert) is refused by name, for it would change the
// results. Errors as for ReadLlamaConfig. What it allocates is bounded by the file's size.
StatusOr<LlamaTensors> BindLlamaTensors(const GgufFile& file);

}  // namespace ropeway

#endif  // ROPEWAY_MODEL_LLAMA_TENSORS_H_
