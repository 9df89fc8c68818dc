// Architecture "gemma3", the text model. Its files hold the norms' weights with the 1 that the
// model adds to them.
#include "model/arch/recipe.h"

namespace ropeway::model {
namespace {

constexpr int32_t kGemma3LayersOf27B = 62;
constexpr double kGemma3WindowFreqBase = 10000.0;

ModelConfig ReadGemma3(MetadataReader* reader) {
  ModelConfig c = ReadRopeDecoder(reader, PositionKind::kRopeNeox, Activation::kGeGlu);
  ReadWindows(reader, 0, 6, &c);  // In five of six layers.
  c.logit_soft_cap = static_cast<float>(reader->Float("final_logit_softcapping", 0, 1e6, 0.0));
  if (!reader->ok()) return c;
  ReadGemmaScales(reader, kGemma3LayersOf27B, &c);
  if (!c.windows.empty()) {
    RopeParams near;  // Not scaled: windows do not grow with the context.
    near.dim = c.rope.dim;
    near.freq_base = reader->Float("rope.freq_base_swa", 2.0, 1e15, kGemma3WindowFreqBase);
    c.window_rope = near;
  }
  return c;
}

TensorSpecs Gemma3Layer(const ModelConfig& c) {
  using L = LayerTensors;
  return Join({AttentionSpecs(c),
               HeadNormSpecs(c),
               {VectorSpec(&L::attention_post_norm, "post_attention_norm.weight", c.hidden_size)},
               GatedFfnSpecs(c),
               {VectorSpec(&L::ffn_post_norm, "post_ffw_norm.weight", c.hidden_size)}});
}

}  // namespace

const Recipe kGemma3Recipe = {"gemma3", ReadGemma3, Gemma3Layer};

}  // namespace ropeway::model
