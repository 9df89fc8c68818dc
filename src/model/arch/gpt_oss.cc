// Architecture "gpt-oss": experts, attention sinks, windows in every second layer.
#include "model/arch/recipe.h"

namespace ropeway::model {
namespace {

ModelConfig ReadGptOss(MetadataReader* reader) {
  ModelConfig c = ReadRopeDecoder(reader, PositionKind::kRopeNeox, Activation::kSwiGluClamped);
  c.rope.yarn_whole_pairs = false;
  reader->Uint("attention.sliding_window", 1, 1 << 24);  // Not to be absent.
  ReadWindows(reader, 0, 2, &c);
  ReadWindowRope(reader, &c);
  ReadExperts(reader, c.intermediate_size, &c);
  return c;
}

TensorSpecs GptOssLayer(const ModelConfig& c) {
  using L = LayerTensors;
  using F = FfnTensors;
  const int32_t ffn = c.experts.intermediate_size;
  const int32_t count = c.experts.count;
  return Join({AttentionSpecs(c),
               QkvBiasSpecs(c),
               {VectorSpec(&L::o_bias, "attn_output.bias", c.hidden_size),
                VectorSpec(&L::sinks, "attn_sinks.weight", c.num_heads),
                VectorSpec(&L::ffn_norm, "post_attention_norm.weight", c.hidden_size)},
               ExpertSpecs(c),
               {VectorSpec(&L::router_bias, "ffn_gate_inp.bias", count),
                ExpertVectorSpec(&F::gate_bias, "ffn_gate_exps.bias", ffn, count),
                ExpertVectorSpec(&F::up_bias, "ffn_up_exps.bias", ffn, count),
                ExpertVectorSpec(&F::down_bias, "ffn_down_exps.bias", c.hidden_size, count)}});
}

}  // namespace

const Recipe kGptOssRecipe = {"gpt-oss", ReadGptOss, GptOssLayer};

}  // namespace ropeway::model
