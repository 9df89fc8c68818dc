// What an EngineCore tells about itself.
#ifndef ROPEWAY_ENGINE_CORE_STATS_H_
#define ROPEWAY_ENGINE_CORE_STATS_H_

#include <array>
#include <cstdint>

#include "base/clock.h"
#include "core/sequence.h"
#include "engine/tier_transfers.h"
#include "kvcache/kv_cache_manager.h"
#include "ropeway/request.h"
#include "scheduler/schedule.h"
#include "scheduler/scheduler.h"

namespace ropeway {

// A snapshot for metrics and health; plain numbers.
struct CoreStats {
  int waiting = 0;    // Never ran yet.
  int running = 0;    // Prefilling or decoding.
  int preempted = 0;  // Ran, and wait for blocks.
  int free_blocks = 0;
  int held_blocks = 0;
  int cached_blocks = 0;
  int total_blocks = 0;
  int fetching = 0;  // Of those that run, the ones that wait for a tier.
  uint64_t steps = 0;
  uint64_t preemptions = 0;
  int last_rows = 0;            // Tokens of the last step.
  int last_prefill_rows = 0;    // Of these, those of prefill chunks.
  int last_items = 0;           // Sequences in the last step.
  int last_fetches = 0;         // Reads from a tier that the last step began.
  Duration last_forward{};      // What the forward pass took of the last step's time ...
  Duration last_sampling{};     // ... and of this, what the search for tokens took.
  RequestId blocked_id = 0;     // The first of the queue that did not start; 0: none waits.
  const char* blocked_by = "";  // The rule that kept it waiting.
  BlockedBy blocked_rule = BlockedBy::kNothing;  // Likewise, as the scheduler knows it.
  // The last step computed nothing, for a batch fills: until then, unless something happens.
  TimePoint next_look = TimePoint::max();
  int last_padding_rows = 0;  // Of last_rows, those that stood for nobody.
  int limit = 0;              // Sequences that may run at once by now (BatchSizeControl).
  // Since the start.
  uint64_t batches = 0;         // Begun: the number of the newest one.
  uint64_t batch_sizes = 0;     // Sum over them.
  uint64_t started = 0;         // Sequences that started in them.
  uint64_t ended_batches = 0;   // Every sequence that started in them has ended.
  Duration batch_time{};        // Sum over the ended ones, from start to end.
  uint64_t computed_steps = 0;  // Steps that computed something,
  uint64_t rows = 0;            // their rows,
  uint64_t items = 0;           // and their sequences, summed.
  uint64_t generated_tokens = 0;
  std::array<uint64_t, kNumPreemptReasons> preemptions_by{};  // By PreemptReason.
  std::array<int, kNumPriorities> waiting_by{};               // By class, preempted ones too.
  std::array<int, kNumPriorities> running_by{};
  std::array<double, kNumPriorities> wait_seconds{};  // See EngineCore::WaitSeconds.
  int64_t queued_tokens = 0;
  double speed = 0.0;             // Units of cost per second of steps; 0: not measured.
  double attention_weight = 0.0;  // What attending to a position costs, in tokens.
  // Since the start, in tokens: of requests that began to compute for the first time,
  uint64_t prompt_tokens = 0;         // their prompts,
  uint64_t cached_prompt_tokens = 0;  // what of these was in the pool or came from a tier,
  uint64_t recomputed_tokens = 0;     // and what was computed again after a preemption.
  uint64_t evicted_blocks = 0;
  TierTransfers::Counts transfers;
};

// Reads what the scheduler, the cache and the transfers know of themselves; the counts of steps and
// tokens, and who is blocked, are the core's own to say.
void ReadStats(const Scheduler& scheduler, const KvCacheManager& kv, const TierTransfers& transfers,
               CoreStats* stats);

}  // namespace ropeway

#endif  // ROPEWAY_ENGINE_CORE_STATS_H_
