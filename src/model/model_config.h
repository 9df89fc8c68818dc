// What a model computes: its sizes and the variants of each operation, whatever its architecture is
// called and whatever file it comes from. The recipe of the architecture (arch/) fills it in; the
// loader, the KV pool, the executor and the engine read nothing else.
#ifndef ROPEWAY_MODEL_MODEL_CONFIG_H_
#define ROPEWAY_MODEL_MODEL_CONFIG_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/kernels.h"
#include "model/rope.h"

namespace ropeway::model {

enum class NormKind { kRms, kLayer };

// kRopeInterleaved rotates elements 2i and 2i + 1 of a head together (llama), kRopeNeox elements i
// and i + dim / 2 (qwen, gemma, phi); kLearned adds an embedding of the position (gpt2).
enum class PositionKind { kRopeInterleaved, kRopeNeox, kLearned };

// Of the feed-forward network. kSwiGlu: silu(gate) * up; kGeGlu: gelu(gate) * up; kGelu: no gate.
enum class Activation { kSwiGlu, kGeGlu, kGelu };

// A new architecture may ask for what no executor computes yet; an executor checks the values of
// the second group and rejects those by name (ForwardPass::CheckSupported).
struct ModelConfig {
  std::string_view architecture;  // As in general.architecture; refers to the recipe's constant.
  int32_t num_layers = 0;
  int32_t hidden_size = 0;
  int32_t num_heads = 0;
  int32_t num_kv_heads = 0;  // Divides num_heads.
  int32_t head_dim = 0;      // A multiple of 16, at most 256.
  int32_t intermediate_size = 0;
  int32_t vocab_size = 0;
  int32_t context_length = 0;  // Positions.
  bool tied_output = false;    // The output matrix is the token embedding.
  float norm_eps = 0.0F;
  float attention_scale = 0.0F;  // Multiplies each query element.
  RopeParams rope;               // rope.dim <= head_dim.

  NormKind norm = NormKind::kRms;
  PositionKind position = PositionKind::kRopeInterleaved;
  Activation activation = Activation::kSwiGlu;
  bool qkv_bias = false;         // q, k and v add a bias.
  bool qk_norm = false;          // Each head of q and k is normalized before RoPE.
  bool post_norm = false;        // Attention and feed-forward outputs are normalized too.
  std::vector<int32_t> windows;  // Positions that each layer attends to, 0: all; empty: all in all.

  int32_t q_size() const { return num_heads * head_dim; }
  int32_t kv_size() const { return num_kv_heads * head_dim; }
  // Bytes of one KV block over all layers and heads: [layer][KV head][KvHeadBlockBytes].
  size_t kv_block_bytes(kernels::KvType type) const {
    return kernels::KvHeadBlockBytes(type, head_dim) * static_cast<size_t>(num_kv_heads) *
           static_cast<size_t>(num_layers);
  }
};

}  // namespace ropeway::model

#endif  // ROPEWAY_MODEL_MODEL_CONFIG_H_
