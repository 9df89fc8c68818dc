// What a model computes, without its weights: its configuration and its tables of RoPE.
#ifndef ROPEWAY_MODEL_MODEL_H_
#define ROPEWAY_MODEL_MODEL_H_

#include <cstdint>
#include <memory>

#include "model/gguf.h"
#include "model/model_config.h"
#include "model/model_tensors.h"
#include "model/rope.h"
#include "ropeway/status.h"

namespace ropeway::model {

// Thread rule: all calls from any thread; nothing that they return changes.
class Model {
 public:
  // `tensors`: of the file, which is not needed afterwards. `max_positions`: rows of RoPE's tables,
  // at most the model's context length; 0: the context length. kResourceExhausted as
  // CheckRopeBytes, or if memory is short. May throw std::bad_alloc.
  static StatusOr<std::unique_ptr<Model>> Make(const GgufFile& file, const ModelTensors& tensors,
                                               int32_t max_positions);
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const ModelConfig& config() const { return config_; }
  // cos[rope.dim / 2], then sin[rope.dim / 2] for `position` in the layer; scaling included.
  // `is_long`: of a sequence longer than config().long_rope_above().
  const float* rope_row(int layer, int32_t position, bool is_long) const {
    if (window_rope_ != nullptr && config_.window(layer) > 0) return window_rope_->row(position);
    return (is_long && long_rope_ != nullptr ? long_rope_ : rope_)->row(position);
  }
  int32_t max_positions() const { return max_positions_; }

 private:
  explicit Model(const ModelConfig& config) : config_(config) {}

  const ModelConfig config_;
  std::unique_ptr<RopeTable> rope_;
  std::unique_ptr<RopeTable> long_rope_;    // Null: as rope_.
  std::unique_ptr<RopeTable> window_rope_;  // Null: as rope_.
  int32_t max_positions_ = 0;
};

// kResourceExhausted, naming the key, if the tables of RoPE are out of all proportion to the file:
// a small hostile file must not make us take gigabytes. `max_positions` as for Model::Make, which
// fails with it.
Status CheckRopeBytes(const GgufFile& file, const ModelConfig& config, int32_t max_positions);

// Bytes of the tables of RoPE once every position was used; `max_positions` as for Model::Make.
uint64_t RopeBytes(const ModelConfig& config, int32_t max_positions);

}  // namespace ropeway::model

#endif  // ROPEWAY_MODEL_MODEL_H_
