#include "engine/scheduling_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include "policy/make_policy.h"
#include "scheduler/batch_size_control.h"

namespace ropeway {
namespace {

// What has generated more is not worth computing anew for another one's sake.
constexpr int32_t kMaxGeneratedWithoutCache = 50;

// Beside streams prompts come in small chunks, so that no step is long: a request that arrives in
// one waits for its end. Larger ones are hardly cheaper by the token (docs/scheduling.md).
constexpr int kMixedPrefillBudget = 32;

std::optional<BatchFormerOptions::Kind> KindOf(const std::string& scheduler) {
  using Kind = BatchFormerOptions::Kind;
  if (scheduler == "continuous") return Kind::kContinuous;
  if (scheduler == "dynamic") return Kind::kDynamic;
  if (scheduler == "static") return Kind::kStatic;
  if (scheduler == "serial") return Kind::kSerial;
  return std::nullopt;
}

Status Refuse(const char* field, const std::string& what) {
  return InvalidArgument(fmt::format("{} {}", field, what), field);
}

Status CheckTimes(const EngineOptions& options) {
  const std::pair<const char*, std::chrono::milliseconds> times[] = {
      {"static_flush", options.static_flush},  {"target_latency", options.target_latency},
      {"max_wait", options.max_wait},          {"step_target", options.step_target},
      {"ttft_limits", options.ttft_limits[0]}, {"ttft_limits", options.ttft_limits[1]},
      {"ttft_limits", options.ttft_limits[2]}};
  for (const auto& [field, time] : times) {
    if (time.count() <= 0) return Refuse(field, "must be above 0 ms");
  }
  return {};
}

Status CheckNumbers(const EngineOptions& options) {
  if (options.max_batch_size < 1) return Refuse("max_batch_size", "must be at least 1");
  if (options.max_queued_tokens < 1) return Refuse("max_queued_tokens", "must be at least 1");
  if (options.max_prefill_chunk < 0) return Refuse("max_prefill_chunk", "must not be negative");
  if (options.long_prefill_threshold < 0) {
    return Refuse("long_prefill_threshold", "must not be negative");
  }
  if (options.long_prefill_budget < 1) return Refuse("long_prefill_budget", "must be at least 1");
  return {};
}

}  // namespace

Status CheckScheduling(const EngineOptions& options) {
  if (!KindOf(options.scheduler)) {
    return Refuse(
        "scheduler",
        fmt::format("must be continuous, dynamic, static or serial, not '{}'", options.scheduler));
  }
  if (Status status = CheckTimes(options); !status.ok()) return status;
  if (Status status = CheckNumbers(options); !status.ok()) return status;
  const auto control = MakeBatchSizeControl({.name = options.batch_control,
                                             .max_num_seqs = options.max_num_seqs,
                                             .step_target = options.step_target});
  if (!control.ok()) return control.status();
  const auto policy = PolicyOf(options);
  return policy.ok() ? Status() : policy.status();
}

StatusOr<std::unique_ptr<SchedulingPolicy>> PolicyOf(const EngineOptions& options) {
  return MakePolicy({.name = options.policy,
                     .class_shares = options.class_shares,
                     .strict = options.strict_priority,
                     .kv_is_kept = options.prefix_caching});
}

EngineStats DescribeBatching(const EngineOptions& options) {
  using Kind = BatchFormerOptions::Kind;
  const Kind kind = *KindOf(options.scheduler);
  EngineStats stats;
  stats.strategy = options.scheduler;
  if (kind == Kind::kContinuous) {
    stats.max_batch_size = options.max_num_seqs;
  } else if (kind == Kind::kSerial) {
    stats.max_batch_size = 1;
  } else {
    stats.max_batch_size = std::min(options.max_batch_size, options.max_num_seqs);
    std::chrono::milliseconds wait = options.static_flush;
    if (kind == Kind::kDynamic) {
      const bool automatic = options.batch_timeout.count() < 0;
      wait = automatic ? options.target_latency : options.batch_timeout;
    }
    stats.max_batch_wait_ms = static_cast<double>(wait.count());
  }
  stats.enabled = stats.max_batch_size > 1;
  return stats;
}

void SetScheduling(const EngineOptions& options, EngineCoreOptions* core) {
  using Kind = BatchFormerOptions::Kind;
  const Kind kind = *KindOf(options.scheduler);
  core->batching = {.kind = kind,
                    .max_batch_size = std::min(options.max_batch_size, options.max_num_seqs),
                    .timeout = kind == Kind::kStatic ? options.static_flush : options.batch_timeout,
                    .auto_timeout = kind == Kind::kDynamic && options.batch_timeout.count() < 0,
                    .target_latency = options.target_latency};
  core->padding = kind == Kind::kStatic && options.static_padding;
  core->max_prefill_chunk = options.max_prefill_chunk;
  // The classic strategies compute their prompts in as few steps as they can.
  core->mixed_prefill_budget = kind == Kind::kContinuous ? kMixedPrefillBudget : 0;
  core->long_prefill_threshold = options.long_prefill_threshold;
  core->long_prefill_budget = options.long_prefill_budget;
  core->preempt_max_generated = options.preempt_max_generated;
  if (options.preempt_max_generated < 0) {
    core->preempt_max_generated =
        options.prefix_caching ? std::numeric_limits<int32_t>::max() : kMaxGeneratedWithoutCache;
  }
  core->max_wait = options.max_wait;
  core->max_queued_tokens = options.max_queued_tokens;
  core->batch_control = options.batch_control;
  core->step_target = options.step_target;
  core->attention_weight = StepCost::kFirstWeight;
  core->learn_cost = true;
  // Where the class only breaks another policy's ties, it says little about waits.
  core->has_classes = options.policy == "priority" || options.policy.starts_with("priority+");
  const bool parts = core->has_classes && !options.strict_priority;
  for (size_t i = 0; parts && i < core->class_parts.size(); ++i) {
    core->class_parts[i] = options.class_shares[i] / 100.0;
  }
}

}  // namespace ropeway
