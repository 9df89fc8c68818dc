#include "engine/batch_builder.h"

#include <algorithm>
#include <string>
#include <utility>

#include "kvcache/kv_cache_manager.h"

namespace ropeway::engine {
namespace {

Status Unexpected(uint64_t step, const std::string& what) {
  return {StatusCode::kInternal, "the executor " + what + " in step " + std::to_string(step)};
}

// Sets the ids of the prompt that this item's rows predict and that were not scored before.
void SetScoreRange(const scheduler::ScheduledItem& planned, core::BatchItem* item) {
  const core::Sequence& sequence = *planned.sequence;
  item->score_begin = item->score_end = 0;
  if (sequence.spec.num_prompt_logprobs < 0) return;
  // Nothing comes before position 0, so no row predicts it.
  const int32_t begin = std::max(planned.start + 1, sequence.scored);
  const int32_t end = std::min(planned.start + planned.num_tokens + 1, sequence.prompt_len);
  if (begin >= end) return;
  item->score_begin = begin;
  item->score_end = end;
}

}  // namespace

BatchBuilder::BatchBuilder(int max_items) {
  const auto n = static_cast<size_t>(max_items);
  batch_.items.reserve(n);
  work_.reserve(n);
  spare_items_.reserve(n);
}

void BatchBuilder::Begin(uint64_t step) {
  while (!batch_.items.empty()) {
    spare_items_.push_back(std::move(batch_.items.back()));
    batch_.items.pop_back();
  }
  work_.clear();
  batch_.step = step;
}

void BatchBuilder::Add(const scheduler::ScheduledItem& planned) {
  core::Sequence& sequence = *planned.sequence;
  if (spare_items_.empty()) spare_items_.emplace_back();
  core::BatchItem& item = spare_items_.back();
  const auto first = sequence.ids.begin() + planned.start;
  item.sequence = sequence.id;
  item.start = planned.start;
  item.tokens.assign(first, first + planned.num_tokens);
  item.blocks.assign(sequence.blocks.begin(), sequence.blocks.end());
  item.sample = planned.sample;
  item.padding = false;
  SetScoreRange(planned, &item);
  const bool scores = item.score_begin < item.score_end;
  Work work{planned, {}};
  if (scores || (sequence.spec.num_prompt_logprobs >= 0 && sequence.scored == 0)) {
    work.scored.reserve(static_cast<size_t>(item.score_end - item.score_begin) + 1);
  }
  if (item.sample) {
    if (sequence.ids.size() == sequence.ids.capacity()) {
      sequence.ids.reserve(2 * sequence.ids.size());
    }
    // The next schedule extends its table, or parks its blocks with the token sampled here.
    kvcache::KvCacheManager::Reserve(&sequence, sequence.num_ids() + 2 * base::kBlockTokens);
  }
  if (item.sample || scores) {
    item.ids = sequence.ids;
    item.spec = sequence.spec;
  } else {
    item.ids = {};
  }
  // Nothing below throws.
  batch_.items.push_back(std::move(item));
  spare_items_.pop_back();
  work_.push_back(std::move(work));
}

void BatchBuilder::AddPadding(const scheduler::PaddingItem& planned, core::BlockId scratch) {
  if (spare_items_.empty()) spare_items_.emplace_back();
  core::BatchItem& item = spare_items_.back();
  item.sequence = 0;
  item.start = planned.start;
  item.tokens.assign(static_cast<size_t>(planned.num_tokens), 0);
  item.blocks.assign(static_cast<size_t>(kvcache::BlocksFor(planned.start + planned.num_tokens)),
                     scratch);
  item.sample = planned.sample;
  item.padding = true;
  item.score_begin = item.score_end = 0;
  item.ids = {};
  item.spec = {};
  item.spec.params.temperature = 0;
  batch_.items.push_back(std::move(item));
  spare_items_.pop_back();
}

Status BatchBuilder::CheckResult(const core::StepResult& result) const {
  if (Status status = CheckSampled(result); !status.ok()) return status;
  return CheckScored(result);
}

Status BatchBuilder::CheckSampled(const core::StepResult& result) const {
  size_t n = 0;
  for (const core::BatchItem& item : batch_.items) {
    if (!item.sample) continue;
    if (n >= result.sampled.size() || result.sampled[n].sequence != item.sequence) {
      return Unexpected(batch_.step,
                        "sampled no token for sequence " + std::to_string(item.sequence));
    }
    ++n;
  }
  if (n == result.sampled.size()) return {};
  return Unexpected(batch_.step, "sampled " + std::to_string(result.sampled.size()) +
                                     " tokens, not the " + std::to_string(n) + " asked for,");
}

Status BatchBuilder::CheckScored(const core::StepResult& result) const {
  size_t n = 0;
  for (const core::BatchItem& item : batch_.items) {
    for (int32_t position = item.score_begin; position < item.score_end; ++position, ++n) {
      if (n < result.scored.size() && result.scored[n].sequence == item.sequence &&
          result.scored[n].position == position) {
        continue;
      }
      return Unexpected(batch_.step, "did not score position " + std::to_string(position) +
                                         " of sequence " + std::to_string(item.sequence));
    }
  }
  if (n == result.scored.size()) return {};
  return Unexpected(batch_.step, "scored " + std::to_string(result.scored.size()) +
                                     " ids, not the " + std::to_string(n) + " asked for,");
}

}  // namespace ropeway::engine
