#include "executor/forward_pass.h"

#include <algorithm>
#include <cstring>

namespace ropeway::executor {
namespace {

// Bytes of `rows` packed rows for any layer's down matrix.
size_t MaxFfnBytes(const Weights& weights, int rows) {
  size_t bytes = 0;
  for (const LayerWeights& layer : weights.layers()) {
    bytes = std::max(bytes, kernels::PackedRowsBytes(layer.down.type, rows, layer.down.k));
  }
  return bytes;
}

}  // namespace

ForwardPass::ForwardPass(const Weights& weights, const kernels::Kernels& kernels,
                         const KvPool& pool, base::WorkerTeam* team, const base::Clock& clock,
                         const PlanLimits& limits, const std::vector<TokenId>& absent)
    : weights_(weights),
      model_(*weights.model()),
      config_(weights.config()),
      kernels_(kernels),
      pool_(pool),
      team_(team),
      group_(config_.num_heads / config_.num_kv_heads),
      max_splits_((model_.max_positions() + kernels::kSplitTokens - 1) / kernels::kSplitTokens),
      output_(weights, kernels, team, clock, limits.max_rows, absent) {
  const int rows = limits.max_rows;
  const int workers = team->size();
  // The most rows that all workers compute together, and the most rows of one worker's slice.
  const int shared = workers == 1 ? 1 : std::min(rows, kMinRowsPerWorker * workers - 1);
  const int own = std::max(shared, (rows + workers - 1) / workers);
  tile_rows_ = std::max(shared, std::min(own, kTileRows));
  const int partial = group_ * kernels::PartialFloats(config_.head_dim);
  q_ = AlignedArray<float>(Product(rows, config_.q_size()));
  k_ = AlignedArray<float>(Product(rows, config_.kv_size()));
  v_ = AlignedArray<float>(Product(rows, config_.kv_size()));
  attention_ = AlignedArray<float>(Product(rows, config_.q_size()));
  ffn_ = AlignedArray<std::byte>(MaxFfnBytes(weights, shared));
  y_ = AlignedArray<float>(Product(shared, config_.hidden_size));
  deferred_ = AlignedArray<float>(
      Product(StepPlan::MaxDeferredPairs(workers), Product(max_splits_, partial)));
  workers_.reserve(static_cast<size_t>(workers));
  for (int id = 0; id < workers; ++id) {
    Worker& w = workers_.emplace_back(id, RowPacker(weights, kernels, tile_rows_));
    w.x = AlignedArray<float>(Product(own, config_.hidden_size));
    const size_t ffn_floats =
        std::max(Product(tile_rows_, OddLines(kFfnPanels * kernels::kPanelCols)),
                 Product(kFewRows - 1, OddLines(config_.intermediate_size)));
    w.gate = AlignedArray<float>(ffn_floats);
    w.up = AlignedArray<float>(ffn_floats);
    w.ffn = AlignedArray<std::byte>(MaxFfnBytes(weights, tile_rows_));
    w.y = AlignedArray<float>(Product(tile_rows_, config_.hidden_size));
    w.partial = AlignedArray<float>(Product(max_splits_, kAttentionTileRows * partial));
  }
  if (config_.experts.count > 0) {
    experts_ = std::make_unique<ExpertLayer>(weights, kernels, team, rows);
  }
}

void ForwardPass::Run(const core::Batch& batch, StepPlan* plan, core::StepResult* result) {
  const Step step = {&batch, plan, result};
  team_->Run([&](int worker) { RunWorker(step, &workers_[static_cast<size_t>(worker)]); });
  result->sampling = output_.TakeSamplingTime();
  result->experts_read = experts_ != nullptr ? experts_->TakeExpertsRead() : 0;
}

void ForwardPass::RunWorker(const Step& step, Worker* w) {
  const int workers = team_->size();
  StepPlan& plan = *step.plan;
  Context all = {&step, &plan.all(), plan.all_queues(), SliceOf(plan.all(), w->id, workers), 0};
  const int last = config_.num_layers - 1;
  Embed(all, w);
  for (; all.layer < last; ++all.layer) {
    ComputeQkv(all, kQ | kKv, w);
    Attend(all, w);
    ComputeOutputAndFfn(all, w);
  }
  // In the last layer, rows whose logits are not wanted need only K and V.
  ComputeQkv(all, kKv, w);
  if (plan.outputs().size() == 0) return;
  KeepOutputRows(all, *w);
  team_->Barrier();
  const Context outputs = {&step, &plan.outputs(), plan.output_queues(),
                           SliceOf(plan.outputs(), w->id, workers), last};
  std::memcpy(w->x.data(), output_.hidden() + Product(outputs.slice.row_begin, config_.hidden_size),
              Product(outputs.slice.rows(), config_.hidden_size) * sizeof(float));
  ComputeQkv(outputs, kQ, w);
  Attend(outputs, w);
  ComputeOutputAndFfn(outputs, w);
  if (outputs.slice.parts == 1 || w->id == 0) {
    std::memcpy(output_.hidden() + Product(outputs.slice.row_begin, config_.hidden_size),
                w->x.data(), Product(outputs.slice.rows(), config_.hidden_size) * sizeof(float));
  }
  output_.Compute(*step.batch, *step.plan, w->id, step.result);
}

void ForwardPass::Embed(const Context& c, Worker* w) {
  for (int row = c.slice.row_begin; row < c.slice.row_end; ++row) {
    const size_t r = static_cast<size_t>(row);
    const core::BatchItem& item = c.step->batch->items[static_cast<size_t>(c.set->item[r])];
    const int position = c.set->position[r];
    float* x = w->x.data() + Product(row - c.slice.row_begin, config_.hidden_size);
    kernels::UnpackRow(weights_.token_embedding(),
                       item.tokens[static_cast<size_t>(position - item.start)], x);
    if (config_.embedding_scale != 1.0F) {
      kernels_.scale(x, config_.embedding_scale, config_.hidden_size);
    }
    if (weights_.type_embedding() != nullptr) {
      kernels_.add(x, weights_.type_embedding(), config_.hidden_size);
    }
    if (config_.position == model::PositionKind::kLearned) {
      kernels::UnpackRow(weights_.position_embedding(), position, w->y.data());
      kernels_.add(x, w->y.data(), config_.hidden_size);
    }
    if (weights_.embedding_norm() != nullptr) {
      w->packer.Norm(x, weights_.embedding_norm(), weights_.embedding_norm_bias(), x);
    }
  }
}

template <typename Fn>
void ForwardPass::ForEachTile(const Slice& slice, Fn fn) {
  for (int x = 0; x < slice.rows(); x += tile_rows_) {
    fn(Tile{slice.row_begin + x, std::min(tile_rows_, slice.rows() - x), x});
  }
}

void ForwardPass::Multiply(const kernels::Matrix& m, const float* bias, const Slice& slice,
                           const std::byte* packed, int rows, float* y, int64_t stride) {
  const int panels = m.num_panels();
  const int begin = ShareBegin(panels, slice.part, slice.parts);
  const int end = ShareBegin(panels, slice.part + 1, slice.parts);
  kernels_.matmul(m, packed, rows, begin, end, y, stride);
  if (bias == nullptr) return;
  const int col = begin * kernels::kPanelCols;
  AddBias(kernels_, bias + col, rows, std::min(end * kernels::kPanelCols, m.n) - col, y + col,
          stride);
}

void ForwardPass::ComputeQkv(const Context& c, int projections, Worker* w) {
  const LayerWeights& layer = weights_.layers()[static_cast<size_t>(c.layer)];
  ForEachTile(c.slice, [&](const Tile& tile) {
    const float* x = w->x.data() + Product(tile.x, config_.hidden_size);
    const std::byte* packed = nullptr;
    kernels::RowPacking packing = kernels::RowPacking::kFloats;
    const auto project = [&](const kernels::Matrix& m, const float* bias,
                             const AlignedArray<float>& to) {
      if (packed == nullptr || packing != kernels::RowPackingOf(m.type)) {
        packed = w->packer.NormAndPack(m.type, x, tile.rows, layer.attention_norm,
                                       layer.attention_norm_bias);
        packing = kernels::RowPackingOf(m.type);
      }
      Multiply(m, bias, c.slice, packed, tile.rows, to.data() + Product(tile.row, m.n), m.n);
    };
    if ((projections & kQ) != 0) project(layer.q, layer.q_bias, q_);
    if ((projections & kKv) != 0) {
      project(layer.k, layer.k_bias, k_);
      project(layer.v, layer.v_bias, v_);
    }
    if (c.slice.parts == 1) {
      for (int row = tile.row; row < tile.row + tile.rows; ++row) {
        for (int head = 0; head < config_.num_kv_heads; ++head) {
          RopeAndStore(c, row, head, projections);
        }
      }
    }
  });
  if (c.slice.parts == 1) return;
  team_->Barrier();
  const int pairs = c.set->size() * config_.num_kv_heads;
  const int end = ShareBegin(pairs, c.slice.part + 1, c.slice.parts);
  for (int pair = ShareBegin(pairs, c.slice.part, c.slice.parts); pair < end; ++pair) {
    RopeAndStore(c, pair / config_.num_kv_heads, pair % config_.num_kv_heads, projections);
  }
}

void ForwardPass::PrepareHeads(const Context& c, int row, int heads, const float* norm, float* x) {
  const int head_dim = config_.head_dim;
  for (int h = 0; h < heads && norm != nullptr; ++h) {
    float* head = x + Product(h, head_dim);
    kernels_.rms_norm(head, norm, head_dim, config_.norm_eps, head);
  }
  const auto r = static_cast<size_t>(row);
  const core::BatchItem& item = c.step->batch->items[static_cast<size_t>(c.set->item[r])];
  const float* cos_sin = model_.rope_row(c.layer, c.set->position[r], item.long_rope);
  switch (config_.position) {
    case model::PositionKind::kRopeInterleaved:
      return kernels_.rope(x, heads, head_dim, config_.rope.dim, cos_sin);
    case model::PositionKind::kRopeNeox:
      return kernels_.rope_halves(x, heads, head_dim, config_.rope.dim, cos_sin);
    case model::PositionKind::kLearned:
      return;
  }
}

void ForwardPass::RopeAndStore(const Context& c, int row, int kv_head, int projections) {
  const LayerWeights& layer = weights_.layers()[static_cast<size_t>(c.layer)];
  const int head_dim = config_.head_dim;
  if ((projections & kQ) != 0) {
    PrepareHeads(c, row, group_, layer.q_norm,
                 q_.data() + Product(row, config_.q_size()) + Product(kv_head, group_ * head_dim));
  }
  if ((projections & kKv) == 0) return;
  const size_t offset = Product(row, config_.kv_size()) + Product(kv_head, head_dim);
  PrepareHeads(c, row, 1, layer.k_norm, k_.data() + offset);
  const int position = c.set->position[static_cast<size_t>(row)];
  const core::BatchItem& item =
      c.step->batch->items[static_cast<size_t>(c.set->item[static_cast<size_t>(row)])];
  if (item.padding) return;
  const size_t index = Product(position / base::kBlockTokens, pool_.groups().count()) +
                       static_cast<size_t>(pool_.group(c.layer));
  kernels_.store_kv(
      pool_.type(), k_.data() + offset, v_.data() + offset, head_dim, position % base::kBlockTokens,
      pool_.At(c.layer, kv_head) + static_cast<size_t>(item.blocks[index]) * pool_.block_bytes());
}

void ForwardPass::Attend(const Context& c, Worker* w) {
  team_->Barrier();  // All K and V of the step are in the pool, all queries rotated.
  const int workers = team_->size();
  for (int i = 0; i < workers; ++i) {
    UnitQueue& queue = c.queues[(w->id + i) % workers];
    for (;;) {
      const int32_t index = queue.next.fetch_add(1, std::memory_order_relaxed);
      if (index >= queue.end) break;
      const AttentionUnit* unit = &c.set->units[static_cast<size_t>(index)];
      AttendUnit(c, *unit, index + 1 < queue.end ? unit + 1 : nullptr, w);
    }
  }
  team_->Barrier();
  // No worker takes from a queue between the barrier above and the first of the next layer.
  UnitQueue& own = c.queues[w->id];
  own.next.store(own.begin, std::memory_order_relaxed);
  if (c.set->deferred_merge) MergeDeferred(c, *w);
}

int ForwardPass::EndSeen(const core::BatchItem& item, int position) const {
  return config_.causal ? position + 1 : item.end();
}

const float* ForwardPass::SinkOf(const Context& c, int kv_head, int head) const {
  const float* sinks = weights_.layers()[static_cast<size_t>(c.layer)].sinks;
  return sinks != nullptr ? sinks + kv_head * group_ + head : nullptr;
}

void ForwardPass::AttendUnit(const Context& c, const AttentionUnit& unit, const AttentionUnit* next,
                             Worker* w) {
  const int head_dim = config_.head_dim;
  const int q_size = config_.q_size();
  const int groups = pool_.groups().count();
  const int window = config_.window(c.layer);
  const size_t row = static_cast<size_t>(unit.row);
  const core::BatchItem& item = c.step->batch->items[static_cast<size_t>(c.set->item[row])];
  const size_t offset = Product(unit.row, q_size) + Product(unit.kv_head, group_ * head_dim);
  kernels::AttentionArgs args;
  args.q = q_.data() + offset;
  args.q_stride = q_size;
  args.scale = config_.attention_scale;
  args.soft_cap = config_.attention_soft_cap;
  args.rows = unit.rows;
  args.start = c.set->position[row];
  args.window = window;
  args.end = config_.causal ? 0 : EndSeen(item, 0);
  args.group = group_;
  args.head_dim = head_dim;
  args.kv_type = pool_.type();
  args.kv = pool_.At(c.layer, unit.kv_head);
  args.block_stride = pool_.block_bytes();
  args.blocks = item.blocks.data() + pool_.group(c.layer);
  args.block_step = groups;
  if (next != nullptr) {
    const size_t next_row = static_cast<size_t>(next->row);
    const int position = c.set->position[next_row];
    const int first =
        std::max(next->split_begin * kernels::kSplitTokens, FirstSeen(window, position)) /
        base::kBlockTokens;
    const auto next_item = static_cast<size_t>(c.set->item[next_row]);
    args.next_kv = pool_.At(c.layer, next->kv_head);
    args.next_blocks = c.step->batch->items[next_item].blocks.data() + Product(first, groups) +
                       pool_.group(c.layer);
    const int end = EndSeen(c.step->batch->items[next_item], position + next->rows - 1);
    args.next_count = (end - 1) / base::kBlockTokens + 1 - first;
  }

  const int partial = kernels::PartialFloats(head_dim);
  const int64_t split_stride = int64_t{unit.rows} * group_ * partial;
  float* to = w->partial.data();
  if (c.set->deferred_merge) {
    const int pair = unit.row * config_.num_kv_heads + unit.kv_head;
    to = deferred_.data() + Product(pair, max_splits_) * static_cast<size_t>(split_stride);
  }
  // No row of the unit sees what is before its first one's window.
  const int first_split = FirstSeen(window, args.start) / kernels::kSplitTokens;
  for (int split = std::max(unit.split_begin, first_split); split < unit.split_end; ++split) {
    kernels_.attention(args, split, to + split * split_stride);
  }
  if (c.set->deferred_merge) return;
  to += first_split * split_stride;
  for (int r = 0; r < unit.rows; ++r) {
    float* out = attention_.data() + offset + Product(r, q_size);
    for (int h = 0; h < group_; ++h) {
      kernels_.attention_merge(to + Product(r * group_ + h, partial), unit.split_end - first_split,
                               split_stride, head_dim, SinkOf(c, unit.kv_head, h),
                               out + Product(h, head_dim));
    }
  }
}

void ForwardPass::MergeDeferred(const Context& c, const Worker& w) {
  const int partial = kernels::PartialFloats(config_.head_dim);
  const int64_t split_stride = int64_t{group_} * partial;
  const int pairs = c.set->size() * config_.num_kv_heads;
  for (int pair = w.id; pair < pairs; pair += team_->size()) {
    const int kv_head = pair % config_.num_kv_heads;
    const auto row = static_cast<size_t>(pair / config_.num_kv_heads);
    const int position = c.set->position[row];
    const core::BatchItem& item = c.step->batch->items[static_cast<size_t>(c.set->item[row])];
    const int first = FirstSeen(config_.window(c.layer), position) / kernels::kSplitTokens;
    const int splits = (EndSeen(item, position) - 1) / kernels::kSplitTokens + 1 - first;
    const float* from = deferred_.data() +
                        Product(pair, max_splits_) * static_cast<size_t>(split_stride) +
                        first * split_stride;
    float* out = attention_.data() + Product(pair, group_ * config_.head_dim);
    for (int h = 0; h < group_; ++h) {
      kernels_.attention_merge(from + Product(h, partial), splits, split_stride, config_.head_dim,
                               SinkOf(c, kv_head, h), out + Product(h, config_.head_dim));
    }
  }
  team_->Barrier();
}

void ForwardPass::MultiplyAndAdd(const Addend& addend, const Slice& slice, const Tile& tile,
                                 const std::byte* packed, Worker* w) {
  const int hidden = config_.hidden_size;
  float* x = w->x.data() + Product(tile.x, hidden);
  float* y = slice.parts > 1 ? y_.data() : w->y.data();
  Multiply(addend.matrix, addend.bias, slice, packed, tile.rows, y, hidden);
  SyncParts(slice);
  if (addend.post_norm != nullptr) {
    // Shared rows stay as they are: other workers read them too.
    for (int r = 0; r < tile.rows; ++r) {
      w->packer.Norm(y + Product(r, hidden), addend.post_norm, nullptr,
                     w->y.data() + Product(r, hidden));
    }
    y = w->y.data();
  }
  kernels_.add(x, y, tile.rows * hidden);
  for (int r = 0; addend.out_norm != nullptr && r < tile.rows; ++r) {
    float* const row = x + Product(r, hidden);
    w->packer.Norm(row, addend.out_norm, addend.out_norm_bias, row);
  }
}

void ForwardPass::ComputeOutputAndFfn(const Context& c, Worker* w) {
  const LayerWeights& layer = weights_.layers()[static_cast<size_t>(c.layer)];
  const int q_size = config_.q_size();
  ForEachTile(c.slice, [&](const Tile& tile) {
    const float* attention = attention_.data() + Product(tile.row, q_size);
    MultiplyAndAdd({layer.o, layer.o_bias, layer.attention_post_norm, layer.attention_out_norm,
                    layer.attention_out_norm_bias},
                   c.slice, tile,
                   w->packer.Pack(layer.o.type, attention, q_size, tile.rows, q_size), w);
    if (experts_ != nullptr) return;
    MultiplyAndAdd({layer.down, layer.down_bias, layer.ffn_post_norm, layer.ffn_out_norm,
                    layer.ffn_out_norm_bias},
                   c.slice, tile, ComputeFfn(c, tile, w), w);
  });
  if (experts_ == nullptr) return;
  experts_->Compute(layer, c.slice, c.set->size(), w->id, w->x.data());
}

// Computes a few panels of gate and up at a time, combines and packs them while they are in the
// cache.
const std::byte* ForwardPass::ComputeFfn(const Context& c, const Tile& tile, Worker* w) {
  const LayerWeights& layer = weights_.layers()[static_cast<size_t>(c.layer)];
  const float* x = w->x.data() + Product(tile.x, config_.hidden_size);
  std::byte* out = c.slice.parts > 1 ? ffn_.data() : w->ffn.data();
  const int panels = layer.up.num_panels();
  const int blocks = (panels + kBlockPanels - 1) / kBlockPanels;
  const int own_begin = ShareBegin(blocks, c.slice.part, c.slice.parts) * kBlockPanels;
  const int own_end =
      std::min(ShareBegin(blocks, c.slice.part + 1, c.slice.parts) * kBlockPanels, panels);
  const int at_once = tile.rows < kFewRows ? std::max(own_end - own_begin, 1) : kFfnPanels;
  const int64_t stride = OddLines(int64_t{at_once} * kernels::kPanelCols);
  const bool has_gate = layer.gate.panels != nullptr;
  const bool one_packing = !has_gate || SamePacking(layer.gate, layer.up);
  const std::byte* packed = nullptr;
  const auto multiply = [&](const kernels::Matrix& m, const float* bias, int begin, int end,
                            float* y) {
    if (packed == nullptr || !one_packing) {
      packed = w->packer.NormAndPack(m.type, x, tile.rows, layer.ffn_norm, layer.ffn_norm_bias);
    }
    MultiplyPanels(kernels_, m, bias, packed, tile.rows, begin, end, y, stride);
  };
  for (int begin = own_begin; begin < own_end; begin += at_once) {
    const int end = std::min(begin + at_once, own_end);
    if (has_gate) multiply(layer.gate, layer.gate_bias, begin, end, w->gate.data());
    multiply(layer.up, layer.up_bias, begin, end, w->up.data());
    const int col = begin * kernels::kPanelCols;
    const int cols = std::min(end * kernels::kPanelCols, config_.intermediate_size) - col;
    ActivateRows(kernels_, config_.activation, tile.rows, cols, w->gate.data(), w->up.data(),
                 stride);
    PackColumns(kernels_, layer.down, w->gate.data(), stride, tile.rows, col, cols, out);
  }
  SyncParts(c.slice);
  return out;
}

// Copies the rows whose logits are wanted to the memory that all workers share.
void ForwardPass::KeepOutputRows(const Context& all, const Worker& w) {
  if (all.slice.parts > 1 && w.id != 0) return;  // All workers have the same rows.
  const std::vector<OutputRow>& rows = all.step->plan->output_rows();
  const size_t bytes = static_cast<size_t>(config_.hidden_size) * sizeof(float);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].row < all.slice.row_begin || rows[i].row >= all.slice.row_end) continue;
    std::memcpy(output_.hidden() + i * static_cast<size_t>(config_.hidden_size),
                w.x.data() + Product(rows[i].row - all.slice.row_begin, config_.hidden_size),
                bytes);
  }
}

}  // namespace ropeway::executor
