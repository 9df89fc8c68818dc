#include "engine/engine_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/log.h"
#include "executor/devices.h"
#include "kernels/kernels.h"
#include "policy/policies.h"
#include "scheduler/queue_options.h"
#include "store/session_store.h"

namespace ropeway::engine {
namespace {

using scheduler::Strategy;

constexpr int kMaxThreads = 1024;

Status Invalid(const char* field, const std::string& what) {
  return InvalidArgument(fmt::format("{} {}", field, what), field);
}

// A number and what it must be at least.
struct Bound {
  const char* field;
  int64_t value;
  int64_t least;
};

Status CheckBounds(std::initializer_list<Bound> bounds) {
  for (const Bound& bound : bounds) {
    if (bound.value >= bound.least) continue;
    return Invalid(bound.field,
                   fmt::format("must be at least {}, not {}", bound.least, bound.value));
  }
  return {};
}

Status ValidateCache(const CacheOptions& cache) {
  if (Status status = CheckBounds({{"kv_cache_bytes", cache.kv_bytes, 0},
                                   {"kv_disk_bytes", cache.disk_bytes, 0},
                                   {"kv_disk_write_rate", cache.disk_write_rate, 0}});
      !status.ok()) {
    return status;
  }
  if (kernels::KvTypeByName(cache.kv_dtype.c_str()) == nullptr) {
    return Invalid("kv_cache_dtype", fmt::format("must be f16 or q8_0, not '{}'", cache.kv_dtype));
  }
  if (cache.preempt_checkpoint != "pressure" && cache.preempt_checkpoint != "always") {
    return Invalid("preempt_checkpoint",
                   fmt::format("must be pressure or always, not '{}'", cache.preempt_checkpoint));
  }
  if (!cache.disk_path.empty() && !cache.prefix_caching) {
    return InvalidArgument(
        "kv_disk_path (--kv-disk-path) needs prefix_caching (--prefix-caching on)", "kv_disk_path");
  }
  if (!cache.events_address.empty() && !cache.prefix_caching) {
    return InvalidArgument("kv_events (--kv-events) needs prefix_caching (--prefix-caching on)",
                           "kv_events");
  }
  return {};
}

// `asked` (0: all of the model's context), lowered to what the model and the usable blocks of the
// pool hold.
int32_t ResolveMaxModelLen(int64_t asked, int64_t model, int32_t blocks,
                           const kvcache::KvWindows& windows) {
  const int64_t wanted = asked == 0 ? model : std::min(asked, model);
  const int64_t resolved = std::min(wanted, windows.MostPositions(blocks));
  if (asked > model) {
    base::Log().warn("--max-model-len {} exceeds the model's context of {}; {} is used", asked,
                     model, resolved);
  }
  if (resolved < wanted) {
    base::Log().info(
        "max_model_len is lowered from {} to {}, the most that the KV cache of {} blocks can hold",
        wanted, resolved, blocks);
  }
  return static_cast<int32_t>(resolved);
}

}  // namespace

Status EngineCoreOptions::Validate(const executor::KvLayout& layout) const {
  if (Status status = scheduler::CheckSchedulingOptions(scheduler); !status.ok()) return status;
  if (max_model_len < 2) return Invalid("max_model_len", "must be at least 2");
  const int32_t blocks = UsableBlocks(layout);
  const int64_t needed = kvcache::KvWindows(layout.windows).BlocksForAlone(max_model_len);
  if (needed <= blocks) return {};
  return InvalidArgument(fmt::format("max_model_len {} needs {} KV blocks, but the KV cache has {}",
                                     max_model_len, needed, blocks),
                         "max_model_len");
}

kvcache::KvCacheOptions EngineCoreOptions::CacheOf(const executor::KvLayout& layout) const {
  return {.num_blocks = UsableBlocks(layout),
          .block_bytes = layout.block_bytes,
          .windows = layout.windows,
          .cache = cache,
          .eviction = eviction,
          .tier = tier,
          .events = block_events};
}

Status ValidateEngineOptions(const EngineOptions& options) {
  if (Status status = executor::CheckDeviceName(options.device); !status.ok()) return status;
  if (options.threads < 0 || options.threads > kMaxThreads) {
    return Invalid("threads",
                   fmt::format("must be between 0 and {}, not {}", kMaxThreads, options.threads));
  }
  if (Status status = CheckBounds({{"max_model_len", options.model.max_model_len, 0},
                                   {"frontend_threads", options.frontend_threads, 1},
                                   {"max_finished_bytes", options.max_finished_bytes, 0},
                                   {"request_timeout", options.request_timeout.count(), 0}});
      !status.ok()) {
    return status;
  }
  if (Status status = store::CheckSessionOptions(options.sessions); !status.ok()) return status;
  if (Status status = ValidateCache(options.cache); !status.ok()) return status;
  if (Status status = scheduler::CheckQueueOptions(options.queue); !status.ok()) return status;
  return scheduler::CheckSchedulingOptions(options.scheduler);
}

EngineCoreOptions CoreOptionsOf(const EngineOptions& options, int32_t model_context_length,
                                const executor::KvLayout& layout) {
  EngineCoreOptions core;
  core.queue = options.queue;
  core.scheduler = options.scheduler;
  // The classic strategies compute their prompts in as few steps as possible.
  core.step = {.mixed_prefill_budget = scheduler::IsContinuous(options.scheduler)
                                           ? layout.device.mixed_prefill_budget
                                           : 0,
               .attention_weight = layout.device.attention_weight,
               .learn_cost = true,
               .device = layout.device};
  core.cache = options.cache;
  core.max_model_len =
      ResolveMaxModelLen(options.model.max_model_len, model_context_length,
                         core.UsableBlocks(layout), kvcache::KvWindows(layout.windows));
  return core;
}

void UseForEncoder(int32_t max_positions, EngineOptions* options) {
  int& rows = options->scheduler.max_num_batched_tokens;
  rows = std::max(rows, max_positions);
  options->cache.prefix_caching = false;
  const auto unused = [](const char* option, std::string* value) {
    if (value->empty()) return;
    base::Log().warn(
        "{} is not used: nothing is kept of the inputs of a model that makes embeddings only",
        option);
    value->clear();
  };
  unused("kv_disk_path (--kv-disk-path)", &options->cache.disk_path);
  unused("kv_events (--kv-events)", &options->cache.events_address);
}

StatusOr<std::unique_ptr<policy::SchedulingPolicy>> PolicyOf(const EngineOptions& options) {
  return policy::MakePolicy(options.queue, options.cache.prefix_caching);
}

EngineStats DescribeBatching(const SchedulingOptions& options) {
  const Strategy strategy = *scheduler::StrategyOf(options.strategy);
  EngineStats stats;
  stats.strategy = options.strategy;
  // A sequence in a step takes a token of its budget at least.
  const int most = std::min(options.max_num_seqs, options.max_num_batched_tokens);
  stats.max_batch_size = std::min(options.max_batch_size, most);
  if (strategy == Strategy::kContinuous) stats.max_batch_size = most;
  if (strategy == Strategy::kSerial) stats.max_batch_size = 1;
  std::chrono::milliseconds wait{};
  if (strategy == Strategy::kStatic) wait = options.static_flush;
  if (strategy == Strategy::kDynamic) {
    wait = options.batch_timeout.count() < 0 ? options.target_latency : options.batch_timeout;
  }
  stats.max_batch_wait_ms = static_cast<double>(wait.count());
  // Urgent requests run beside a batch of one, in half of the slots.
  stats.enabled = stats.max_batch_size > 1 || (options.urgent_joins && most > 1);
  return stats;
}

}  // namespace ropeway::engine
