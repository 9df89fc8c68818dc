// How an EngineCore is set up.
#ifndef ROPEWAY_ENGINE_CORE_OPTIONS_H_
#define ROPEWAY_ENGINE_CORE_OPTIONS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>

#include "base/clock.h"
#include "executor/executor.h"
#include "kvcache/block_pool.h"
#include "kvcache/kv_tier.h"
#include "ropeway/status.h"
#include "scheduler/batch_size_control.h"
#include "scheduler/scheduler.h"

namespace ropeway {

struct EngineCoreOptions {
  int max_num_seqs = 64;
  int max_num_batched_tokens = 512;
  int32_t max_model_len = 0;                      // Already lowered to what the pool holds.
  std::function<bool(TokenId)> is_end = nullptr;  // Empty: no token ends a sequence.
  // Of SchedulerOptions; see there.
  int max_prefill_chunk = 0;
  int mixed_prefill_budget = 0;
  int long_prefill_threshold = 0;
  int long_prefill_budget = 64;
  int32_t preempt_max_generated = std::numeric_limits<int32_t>::max();
  Duration max_wait = Duration::max();  // Who would wait longer is refused.
  bool has_classes = false;
  ClassParts class_parts{};
  double attention_weight = 0.0;
  bool learn_cost = false;
  BatchFormerOptions batching{};
  bool padding = false;
  // Prompt tokens that wait, all together; more are refused, unless nobody waits.
  int64_t max_queued_tokens = std::numeric_limits<int64_t>::max();
  std::string batch_control = "fixed";  // See MakeBatchSizeControl.
  Duration step_target = std::chrono::milliseconds(100);
  // KV blocks are kept and shared under their names; else every preempted sequence is recomputed.
  bool prefix_caching = true;
  EvictionPolicy eviction = EvictionPolicy::kCost;
  bool checkpoint_always = false;  // See EngineOptions::preempt_checkpoint.
  KvTier* tier = nullptr;          // Null: none. Must outlive the core.
  bool note_steps = false;         // last_step() is filled in.
  // Check integrity after each step or Finish that leaves the core idle; what is broken ends the
  // process (base/check.h).
#ifdef NDEBUG
  bool check_integrity = false;
#else
  bool check_integrity = true;
#endif
};

// Limits of at least 1, names that are known, and max_model_len positions in the pool;
// kInvalidArgument with the field at fault.
Status CheckCoreOptions(const EngineCoreOptions& options, const KvLayout& layout);

// Blocks of the pool that sequences may have: padding reads the last one, which is nobody's.
int32_t UsableBlocks(const EngineCoreOptions& options, const KvLayout& layout);

SchedulerOptions SchedulerOptionsOf(const EngineCoreOptions& options);

// kInvalidArgument as MakeBatchSizeControl; not where CheckCoreOptions is OK.
StatusOr<std::unique_ptr<BatchSizeControl>> BatchControlOf(const EngineCoreOptions& options);

}  // namespace ropeway

#endif  // ROPEWAY_ENGINE_CORE_OPTIONS_H_
