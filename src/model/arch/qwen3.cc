// Architecture "qwen3": Qwen 3, whose heads of q and k are normalized.
#include "model/arch/recipe.h"

namespace ropeway::model {
namespace {

ModelConfig ReadQwen3(MetadataReader* reader) {
  ModelConfig c = ReadRopeDecoder(reader, PositionKind::kRopeNeox, Activation::kSwiGlu);
  ReadWindows(reader, 0, 0, &c);
  return c;
}

TensorSpecs Qwen3Layer(const ModelConfig& c) {
  return Join({AttentionSpecs(c), HeadNormSpecs(c), GatedFfnSpecs(c)});
}

}  // namespace

const Recipe kQwen3Recipe = {"qwen3", ReadQwen3, Qwen3Layer};

}  // namespace ropeway::model
