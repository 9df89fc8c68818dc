// Architecture "qwen3moe": Qwen 3 with experts.
#include "model/arch/recipe.h"

namespace ropeway::model {
namespace {

ModelConfig ReadQwen3Moe(MetadataReader* reader) {
  ModelConfig c = ReadRopeDecoder(reader, PositionKind::kRopeNeox, Activation::kSwiGlu);
  ReadWindows(reader, 0, 0, &c);
  const int32_t used = reader->Uint("expert_used_count", 1, 1 << 20);
  ReadExperts(reader, used == 0 ? 0 : c.intermediate_size / used, &c);
  c.experts.normalized = reader->Bool("expert_weights_norm", true);
  return c;
}

TensorSpecs Qwen3MoeLayer(const ModelConfig& c) {
  using L = LayerTensors;
  return Join({AttentionSpecs(c),
               HeadNormSpecs(c),
               {VectorSpec(&L::ffn_norm, "ffn_norm.weight", c.hidden_size)},
               ExpertSpecs(c)});
}

}  // namespace

const Recipe kQwen3MoeRecipe = {"qwen3moe", ReadQwen3Moe, Qwen3MoeLayer};

}  // namespace ropeway::model
