// Architecture "qwen2": Qwen 2 and 2.5.
#include "model/arch/recipe.h"

namespace ropeway::model {
namespace {

ModelConfig ReadQwen2(MetadataReader* reader) {
  ModelConfig c;
  c.architecture = kQwen2Recipe.architecture;
  ReadSizes(reader, &c);
  ReadRmsNorm(reader, &c);
  ReadAttentionScale(reader, &c);
  ReadRope(reader, &c);
  ReadWindows(reader, 0, 0, &c);
  c.position = PositionKind::kRopeNeox;
  c.activation = Activation::kSwiGlu;
  return c;
}

TensorSpecs Qwen2Layer(const ModelConfig& c) {
  using L = LayerTensors;
  return Join({AttentionSpecs(c),
               {VectorSpec(&L::q_bias, "attn_q.bias", c.q_size()),
                VectorSpec(&L::k_bias, "attn_k.bias", c.kv_size()),
                VectorSpec(&L::v_bias, "attn_v.bias", c.kv_size())},
               GatedFfnSpecs(c)});
}

}  // namespace

const Recipe kQwen2Recipe = {"qwen2", ReadQwen2, Qwen2Layer};

}  // namespace ropeway::model
