#include "bench/kernels/shapes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>

namespace ropeway::bench {
namespace {

// A type that is not supported does not get through BindTensors.
kernels::WeightType TypeOf(const model::TensorPart& part) {
  return model::WeightTypeOf(part.tensor->type).value_or(kernels::WeightType::kF32);
}

// Adds to `shapes` the products of `parts`, which have their input in common: one for all that are
// of one type. One that is there already counts once more.
void AddProducts(const std::vector<std::pair<std::string, model::TensorPart>>& parts,
                 std::vector<MatMulShape>* shapes) {
  std::vector<MatMulShape> products;
  for (const auto& [label, part] : parts) {
    if (!part) continue;
    const kernels::WeightType type = TypeOf(part);
    auto same = std::ranges::find(products, type, &MatMulShape::type);
    if (same == products.end()) {
      products.push_back({label, type, part.k, {}, 1, false});
      same = products.end() - 1;
    } else {
      same->label += "/" + label;
    }
    same->n.push_back(part.n);
  }
  for (const MatMulShape& product : products) {
    const auto same = std::ranges::find_if(*shapes, [&product](const MatMulShape& other) {
      return other.label == product.label && other.type == product.type && other.k == product.k &&
             other.n == product.n;
    });
    if (same == shapes->end()) {
      shapes->push_back(product);
    } else {
      ++same->count;
    }
  }
}

}  // namespace

int MatMulShape::total_n() const { return std::accumulate(n.begin(), n.end(), 0); }

size_t MatMulShape::weight_bytes() const {
  size_t bytes = 0;
  for (const int features : n) bytes += kernels::MatrixBytes(type, features, k);
  return bytes;
}

double MatMulShape::ops_per_row() const { return 2.0 * k * total_n(); }

std::string MatMulShape::Size() const { return fmt::format("{} x {}", k, fmt::join(n, "+")); }

size_t ModelShapes::weight_bytes() const {
  size_t bytes = output.weight_bytes();
  for (const MatMulShape& shape : layers) {
    bytes += shape.weight_bytes() * static_cast<size_t>(shape.count);
  }
  return bytes;
}

kernels::WeightType ModelShapes::main_type() const {
  std::map<kernels::WeightType, double> weights;
  for (const MatMulShape& shape : layers) weights[shape.type] += shape.ops_per_row() * shape.count;
  const auto most = std::ranges::max_element(
      weights, [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == weights.end() ? kernels::WeightType::kF32 : most->first;
}

ModelShapes ShapesOf(const model::ModelTensors& tensors, const std::string& name) {
  const model::ModelConfig& config = tensors.config;
  ModelShapes shapes;
  shapes.name = name;
  shapes.hidden_size = config.hidden_size;
  for (const model::LayerTensors& layer : tensors.layers) {
    AddProducts({{"q", layer.q}, {"k", layer.k}, {"v", layer.v}}, &shapes.layers);
    AddProducts({{"o", layer.o}}, &shapes.layers);
    AddProducts({{"gate", layer.gate}, {"up", layer.up}}, &shapes.layers);
    AddProducts({{"down", layer.down}}, &shapes.layers);
    // As many experts as a row goes through.
    for (size_t i = 0; i < static_cast<size_t>(config.experts.used); ++i) {
      const model::FfnTensors& expert = layer.experts[i];
      AddProducts({{"expert gate", expert.gate}, {"expert up", expert.up}}, &shapes.layers);
      AddProducts({{"expert down", expert.down}}, &shapes.layers);
    }
  }
  const model::TensorPart& output = tensors.output ? tensors.output : tensors.token_embedding;
  shapes.output = {"output", TypeOf(output), config.hidden_size, {config.vocab_size}, 1, true};
  shapes.attention = {config.num_kv_heads, config.num_heads / config.num_kv_heads, config.head_dim,
                      config.num_layers, kernels::KvType::kF16};
  return shapes;
}

ModelShapes OneBillionShapes(kernels::WeightType type, kernels::WeightType output_type) {
  constexpr int kHidden = 2048;
  constexpr int kIntermediate = 8192;
  constexpr int kKvSize = 512;
  constexpr int kLayers = 16;
  constexpr int kVocabulary = 128256;
  ModelShapes shapes;
  shapes.name = fmt::format("1B class in {} (shapes of Llama-3.2-1B, random weights)",
                            kernels::WeightTypeName(type));
  shapes.hidden_size = kHidden;
  shapes.layers = {{"q/k/v", type, kHidden, {kHidden, kKvSize, kKvSize}, kLayers, false},
                   {"o", type, kHidden, {kHidden}, kLayers, false},
                   {"gate/up", type, kHidden, {kIntermediate, kIntermediate}, kLayers, false},
                   {"down", type, kIntermediate, {kHidden}, kLayers, false}};
  shapes.output = {"output", output_type, kHidden, {kVocabulary}, 1, true};
  return shapes;
}

std::vector<MatMulShape> VocabularyShapes(kernels::WeightType type, int hidden) {
  std::vector<MatMulShape> shapes;
  // SmolLM2, Llama 3, Qwen 2.5 and Gemma, rounded to whole panels where they are not.
  for (const int vocabulary : {49152, 128256, 151936, 256000}) {
    shapes.push_back({"sampled", type, hidden, {vocabulary}, 1, true, false});
    shapes.push_back({"greedy", type, hidden, {vocabulary}, 1, true, true});
  }
  return shapes;
}

}  // namespace ropeway::bench
