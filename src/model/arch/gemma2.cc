// Architecture "gemma2". Its files hold the norms' weights with the 1 that the model adds to them.
#include "model/arch/recipe.h"

namespace ropeway::model {
namespace {

constexpr int32_t kGemma2Window = 4096;
constexpr int32_t kGemma2LayersOf27B = 46;

ModelConfig ReadGemma2(MetadataReader* reader) {
  ModelConfig c = ReadRopeDecoder(reader, PositionKind::kRopeNeox, Activation::kGeGlu);
  ReadWindows(reader, kGemma2Window, 2, &c);  // In every layer with an even number.
  ReadWindowRope(reader, &c);
  c.attention_soft_cap = static_cast<float>(reader->Float("attn_logit_softcapping", 0, 1e6, 50.0));
  c.logit_soft_cap = static_cast<float>(reader->Float("final_logit_softcapping", 0, 1e6, 30.0));
  if (!reader->ok()) return c;
  ReadGemmaScales(reader, kGemma2LayersOf27B, &c);
  return c;
}

TensorSpecs Gemma2Layer(const ModelConfig& c) {
  using L = LayerTensors;
  return Join({AttentionSpecs(c),
               {VectorSpec(&L::attention_post_norm, "post_attention_norm.weight", c.hidden_size)},
               GatedFfnSpecs(c),
               {VectorSpec(&L::ffn_post_norm, "post_ffw_norm.weight", c.hidden_size)}});
}

}  // namespace

const Recipe kGemma2Recipe = {"gemma2", ReadGemma2, Gemma2Layer};

}  // namespace ropeway::model
