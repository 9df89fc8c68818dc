// Architecture "qwen2": Qwen 2 and 2.5.
#include "model/arch/recipe.h"

namespace ropeway::model {
namespace {

ModelConfig ReadQwen2(MetadataReader* reader) {
  ModelConfig c = ReadRopeDecoder(reader, PositionKind::kRopeNeox, Activation::kSwiGlu);
  ReadWindows(reader, 0, 0, &c);
  return c;
}

TensorSpecs Qwen2Layer(const ModelConfig& c) {
  return Join({AttentionSpecs(c), QkvBiasSpecs(c), GatedFfnSpecs(c)});
}

}  // namespace

const Recipe kQwen2Recipe = {"qwen2", ReadQwen2, Qwen2Layer};

}  // namespace ropeway::model
