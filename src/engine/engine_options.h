// From the public EngineOptions to what the parts of an engine are set up with.
#ifndef ROPEWAY_ENGINE_ENGINE_OPTIONS_H_
#define ROPEWAY_ENGINE_ENGINE_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "executor/executor.h"
#include "kvcache/kv_cache_manager.h"
#include "policy/scheduling_policy.h"
#include "ropeway/options.h"
#include "ropeway/stats.h"
#include "ropeway/status.h"
#include "scheduler/scheduler_options.h"

namespace ropeway::engine {

// How an EngineCore is set up.
struct EngineCoreOptions {
  QueueOptions queue{};  // As they are given.
  SchedulingOptions scheduler{};
  scheduler::StepOptions step{};
  CacheOptions cache{};
  kvcache::EvictionPolicy eviction = kvcache::EvictionPolicy::kCost;
  kvcache::KvTier* tier = nullptr;                // Null: none. Must outlive the core.
  kvcache::BlockEvents* block_events = nullptr;   // Null: none. Must outlive the core.
  int32_t max_model_len = 0;                      // Already lowered to what the pool holds.
  std::function<bool(TokenId)> is_end = nullptr;  // Empty: no token ends a sequence.
  // Check integrity after each step or Abort that leaves the core idle; a violation ends the
  // process (base/check.h).
#ifdef NDEBUG
  bool check_integrity = false;
#else
  bool check_integrity = true;
#endif

  // InvalidArgument with the field at fault: the scheduler's options, and whether max_model_len
  // positions fit the pool.
  Status Validate(const executor::KvLayout& layout) const;

  // With what the layout and the scheduler determine.
  kvcache::KvCacheOptions CacheOf(const executor::KvLayout& layout) const;

  // Blocks of the pool that sequences may have. Padding reads the last one, which no sequence has.
  int32_t UsableBlocks(const executor::KvLayout& layout) const {
    return layout.num_blocks - (scheduler::IsPadded(scheduler) ? 1 : 0);
  }
};

// InvalidArgument with the option at fault, as far as it shows without a model.
Status ValidateEngineOptions(const EngineOptions& options);

// The core's options except `is_end` and the tier; max_model_len is lowered to what the model (its
// context length) and the KV pool hold, and the device of `layout` says what no option does.
// REQUIRES: ValidateEngineOptions(options) is OK.
EngineCoreOptions CoreOptionsOf(const EngineOptions& options, int32_t model_context_length,
                                const executor::KvLayout& layout);

// Changes the options to what an encoder can use, whose inputs have at most `max_positions` ids: a
// step holds the longest, and nothing of an input is kept.
void UseForEncoder(int32_t max_positions, EngineOptions* options);

// The policy that the options name.
StatusOr<std::unique_ptr<policy::SchedulingPolicy>> PolicyOf(const EngineOptions& options);

// What EngineStats reports of the options: the strategy and its limits. REQUIRES: as CoreOptionsOf.
EngineStats DescribeBatching(const SchedulingOptions& options);

}  // namespace ropeway::engine

#endif  // ROPEWAY_ENGINE_ENGINE_OPTIONS_H_
