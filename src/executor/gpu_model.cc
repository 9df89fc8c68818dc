#include "executor/gpu_model.h"

#include <span>
#include <utility>

namespace ropeway::executor {

using gpu::DeviceMatrix;
using gpu::View;
using kernels::Matrix;

// Copies piece after piece; the first failure stays, and nothing is copied
// after it.
class GpuModel::Uploader {
 public:
  Uploader(gpu::Gpu* gpu, gpu::Ops* ops, GpuModel* to) : gpu_(*gpu), ops_(*ops), to_(*to) {}

  const Status& status() const { return status_; }

  View Floats(const float* values, int count) {
    if (values == nullptr) return {};
    const auto bytes = std::as_bytes(std::span(values, static_cast<size_t>(count)));
    const View view = Allocate(bytes.size());
    Write(view, bytes);
    return view;
  }

  DeviceMatrix Of(const Matrix& matrix, const float* bias) {
    return OfAll(std::span(&matrix, 1), std::span(&bias, 1));
  }

  GpuFfn Of(const FfnWeights& ffn) {
    return {Of(ffn.gate, ffn.gate_bias), Of(ffn.up, ffn.up_bias), Of(ffn.down, ffn.down_bias)};
  }

  GpuFfn Of(const std::vector<FfnWeights>& experts) {
    return {OfAll(experts, &FfnWeights::gate, &FfnWeights::gate_bias),
            OfAll(experts, &FfnWeights::up, &FfnWeights::up_bias),
            OfAll(experts, &FfnWeights::down, &FfnWeights::down_bias)};
  }

 private:
  // One matrix of each expert.
  DeviceMatrix OfAll(const std::vector<FfnWeights>& experts, Matrix FfnWeights::*matrix,
                     const float* FfnWeights::*bias) {
    std::vector<Matrix> matrices;
    std::vector<const float*> biases;
    for (const FfnWeights& expert : experts) {
      matrices.push_back(expert.*matrix);
      biases.push_back(expert.*bias);
    }
    return OfAll(matrices, biases);
  }

  // Matrices of one type and shape, one after the other.
  DeviceMatrix OfAll(std::span<const Matrix> matrices, std::span<const float* const> biases) {
    if (matrices.empty() || matrices[0].panels == nullptr || !status_.ok()) return {};
    const Matrix& first = matrices[0];
    if (Status added = ops_.AddType(first.type); !added.ok()) {
      status_ = std::move(added);
      return {};
    }
    DeviceMatrix made = {first.type, first.n, first.k, {}, {}};
    const size_t size = kernels::MatrixBytes(first.type, first.n, first.k);
    const size_t bias_size = static_cast<size_t>(first.n) * sizeof(float);
    made.panels = Allocate(size * matrices.size());
    if (biases[0] != nullptr) made.bias = Allocate(bias_size * matrices.size());
    for (size_t i = 0; i < matrices.size(); ++i) {
      Write(made.panels + i * size, std::span(matrices[i].panels, size));
      if (biases[i] == nullptr) continue;
      Write(made.bias + i * bias_size,
            std::as_bytes(std::span(biases[i], static_cast<size_t>(first.n))));
    }
    return made;
  }

  View Allocate(size_t size) {
    if (!status_.ok()) return {};
    StatusOr<std::unique_ptr<gpu::Buffer>> buffer = gpu_.Allocate(size);
    if (!buffer.ok()) {
      status_ = buffer.status();
      return {};
    }
    to_.bytes_ += size;
    return {to_.buffers_.emplace_back(*std::move(buffer)).get(), 0};
  }

  void Write(View view, std::span<const std::byte> bytes) {
    if (status_.ok()) gpu_.Write(view, bytes);
  }

  gpu::Gpu& gpu_;
  gpu::Ops& ops_;
  GpuModel& to_;
  Status status_;
};

StatusOr<std::unique_ptr<GpuModel>> GpuModel::Upload(const Weights& weights, gpu::Gpu* gpu,
                                                     gpu::Ops* ops) {
  std::unique_ptr<GpuModel> made(new GpuModel);
  Uploader up(gpu, ops, made.get());
  const model::ModelConfig& config = weights.config();
  const int hidden = config.hidden_size;
  made->token_embedding_ = up.Of(weights.token_embedding(), nullptr);
  made->position_embedding_ = up.Of(weights.position_embedding(), nullptr);
  const bool tied = weights.output().panels == weights.token_embedding().panels;
  made->output_ = tied ? made->token_embedding_ : up.Of(weights.output(), nullptr);
  made->type_embedding_ = up.Floats(weights.type_embedding(), hidden);
  made->embedding_norm_ = up.Floats(weights.embedding_norm(), hidden);
  made->embedding_norm_bias_ = up.Floats(weights.embedding_norm_bias(), hidden);
  made->output_norm_ = up.Floats(weights.output_norm(), hidden);
  made->output_norm_bias_ = up.Floats(weights.output_norm_bias(), hidden);
  for (const LayerWeights& from : weights.layers()) {
    GpuLayer& to = made->layers_.emplace_back();
    to.attention_norm = up.Floats(from.attention_norm, hidden);
    to.attention_norm_bias = up.Floats(from.attention_norm_bias, hidden);
    to.q = up.Of(from.q, from.q_bias);
    to.k = up.Of(from.k, from.k_bias);
    to.v = up.Of(from.v, from.v_bias);
    to.o = up.Of(from.o, from.o_bias);
    to.q_norm = up.Floats(from.q_norm, config.head_dim);
    to.k_norm = up.Floats(from.k_norm, config.head_dim);
    to.sinks = up.Floats(from.sinks, config.num_heads);
    to.attention_post_norm = up.Floats(from.attention_post_norm, hidden);
    to.attention_out_norm = up.Floats(from.attention_out_norm, hidden);
    to.attention_out_norm_bias = up.Floats(from.attention_out_norm_bias, hidden);
    to.ffn_norm = up.Floats(from.ffn_norm, hidden);
    to.ffn_norm_bias = up.Floats(from.ffn_norm_bias, hidden);
    to.ffn_post_norm = up.Floats(from.ffn_post_norm, hidden);
    to.ffn_out_norm = up.Floats(from.ffn_out_norm, hidden);
    to.ffn_out_norm_bias = up.Floats(from.ffn_out_norm_bias, hidden);
    to.ffn = up.Of(static_cast<const FfnWeights&>(from));
    to.experts = up.Of(from.experts);
    to.router = up.Of(from.router, from.router_bias);
    to.shared_gate = up.Of(from.shared_gate, nullptr);
    to.shared = up.Of(from.shared);
  }
  if (!up.status().ok()) return up.status();
  return made;
}

}  // namespace ropeway::executor
