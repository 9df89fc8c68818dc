#include "engine/batch_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "kvcache/kv_cache_manager.h"

namespace ropeway::engine {
namespace {

// Sets the ids of the prompt that this item's rows predict and that were not scored before.
void SetScoreRange(const scheduler::ScheduledItem& planned, core::BatchItem* item) {
  const core::Sequence& sequence = *planned.sequence;
  if (sequence.spec.num_prompt_logprobs < 0) return;
  // Nothing comes before position 0, so no row predicts it.
  const int32_t begin = std::max(planned.start + 1, sequence.scored);
  const int32_t end = std::min(planned.start + planned.num_tokens + 1, sequence.prompt_len);
  if (begin >= end) return;
  item->score_begin = begin;
  item->score_end = end;
}

// Sets the positions of this item that the sequence's embedding is made of.
void SetPoolRange(const scheduler::ScheduledItem& planned, core::BatchItem* item) {
  const core::Sequence& sequence = *planned.sequence;
  const core::PositionRange left = sequence.left_to_pool();
  const int32_t begin = std::max(planned.start, left.begin);
  const int32_t end = std::min(planned.start + planned.num_tokens, left.end);
  if (begin >= end) return;
  item->pool_begin = begin;
  item->pool_end = end;
  item->pool_sum = sequence.pool_sum;
}

}  // namespace

BatchBuilder::BatchBuilder(int max_items, int32_t groups) : groups_(groups) {
  batch_.items.reserve(static_cast<size_t>(max_items));
  work_.reserve(static_cast<size_t>(max_items));
}

void BatchBuilder::Begin(uint64_t step) {
  batch_.items.clear();
  work_.clear();
  batch_.step = step;
}

void BatchBuilder::Add(const scheduler::ScheduledItem& planned) {
  core::Sequence& sequence = *planned.sequence;
  core::BatchItem item{.sequence = sequence.id(), .start = planned.start, .sample = planned.sample};
  SetScoreRange(planned, &item);
  SetPoolRange(planned, &item);
  Work work{planned, {}};
  const bool scores = item.score_begin < item.score_end;
  if (scores || (sequence.spec.num_prompt_logprobs >= 0 && sequence.scored == 0)) {
    work.scored.reserve(static_cast<size_t>(item.score_end - item.score_begin) + 1);
  }
  if (item.sample) {
    sequence.ReserveId();
    sequence.ReserveMask();
    // The next schedule extends its table, or parks its blocks with the token sampled here.
    kvcache::KvCacheManager::Reserve(&sequence, sequence.num_ids() + 2 * base::kBlockTokens,
                                     groups_);
  }
  // Only now, as reserving moves what the item refers to. Nothing below throws.
  item.ids = sequence.ids();
  item.tokens =
      item.ids.subspan(static_cast<size_t>(planned.start), static_cast<size_t>(planned.num_tokens));
  item.blocks = sequence.kv.blocks;
  item.spec = &sequence.spec;
  item.long_rope = sequence.long_rope;
  if (item.sample && sequence.constraint_run != nullptr) item.mask = &sequence.constraint_run->mask;
  batch_.items.push_back(item);
  work_.push_back(std::move(work));
}

void BatchBuilder::AddPadding(std::span<const scheduler::PaddingItem> planned,
                              core::BlockId scratch) {
  static const core::SampleSpec kGreedy = [] {
    core::SampleSpec spec;
    spec.params.temperature = 0;
    return spec;
  }();
  for (const scheduler::PaddingItem& item : planned) {
    const auto tokens = static_cast<size_t>(item.num_tokens);
    const auto blocks =
        static_cast<size_t>(groups_ * kvcache::BlocksFor(item.start + item.num_tokens));
    padding_tokens_.resize(std::max(padding_tokens_.size(), tokens));
    padding_blocks_.resize(std::max(padding_blocks_.size(), blocks), scratch);
  }
  for (const scheduler::PaddingItem& item : planned) {
    batch_.items.push_back(
        {.start = item.start,
         .tokens = std::span(padding_tokens_).first(static_cast<size_t>(item.num_tokens)),
         .blocks = padding_blocks_,
         .sample = item.sample,
         .padding = true,
         .spec = &kGreedy});
  }
}

Status BatchBuilder::CheckResult(const core::StepResult& result) const {
  const auto unexpected = [this](const std::string& what) {
    return Status(StatusCode::kInternal,
                  fmt::format("the executor {} in step {}", what, batch_.step));
  };
  size_t sampled = 0;
  size_t scored = 0;
  size_t pooled = 0;
  for (const core::BatchItem& item : batch_.items) {
    if (item.pool_begin < item.pool_end &&
        (pooled >= result.pooled.size() || result.pooled[pooled++].sequence != item.sequence)) {
      return unexpected(fmt::format("pooled nothing for sequence {}", item.sequence));
    }
    if (item.sample &&
        (sampled >= result.sampled.size() || result.sampled[sampled++].sequence != item.sequence)) {
      return unexpected(fmt::format("sampled no token for sequence {}", item.sequence));
    }
    for (int32_t position = item.score_begin; position < item.score_end; ++position, ++scored) {
      if (scored < result.scored.size() && result.scored[scored].sequence == item.sequence &&
          result.scored[scored].position == position) {
        continue;
      }
      return unexpected(
          fmt::format("did not score position {} of sequence {}", position, item.sequence));
    }
  }
  if (sampled != result.sampled.size()) {
    return unexpected(
        fmt::format("sampled {} tokens instead of {}", result.sampled.size(), sampled));
  }
  if (pooled != result.pooled.size()) {
    return unexpected(fmt::format("pooled {} items instead of {}", result.pooled.size(), pooled));
  }
  if (scored == result.scored.size()) return {};
  return unexpected(fmt::format("scored {} ids instead of {}", result.scored.size(), scored));
}

void BatchBuilder::TakeScored(size_t item, core::StepResult* result, size_t* next) {
  Work& work = work_[item];
  core::Sequence* const sequence = work.planned.sequence;
  if (sequence->spec.num_prompt_logprobs < 0) return;
  if (sequence->scored == 0) {
    work.scored.push_back({.sequence = sequence->id(),
                           .position = 0,
                           .token = sequence->ids()[0],
                           .logprob = std::numeric_limits<float>::quiet_NaN(),
                           .top_logprobs = {}});
    sequence->scored = 1;
  }
  const core::BatchItem& asked = batch_.items[item];
  for (int32_t position = asked.score_begin; position < asked.score_end; ++position) {
    work.scored.push_back(std::move(result->scored[(*next)++]));
    sequence->scored = position + 1;
  }
}

void BatchBuilder::TakePooled(size_t item, core::StepResult* result, size_t* next) {
  const core::BatchItem& asked = batch_.items[item];
  if (asked.pool_begin >= asked.pool_end) return;
  core::Sequence* const sequence = work_[item].planned.sequence;
  sequence->pool_sum = std::move(result->pooled[(*next)++].sum);
  sequence->pooled = asked.pool_end;
}

void BatchBuilder::NoteItems(std::vector<core::StepContent::Item>* items) const {
  for (const Work& work : work_) {
    const scheduler::ScheduledItem& planned = work.planned;
    const bool decodes = planned.sequence->state == core::SequenceState::kDecoding;
    items->push_back(
        {planned.sequence->id(),
         decodes ? core::StepContent::Kind::kDecode : core::StepContent::Kind::kPrefill,
         planned.start, planned.num_tokens});
  }
}

}  // namespace ropeway::engine
