// A sequence: one request's token ids on their way through the engine.
#ifndef ROPEWAY_CORE_SEQUENCE_H_
#define ROPEWAY_CORE_SEQUENCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "core/batch.h"
#include "core/block_name.h"
#include "core/sequence_state.h"
#include "ropeway/request.h"

namespace ropeway {

// How long a request's blocks are to stay cached after its end, against those of others.
enum class Retention : uint8_t { kNormal, kHigh };
inline constexpr int kNumRetentions = 2;

// A preempted sequence's claim on a cached block; void once the block was given to another use.
struct BlockClaim {
  BlockId block = 0;
  uint32_t epoch = 0;  // The block's use when the claim was made (see BlockPool).
};

// A plain value. Owned by the engine core; the scheduler and the policy see it by reference.
//
// What a preempted sequence is resumed from is `ids` and `spec`, and the blocks that its chain of
// names leads to, where they still are; the rest is recomputed, to the same bits. Its log-probs
// were emitted with their tokens and are never computed a second time.
struct Sequence {
  uint64_t id = 0;           // The request's id.
  std::vector<TokenId> ids;  // The prompt, then what was generated.
  int32_t prompt_len = 0;    // At least 1.
  int32_t max_tokens = 0;    // 0: ends when its prompt is computed.
  bool ignore_eos = false;
  std::vector<TokenId> stop_ids;  // Sorted; each ends the sequence, as an end token does.
  SampleSpec spec;
  std::string tenant;
  double tenant_weight = 1.0;
  Priority priority = Priority::kMedium;
  TimePoint arrival{};
  TimePoint deadline = TimePoint::max();
  uint64_t order = 0;  // Arrival order within the core: 0, 1, 2, ...

  SequenceState state = SequenceState::kWaiting;
  int32_t computed = 0;         // Positions [0, computed) have their K/V in `blocks`.
  std::vector<BlockId> blocks;  // The block table; empty unless running().
  // Ids of the prompt below it are scored, and their log-probs emitted: not computed again after a
  // preemption. Only with spec.num_prompt_logprobs >= 0.
  int32_t scored = 0;
  int32_t preemptions = 0;
  uint64_t first_token_step = 0;  // 0: no token yet.

  // The scheduler's.
  // Since when it waits: in the queue, or running and without work.
  TimePoint queued_since{};
  int32_t run_steps = 0;  // Steps with work for it since it started or resumed.
  // Waited its time out, and has precedence: it goes before later ones, and its work is on nobody's
  // account, until it has run for a while.
  bool promoted = false;
  bool long_prefill = false;  // Much of it is to be computed: see SchedulerOptions.
  // What the pool has of its ids, as of a while ago; for ranking while it waits.
  int32_t cached_hint = 0;
  double queued_cost =
      0.0;             // While in the queue: what is still to be computed for it, as foreseen.
  uint64_t batch = 0;  // The batch in which it started; 0: it has not.
  int32_t batch_size = 0;
  Duration formation{};  // Of its time in the queue, what it waited for others to fill a batch.

  // Its blocks' names; the KV cache manager's but for the root and `retention`.
  BlockName cache_root;          // Says whose blocks it may share (CacheRoot).
  std::vector<BlockName> names;  // Of its first full blocks, as far as they were asked for.
  Retention retention = Retention::kNormal;
  // Blocks [0, published) of the table are full and computed, and others may use them.
  int32_t published = 0;
  std::vector<BlockClaim> claims;  // While preempted.
  int32_t parked = 0;              // While preempted: positions that were computed.
  // Positions of the prompt that were there when it first began to compute; -1: it has not.
  int32_t cached_tokens = -1;
  int32_t high_water = 0;  // Positions that were ever computed for it, or found.
  // The scheduler's: of its blocks that another sequence computes just now, the last one's name is
  // names[follows - 1]; it waits for it. 0: it waits for nobody.
  int32_t follows = 0;
  uint64_t read_ticket = 0;  // While fetching: of the tier's read.

  int32_t num_ids() const { return static_cast<int32_t>(ids.size()); }
  int32_t generated() const { return num_ids() - prompt_len; }
  // Has a place and blocks.
  bool running() const {
    return state == SequenceState::kPrefilling || state == SequenceState::kDecoding ||
           state == SequenceState::kFetching;
  }
};

}  // namespace ropeway

#endif  // ROPEWAY_CORE_SEQUENCE_H_
