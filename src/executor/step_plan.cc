#include "executor/step_plan.h"

#include <algorithm>
#include <span>
#include <string>

#include "kernels/kernels.h"
#include "sampling/sampler.h"

namespace ropeway::executor {
namespace {

// The cost of a unit beside its dot products, in units of one row over one position.
constexpr int64_t kUnitOverhead = 64;

int SplitsUpTo(int position) { return position / kernels::kSplitTokens + 1; }

// `end`: of the positions that its last row sees.
int64_t Cost(const AttentionUnit& unit, int unit_end) {
  const int64_t begin = int64_t{unit.split_begin} * kernels::kSplitTokens;
  const int64_t end = std::min<int64_t>(int64_t{unit.split_end} * kernels::kSplitTokens, unit_end);
  return kUnitOverhead + unit.rows * std::max<int64_t>(end - begin, 0);
}

bool AreTokens(std::span<const TokenId> ids, int vocab_size) {
  return std::all_of(ids.begin(), ids.end(),
                     [vocab_size](TokenId id) { return id >= 0 && id < vocab_size; });
}

Status Broken(const std::string& what) {
  return Status(StatusCode::kInternal, "malformed batch: " + what);
}

}  // namespace

Slice SliceOf(const RowSet& set, int worker, int workers) {
  if (!set.by_rows) return {0, set.size(), worker, workers};
  return {ShareBegin(set.size(), worker, workers), ShareBegin(set.size(), worker + 1, workers), 0,
          1};
}

Status CheckLimits(int64_t kv_cache_bytes, int threads, int max_num_batched_tokens,
                   int max_num_seqs) {
  if (kv_cache_bytes < 0)
    return InvalidArgument("kv_cache_bytes must be at least 0", "kv_cache_bytes");
  if (threads < 1) return InvalidArgument("threads must be at least 1", "threads");
  if (max_num_batched_tokens < 1) {
    return InvalidArgument("max_num_batched_tokens must be at least 1", "max_num_batched_tokens");
  }
  if (max_num_seqs < 1) return InvalidArgument("max_num_seqs must be at least 1", "max_num_seqs");
  return {};
}

StepPlan::StepPlan(const PlanLimits& limits)
    : limits_(limits),
      all_queues_(new UnitQueue[static_cast<size_t>(limits.workers)]),
      output_queues_(new UnitQueue[static_cast<size_t>(limits.workers)]) {}

Status StepPlan::Check(const core::Batch& batch) const {
  if (batch.num_tokens() > limits_.max_rows) return Broken("too many tokens");
  if (batch.items.size() > static_cast<size_t>(limits_.max_seqs)) return Broken("too many items");
  for (const core::BatchItem& item : batch.items) {
    if (Status status = CheckItem(item); !status.ok()) return status;
  }
  return {};
}

Status StepPlan::CheckItem(const core::BatchItem& item) const {
  if (item.tokens.empty()) return Broken("an item without tokens");
  const int64_t end = int64_t{item.start} + static_cast<int64_t>(item.tokens.size());
  if (item.start < 0 || end > limits_.max_positions) return Broken("position out of range");
  if (!limits_.causal && !item.padding &&
      (item.start != 0 || item.sample || item.score_begin != item.score_end)) {
    return Broken("an encoder's item that is not whole, or has logits");
  }
  if (Status status = CheckBlocks(item, end); !status.ok()) return status;
  if (!AreTokens(item.tokens, limits_.vocab_size)) return Broken("no such token");
  return CheckIds(item);
}

Status StepPlan::CheckBlocks(const core::BatchItem& item, int64_t end) const {
  const size_t groups = limits_.windows.size();
  if (static_cast<int64_t>(item.blocks.size() / groups) * base::kBlockTokens < end) {
    return Broken("too few blocks");
  }
  for (size_t i = 0; i < item.blocks.size(); ++i) {
    if (item.blocks[i] >= 0 && item.blocks[i] < limits_.num_blocks) continue;
    const int seen = FirstSeen(limits_.windows[i % groups], item.start);
    const auto first = static_cast<int64_t>(i / groups) * base::kBlockTokens;
    const bool unseen = first >= end || first + base::kBlockTokens <= seen;
    if (item.blocks[i] != core::kNoBlock || !unseen) return Broken("no such block");
  }
  return {};
}

// Checks the ids beyond the item's own tokens, if penalties or scores need them.
Status StepPlan::CheckIds(const core::BatchItem& item) const {
  const int64_t end = int64_t{item.start} + static_cast<int64_t>(item.tokens.size());
  const auto known = static_cast<int64_t>(item.ids.size());
  if (item.sample && sampling::LogitAdjuster::NeedsIds(item.spec->params)) {
    if (known != end) return Broken("penalties without the ids before the token");
    if (!AreTokens(item.ids, limits_.vocab_size)) return Broken("no such id");
  }
  if (item.pool_begin != item.pool_end &&
      (item.pool_begin < item.start || item.pool_begin > item.pool_end || item.pool_end > end)) {
    return Broken("pooled positions that are not in the item");
  }
  if (item.score_begin == item.score_end) return {};
  if (item.score_begin <= item.start || item.score_begin > item.score_end ||
      item.score_end > end + 1) {
    return Broken("scored ids whose rows are not in the item");
  }
  if (item.sample && item.score_end > end) return Broken("a row that is sampled and scored");
  if (known < item.score_end) return Broken("scored ids that are not there");
  const std::span<const TokenId> scored =
      item.ids.subspan(static_cast<size_t>(item.score_begin),
                       static_cast<size_t>(item.score_end - item.score_begin));
  return AreTokens(scored, limits_.vocab_size) ? Status() : Broken("no such id to score");
}

Status StepPlan::Build(const core::Batch& batch) {
  if (Status status = Check(batch); !status.ok()) return status;
  for (RowSet* set : {&all_, &outputs_}) {
    set->item.clear();
    set->position.clear();
    set->units.clear();
  }
  output_rows_.clear();
  pooled_.clear();
  num_sampled_ = 0;
  num_scored_ = 0;
  for (size_t i = 0; i < batch.items.size(); ++i) {
    const core::BatchItem& item = batch.items[i];
    const int first_row = all_.size();
    const int rows = static_cast<int>(item.tokens.size());
    for (int r = 0; r < rows; ++r) {
      all_.item.push_back(static_cast<int32_t>(i));
      all_.position.push_back(item.start + r);
    }
    AddUnits(first_row, rows, item.start, item.end(), &all_);
    AddOutputs(i, item, first_row);
  }
  int first_row = 0;
  for (size_t i = 0; i < batch.items.size(); ++i) {
    AddPooled(i, batch.items[i], first_row);
    first_row += static_cast<int>(batch.items[i].tokens.size());
  }
  if (outputs_.size() > limits_.max_rows) return Broken("has more outputs than rows");
  Finish(batch, &all_, all_queues_.get());
  Finish(batch, &outputs_, output_queues_.get());
  return {};
}

void StepPlan::AddOutputs(size_t index, const core::BatchItem& item, int first_row) {
  const int first_output = outputs_.size();
  const auto add = [&](int position, int32_t sampled, int32_t scored) {
    output_rows_.push_back({first_row + position - item.start, sampled, scored});
    outputs_.item.push_back(static_cast<int32_t>(index));
    outputs_.position.push_back(position);
  };
  // An id's log-prob comes from the row of the id before it.
  for (int id = item.score_begin; id < item.score_end; ++id) add(id - 1, -1, num_scored_++);
  const int scored = outputs_.size() - first_output;
  AddUnits(first_output, scored, item.score_begin - 1, item.end(), &outputs_);
  if (!item.sample) return;
  const int last = item.start + static_cast<int>(item.tokens.size()) - 1;
  add(last, num_sampled_++, -1);
  AddUnits(first_output + scored, 1, last, item.end(), &outputs_);
}

void StepPlan::AddPooled(size_t index, const core::BatchItem& item, int first_row) {
  if (item.pool_begin == item.pool_end) return;
  const int begin = outputs_.size();
  for (int position = item.pool_begin; position < item.pool_end; ++position) {
    output_rows_.push_back({first_row + position - item.start, -1, -1});
    outputs_.item.push_back(static_cast<int32_t>(index));
    outputs_.position.push_back(position);
  }
  pooled_.push_back({begin, outputs_.size()});
  AddUnits(begin, outputs_.size() - begin, item.pool_begin, item.end(), &outputs_);
}

void StepPlan::AddUnits(int first_row, int rows, int start, int end, RowSet* set) const {
  for (int r = 0; r < rows; r += kAttentionTileRows) {
    const int tile = std::min(kAttentionTileRows, rows - r);
    for (int head = 0; head < limits_.num_kv_heads; ++head) {
      const int seen = limits_.causal ? start + r + tile : end;
      set->units.push_back({first_row + r, tile, head, 0, SplitsUpTo(seen - 1)});
    }
  }
}

// Splits units by splits of the context if there are too few for the workers, and single rows only.
void StepPlan::SplitUnits(RowSet* set) {
  set->deferred_merge = false;
  if (limits_.workers == 1 ||
      set->units.size() > static_cast<size_t>(MaxDeferredPairs(limits_.workers))) {
    return;
  }
  bool long_context = false;
  for (const AttentionUnit& unit : set->units) {
    if (unit.rows > 1) return;
    long_context = long_context || unit.split_end > 1;
  }
  if (!long_context) return;
  set->deferred_merge = true;
  whole_.assign(set->units.begin(), set->units.end());
  set->units.clear();
  for (const AttentionUnit& unit : whole_) {
    for (int split = 0; split < unit.split_end; ++split) {
      set->units.push_back({unit.row, unit.rows, unit.kv_head, split, split + 1});
    }
  }
}

void StepPlan::Finish(const core::Batch& batch, RowSet* set, UnitQueue* queues) {
  set->by_rows = limits_.workers > 1 && set->size() >= kMinRowsPerWorker * limits_.workers;
  SplitUnits(set);
  const auto cost = [set, &batch, this](const AttentionUnit& unit) {
    const auto row = static_cast<size_t>(unit.row);
    return Cost(unit, limits_.causal ? set->position[row] + unit.rows
                                     : batch.items[static_cast<size_t>(set->item[row])].end());
  };
  int64_t total = 0;
  for (const AttentionUnit& unit : set->units) total += cost(unit);
  size_t next = 0;
  int64_t done = 0;
  for (int worker = 0; worker < limits_.workers; ++worker) {
    UnitQueue& queue = queues[worker];
    queue.begin = static_cast<int32_t>(next);
    const int64_t until = total * (worker + 1) / limits_.workers;
    while (next < set->units.size() && done < until) done += cost(set->units[next++]);
    queue.end = static_cast<int32_t>(next);
    queue.next.store(queue.begin, std::memory_order_relaxed);
  }
}

}  // namespace ropeway::executor
