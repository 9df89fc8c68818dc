// Architecture "gpt2": learned positions, LayerNorm, q, k and v in one matrix, biases everywhere.
#include "model/arch/recipe.h"

namespace ropeway::model {
namespace {

ModelConfig ReadGpt2(MetadataReader* reader) {
  ModelConfig c;
  c.architecture = kGpt2Recipe.architecture;
  ReadSizes(reader, &c);
  c.norm = NormKind::kLayer;
  c.norm_eps = static_cast<float>(reader->Float("attention.layer_norm_epsilon", 1e-12, 0.1));
  ReadAttentionScale(reader, &c);
  c.position = PositionKind::kLearned;
  c.activation = Activation::kGelu;
  return c;
}

TensorSpecs Gpt2Layer(const ModelConfig& c) {
  using L = LayerTensors;
  const int32_t hidden = c.hidden_size;
  const int32_t ffn = c.intermediate_size;
  const int32_t q = c.q_size();
  const int32_t kv = c.kv_size();
  const int32_t all = q + 2 * kv;
  constexpr const char* kQkv = "attn_qkv.weight";
  constexpr const char* kQkvBias = "attn_qkv.bias";
  return {VectorSpec(&L::attention_norm, "attn_norm.weight", hidden),
          VectorSpec(&L::attention_norm_bias, "attn_norm.bias", hidden),
          MatrixRowsSpec(&L::q, kQkv, hidden, all, 0, q),
          MatrixRowsSpec(&L::k, kQkv, hidden, all, q, kv),
          MatrixRowsSpec(&L::v, kQkv, hidden, all, q + kv, kv),
          VectorPartSpec(&L::q_bias, kQkvBias, all, 0, q),
          VectorPartSpec(&L::k_bias, kQkvBias, all, q, kv),
          VectorPartSpec(&L::v_bias, kQkvBias, all, q + kv, kv),
          MatrixSpec(&L::o, "attn_output.weight", q, hidden),
          VectorSpec(&L::o_bias, "attn_output.bias", hidden),
          VectorSpec(&L::ffn_norm, "ffn_norm.weight", hidden),
          VectorSpec(&L::ffn_norm_bias, "ffn_norm.bias", hidden),
          MatrixSpec(&L::up, "ffn_up.weight", hidden, ffn),
          VectorSpec(&L::up_bias, "ffn_up.bias", ffn),
          MatrixSpec(&L::down, "ffn_down.weight", ffn, hidden),
          VectorSpec(&L::down_bias, "ffn_down.bias", hidden)};
}

}  // namespace

const Recipe kGpt2Recipe = {"gpt2", ReadGpt2, Gpt2Layer};

}  // namespace ropeway::model
