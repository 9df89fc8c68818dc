// Sequences: what the engine core keeps of each request, by owner.
#ifndef ROPEWAY_CORE_SEQUENCE_H_
#define ROPEWAY_CORE_SEQUENCE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/batch.h"
#include "core/block_name.h"
#include "core/constraint.h"
#include "core/job.h"
#include "ropeway/request.h"

namespace ropeway::core {

// A preempted sequence's claim on a cached block; void once the block was given to another use.
struct BlockClaim {
  BlockId block = 0;
  uint32_t epoch = 0;  // The block's use when the claim was made (see BlockPool).
};

// What the caller of the engine core attaches to a request and gets back with its events. The core
// never looks inside.
struct RequestContext {
  virtual ~RequestContext() = default;
};

// A request as the engine core takes it: encoded, checked, limits resolved. At least 0 max_tokens;
// prompt.size() + max_tokens <= max_model_len. 0: the request ends when its prompt is computed.
struct CoreRequest : JobRequest {
  std::vector<TokenId> prompt;  // At least 1 id.
  // Generated before, in another engine: the sequence goes on behind them as if it had been
  // preempted there. Fewer than max_tokens.
  std::vector<TokenId> resume_ids;
  SampleSpec spec;  // With the seed resolved; the core sets prompt_len.
  std::shared_ptr<const Constraint> constraint;  // Of what it generates; null: none.
  BlockName cache_root;  // Names whose KV blocks it may share (see CacheRoot).
  // `cache_root` and `block_names` name blocks that are computed with the long factors of RoPE. The
  // core sets it where the request is too long for the short ones (UseLongRope).
  bool long_rope = false;
  // Names of the first full blocks of all its ids, as far as they are known already; the core names
  // the rest.
  std::vector<BlockName> block_names;
  CacheRetention retention = CacheRetention::kNormal;
  std::shared_ptr<RequestContext> context;  // Null: none.

  // The ids that the sequence begins with.
  size_t num_ids() const { return prompt.size() + resume_ids.size(); }

  // The length by which a LongRoPE model chooses its factors. Log-probs of a prompt depend on
  // the prompt alone, also where ids are known that were generated behind it.
  int32_t rope_length() const {
    return static_cast<int32_t>(spec.num_prompt_logprobs >= 0 ? prompt.size() : num_ids());
  }
  // From here on it is computed with the long factors of RoPE, and has other blocks.
  // REQUIRES: it was not before.
  void UseLongRope() {
    cache_root = LongRopeRoot(cache_root);
    long_rope = true;
    block_names.clear();
  }
};

SampleKind SampleKindOf(const SampleSpec& spec);

// The KV cache manager's part of a sequence.
struct KvState {
  // The block table, [block][group of layers]; empty unless the sequence runs. kNoBlock:
  // no row sees this block of a group with a window any more, or yet.
  std::vector<BlockId> blocks;
  std::vector<BlockName> names;  // Its first full blocks' names, as far as they were asked for.
  // Blocks [0, published) of the table are full and computed, and others may use them.
  int32_t published = 0;
  // Groups with a window gave back the blocks that no row from here on sees.
  int32_t window_at = 0;
  std::vector<BlockClaim> claims;  // While preempted.
  int32_t parked = 0;              // While preempted: positions that were computed.
  // Positions of the prompt that were there when it first began to compute; -1: it has not.
  int32_t cached_tokens = -1;
  int32_t high_water = 0;    // Positions that were ever computed for it, or found.
  uint64_t read_ticket = 0;  // While fetching: of the tier's read.
};

// Where a sequence that runs stands in its constraint.
struct ConstraintRun {
  std::unique_ptr<ConstraintState> state;
  int32_t accepted = 0;         // Generated ids that `state` has accepted.
  std::vector<uint32_t> words;  // What may come next, once mask.ready.
  TokenMask mask;
  bool exhausted = false;    // The output is complete, and the vocabulary has no token to end it.
  uint64_t waits_since = 0;  // The step that asked for the mask; 0: none asks for one.
  Status status;             // Why it cannot go on.
  base::Duration took{};     // Not yet charged: by its mask and the ids that it accepted.
  std::optional<base::Duration> expected;  // What its next mask may take; absent: not known yet.
};

// Positions [begin, end) of a sequence; empty where begin >= end.
struct PositionRange {
  int32_t begin = 0;
  int32_t end = 0;

  bool empty() const { return begin >= end; }
};

// One request on its way through the engine core, which owns it; the scheduler, the policy and the
// KV cache see it by reference, and each keeps its own part.
//
// A preempted sequence is resumed from its ids and `spec`, and the blocks that its chain of names
// leads to, as far as they are still there; the rest is recomputed, to the same bits. Its log-probs
// were emitted with their tokens and are never computed a second time. So does a sequence begin
// that another engine has preempted, or lost: with CoreRequest::resume_ids.
struct Sequence : Job {
  Sequence() = default;
  Sequence(CoreRequest core_request, uint64_t sequences_before);

  // From the request. See CoreRequest.
  SampleSpec spec;
  BlockName cache_root;
  bool long_rope = false;
  CacheRetention retention = CacheRetention::kNormal;
  std::shared_ptr<RequestContext> context;
  std::shared_ptr<const Constraint> constraint;

  KvState kv;
  std::unique_ptr<ConstraintRun> constraint_run;  // Null: there is none yet, or no constraint.
  // Ids of the prompt below it are scored, and their log-probs emitted: not computed again after a
  // preemption. Only with spec.num_prompt_logprobs >= 0.
  int32_t scored = 0;
  // The hidden states of the positions below it that the embedding is made of are in `pool_sum`,
  // also after a preemption. Only with spec.pooling.
  int32_t pooled = 0;
  std::vector<float> pool_sum;
  uint64_t first_token_step = 0;  // 0: no token yet.

  // The prompt, then what was generated: Job::length of them.
  const std::vector<TokenId>& ids() const { return ids_; }
  void Append(TokenId id) {
    ids_.push_back(id);
    ++length;
  }
  // Append does not throw then.
  void ReserveId() {
    if (ids_.size() == ids_.capacity()) ids_.reserve(2 * ids_.size());
  }

  // Makes `constraint_run`, if it is missing and there is a constraint.
  void ReserveMask();

  // Log-probs of its prompt are still to be computed.
  bool scores() const { return spec.num_prompt_logprobs >= 0 && scored < prompt_len; }
  // The positions whose hidden states make the embedding, and are not in `pool_sum` yet.
  PositionRange left_to_pool() const;
  // As CoreRequest::rope_length.
  int32_t rope_length() const { return scores() ? prompt_len : num_ids(); }
  // See CoreRequest. Nothing of it is computed from here on. REQUIRES: it holds no blocks.
  void UseLongRope();

 private:
  std::vector<TokenId> ids_;
};

}  // namespace ropeway::core

#endif  // ROPEWAY_CORE_SEQUENCE_H_
