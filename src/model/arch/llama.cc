// Architecture "llama": Llama 2 and 3, TinyLlama, SmolLM and what is built like them.
#include <fmt/format.h>

#include <cmath>

#include "model/arch/recipe.h"

namespace ropeway::model {
namespace {

ModelConfig ReadLlama(MetadataReader* reader) {
  ModelConfig c;
  c.architecture = kLlamaRecipe.architecture;
  ReadSizes(reader, &c);
  c.norm_eps = static_cast<float>(reader->Float("attention.layer_norm_rms_epsilon", 1e-12, 0.1));
  if (!reader->status().ok()) return c;
  const double usual_scale = 1.0 / std::sqrt(static_cast<double>(c.head_dim));
  const double scale = reader->Float("attention.scale", 0.0, 1e3, usual_scale);  // 0: the usual.
  if (scale != 0.0 && std::fabs(scale - usual_scale) > 1e-6 * usual_scale) {
    reader->Fail(StatusCode::kUnimplemented, "attention.scale",
                 fmt::format("{} is not supported; only 1 / sqrt(key length) is", scale));
  }
  // In float throughout: the double's rounding may differ in the last bit.
  c.attention_scale = 1.0F / std::sqrt(static_cast<float>(c.head_dim));
  ReadRope(reader, &c);
  c.norm = NormKind::kRms;
  c.position = PositionKind::kRopeInterleaved;
  c.activation = Activation::kSwiGlu;
  return c;
}

std::vector<TensorSpec> LlamaLayerTensors(const ModelConfig& c) {
  using L = LayerTensors;
  const int32_t hidden = c.hidden_size;
  const int32_t ffn = c.intermediate_size;
  return {{&L::attention_norm, "attn_norm.weight", {hidden}},
          {&L::q, "attn_q.weight", {hidden, c.q_size()}},
          {&L::k, "attn_k.weight", {hidden, c.kv_size()}},
          {&L::v, "attn_v.weight", {hidden, c.kv_size()}},
          {&L::o, "attn_output.weight", {c.q_size(), hidden}},
          {&L::ffn_norm, "ffn_norm.weight", {hidden}},
          {&L::gate, "ffn_gate.weight", {hidden, ffn}},
          {&L::up, "ffn_up.weight", {hidden, ffn}},
          {&L::down, "ffn_down.weight", {ffn, hidden}}};
}

}  // namespace

const Recipe kLlamaRecipe = {"llama", ReadLlama, LlamaLayerTensors};

}  // namespace ropeway::model
