// Architecture "gemma3", the text model. Its files hold the norms' weights with the 1 that the
// model adds to them.
#include <cmath>

#include "model/arch/recipe.h"

namespace ropeway::model {
namespace {

constexpr int32_t kGemma3LayersOf27B = 62;
constexpr double kGemma3WindowFreqBase = 10000.0;

ModelConfig ReadGemma3(MetadataReader* reader) {
  ModelConfig c;
  c.architecture = kGemma3Recipe.architecture;
  ReadSizes(reader, &c);
  ReadRmsNorm(reader, &c);
  ReadAttentionScale(reader, &c);
  ReadRope(reader, &c);
  ReadWindows(reader, 0, 6, &c);  // In five of six layers.
  c.position = PositionKind::kRopeNeox;
  c.activation = Activation::kGeGlu;
  c.logit_soft_cap = static_cast<float>(reader->Float("final_logit_softcapping", 0, 1e6, 0.0));
  if (!reader->ok()) return c;
  c.embedding_scale = std::sqrt(static_cast<float>(c.hidden_size));
  if (!c.windows.empty()) {
    RopeParams near;  // Not scaled: windows do not grow with the context.
    near.dim = c.rope.dim;
    near.freq_base = reader->Float("rope.freq_base_swa", 2.0, 1e15, kGemma3WindowFreqBase);
    c.window_rope = near;
  }
  // Most files do not tell that the largest of the family has another scale.
  if (!reader->Has("attention.scale") && c.num_layers == kGemma3LayersOf27B) {
    const float part = static_cast<float>(c.hidden_size) / static_cast<float>(c.num_heads);
    c.attention_scale = 1.0F / std::sqrt(part);
  }
  return c;
}

TensorSpecs Gemma3Layer(const ModelConfig& c) {
  using L = LayerTensors;
  return Join({AttentionSpecs(c),
               {VectorSpec(&L::q_norm, "attn_q_norm.weight", c.head_dim),
                VectorSpec(&L::k_norm, "attn_k_norm.weight", c.head_dim),
                VectorSpec(&L::attention_post_norm, "post_attention_norm.weight", c.hidden_size)},
               GatedFfnSpecs(c),
               {VectorSpec(&L::ffn_post_norm, "post_ffw_norm.weight", c.hidden_size)}});
}

}  // namespace

const Recipe kGemma3Recipe = {"gemma3", ReadGemma3, Gemma3Layer};

}  // namespace ropeway::model
