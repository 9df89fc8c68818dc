// The tensors of a model file by their role, each checked against the configuration.
#ifndef ROPEWAY_MODEL_MODEL_TENSORS_H_
#define ROPEWAY_MODEL_MODEL_TENSORS_H_

#include <vector>

#include "model/gguf.h"
#include "model/model_config.h"
#include "ropeway/status.h"

namespace ropeway::model {

struct LayerTensors {
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

// Pointers into the file's table: valid as long as the GgufFile lives.
struct ModelTensors {
  ModelConfig config;  // Complete.
  const GgufTensor* token_embedding = nullptr;
  const GgufTensor* output_norm = nullptr;
  const GgufTensor* output = nullptr;  // nullptr if tied to the embedding.
  std::vector<LayerTensors> layers;
  std::vector<const GgufTensor*> all;  // All of the above, each once.
  std::vector<float> rope_divisors;    // One per rotated pair; empty if the file has none.
};

// Reads the configuration by the recipe of the file's architecture; vocab_size and tied_output stay
// unset. kDataLoss for a missing or impossible value, kUnimplemented for an architecture without a
// recipe or a feature that Ropeway lacks; each with one sentence naming the key. Allocates nothing
// that grows with a number from the file.
StatusOr<ModelConfig> ReadModelConfig(const GgufFile& file);

// Reads the configuration, finds every tensor and checks its type and shape. Fails with
// kUnimplemented, naming the tensor, if the file has one that the recipe does not know (a bias, an
// expert): ignoring it would change the results. Other errors as for ReadModelConfig. What it
// allocates is bounded by the file's size.
StatusOr<ModelTensors> BindTensors(const GgufFile& file);

}  // namespace ropeway::model

#endif  // ROPEWAY_MODEL_MODEL_TENSORS_H_
