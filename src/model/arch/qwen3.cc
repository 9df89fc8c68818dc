// Architecture "qwen3": Qwen 3, whose heads of q and k are normalized.
#include "model/arch/recipe.h"

namespace ropeway::model {
namespace {

ModelConfig ReadQwen3(MetadataReader* reader) {
  ModelConfig c;
  c.architecture = kQwen3Recipe.architecture;
  ReadSizes(reader, &c);
  ReadRmsNorm(reader, &c);
  ReadAttentionScale(reader, &c);
  ReadRope(reader, &c);
  ReadWindows(reader, 0, 0, &c);
  c.position = PositionKind::kRopeNeox;
  c.activation = Activation::kSwiGlu;
  return c;
}

TensorSpecs Qwen3Layer(const ModelConfig& c) {
  using L = LayerTensors;
  return Join({AttentionSpecs(c),
               {VectorSpec(&L::q_norm, "attn_q_norm.weight", c.head_dim),
                VectorSpec(&L::k_norm, "attn_k_norm.weight", c.head_dim)},
               GatedFfnSpecs(c)});
}

}  // namespace

const Recipe kQwen3Recipe = {"qwen3", ReadQwen3, Qwen3Layer};

}  // namespace ropeway::model
