// The tensors of a model file by their role, each checked against the configuration.
#ifndef ROPEWAY_MODEL_MODEL_TENSORS_H_
#define ROPEWAY_MODEL_MODEL_TENSORS_H_

#include <vector>

#include "model/arch/recipe.h"
#include "model/failures.h"
#include "model/gguf.h"
#include "model/model_config.h"
#include "ropeway/status.h"

namespace ropeway::model {

// Pointers into the file's table: valid as long as the GgufFile lives.
struct ModelTensors {
  ModelConfig config;  // Complete.
  TensorPart token_embedding;
  TensorPart position_embedding;
  TensorPart type_embedding;
  TensorPart embedding_norm;
  TensorPart embedding_norm_bias;
  TensorPart output_norm;
  TensorPart output_norm_bias;
  TensorPart output;  // None if tied to the embedding, or not causal.
  std::vector<LayerTensors> layers;
  std::vector<TensorPart> parts;  // All of the above, each once.
  // One per rotated pair; empty if the file has none. With kLongRope, the ones for short contexts.
  std::vector<float> rope_divisors;
  std::vector<float> long_rope_divisors;  // kLongRope: those for contexts beyond the original one.
};

// Reads the configuration by the recipe of the file's architecture; vocab_size and tied_output stay
// unset. kDataLoss for a missing or impossible value, kUnimplemented for an architecture without a
// recipe or a feature that Ropeway lacks; each with one sentence naming the key. Allocates nothing
// that grows with a number from the file, but 4 bytes for each of at most 4096 layers.
StatusOr<ModelConfig> ReadModelConfig(const GgufFile& file);

// Reads the configuration, finds every tensor and checks its type and shape. Fails with
// kUnimplemented, naming the tensor, if the file has one that the recipe does not know (a bias, an
// expert): ignoring it would change the results. Other errors as for ReadModelConfig. What it
// allocates is bounded by the file's size. `failures`, if given, gets all that is wrong; the result
// is the first of them. Tensors whose types or shapes have the same fault are one failure.
StatusOr<ModelTensors> BindTensors(const GgufFile& file, Failures* failures = nullptr);

}  // namespace ropeway::model

#endif  // ROPEWAY_MODEL_MODEL_TENSORS_H_
