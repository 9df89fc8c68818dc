// A sequence: one request's token ids on their way through the engine.
#ifndef ROPEWAY_CORE_SEQUENCE_H_
#define ROPEWAY_CORE_SEQUENCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "core/batch.h"
#include "core/sequence_state.h"
#include "ropeway/request.h"

namespace ropeway {

// A plain value. Owned by the engine core; the scheduler and the policy see it by reference.
//
// What a preempted sequence is resumed from is `ids` and `spec` alone: its log-probs were emitted
// with their tokens and are never computed a second time.
struct Sequence {
  uint64_t id = 0;           // The request's id.
  std::vector<TokenId> ids;  // The prompt, then what was generated.
  int32_t prompt_len = 0;    // At least 1.
  int32_t max_tokens = 0;    // 0: ends when its prompt is computed.
  bool ignore_eos = false;
  std::vector<TokenId> stop_ids;  // Sorted; each ends the sequence, as an end token does.
  SampleSpec spec;
  std::string tenant;
  TimePoint arrival{};
  TimePoint deadline = TimePoint::max();
  uint64_t order = 0;  // Arrival order within the core: 0, 1, 2, ...

  SequenceState state = SequenceState::kWaiting;
  int32_t computed = 0;         // Positions [0, computed) have their K/V in `blocks`.
  std::vector<BlockId> blocks;  // The block table; empty unless prefilling or decoding.
  // Ids of the prompt below it are scored, and their log-probs emitted: not computed again after a
  // preemption. Only with spec.num_prompt_logprobs >= 0.
  int32_t scored = 0;
  int32_t preemptions = 0;
  uint64_t first_token_step = 0;  // 0: no token yet.

  int32_t num_ids() const { return static_cast<int32_t>(ids.size()); }
  int32_t generated() const { return num_ids() - prompt_len; }
  bool running() const {
    return state == SequenceState::kPrefilling || state == SequenceState::kDecoding;
  }
};

}  // namespace ropeway

#endif  // ROPEWAY_CORE_SEQUENCE_H_
