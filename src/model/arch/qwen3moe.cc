// Architecture "qwen3moe": Qwen 3 with experts.
#include "model/arch/recipe.h"

namespace ropeway::model {
namespace {

ModelConfig ReadQwen3Moe(MetadataReader* reader) {
  ModelConfig c;
  c.architecture = kQwen3MoeRecipe.architecture;
  ReadSizes(reader, &c);
  ReadRmsNorm(reader, &c);
  ReadAttentionScale(reader, &c);
  ReadRope(reader, &c);
  ReadWindows(reader, 0, 0, &c);
  c.position = PositionKind::kRopeNeox;
  c.activation = Activation::kSwiGlu;
  const int32_t used = reader->Uint("expert_used_count", 1, 1 << 20);
  ReadExperts(reader, used == 0 ? 0 : c.intermediate_size / used, &c);
  c.experts.normalized = reader->Bool("expert_weights_norm", true);
  return c;
}

TensorSpecs Qwen3MoeLayer(const ModelConfig& c) {
  using L = LayerTensors;
  return Join({AttentionSpecs(c),
               {VectorSpec(&L::q_norm, "attn_q_norm.weight", c.head_dim),
                VectorSpec(&L::k_norm, "attn_k_norm.weight", c.head_dim),
                VectorSpec(&L::ffn_norm, "ffn_norm.weight", c.hidden_size)},
               ExpertSpecs(c)});
}

}  // namespace

const Recipe kQwen3MoeRecipe = {"qwen3moe", ReadQwen3Moe, Qwen3MoeLayer};

}  // namespace ropeway::model
