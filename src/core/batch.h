// One step's work (Batch) and its outcome (StepResult), between scheduler, engine and executor.
// Built and read by the engine thread alone.
#ifndef ROPEWAY_CORE_BATCH_H_
#define ROPEWAY_CORE_BATCH_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/kv_block.h"
#include "ropeway/request.h"

namespace ropeway::core {

// A KV block: an index into the executor's pool.
using BlockId = int32_t;

// The longest sequence that is computed with the short factors of RoPE, where a model has but one
// list of factors, or none.
inline constexpr int32_t kNoLongRope = std::numeric_limits<int32_t>::max();

// In a block table: no block, where no row needs one.
inline constexpr BlockId kNoBlock = -1;

// The sampler's input beside the logits; see SamplingParams.
struct SampleSpec {
  SamplingParams params;
  uint64_t seed = 0;    // Resolved: params.seed, or the one drawn at admission.
  uint32_t choice = 0;  // Index among a request's n choices.
  int32_t prompt_len = 0;
  int32_t num_logprobs = -1;         // -1: none; k >= 0: the chosen token's and the k best ones'.
  int32_t num_prompt_logprobs = -1;  // The same for the positions of the item that are scored.
  // How the sequence's embedding is made, never kModel; absent: none is wanted.
  std::optional<Pooling> pooling;
  // Ids that end the sequence: not sampled while fewer than params.min_tokens were generated.
  std::vector<TokenId> end_ids;

  // The last layer is to be computed for the prompt's rows beside the last one: what is cached of
  // them does not spare it.
  bool needs_all_rows() const {
    return num_prompt_logprobs >= 0 || (pooling && *pooling != Pooling::kLast);
  }
};

inline const SampleSpec kDefaultSampleSpec{};

// The tokens that an item may sample.
struct TokenMask {
  // Bit (id & 31) of word id >> 5 is set for each token that may be sampled; one bit for each token
  // of the model's vocabulary. An id beyond the words may not be sampled, and a bit beyond the
  // vocabulary has no effect.
  std::span<const uint32_t> words{};
  // The words are filled. Without it the item is computed, but no token is sampled for it, and its
  // Sampled has no meaning.
  bool ready = false;
};

// A run of consecutive positions of one sequence: a prefill chunk or a decode (one token). It
// refers to the sequence's own data, which lives, unchanged, until Wait returns.
struct BatchItem {
  uint64_t sequence = 0;              // The engine's name of the sequence; only echoed back.
  int32_t start = 0;                  // Absolute position of tokens[0].
  std::span<const TokenId> tokens{};  // The ids at positions [start, start + tokens.size()).
  // [block][group of layers] (KvLayout). Block i holds positions [i * kBlockTokens,
  // (i + 1) * kBlockTokens); covers at least start + tokens.size() positions. Positions before
  // `start` are already written. Blocks that no row of the item sees may be missing.
  std::span<const BlockId> blocks{};
  bool sample = false;  // Sample the token after the last of `tokens`.
  // Its positions, and all blocks that it reads, are encoded with the long factors of RoPE.
  // Without effect unless the model has two lists (model::RopeScaling::kLongRope).
  bool long_rope = false;
  // Padding of a static batch: costs what another item does, and writes nothing.
  bool padding = false;
  // The ids at [score_begin, score_end) are scored: the log-prob of each given those before it.
  // Empty, or start < score_begin < score_end <= start + tokens.size() + 1: the row of the id
  // before is part of this item.
  int32_t score_begin = 0;
  int32_t score_end = 0;
  // The last hidden states, after the final norm if there is one, of the positions [pool_begin,
  // pool_end) are added to `pool_sum`, one after the other. Empty, or within the item's own
  // positions.
  int32_t pool_begin = 0;
  int32_t pool_end = 0;
  std::span<const float> pool_sum{};  // [hidden_size]; empty: zeros.
  // Valid where sample, or where ids are scored: all ids that the sequence has now, by position.
  // The sampler counts its penalties from them anew each time, so a resumed sequence has no state
  // to rebuild.
  std::span<const TokenId> ids{};
  const SampleSpec* spec = &kDefaultSampleSpec;  // Valid where `ids` is.
  // Valid where sample. Null: every token may be sampled. Its owner may fill it until Wait is
  // called.
  const TokenMask* mask = nullptr;

  int32_t end() const { return start + static_cast<int32_t>(tokens.size()); }
};

// One forward pass over all its items.
struct Batch {
  uint64_t step = 0;
  std::vector<BatchItem> items;

  int num_tokens() const {
    int n = 0;
    for (const BatchItem& item : items) n += static_cast<int>(item.tokens.size());
    return n;
  }
};

// The token sampled for one item with `sample`.
struct Sampled {
  uint64_t sequence = 0;
  TokenId token = 0;
  float logprob = 0.0F;                    // Valid where spec.num_logprobs >= 0.
  std::vector<TokenLogprob> top_logprobs;  // spec.num_logprobs entries.
  // The row held no logit above minus infinity (a broken model, or every token forbidden); token
  // is meaningless: this sequence cannot go on, the others of the batch can.
  bool invalid = false;
  base::Duration took{};  // By the choice alone; 0: it was hardly any work, or not measured.
};

// The log-prob of one id of a prompt.
struct Scored {
  uint64_t sequence = 0;
  int32_t position = 0;  // The id's position.
  TokenId token = 0;
  float logprob = 0.0F;                    // NaN where the model is broken, at this row alone.
  std::vector<TokenLogprob> top_logprobs;  // spec.num_prompt_logprobs entries.
  base::Duration took{};                   // As Sampled::took.
};

// The sum of hidden states so far.
struct Pooled {
  uint64_t sequence = 0;
  std::vector<float> sum;  // [hidden_size]
};

struct StepResult {
  std::vector<Sampled> sampled;  // In the order of the batch's items that sample.
  std::vector<Scored> scored;    // In the order of the batch's items, then of positions.
  std::vector<Pooled> pooled;    // In the order of the batch's items that pool.
  // How often an expert's weights were read (in a mixture of experts), summed over the layers: on
  // the CPU once for all rows that went through it, on other devices once for each of them.
  int64_t experts_read = 0;
  // On a device other than the CPU: the time without sampling, and the bytes between it and the
  // host.
  base::Duration device_busy{};
  int64_t copied_bytes = 0;
  // The forward pass's part of the step's time, Launch and Wait, and of that, the sampling's.
  base::Duration forward{};
  base::Duration sampling{};
  // The time between Launch and Wait, if it computed then.
  base::Duration beside{};
};

// What one step consisted of, for traces: plain numbers that outlive the sequences.
struct StepContent {
  enum class Kind : uint8_t { kPrefill, kDecode };

  // What one sequence computed.
  struct Item {
    uint64_t sequence = 0;
    Kind kind = Kind::kDecode;
    int32_t start = 0;   // The position of its first token: so many were in the KV cache already.
    int32_t tokens = 0;  // Rows of the forward pass.
  };

  std::vector<Item> items;
  std::vector<uint64_t> preempted;
  std::vector<uint64_t> fetching;  // Began to wait for KV blocks of a tier.
  int32_t fetched_blocks = 0;      // Came from a tier since the step before.

  bool empty() const { return items.empty() && preempted.empty() && fetching.empty(); }
};

// One step that computed something, or preempted a sequence.
struct StepTrace {
  uint64_t step = 0;
  base::TimePoint begin{};
  base::TimePoint end{};
  base::Duration forward{};   // The forward pass with sampling.
  base::Duration sampling{};  // The part of `forward` that searches for tokens.
  StepContent content;        // Its sequences are requests.
};

}  // namespace ropeway::core

#endif  // ROPEWAY_CORE_BATCH_H_
