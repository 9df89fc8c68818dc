#include "engine/core_options.h"

#include <string>

namespace ropeway {

Status CheckCoreOptions(const EngineCoreOptions& options, const KvLayout& layout) {
  if (options.max_num_seqs < 1) return InvalidArgument("must be at least 1", "max_num_seqs");
  if (options.max_num_batched_tokens < 1) {
    return InvalidArgument("must be at least 1", "max_num_batched_tokens");
  }
  if (options.max_prefill_chunk < 0) {
    return InvalidArgument("must not be negative", "max_prefill_chunk");
  }
  if (options.max_wait <= Duration{}) return InvalidArgument("must be above 0", "max_wait");
  if (const auto control = BatchControlOf(options); !control.ok()) return control.status();
  if (options.max_model_len < 2) return InvalidArgument("must be at least 2", "max_model_len");
  const int32_t blocks = UsableBlocks(options, layout);
  if (BlocksFor(options.max_model_len) > blocks) {
    return InvalidArgument("max_model_len " + std::to_string(options.max_model_len) + " needs " +
                               std::to_string(BlocksFor(options.max_model_len)) +
                               " KV blocks, the pool holds " + std::to_string(blocks),
                           "max_model_len");
  }
  return {};
}

int32_t UsableBlocks(const EngineCoreOptions& options, const KvLayout& layout) {
  return layout.num_blocks - (options.padding ? 1 : 0);
}

SchedulerOptions SchedulerOptionsOf(const EngineCoreOptions& options) {
  return {.max_num_seqs = options.max_num_seqs,
          .max_num_batched_tokens = options.max_num_batched_tokens,
          .max_prefill_chunk = options.max_prefill_chunk,
          .mixed_prefill_budget = options.mixed_prefill_budget,
          .long_prefill_threshold = options.long_prefill_threshold,
          .long_prefill_budget = options.long_prefill_budget,
          .preempt_max_generated = options.preempt_max_generated,
          .max_wait = options.max_wait,
          .has_classes = options.has_classes,
          .class_parts = options.class_parts,
          .attention_weight = options.attention_weight,
          .learn_cost = options.learn_cost,
          .batching = options.batching,
          .padding = options.padding};
}

StatusOr<std::unique_ptr<BatchSizeControl>> BatchControlOf(const EngineCoreOptions& options) {
  return MakeBatchSizeControl({.name = options.batch_control,
                               .max_num_seqs = options.max_num_seqs,
                               .step_target = options.step_target});
}

}  // namespace ropeway
