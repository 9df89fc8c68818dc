// A model's weights in a device's memory, as they are on the host: in panels.
#ifndef ROPEWAY_EXECUTOR_GPU_MODEL_H_
#define ROPEWAY_EXECUTOR_GPU_MODEL_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "executor/weights.h"
#include "gpu/ops.h"
#include "ropeway/status.h"

namespace ropeway::executor {

// A feed-forward network, or all experts of a layer.
struct GpuFfn {
  gpu::DeviceMatrix gate;
  gpu::DeviceMatrix up;
  gpu::DeviceMatrix down;
};

// As LayerWeights. A View without a buffer is what the layer does not
// have.
struct GpuLayer {
  gpu::View attention_norm;
  gpu::View attention_norm_bias;
  gpu::DeviceMatrix q;
  gpu::DeviceMatrix k;
  gpu::DeviceMatrix v;
  gpu::DeviceMatrix o;
  gpu::View q_norm;
  gpu::View k_norm;
  gpu::View sinks;
  gpu::View attention_post_norm;
  gpu::View attention_out_norm;
  gpu::View attention_out_norm_bias;
  gpu::View ffn_norm;
  gpu::View ffn_norm_bias;
  gpu::View ffn_post_norm;
  gpu::View ffn_out_norm;
  gpu::View ffn_out_norm_bias;
  GpuFfn ffn;      // Of a layer without experts.
  GpuFfn experts;  // All of them, one after the other.
  gpu::DeviceMatrix router;
  gpu::DeviceMatrix shared_gate;
  GpuFfn shared;
};

// Thread rule: immutable.
class GpuModel {
 public:
  // Allocates, and asks for the copies: the weights must live until the next
  // Gpu::Finish. Adds the types of its weights to `ops`. kResourceExhausted:
  // the device's memory is short.
  static StatusOr<std::unique_ptr<GpuModel>> Upload(const Weights& weights, gpu::Gpu* gpu,
                                                    gpu::Ops* ops);

  const std::vector<GpuLayer>& layers() const { return layers_; }
  const gpu::DeviceMatrix& token_embedding() const { return token_embedding_; }
  const gpu::DeviceMatrix& position_embedding() const { return position_embedding_; }
  const gpu::DeviceMatrix& output() const { return output_; }
  gpu::View type_embedding() const { return type_embedding_; }
  gpu::View embedding_norm() const { return embedding_norm_; }
  gpu::View embedding_norm_bias() const { return embedding_norm_bias_; }
  gpu::View output_norm() const { return output_norm_; }
  gpu::View output_norm_bias() const { return output_norm_bias_; }
  uint64_t bytes() const { return bytes_; }  // Of the device's memory.

 private:
  class Uploader;  // gpu_model.cc

  GpuModel() = default;

  std::vector<std::unique_ptr<gpu::Buffer>> buffers_;
  std::vector<GpuLayer> layers_;
  gpu::DeviceMatrix token_embedding_;
  gpu::DeviceMatrix position_embedding_;
  gpu::DeviceMatrix output_;
  gpu::View type_embedding_;
  gpu::View embedding_norm_;
  gpu::View embedding_norm_bias_;
  gpu::View output_norm_;
  gpu::View output_norm_bias_;
  uint64_t bytes_ = 0;
};

}  // namespace ropeway::executor

#endif  // ROPEWAY_EXECUTOR_GPU_MODEL_H_
