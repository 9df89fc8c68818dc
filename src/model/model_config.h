// What a model computes: its sizes and the variants of each operation, whatever its architecture is
// called and whatever file it comes from. The recipe of the architecture (arch/) fills it in; the
// loader, the KV pool, the executor and the engine read nothing else.
#ifndef ROPEWAY_MODEL_MODEL_CONFIG_H_
#define ROPEWAY_MODEL_MODEL_CONFIG_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "kernels/number_types.h"
#include "model/rope.h"
#include "ropeway/request.h"

namespace ropeway::model {

enum class NormKind { kRms, kLayer };

// Where the norms of the residual stream are. kBefore: of what each part of a layer reads, and of
// what comes out at the end. kAfter: of the stream itself, after the embedding and after each part
// of a layer was added to it (BERT, as Vaswani et al. 2017); there is none at the end.
enum class NormPlacement { kBefore, kAfter };

// kRopeInterleaved rotates elements 2i and 2i + 1 of a head together (llama), kRopeNeox elements i
// and i + dim / 2 (qwen, gemma, phi); kLearned adds an embedding of the position (gpt2).
enum class PositionKind { kRopeInterleaved, kRopeNeox, kLearned };

// The feed-forward network's activation. kSwiGlu: silu(gate) * up; kGeGlu: gelu(gate) * up; kGelu:
// no gate; kExactGelu: the same without the approximation (BERT); kSwiGluClamped: gpt-oss's.
enum class Activation { kSwiGlu, kGeGlu, kGelu, kExactGelu, kSwiGluClamped };

// A mixture of experts in place of one feed-forward network (Shazeer et al. 2017): a router's
// logits choose, for each row, the experts that it goes through, and weight what they give.
struct ExpertsConfig {
  int32_t count = 0;  // 0: the layers have one feed-forward network.
  int32_t used = 0;   // Of each row: 1 .. count.
  int32_t intermediate_size = 0;
  // The size of one more expert, which each row goes through; 0: there is none. Its weight is the
  // sigmoid of a product of the row.
  int32_t shared_intermediate_size = 0;
  // The weights are the softmax over the chosen experts' logits; else over all experts' logits.
  bool normalized = true;
};

// How K and V of the layers lie in KV blocks. The layers that see equally many positions are
// divided into groups of one size, and each group has blocks of its own: blocks of layers with a
// window can be given back as soon as no row sees them, and all blocks have one size.
struct KvGroups {
  struct Place {
    int32_t group = 0;
    int32_t index = 0;  // In the group: 0 .. layers - 1.
  };
  int32_t layers = 0;            // Of each group. A group may have fewer, and room for so many.
  std::vector<int32_t> windows;  // Of each group, ascending; 0: all positions.
  std::vector<Place> places;     // Of each layer.

  int count() const { return static_cast<int>(windows.size()); }
};

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
  // Above 0, and at most context_length: texts are cut to so many, unless a user says otherwise.
  int32_t usual_length = 0;
  bool tied_output = false;  // The output matrix is the token embedding.
  // A row sees the positions up to its own, and the model says what comes next. Otherwise (an
  // encoder) a row sees all positions of its input, which is computed as a whole, and there is no
  // output matrix: the model makes embeddings only.
  bool causal = true;
  Pooling pooling = Pooling::kLast;  // Of embeddings, where a request leaves it to the model.
  bool token_types = false;  // Tokens have types, and the first one's embedding is added to all.
  float norm_eps = 0.0F;
  float attention_scale = 0.0F;           // Multiplies each query element.
  RopeParams rope;                        // rope.dim <= head_dim.
  std::optional<RopeParams> window_rope;  // Of layers with a window, where theirs is another.

  NormKind norm = NormKind::kRms;
  NormPlacement norm_placement = NormPlacement::kBefore;
  PositionKind position = PositionKind::kRopeInterleaved;
  Activation activation = Activation::kSwiGlu;
  float embedding_scale = 1.0F;     // Multiplies each element of a token's embedding.
  float attention_soft_cap = 0.0F;  // Above 0: bounds the scores (kernels::AttentionArgs).
  float logit_soft_cap = 0.0F;      // Above 0: bounds the logits.
  std::vector<int32_t> windows;  // Positions that each layer attends to, 0: all; empty: all in all.
  ExpertsConfig experts;

  int32_t q_size() const { return num_heads * head_dim; }
  int32_t kv_size() const { return num_kv_heads * head_dim; }
  int32_t window(int layer) const {
    return windows.empty() ? 0 : windows[static_cast<size_t>(layer)];
  }
  // Longer sequences are computed with the long factors of kLongRope, at all of their positions.
  // The largest number: the model has but one list of factors, or none.
  int32_t long_rope_above() const {
    return rope.scaling == RopeScaling::kLongRope ? rope.original_context_length
                                                  : std::numeric_limits<int32_t>::max();
  }
  KvGroups kv_groups() const;
  // Bytes of one KV block: [layer of the group][KV head][KvHeadBlockBytes].
  size_t kv_block_bytes(kernels::KvType type) const {
    return kernels::KvHeadBlockBytes(type, head_dim) * static_cast<size_t>(num_kv_heads) *
           static_cast<size_t>(kv_groups().layers);
  }
  // Bytes of the blocks of all groups for the same positions.
  size_t kv_bytes_of_all_groups(kernels::KvType type) const {
    return kv_block_bytes(type) * kv_groups().windows.size();
  }
};

}  // namespace ropeway::model

#endif  // ROPEWAY_MODEL_MODEL_CONFIG_H_
