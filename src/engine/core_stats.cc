#include "engine/core_stats.h"

namespace ropeway {

void ReadStats(const Scheduler& scheduler, const KvCacheManager& kv, const TierTransfers& transfers,
               CoreStats* stats) {
  stats->waiting = scheduler.num_waiting();
  stats->running = scheduler.num_running();
  stats->fetching = scheduler.num_fetching();
  stats->preempted = scheduler.num_preempted();
  stats->free_blocks = kv.pool().num_free();
  stats->held_blocks = kv.pool().num_held();
  stats->cached_blocks = kv.pool().num_cached();
  stats->total_blocks = kv.pool().num_blocks();
  stats->waiting_by = {};
  stats->running_by = {};
  for (const Sequence* sequence : scheduler.queue()) {
    ++stats->waiting_by[static_cast<size_t>(sequence->priority)];
  }
  for (const Sequence* sequence : scheduler.running()) {
    ++stats->running_by[static_cast<size_t>(sequence->priority)];
  }
  stats->limit = scheduler.limit();
  for (int i = 0; i < kNumPriorities; ++i) {
    stats->wait_seconds[static_cast<size_t>(i)] = scheduler.WaitSeconds(static_cast<Priority>(i));
  }
  stats->queued_tokens = scheduler.queued_tokens();
  stats->speed = scheduler.step_cost().speed();
  stats->attention_weight = scheduler.step_cost().weight();
  stats->evicted_blocks = kv.pool().evictions();
  stats->transfers = transfers.counts();
}

}  // namespace ropeway
