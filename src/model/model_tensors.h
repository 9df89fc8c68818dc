// The tensors of a model file by their role, each checked against the configuration.
#ifndef ROPEWAY_MODEL_MODEL_TENSORS_H_
#define ROPEWAY_MODEL_MODEL_TENSORS_H_

#include <cstdint>
#include <vector>

#include "model/failures.h"
#include "model/gguf.h"
#include "model/model_config.h"
#include "ropeway/status.h"

namespace ropeway::model {

// Consecutive rows of a matrix, or elements of a vector: all of them, unless one tensor has several
// roles (q, k and v in one matrix, the experts of a layer).
struct TensorPart {
  const GgufTensor* tensor = nullptr;  // nullptr: the model has none of this role.
  uint64_t begin = 0;                  // The first row (output feature), or element.
  int32_t n = 0;                       // Rows, or elements.
  int32_t k = 0;                       // Input features; 0: a vector.

  explicit operator bool() const { return tensor != nullptr; }
};

// Of a feed-forward network, or of one expert.
struct FfnTensors {
  TensorPart gate;
  TensorPart up;
  TensorPart down;
  TensorPart gate_bias;
  TensorPart up_bias;
  TensorPart down_bias;
};

// Either the layer has a network of its own (`up`), or a router and experts.
struct LayerTensors : FfnTensors {
  TensorPart attention_norm;
  TensorPart attention_norm_bias;
  TensorPart q;
  TensorPart k;
  TensorPart v;
  TensorPart o;
  TensorPart q_bias;
  TensorPart k_bias;
  TensorPart v_bias;
  TensorPart o_bias;
  TensorPart q_norm;
  TensorPart k_norm;
  TensorPart sinks;
  TensorPart attention_post_norm;
  TensorPart ffn_norm;
  TensorPart ffn_norm_bias;
  TensorPart ffn_post_norm;
  TensorPart router;
  TensorPart router_bias;
  TensorPart shared_gate;
  std::vector<FfnTensors> experts;
  FfnTensors shared;  // The expert of all rows.
};

// Pointers into the file's table: valid as long as the GgufFile lives.
struct ModelTensors {
  ModelConfig config;  // Complete.
  TensorPart token_embedding;
  TensorPart position_embedding;
  TensorPart output_norm;
  TensorPart output_norm_bias;
  TensorPart output;  // None if tied to the embedding.
  std::vector<LayerTensors> layers;
  std::vector<TensorPart> parts;  // All of the above, each once.
  // One per rotated pair; empty if the file has none. Of kLongRope those for short contexts.
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
