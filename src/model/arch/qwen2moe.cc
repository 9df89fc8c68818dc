// Architecture "qwen2moe": Qwen 1.5 and 2 with experts, and one expert for all rows.
#include <fmt/format.h>

#include "model/arch/recipe.h"

namespace ropeway::model {
namespace {

ModelConfig ReadQwen2Moe(MetadataReader* reader) {
  ModelConfig c = ReadRopeDecoder(reader, PositionKind::kRopeNeox, Activation::kSwiGlu);
  ReadWindows(reader, 0, 0, &c);
  const int32_t used = reader->Uint("expert_used_count", 1, 1 << 20);
  ReadExperts(reader, used == 0 ? 0 : c.intermediate_size / used, &c);
  c.experts.normalized = reader->Bool("expert_weights_norm", false);
  constexpr const char* kShared = "expert_shared_feed_forward_length";
  c.experts.shared_intermediate_size = reader->Uint(kShared, 32, 1 << 20, c.intermediate_size);
  if (c.experts.shared_intermediate_size % 32 != 0) {
    reader->Fail(StatusCode::kUnimplemented, kShared,
                 fmt::format("{} is not a multiple of 32", c.experts.shared_intermediate_size));
  }
  return c;
}

TensorSpecs Qwen2MoeLayer(const ModelConfig& c) {
  using L = LayerTensors;
  using F = FfnTensors;
  const int32_t shared = c.experts.shared_intermediate_size;
  return Join({AttentionSpecs(c),
               QkvBiasSpecs(c),
               {VectorSpec(&L::ffn_norm, "ffn_norm.weight", c.hidden_size)},
               ExpertSpecs(c),
               {MatrixSpec(&L::shared_gate, "ffn_gate_inp_shexp.weight", c.hidden_size, 1),
                SharedExpertSpec(&F::gate, "ffn_gate_shexp.weight", c.hidden_size, shared),
                SharedExpertSpec(&F::up, "ffn_up_shexp.weight", c.hidden_size, shared),
                SharedExpertSpec(&F::down, "ffn_down_shexp.weight", shared, c.hidden_size)}});
}

}  // namespace

const Recipe kQwen2MoeRecipe = {"qwen2moe", ReadQwen2Moe, Qwen2MoeLayer};

}  // namespace ropeway::model
