// Architecture "llama": Llama 2 and 3, TinyLlama, SmolLM, Mistral (with a window), Mixtral (with
// experts) and what is built like them.
#include "model/arch/recipe.h"

namespace ropeway::model {
namespace {

ModelConfig ReadLlama(MetadataReader* reader) {
  ModelConfig c = ReadRopeDecoder(reader, PositionKind::kRopeInterleaved, Activation::kSwiGlu);
  ReadWindows(reader, 0, 0, &c);
  if (reader->Uint("expert_count", 0, 1 << 20, 0) > 0) {
    ReadExperts(reader, c.intermediate_size, &c);
  } else if (reader->Uint("expert_used_count", 0, 1 << 20, 0) > 0 &&
             !reader->Failed("expert_count")) {
    reader->Fail(StatusCode::kDataLoss, "expert_used_count",
                 "must be 0, because the model has no experts");
  }
  return c;
}

TensorSpecs LlamaLayer(const ModelConfig& c) {
  if (c.experts.count == 0) return Join({AttentionSpecs(c), GatedFfnSpecs(c)});
  return Join({AttentionSpecs(c),
               {VectorSpec(&LayerTensors::ffn_norm, "ffn_norm.weight", c.hidden_size)},
               ExpertSpecs(c)});
}

}  // namespace

const Recipe kLlamaRecipe = {"llama", ReadLlama, LlamaLayer};

}  // namespace ropeway::model
