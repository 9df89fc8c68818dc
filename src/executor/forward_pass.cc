#include "executor/forward_pass.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

namespace ropeway {
namespace {

// Activations of so many rows stay in the second-level cache from one matrix to the next.
constexpr int kTileRows = 64;
// Panels of gate and up that are multiplied before SwiGLU joins them.
constexpr int kFfnPanels = 8;
constexpr size_t kMaxLogitsBytes = size_t{64} << 20;
constexpr int kMaxLogitsRows = 64;

size_t Product(int64_t a, int64_t b) { return static_cast<size_t>(a) * static_cast<size_t>(b); }

int RoundUp(int n, int multiple) { return (n + multiple - 1) / multiple * multiple; }

// Bytes that `rows` packed rows need for any of the model's matrices.
size_t MaxPackedBytes(const Model& model, int rows) {
  size_t bytes = PackedRowsBytes(model.output().type, rows, model.output().k);
  for (const LlamaLayer& layer : model.layers()) {
    for (const Matrix* m :
         {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down}) {
      bytes = std::max(bytes, PackedRowsBytes(m->type, rows, m->k));
    }
  }
  return bytes;
}

// The matrix of the output features of panels [begin, end).
Matrix PanelsOf(const Matrix& m, int begin, int end) {
  Matrix part = m;
  part.n = std::min(end * kPanelCols, m.n) - begin * kPanelCols;
  part.panels = m.panels + static_cast<size_t>(begin) * PanelBytes(m.type, m.k);
  return part;
}

}  // namespace

ForwardPass::ForwardPass(const Model& model, const Kernels& kernels, const KvPool& pool,
                         WorkerTeam* team, const PlanLimits& limits)
    : model_(model),
      config_(model.config()),
      kernels_(kernels),
      pool_(pool),
      team_(team),
      group_(config_.num_heads / config_.num_kv_heads),
      scale_(1.0F / std::sqrt(static_cast<float>(config_.head_dim))),
      max_splits_((model.max_positions() + kSplitTokens - 1) / kSplitTokens) {
  const int rows = limits.max_rows;
  const int workers = team->size();
  // Rows that all workers compute together, and rows of one worker's slice, at most.
  const int shared = workers == 1 ? 1 : std::min(rows, kMinRowsPerWorker * workers - 1);
  const int own = std::max(shared, (rows + workers - 1) / workers);
  tile_rows_ = std::max(shared, std::min(own, kTileRows));
  logits_stride_ = RoundUp(config_.vocab_size, kPanelCols);
  const size_t logits_row_bytes = Product(logits_stride_, sizeof(float));
  logits_rows_ = static_cast<int>(std::clamp<size_t>(
      kMaxLogitsBytes / logits_row_bytes, 1, static_cast<size_t>(std::min(rows, kMaxLogitsRows))));

  const int partial = group_ * PartialFloats(config_.head_dim);
  q_ = AlignedArray<float>(Product(rows, config_.q_size()));
  k_ = AlignedArray<float>(Product(rows, config_.kv_size()));
  v_ = AlignedArray<float>(Product(rows, config_.kv_size()));
  attention_ = AlignedArray<float>(Product(rows, config_.q_size()));
  ffn_ = AlignedArray<float>(Product(shared, config_.intermediate_size));
  y_ = AlignedArray<float>(Product(shared, config_.hidden_size));
  final_x_ = AlignedArray<float>(Product(rows, config_.hidden_size));
  logits_ = AlignedArray<float>(Product(logits_rows_, logits_stride_));
  deferred_ = AlignedArray<float>(
      Product(StepPlan::MaxDeferredPairs(workers), Product(max_splits_, partial)));
  workers_.reserve(static_cast<size_t>(workers));
  for (int id = 0; id < workers; ++id) {
    Worker& w = workers_.emplace_back(&kernels, config_.vocab_size);
    w.id = id;
    w.x = AlignedArray<float>(Product(own, config_.hidden_size));
    w.norm = AlignedArray<float>(Product(kRowGroup, config_.hidden_size));
    w.packed = AlignedArray<std::byte>(MaxPackedBytes(model, std::max(tile_rows_, logits_rows_)));
    w.gate = AlignedArray<float>(Product(tile_rows_, config_.intermediate_size));
    w.up = AlignedArray<float>(Product(tile_rows_, kFfnPanels * kPanelCols));
    w.y = AlignedArray<float>(Product(tile_rows_, config_.hidden_size));
    w.partial = AlignedArray<float>(Product(max_splits_, kAttentionTileRows * partial));
  }
}

void ForwardPass::Run(const Batch& batch, StepPlan* plan, StepResult* result) {
  const Step step = {&batch, plan, result};
  team_->Run([&](int worker) { RunWorker(step, &workers_[static_cast<size_t>(worker)]); });
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
  // Of the last layer, only its K and V are needed but for the rows whose logits are wanted.
  ComputeQkv(all, kKv, w);
  if (plan.outputs().size() == 0) return;
  KeepOutputRows(all, *w);
  team_->Barrier();
  const Context outputs = {&step, &plan.outputs(), plan.output_queues(),
                           SliceOf(plan.outputs(), w->id, workers), last};
  std::memcpy(w->x.data(), final_x_.data() + Product(outputs.slice.row_begin, config_.hidden_size),
              Product(outputs.slice.rows(), config_.hidden_size) * sizeof(float));
  ComputeQkv(outputs, kQ, w);
  Attend(outputs, w);
  ComputeOutputAndFfn(outputs, w);
  ComputeOutputs(step, outputs.slice, w);
}

void ForwardPass::Embed(const Context& c, Worker* w) {
  for (int row = c.slice.row_begin; row < c.slice.row_end; ++row) {
    const size_t r = static_cast<size_t>(row);
    const BatchItem& item = c.step->batch->items[static_cast<size_t>(c.set->item[r])];
    const TokenId token = item.tokens[static_cast<size_t>(c.set->position[r] - item.start)];
    UnpackRow(model_.token_embedding(), token,
              w->x.data() + Product(row - c.slice.row_begin, config_.hidden_size));
  }
}

template <typename Fn>
void ForwardPass::ForEachTile(const Slice& slice, Fn fn) {
  for (int x = 0; x < slice.rows(); x += tile_rows_) {
    fn(Tile{slice.row_begin + x, std::min(tile_rows_, slice.rows() - x), x});
  }
}

void ForwardPass::NormAndPack(const float* x, int rows, const float* weight, WeightType type,
                              Worker* w) {
  const int hidden = config_.hidden_size;
  const size_t group_bytes = PackedRowsBytes(type, kRowGroup, hidden);
  for (int r = 0; r < rows; r += kRowGroup) {
    const int count = std::min(kRowGroup, rows - r);
    for (int i = 0; i < count; ++i) {
      kernels_.rms_norm(x + Product(r + i, hidden), weight, hidden, config_.rms_norm_eps,
                        w->norm.data() + Product(i, hidden));
    }
    kernels_.pack_rows(type, w->norm.data(), hidden, 0, count, hidden,
                       w->packed.data() + static_cast<size_t>(r / kRowGroup) * group_bytes);
  }
}

void ForwardPass::Multiply(const Matrix& m, const Slice& slice, int rows, float* y, int64_t stride,
                           const Worker& w) {
  const int panels = m.num_panels();
  kernels_.matmul(m, w.packed.data(), rows, ShareBegin(panels, slice.part, slice.parts),
                  ShareBegin(panels, slice.part + 1, slice.parts), y, stride);
}

void ForwardPass::ComputeQkv(const Context& c, int projections, Worker* w) {
  const LlamaLayer& layer = model_.layers()[static_cast<size_t>(c.layer)];
  ForEachTile(c.slice, [&](const Tile& tile) {
    const float* x = w->x.data() + Product(tile.x, config_.hidden_size);
    bool packed = false;
    WeightType packed_type = WeightType::kF32;
    const auto project = [&](const Matrix& m, const AlignedArray<float>& to) {
      if (!packed || packed_type != m.type) {
        NormAndPack(x, tile.rows, layer.attention_norm, m.type, w);
        packed = true;
        packed_type = m.type;
      }
      Multiply(m, c.slice, tile.rows, to.data() + Product(tile.row, m.n), m.n, *w);
    };
    if ((projections & kQ) != 0) project(layer.q, q_);
    if ((projections & kKv) != 0) {
      project(layer.k, k_);
      project(layer.v, v_);
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

void ForwardPass::RopeAndStore(const Context& c, int row, int kv_head, int projections) {
  const int head_dim = config_.head_dim;
  const int position = c.set->position[static_cast<size_t>(row)];
  const float* cos_sin = model_.rope_row(position);
  if ((projections & kQ) != 0) {
    kernels_.rope(q_.data() + Product(row, config_.q_size()) + Product(kv_head, group_ * head_dim),
                  group_, head_dim, config_.rope_dim, cos_sin);
  }
  if ((projections & kKv) == 0) return;
  const size_t offset = Product(row, config_.kv_size()) + Product(kv_head, head_dim);
  kernels_.rope(k_.data() + offset, 1, head_dim, config_.rope_dim, cos_sin);
  const BatchItem& item =
      c.step->batch->items[static_cast<size_t>(c.set->item[static_cast<size_t>(row)])];
  const BlockId block = item.blocks[static_cast<size_t>(position / kBlockTokens)];
  kernels_.store_kv(pool_.type(), k_.data() + offset, v_.data() + offset, head_dim,
                    position % kBlockTokens,
                    pool_.At(c.layer, kv_head) + static_cast<size_t>(block) * pool_.block_bytes());
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
  // Nobody takes from a queue between the barrier above and the next layer's first one.
  UnitQueue& own = c.queues[w->id];
  own.next.store(own.begin, std::memory_order_relaxed);
  if (c.set->deferred_merge) MergeDeferred(c, *w);
}

void ForwardPass::AttendUnit(const Context& c, const AttentionUnit& unit, const AttentionUnit* next,
                             Worker* w) {
  const int head_dim = config_.head_dim;
  const int q_size = config_.q_size();
  const size_t row = static_cast<size_t>(unit.row);
  const BatchItem& item = c.step->batch->items[static_cast<size_t>(c.set->item[row])];
  const size_t offset = Product(unit.row, q_size) + Product(unit.kv_head, group_ * head_dim);
  AttentionArgs args;
  args.q = q_.data() + offset;
  args.q_stride = q_size;
  args.scale = scale_;
  args.rows = unit.rows;
  args.start = c.set->position[row];
  args.group = group_;
  args.head_dim = head_dim;
  args.kv_type = pool_.type();
  args.kv = pool_.At(c.layer, unit.kv_head);
  args.block_stride = pool_.block_bytes();
  args.blocks = item.blocks.data();
  if (next != nullptr) {
    const size_t next_row = static_cast<size_t>(next->row);
    const int first = next->split_begin * kSplitTokens / kBlockTokens;
    const auto next_item = static_cast<size_t>(c.set->item[next_row]);
    args.next_kv = pool_.At(c.layer, next->kv_head);
    args.next_blocks = c.step->batch->items[next_item].blocks.data() + first;
    args.next_count = (c.set->position[next_row] + next->rows - 1) / kBlockTokens + 1 - first;
  }

  const int partial = PartialFloats(head_dim);
  const int64_t split_stride = int64_t{unit.rows} * group_ * partial;
  float* to = w->partial.data();
  if (c.set->deferred_merge) {
    const int pair = unit.row * config_.num_kv_heads + unit.kv_head;
    to = deferred_.data() + Product(pair, max_splits_) * static_cast<size_t>(split_stride);
  }
  for (int split = unit.split_begin; split < unit.split_end; ++split) {
    kernels_.attention(args, split, to + split * split_stride);
  }
  if (c.set->deferred_merge) return;
  for (int r = 0; r < unit.rows; ++r) {
    float* out = attention_.data() + offset + Product(r, q_size);
    for (int h = 0; h < group_; ++h) {
      kernels_.attention_merge(to + Product(r * group_ + h, partial), unit.split_end, split_stride,
                               head_dim, out + Product(h, head_dim));
    }
  }
}

void ForwardPass::MergeDeferred(const Context& c, const Worker& w) {
  const int partial = PartialFloats(config_.head_dim);
  const int64_t split_stride = int64_t{group_} * partial;
  const int pairs = c.set->size() * config_.num_kv_heads;
  for (int pair = w.id; pair < pairs; pair += team_->size()) {
    const int row = pair / config_.num_kv_heads;
    const int splits = c.set->position[static_cast<size_t>(row)] / kSplitTokens + 1;
    const float* from =
        deferred_.data() + Product(pair, max_splits_) * static_cast<size_t>(split_stride);
    float* out = attention_.data() + Product(pair, group_ * config_.head_dim);
    for (int h = 0; h < group_; ++h) {
      kernels_.attention_merge(from + Product(h, partial), splits, split_stride, config_.head_dim,
                               out + Product(h, config_.head_dim));
    }
  }
  team_->Barrier();
}

void ForwardPass::MultiplyAndAdd(const Matrix& m, const Slice& slice, const Tile& tile, Worker* w) {
  const int hidden = config_.hidden_size;
  float* y = slice.parts > 1 ? y_.data() : w->y.data();
  Multiply(m, slice, tile.rows, y, hidden, *w);
  SyncParts(slice);
  kernels_.add(w->x.data() + Product(tile.x, hidden), y, tile.rows * hidden);
}

void ForwardPass::ComputeOutputAndFfn(const Context& c, Worker* w) {
  const LlamaLayer& layer = model_.layers()[static_cast<size_t>(c.layer)];
  const int q_size = config_.q_size();
  ForEachTile(c.slice, [&](const Tile& tile) {
    kernels_.pack_rows(layer.o.type, attention_.data() + Product(tile.row, q_size), q_size, 0,
                       tile.rows, q_size, w->packed.data());
    MultiplyAndAdd(layer.o, c.slice, tile, w);
    ComputeFfn(c, tile, w);
    kernels_.pack_rows(layer.down.type, c.slice.parts > 1 ? ffn_.data() : w->gate.data(),
                       config_.intermediate_size, 0, tile.rows, config_.intermediate_size,
                       w->packed.data());
    MultiplyAndAdd(layer.down, c.slice, tile, w);
  });
}

// SwiGLU of the tile's rows, for the features that are this slice's.
void ForwardPass::ComputeFfn(const Context& c, const Tile& tile, Worker* w) {
  const LlamaLayer& layer = model_.layers()[static_cast<size_t>(c.layer)];
  const float* x = w->x.data() + Product(tile.x, config_.hidden_size);
  const int64_t stride = config_.intermediate_size;
  const int64_t up_stride = kFfnPanels * kPanelCols;
  float* out = c.slice.parts > 1 ? ffn_.data() : w->gate.data();
  const int panels = layer.gate.num_panels();
  const int panel_end = ShareBegin(panels, c.slice.part + 1, c.slice.parts);
  const bool one_type = layer.gate.type == layer.up.type;
  if (one_type) NormAndPack(x, tile.rows, layer.ffn_norm, layer.gate.type, w);
  for (int panel = ShareBegin(panels, c.slice.part, c.slice.parts); panel < panel_end;
       panel += kFfnPanels) {
    const int end = std::min(panel + kFfnPanels, panel_end);
    const int col = panel * kPanelCols;
    const int cols = std::min(end * kPanelCols, config_.intermediate_size) - col;
    if (!one_type) NormAndPack(x, tile.rows, layer.ffn_norm, layer.gate.type, w);
    kernels_.matmul(layer.gate, w->packed.data(), tile.rows, panel, end, w->gate.data(), stride);
    if (!one_type) NormAndPack(x, tile.rows, layer.ffn_norm, layer.up.type, w);
    kernels_.matmul(PanelsOf(layer.up, panel, end), w->packed.data(), tile.rows, 0, end - panel,
                    w->up.data(), up_stride);
    for (int r = 0; r < tile.rows; ++r) {
      kernels_.swiglu(w->gate.data() + r * stride + col, w->up.data() + r * up_stride, cols,
                      out + r * stride + col);
    }
  }
  SyncParts(c.slice);
}

// Copies what the last layer computes further to where every worker finds it.
void ForwardPass::KeepOutputRows(const Context& all, const Worker& w) {
  if (all.slice.parts > 1 && w.id != 0) return;  // All have the same rows.
  const std::vector<OutputRow>& rows = all.step->plan->output_rows();
  const size_t bytes = static_cast<size_t>(config_.hidden_size) * sizeof(float);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].row < all.slice.row_begin || rows[i].row >= all.slice.row_end) continue;
    std::memcpy(final_x_.data() + i * static_cast<size_t>(config_.hidden_size),
                w.x.data() + Product(rows[i].row - all.slice.row_begin, config_.hidden_size),
                bytes);
  }
}

void ForwardPass::ComputeOutputs(const Step& step, const Slice& slice, Worker* w) {
  const int hidden = config_.hidden_size;
  const RowSet& set = step.plan->outputs();
  if (slice.parts == 1 || w->id == 0) {
    std::memcpy(final_x_.data() + Product(slice.row_begin, hidden), w->x.data(),
                Product(slice.rows(), hidden) * sizeof(float));
  }
  const Slice all = {0, set.size(), w->id, team_->size()};
  for (int begin = 0; begin < set.size(); begin += logits_rows_) {
    const int rows = std::min(logits_rows_, set.size() - begin);
    team_->Barrier();  // final_x_ is complete, and the logits before are used.
    NormAndPack(final_x_.data() + Product(begin, hidden), rows, model_.output_norm(),
                model_.output().type, w);
    Multiply(model_.output(), all, rows, logits_.data(), logits_stride_, *w);
    team_->Barrier();
    for (int r = w->id; r < rows; r += team_->size()) {
      SampleOrScore(step, begin + r, logits_.data() + Product(r, logits_stride_), w);
    }
  }
}

void ForwardPass::SampleOrScore(const Step& step, int output, const float* logits, Worker* w) {
  const auto index = static_cast<size_t>(output);
  const std::span<const float> row(logits, static_cast<size_t>(config_.vocab_size));
  const OutputRow& wanted = step.plan->output_rows()[index];
  if (wanted.sampled < 0) {
    w->sampler.Score(row, &step.result->scored[static_cast<size_t>(wanted.scored)]);
    return;
  }
  const RowSet& set = step.plan->outputs();
  const BatchItem& item = step.batch->items[static_cast<size_t>(set.item[index])];
  w->sampler.Sample(row, item.spec, item.ids, int64_t{set.position[index]} + 1,
                    &step.result->sampled[static_cast<size_t>(wanted.sampled)]);
}

}  // namespace ropeway
