// Architecture "phi3": Phi 3, 3.5 and 4. One matrix holds q, k and v, another one gate and up. With
// long contexts, RoPE's frequencies are divided by factors of the file (ReadRope).
#include "model/arch/recipe.h"

namespace ropeway::model {
namespace {

ModelConfig ReadPhi3(MetadataReader* reader) {
  ModelConfig c = ReadRopeDecoder(reader, PositionKind::kRopeNeox, Activation::kSwiGlu);
  ReadWindows(reader, 0, 0, &c);
  return c;
}

TensorSpecs Phi3Layer(const ModelConfig& c) {
  using L = LayerTensors;
  const int32_t hidden = c.hidden_size;
  const int32_t ffn = c.intermediate_size;
  const int32_t q = c.q_size();
  const int32_t kv = c.kv_size();
  constexpr const char* kQkv = "attn_qkv.weight";
  constexpr const char* kGateUp = "ffn_up.weight";
  return {VectorSpec(&L::attention_norm, "attn_norm.weight", hidden),
          MatrixRowsSpec(&L::q, kQkv, hidden, q + 2 * kv, 0, q),
          MatrixRowsSpec(&L::k, kQkv, hidden, q + 2 * kv, q, kv),
          MatrixRowsSpec(&L::v, kQkv, hidden, q + 2 * kv, q + kv, kv),
          MatrixSpec(&L::o, "attn_output.weight", q, hidden),
          VectorSpec(&L::ffn_norm, "ffn_norm.weight", hidden),
          MatrixRowsSpec(&L::gate, kGateUp, hidden, 2 * ffn, 0, ffn),
          MatrixRowsSpec(&L::up, kGateUp, hidden, 2 * ffn, ffn, ffn),
          MatrixSpec(&L::down, "ffn_down.weight", ffn, hidden)};
}

}  // namespace

const Recipe kPhi3Recipe = {"phi3", ReadPhi3, Phi3Layer};

}  // namespace ropeway::model
