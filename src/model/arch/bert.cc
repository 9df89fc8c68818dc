// Architecture "bert" (Devlin et al. 2018): an encoder. Learned positions and types of tokens,
// LayerNorm of the residual stream, biases everywhere, the exact GELU, attention in both
// directions.
#include "model/arch/recipe.h"

namespace ropeway::model {
namespace {

ModelConfig ReadBert(MetadataReader* reader) {
  ModelConfig c;
  c.architecture = kBertRecipe.architecture;
  ReadSizes(reader, &c);
  c.norm = NormKind::kLayer;
  c.norm_placement = NormPlacement::kAfter;
  c.norm_eps = static_cast<float>(reader->Float("attention.layer_norm_epsilon", 1e-13, 0.1));
  ReadAttentionScale(reader, &c);
  c.position = PositionKind::kLearned;
  c.activation = Activation::kExactGelu;
  c.causal = reader->Bool("attention.causal", false);
  if (c.causal) {
    reader->Fail(StatusCode::kUnimplemented, "attention.causal",
                 "true is not supported; only false is");
  }
  c.token_types = reader->HasTensor(kTokenTypes);
  return c;
}

TensorSpecs BertLayer(const ModelConfig& c) {
  using L = LayerTensors;
  const int32_t hidden = c.hidden_size;
  const int32_t ffn = c.intermediate_size;
  return Join({QkvBiasSpecs(c),
               {MatrixSpec(&L::q, "attn_q.weight", hidden, c.q_size()),
                MatrixSpec(&L::k, "attn_k.weight", hidden, c.kv_size()),
                MatrixSpec(&L::v, "attn_v.weight", hidden, c.kv_size()),
                MatrixSpec(&L::o, "attn_output.weight", c.q_size(), hidden),
                VectorSpec(&L::o_bias, "attn_output.bias", hidden),
                VectorSpec(&L::attention_out_norm, "attn_output_norm.weight", hidden),
                VectorSpec(&L::attention_out_norm_bias, "attn_output_norm.bias", hidden),
                MatrixSpec(&L::up, "ffn_up.weight", hidden, ffn),
                VectorSpec(&L::up_bias, "ffn_up.bias", ffn),
                MatrixSpec(&L::down, "ffn_down.weight", ffn, hidden),
                VectorSpec(&L::down_bias, "ffn_down.bias", hidden),
                VectorSpec(&L::ffn_out_norm, "layer_output_norm.weight", hidden),
                VectorSpec(&L::ffn_out_norm_bias, "layer_output_norm.bias", hidden)}});
}

}  // namespace

const Recipe kBertRecipe = {"bert", ReadBert, BertLayer};

}  // namespace ropeway::model
