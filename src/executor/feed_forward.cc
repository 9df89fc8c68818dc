#include "executor/feed_forward.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace ropeway::executor {
namespace {

// `y` may be `gate`.
void Activate(const kernels::Kernels& kernels, model::Activation activation, const float* gate,
              const float* up, int n, float* y) {
  switch (activation) {
    case model::Activation::kSwiGlu:
      return kernels.swiglu(gate, up, n, y);
    case model::Activation::kGeGlu:
      return kernels.geglu(gate, up, n, y);
    case model::Activation::kSwiGluClamped:
      return kernels.swiglu_clamped(gate, up, n, y);
    case model::Activation::kGelu:
      return kernels.gelu(up, n, y);
    case model::Activation::kExactGelu:
      return kernels.exact_gelu(up, n, y);
  }
}

}  // namespace

void AddBias(const kernels::Kernels& kernels, const float* bias, int rows, int cols, float* y,
             int64_t stride) {
  if (bias == nullptr) return;
  for (int r = 0; r < rows; ++r) kernels.add(y + r * stride, bias, cols);
}

void MultiplyPanels(const kernels::Kernels& kernels, const kernels::Matrix& m, const float* bias,
                    const std::byte* packed, int rows, int begin, int end, float* y,
                    int64_t stride) {
  const kernels::Matrix part = m.PanelRange(begin, end);
  kernels.matmul(part, packed, rows, 0, end - begin, y, stride);
  if (bias != nullptr) {
    AddBias(kernels, bias + begin * kernels::kPanelCols, rows, part.n, y, stride);
  }
}

void ActivateRows(const kernels::Kernels& kernels, model::Activation activation, int rows, int cols,
                  float* gate, const float* up, int64_t stride) {
  for (int r = 0; r < rows; ++r) {
    float* y = gate + r * stride;
    Activate(kernels, activation, y, up + r * stride, cols, y);
  }
}

void PackColumns(const kernels::Kernels& kernels, const kernels::Matrix& m, const float* x,
                 int64_t stride, int rows, int col, int cols, std::byte* packed) {
  const size_t group_bytes = kernels::PackedRowsBytes(m.type, kernels::kRowGroup, m.k);
  for (int r = 0; r < rows; r += kernels::kRowGroup) {
    kernels.pack_rows(m.type, x + r * stride, stride, 0, std::min(kernels::kRowGroup, rows - r),
                      cols,
                      packed + static_cast<size_t>(r / kernels::kRowGroup) * group_bytes +
                          kernels::PackedRowsBytes(m.type, kernels::kRowGroup, col));
  }
}

namespace {

// Rows that are routed together.
constexpr int kRouteRows = 16;

// What reading a block of weights costs beside the rows that are multiplied with it, in rows.
constexpr int kWeightsCost = 6;

constexpr size_t kLineBytes = 64;

bool HasMatrix(const kernels::Matrix& m) { return m.panels != nullptr; }

int NumBlocks(const FfnWeights& ffn) {
  return (ffn.up.num_panels() + kBlockPanels - 1) / kBlockPanels;
}

// Bytes of the hidden features of `rows` rows, from a cache line on.
size_t FeatureBytes(const FfnWeights& ffn, int rows) {
  const size_t bytes = kernels::PackedRowsBytes(ffn.down.type, rows, ffn.down.k);
  return (bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
}

// All experts of a layer for `rows` rows: each use of an expert is a row, and an expert's last
// group of rows may be filled up.
size_t MaxFeatureBytes(const Weights& weights, int rows) {
  const model::ExpertsConfig& config = weights.config().experts;
  const int64_t uses = int64_t{rows} * config.used;
  const int64_t filled = std::min<int64_t>(uses, config.count) * (kernels::kRowGroup - 1);
  size_t most = 0;
  for (const LayerWeights& layer : weights.layers()) {
    size_t bytes = FeatureBytes(layer.shared, rows);
    if (!layer.experts.empty()) {
      // Experts of one layer are alike.
      bytes += FeatureBytes(layer.experts[0], static_cast<int>(uses + filled)) +
               kLineBytes * layer.experts.size();
    }
    most = std::max(most, bytes);
  }
  return most;
}

// Bytes of `rows` rows packed for any expert's gate or up matrix.
size_t MaxInputBytes(const Weights& weights, int rows) {
  size_t most = 0;
  const auto add = [&](const kernels::Matrix& m) {
    most = std::max(most, kernels::PackedRowsBytes(m.type, rows, m.k));
  };
  for (const LayerWeights& layer : weights.layers()) {
    add(layer.shared.gate);
    add(layer.shared.up);
    if (layer.experts.empty()) continue;
    add(layer.experts[0].gate);
    add(layer.experts[0].up);
  }
  return most;
}

}  // namespace

void ChooseExperts(const kernels::Kernels& kernels, const model::ExpertsConfig& config,
                   const float* logits, float* scratch, int32_t* ids, float* weights) {
  constexpr float kTaken = std::numeric_limits<float>::quiet_NaN();
  std::copy(logits, logits + config.count, scratch);
  for (int32_t i = 0; i < config.used; ++i) {
    int32_t best = kernels.argmax(scratch, config.count);
    if (std::isnan(scratch[best])) {  // No number is left: the first that was not taken.
      best = 0;
      while (std::find(ids, ids + i, best) != ids + i) ++best;
    }
    ids[i] = best;
    scratch[best] = kTaken;
  }
  const float largest = logits[ids[0]];
  std::sort(ids, ids + config.used);
  kernels.exp_weights(logits, config.count, largest, 1.0F, -std::numeric_limits<float>::infinity(),
                      scratch);
  float sum = 0.0F;
  if (config.normalized) {
    for (int32_t i = 0; i < config.used; ++i) sum = sum + scratch[ids[i]];
  } else {
    for (int32_t e = 0; e < config.count; ++e) sum = sum + scratch[e];
  }
  for (int32_t i = 0; i < config.used; ++i) weights[i] = scratch[ids[i]] / sum;
}

ExpertLayer::ExpertLayer(const Weights& weights, const kernels::Kernels& kernels,
                         base::WorkerTeam* team, int max_rows)
    : config_(weights.config()),
      kernels_(kernels),
      team_(team),
      hidden_(config_.hidden_size),
      logits_stride_(OddLines(config_.experts.count)),
      normed_(Product(max_rows, hidden_)),
      logits_(Product(max_rows, logits_stride_)),
      chosen_(Product(max_rows, config_.experts.used)),
      weights_(Product(max_rows, config_.experts.used)),
      shared_(static_cast<size_t>(max_rows)),
      features_(MaxFeatureBytes(weights, max_rows)),
      sums_(Product(max_rows, hidden_)) {
  const int widest = std::max(
      {config_.experts.intermediate_size, config_.experts.shared_intermediate_size, hidden_});
  const size_t floats = std::max(Product(max_rows, OddLines(kFfnPanels * kernels::kPanelCols)),
                                 Product(kFewRows - 1, OddLines(widest)));
  const size_t groups = static_cast<size_t>(config_.experts.count) + 1;
  workers_.reserve(static_cast<size_t>(team->size()));
  for (int id = 0; id < team->size(); ++id) {
    Worker& w = workers_.emplace_back(id, RowPacker(weights, kernels, kRouteRows));
    w.rows = AlignedArray<float>(Product(kernels::kRowGroup, hidden_));
    w.scratch = AlignedArray<float>(static_cast<size_t>(config_.experts.count));
    w.packed = AlignedArray<std::byte>(MaxInputBytes(weights, max_rows));
    w.gate = AlignedArray<float>(floats);
    w.up = AlignedArray<float>(floats);
    w.uses.resize(Product(max_rows, config_.experts.used + 1));
    w.groups.resize(groups);
  }
}

void ExpertLayer::Compute(const LayerWeights& layer, const Slice& slice, int rows, int worker,
                          float* x) {
  Worker& w = workers_[static_cast<size_t>(worker)];
  Route(layer, slice, rows, x, &w);
  team_->Barrier();  // All rows are normalized, and their experts known.
  ListUses(layer, rows, &w);
  ComputeHidden(layer, &w);
  team_->Barrier();
  ComputeOutputs(layer, rows, &w);
  team_->Barrier();
  for (int row = slice.row_begin; row < slice.row_end; ++row) {
    const float* sum = sums_.data() + Product(row, hidden_);
    if (layer.ffn_post_norm != nullptr) {
      w.packer.Norm(sum, layer.ffn_post_norm, nullptr, w.rows.data());
      sum = w.rows.data();
    }
    kernels_.add(x + Product(row - slice.row_begin, hidden_), sum, hidden_);
  }
}

void ExpertLayer::Route(const LayerWeights& layer, const Slice& slice, int rows, const float* x,
                        Worker* w) {
  // Workers that share rows have the same ones: each routes a part of them.
  int begin = slice.row_begin;
  int end = slice.row_end;
  if (slice.parts > 1) {
    begin = ShareBegin(rows, slice.part, slice.parts);
    end = ShareBegin(rows, slice.part + 1, slice.parts);
  }
  for (int row = begin; row < end; row += kRouteRows) {
    const int tile = std::min(kRouteRows, end - row);
    for (int r = row; r < row + tile; ++r) {
      w->packer.Norm(x + Product(r - slice.row_begin, hidden_), layer.ffn_norm, layer.ffn_norm_bias,
                     normed_.data() + Product(r, hidden_));
    }
    RouteTile(layer, row, tile, w);
  }
}

void ExpertLayer::RouteTile(const LayerWeights& layer, int row, int rows, Worker* w) {
  const model::ExpertsConfig& experts = config_.experts;
  const float* normed = normed_.data() + Product(row, hidden_);
  float* logits = logits_.data() + Product(row, logits_stride_);
  MultiplyPanels(kernels_, layer.router, layer.router_bias,
                 w->packer.Pack(layer.router.type, normed, hidden_, rows, hidden_), rows, 0,
                 layer.router.num_panels(), logits, logits_stride_);
  for (int r = 0; r < rows; ++r) {
    const size_t at = Product(row + r, experts.used);
    ChooseExperts(kernels_, experts, logits + r * logits_stride_, w->scratch.data(),
                  chosen_.data() + at, weights_.data() + at);
  }
  if (!HasMatrix(layer.shared_gate)) return;
  float* shared = shared_.data() + row;
  const std::byte* packed = w->packer.Pack(layer.shared_gate.type, normed, hidden_, rows, hidden_);
  kernels_.matmul(layer.shared_gate, packed, rows, 0, 1, shared, 1);
  // The sigmoid, 1 / (1 + e^-x).
  for (int r = 0; r < rows; ++r) {
    const float minus = -shared[r];
    float e = 0.0F;
    kernels_.exp_weights(&minus, 1, 0.0F, 1.0F, -std::numeric_limits<float>::infinity(), &e);
    shared[r] = 1.0F / (1.0F + e);
  }
}

void ExpertLayer::ListUses(const LayerWeights& layer, int rows, Worker* w) const {
  const int used = config_.experts.used;
  const size_t uses = Product(rows, used);
  for (Group& group : w->groups) group = {};
  for (size_t i = 0; i < uses; ++i) ++w->groups[static_cast<size_t>(chosen_.data()[i])].end;
  if (HasMatrix(layer.shared.up)) w->groups.back().end = rows;
  int32_t next = 0;
  size_t bytes = 0;
  for (size_t g = 0; g < w->groups.size(); ++g) {
    Group& group = w->groups[g];
    const int32_t count = group.end;
    group.begin = group.end = next;
    group.hidden = bytes;
    next += count;
    if (count > 0) bytes += FeatureBytes(NetworkOf(layer, g), count);
  }
  const auto add = [w](size_t g, int row, float weight) {
    w->uses[static_cast<size_t>(w->groups[g].end++)] = {row, weight};
  };
  for (int row = 0; row < rows; ++row) {
    for (int i = 0; i < used; ++i) {
      const size_t at = Product(row, used) + static_cast<size_t>(i);
      add(static_cast<size_t>(chosen_.data()[at]), row, weights_.data()[at]);
    }
    if (HasMatrix(layer.shared.up)) add(w->groups.size() - 1, row, shared_.data()[row]);
  }
}

void ExpertLayer::ComputeHidden(const LayerWeights& layer, Worker* w) {
  const auto cost = [](const Group& group) { return int64_t{group.rows()} + kWeightsCost; };
  int64_t total = 0;
  for (size_t g = 0; g < w->groups.size(); ++g) {
    const Group& group = w->groups[g];
    if (group.rows() == 0) continue;
    total += cost(group) * NumBlocks(NetworkOf(layer, g));
    if (w->id == 0 && g < layer.experts.size()) ++experts_read_;
  }
  const int64_t own_begin = total * w->id / team_->size();
  const int64_t own_end = total * (w->id + 1) / team_->size();
  int64_t before = 0;
  for (size_t g = 0; g < w->groups.size(); ++g) {
    const Group& group = w->groups[g];
    if (group.rows() == 0) continue;
    const FfnWeights& ffn = NetworkOf(layer, g);
    const int64_t each = cost(group);
    const int64_t blocks = NumBlocks(ffn);
    // A block belongs to the worker in whose part of the cost it begins.
    const auto block_at = [&](int64_t at) {
      return static_cast<int>(std::clamp<int64_t>((at - before + each - 1) / each, 0, blocks));
    };
    const int begin = own_begin > before ? block_at(own_begin) : 0;
    const int end = own_end > before ? block_at(own_end) : 0;
    if (begin < end) {
      ComputeBlocks(ffn, group, begin * kBlockPanels,
                    std::min(end * kBlockPanels, ffn.up.num_panels()), w);
    }
    before += each * blocks;
  }
}

const std::byte* ExpertLayer::PackUses(kernels::WeightType type, const Group& group, Worker* w) {
  const size_t group_bytes = kernels::PackedRowsBytes(type, kernels::kRowGroup, hidden_);
  const Use* uses = w->uses.data() + group.begin;
  for (int r = 0; r < group.rows(); r += kernels::kRowGroup) {
    const int count = std::min(kernels::kRowGroup, group.rows() - r);
    for (int i = 0; i < count; ++i) {
      std::memcpy(w->rows.data() + Product(i, hidden_),
                  normed_.data() + Product(uses[r + i].row, hidden_),
                  Product(hidden_, sizeof(float)));
    }
    kernels_.pack_rows(
        type, w->rows.data(), hidden_, 0, count, hidden_,
        w->packed.data() + static_cast<size_t>(r / kernels::kRowGroup) * group_bytes);
  }
  return w->packed.data();
}

void ExpertLayer::ComputeBlocks(const FfnWeights& ffn, const Group& group, int panel_begin,
                                int panel_end, Worker* w) {
  const int rows = group.rows();
  const bool one_packing = !HasMatrix(ffn.gate) || SamePacking(ffn.gate, ffn.up);
  const int most = rows < kFewRows ? panel_end - panel_begin : kFfnPanels;
  const int64_t stride = OddLines(int64_t{most} * kernels::kPanelCols);
  const std::byte* packed = nullptr;
  for (int begin = panel_begin; begin < panel_end; begin += most) {
    const int end = std::min(begin + most, panel_end);
    if (HasMatrix(ffn.gate)) {
      if (packed == nullptr || !one_packing) packed = PackUses(ffn.gate.type, group, w);
      MultiplyPanels(kernels_, ffn.gate, ffn.gate_bias, packed, rows, begin, end, w->gate.data(),
                     stride);
    }
    if (packed == nullptr || !one_packing) packed = PackUses(ffn.up.type, group, w);
    MultiplyPanels(kernels_, ffn.up, ffn.up_bias, packed, rows, begin, end, w->up.data(), stride);
    const int col = begin * kernels::kPanelCols;
    const int cols = std::min(end * kernels::kPanelCols, ffn.up.n) - col;
    ActivateRows(kernels_, config_.activation, rows, cols, w->gate.data(), w->up.data(), stride);
    PackColumns(kernels_, ffn.down, w->gate.data(), stride, rows, col, cols,
                features_.data() + group.hidden);
  }
}

void ExpertLayer::ComputeOutputs(const LayerWeights& layer, int rows, Worker* w) {
  const int panels = (hidden_ + kernels::kPanelCols - 1) / kernels::kPanelCols;
  const int own_begin = ShareBegin(panels, w->id, team_->size());
  const int own_end = ShareBegin(panels, w->id + 1, team_->size());
  if (own_begin == own_end) return;
  const int own_col = own_begin * kernels::kPanelCols;
  const int own_cols = std::min(own_end * kernels::kPanelCols, hidden_) - own_col;
  for (int row = 0; row < rows; ++row) {
    std::fill_n(sums_.data() + Product(row, hidden_) + own_col, own_cols, 0.0F);
  }
  for (size_t g = 0; g < w->groups.size(); ++g) {
    const Group& group = w->groups[g];
    if (group.rows() == 0) continue;
    const FfnWeights& ffn = NetworkOf(layer, g);
    const int most = group.rows() < kFewRows ? own_end - own_begin : kFfnPanels;
    const int64_t stride = OddLines(int64_t{most} * kernels::kPanelCols);
    for (int begin = own_begin; begin < own_end; begin += most) {
      const int end = std::min(begin + most, own_end);
      MultiplyPanels(kernels_, ffn.down, ffn.down_bias, features_.data() + group.hidden,
                     group.rows(), begin, end, w->gate.data(), stride);
      const int col = begin * kernels::kPanelCols;
      const int cols = std::min(end * kernels::kPanelCols, hidden_) - col;
      for (int i = 0; i < group.rows(); ++i) {
        const Use& use = w->uses[static_cast<size_t>(group.begin + i)];
        kernels_.add_scaled(sums_.data() + Product(use.row, hidden_) + col,
                            w->gate.data() + i * stride, use.weight, cols);
      }
    }
  }
}

}  // namespace ropeway::executor
