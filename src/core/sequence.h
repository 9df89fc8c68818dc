// Sequences: what the engine core keeps of each request, by owner.
#ifndef ROPEWAY_CORE_SEQUENCE_H_
#define ROPEWAY_CORE_SEQUENCE_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "core/batch.h"
#include "core/block_name.h"
#include "core/sequence_state.h"
#include "ropeway/request.h"
#include "ropeway/status.h"

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

// Requests that are one to their client (OpenAI's n and lists of prompts): all are admitted, or
// none, as the first of them is. The engine thread's once the first one is in the core.
struct AdmissionGroup {
  explicit AdmissionGroup(int32_t requests) : size(requests) {}
  const int32_t size;
  std::optional<Status> decision;
};

// A request as the engine core takes it: encoded, checked, limits resolved.
struct CoreRequest {
  uint64_t id = 0;
  std::vector<TokenId> prompt;  // At least 1 id. Moved into Sequence::ids.
  // Generated before, in another engine: the sequence goes on behind them as if it had been
  // preempted there. Fewer than max_tokens. Moved into Sequence::ids, behind the prompt.
  std::vector<TokenId> resume_ids;
  int32_t max_tokens = 1;  // At least 0; prompt.size() + max_tokens <= max_model_len. 0: the
                           // request ends when its prompt is computed.
  SampleSpec spec;         // With the seed resolved; the core sets prompt_len.
  bool ignore_eos = false;
  std::vector<TokenId> stop_ids;  // Each ends the sequence, as an end token does.
  base::TimePoint arrival{};      // When Submit was called.
  // Its place in the order of Submit: prompts may be encoded in another order, and so come to the
  // core in another. Absent: the order in which it comes. All requests of a core have one, or none.
  std::optional<uint64_t> order;
  base::TimePoint deadline =
      base::TimePoint::max();  // The request fails with kDeadlineExceeded then.
  std::string tenant;
  double tenant_weight = 1.0;
  Priority priority = Priority::kMedium;
  BlockName cache_root;  // Names whose KV blocks it may share (see CacheRoot).
  // `cache_root` and `block_names` are those of blocks that are computed with the long factors of
  // RoPE. The core sets it where the request is too long for the short ones (UseLongRope).
  bool long_rope = false;
  // Of the full blocks of all its ids, the first ones that are known already; the core names the
  // rest. Moved into KvState::names.
  std::vector<BlockName> block_names;
  CacheRetention retention = CacheRetention::kNormal;
  std::shared_ptr<RequestContext> context;  // Null: none.
  std::shared_ptr<AdmissionGroup> group;    // Null: it is alone.

  // The ids that the sequence begins with.
  size_t num_ids() const { return prompt.size() + resume_ids.size(); }

  // The length by which a LongRoPE model chooses its factors. Log-probs of a prompt are those of
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

// The batch in which a sequence started.
struct StartedBatch {
  uint64_t number = 0;  // 0: it has not started.
  int32_t size = 0;
  base::Duration formation{};  // The part of its time in the queue in which the batch filled.
};

// The scheduler's part of a sequence.
struct SchedulingState {
  // Since when it waits, in the queue or running without work.
  base::TimePoint queued_since{};
  // Steps since it started or resumed in which it had work, or rested.
  int32_t run_steps = 0;
  // It is past max_wait: it goes before later arrivals, and its work is charged to no class, until
  // it has run for kMinRunSteps.
  bool aged = false;
  int32_t tenant = 0;         // Index of its tenant (TenantTable).
  uint64_t started_step = 0;  // The scheduler's step in which it started or resumed.
  int32_t again_steps = 0;    // Steps since then that only computed again what was lost.
  // It started while its tenant held no slot, in a turn between tenants, with a short prompt: this
  // is computed as if it were of class high, before decodes of other tenants.
  bool first_turn = false;
  // It decodes, and in the last step it and others would have sampled at too great a cost together:
  // some of them, it perhaps, had to wait.
  bool contends = false;
  // Of Sequence::preemptions, those that gave a turn to another tenant or to one past max_wait.
  int32_t turns_given = 0;
  // While it waits: its tenant is a quantum of service above another one that waits.
  bool above_share = false;
  double held_blocks = 0.0;  // While it runs: its blocks, shared ones in part, of this step.
  // What sampling a token takes, and scoring one of its prompt; smoothed. Negative: not known yet.
  double sample_seconds = -1.0;
  double score_seconds = -1.0;
  bool long_prefill = false;  // See SchedulerOptions::long_prefill_threshold.
  // Ids found in the pool when last looked up; for ranking while it waits.
  int32_t cached_hint = 0;
  // While in the queue: the predicted cost of the work that is left, of its ids and of the tokens
  // that it will generate, and the seconds that sampling takes besides.
  double queued_prompt_cost = 0.0;
  double queued_output_cost = 0.0;
  double queued_sampling = 0.0;
  StartedBatch batch;
  // Another sequence computes some of its blocks now; the last one's name is names[follows - 1],
  // and this sequence waits for it. 0: it waits for none.
  int32_t follows = 0;
};

// The KV cache manager's part of a sequence.
struct KvState {
  int32_t computed = 0;  // Positions [0, computed) have their K/V in `blocks`, or had them.
  // The block table, [block][group of layers]; empty unless the sequence runs. kNoBlock: of a group
  // with a window, what no row sees any more or yet.
  std::vector<BlockId> blocks;
  std::vector<BlockName> names;  // Of its first full blocks, as far as they were asked for.
  // Blocks [0, published) of the table are full and computed, and others may use them.
  int32_t published = 0;
  // Of groups with a window, what the rows from here on do not see was given back.
  int32_t window_at = 0;
  std::vector<BlockClaim> claims;  // While preempted.
  int32_t parked = 0;              // While preempted: positions that were computed.
  // Positions of the prompt that were there when it first began to compute; -1: it has not.
  int32_t cached_tokens = -1;
  int32_t high_water = 0;    // Positions that were ever computed for it, or found.
  uint64_t read_ticket = 0;  // While fetching: of the tier's read.
};

// One request on its way through the engine core, which owns it; the scheduler, the policy and the
// KV cache see it by reference, and each keeps its own part.
//
// A preempted sequence is resumed from its ids and the request's `spec`, and the blocks that its
// chain of names leads to, as far as they are still there; the rest is recomputed, to the same
// bits. Its log-probs were emitted with their tokens and are never computed a second time. So does
// a sequence begin that another engine has preempted, or lost: with CoreRequest::resume_ids.
struct Sequence {
  Sequence() = default;
  Sequence(CoreRequest core_request, uint64_t sequences_before)
      : request(std::move(core_request)),
        ids(std::move(request.prompt)),
        order(request.order.value_or(sequences_before)),
        number(sequences_before) {
    kv.names = std::move(request.block_names);
    prompt_len = request.spec.prompt_len = static_cast<int32_t>(ids.size());
    ids.insert(ids.end(), request.resume_ids.begin(), request.resume_ids.end());
    std::vector<TokenId>().swap(request.resume_ids);
    std::sort(request.stop_ids.begin(), request.stop_ids.end());
  }

  CoreRequest request;  // Without its ids and block names.
  SchedulingState sched;
  KvState kv;

  std::vector<TokenId> ids;  // The prompt, then what was generated.
  int32_t prompt_len = 0;    // At least 1.
  uint64_t order = 0;        // By which sequences come first, first served: see CoreRequest::order.
  uint64_t number = 0;       // Sequences that came to the core before it.
  SequenceState state = SequenceState::kWaiting;
  // Ids of the prompt below it are scored, and their log-probs emitted: not computed again after a
  // preemption. Only with spec.num_prompt_logprobs >= 0.
  int32_t scored = 0;
  int32_t preemptions = 0;
  uint64_t first_token_step = 0;  // 0: no token yet.

  uint64_t id() const { return request.id; }
  int32_t num_ids() const { return static_cast<int32_t>(ids.size()); }
  int32_t generated() const { return num_ids() - prompt_len; }
  // Log-probs of its prompt are still to be computed.
  bool scores() const { return request.spec.num_prompt_logprobs >= 0 && scored < prompt_len; }
  // As CoreRequest::rope_length.
  int32_t rope_length() const { return scores() ? prompt_len : num_ids(); }
  // See CoreRequest. Nothing of it is computed from here on. REQUIRES: it holds no blocks.
  void UseLongRope() {
    request.UseLongRope();
    kv.names.clear();
    kv.parked = 0;
  }
  // Has a slot and blocks.
  bool running() const {
    return state == SequenceState::kPrefilling || state == SequenceState::kDecoding ||
           state == SequenceState::kFetching;
  }
};

}  // namespace ropeway::core

#endif  // ROPEWAY_CORE_SEQUENCE_H_
