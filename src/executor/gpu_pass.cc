#include "executor/gpu_pass.h"

#include <algorithm>
#include <new>
#include <utility>

namespace ropeway::executor {
namespace {

using gpu::DeviceMatrix;
using gpu::Rows;
using gpu::View;

bool IsQuantised(const DeviceMatrix& matrix) {
  return matrix && kernels::WeightBlockElements(matrix.type) > 1;
}

gpu::Activation ActivationOf(model::Activation activation) {
  switch (activation) {
    case model::Activation::kSwiGlu:
      return gpu::Activation::kSwiGlu;
    case model::Activation::kGeGlu:
      return gpu::Activation::kGeGlu;
    case model::Activation::kSwiGluClamped:
      return gpu::Activation::kSwiGluClamped;
    case model::Activation::kGelu:
      return gpu::Activation::kGelu;
    case model::Activation::kExactGelu:
      return gpu::Activation::kExactGelu;
  }
  std::abort();  // No value of the enum.
}

// Reserves what no step exceeds, so that a step allocates nothing.
template <typename T>
size_t Reserve(std::vector<T>* values, size_t count) {
  values->reserve(count);
  return count * sizeof(T);
}

}  // namespace

GpuPass::GpuPass(const model::Model& model, const GpuModel& weights, const GpuKvPool& pool,
                 gpu::Gpu* gpu, gpu::Ops* ops, int max_rows)
    : logits_rows_(std::min(kGpuLogitsRows, max_rows)),
      model_(model),
      config_(model.config()),
      weights_(weights),
      pool_(pool),
      gpu_(*gpu),
      ops_(*ops) {}

StatusOr<std::unique_ptr<GpuPass>> GpuPass::Make(const model::Model& model, const GpuModel& weights,
                                                 const GpuKvPool& pool, gpu::Gpu* gpu,
                                                 gpu::Ops* ops, const PlanLimits& limits,
                                                 const std::vector<TokenId>& absent) {
  try {
    std::unique_ptr<GpuPass> pass(new GpuPass(model, weights, pool, gpu, ops, limits.max_rows));
    if (Status allocated = pass->Allocate(limits, absent); !allocated.ok()) return allocated;
    return pass;
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "no memory for the device's inputs");
  }
}

int64_t GpuPass::bytes() const {
  int64_t bytes = 0;
  for (const auto& buffer : buffers_) bytes += static_cast<int64_t>(buffer->size());
  return bytes;
}

void GpuPass::Send(View to, std::span<const std::byte> bytes) {
  gpu_.Write(to, bytes);
  copied_bytes_ += static_cast<int64_t>(bytes.size());
}

void GpuPass::Get(View from, std::span<std::byte> bytes) {
  gpu_.Read(from, bytes);
  copied_bytes_ += static_cast<int64_t>(bytes.size());
}

StatusOr<View> GpuPass::AllocateBytes(size_t bytes) {
  StatusOr<std::unique_ptr<gpu::Buffer>> buffer = gpu_.Allocate(std::max<size_t>(bytes, 1));
  if (!buffer.ok()) return buffer.status();
  return View{buffers_.emplace_back(*std::move(buffer)).get(), 0};
}

Status GpuPass::AllocateInputs(const PlanLimits& limits, RowInputs* inputs) {
  const auto rows = static_cast<size_t>(limits.max_rows);
  const auto dim = static_cast<size_t>(config_.rope.dim);
  size_t bytes = 0;
  std::vector<size_t> begins;
  for (std::vector<int32_t>* values :
       {&inputs->ids, &inputs->positions, &inputs->slots, &inputs->ends, &inputs->row_tables}) {
    begins.push_back(bytes);
    bytes += Reserve(values, rows);
  }
  Reserve(&inputs->splits, limits.windows.size());
  for (std::vector<float>* values : {&inputs->cos_sin, &inputs->window_cos_sin}) {
    begins.push_back(bytes);
    bytes += Reserve(values, rows * dim);
  }
  StatusOr<View> at = AllocateBytes(bytes);
  if (!at.ok()) return at.status();
  size_t next = 0;
  for (View* view : {&inputs->at_ids, &inputs->at_positions, &inputs->at_slots, &inputs->at_ends,
                     &inputs->at_row_tables, &inputs->at_cos_sin, &inputs->at_window}) {
    *view = *at + begins[next++];
  }
  return {};
}

Status GpuPass::Allocate(const PlanLimits& limits, const std::vector<TokenId>& absent) {
  const auto rows = static_cast<size_t>(limits.max_rows);
  const auto floats = [](size_t count, int32_t width) {
    return count * static_cast<size_t>(width) * sizeof(float);
  };
  const model::ExpertsConfig& experts = config_.experts;
  const size_t uses = experts.count > 0 ? rows * static_cast<size_t>(experts.used) : 0;
  const size_t inner = std::max({floats(rows, config_.intermediate_size),
                                 floats(rows, experts.shared_intermediate_size),
                                 floats(uses, experts.intermediate_size)});
  const size_t hidden = floats(rows, config_.hidden_size);
  // What is packed: any of these rows.
  const auto packed = static_cast<int64_t>(
      std::max({hidden, floats(rows, config_.q_size()), inner}) / sizeof(float));
  const size_t logits_rows = weights_.output() ? static_cast<size_t>(logits_rows_) : 0;
  const size_t table_entries = static_cast<size_t>(limits.max_seqs) *
                               static_cast<size_t>(limits.max_positions / base::kBlockTokens + 1) *
                               limits.windows.size();
  for (RowInputs* inputs : {&all_, &outputs_}) {
    if (Status status = AllocateInputs(limits, inputs); !status.ok()) return status;
  }
  Reserve(&table_begins_, static_cast<size_t>(limits.max_seqs));
  struct Wanted {
    View* view;
    size_t bytes;
  };
  const Wanted wanted[] = {
      {&at_tables_, Reserve(&tables_, table_entries)},
      {&x_.at, hidden},
      {&last_.at, hidden},
      {&normed_.at, hidden},
      {&y_.at, hidden},
      {&q_.at, floats(rows, config_.q_size())},
      {&attention_.at, floats(rows, config_.q_size())},
      {&k_.at, floats(rows, config_.kv_size())},
      {&v_.at, floats(rows, config_.kv_size())},
      {&partials_, gpu::PartialBytes(config_.head_dim, config_.num_heads, config_.num_kv_heads,
                                     limits.max_rows, limits.max_positions)},
      {&gate_, inner},
      {&up_, inner},
      {&packed_.levels, gpu::PackedRows::LevelBytes(packed)},
      {&packed_.scales, gpu::PackedRows::ScaleBytes(packed)},
      {&packed_.sums, gpu::PackedRows::SumBytes(packed)},
      {&logits_.at, floats(logits_rows, config_.vocab_size)},
      {&largest_, floats(logits_rows, 1)},
      {&largest_ids_, logits_rows * sizeof(TokenId)},
      {&absent_, absent.size() * sizeof(TokenId)},
      {&router_logits_.at, experts.count > 0 ? floats(rows, experts.count) : 0},
      {&shared_weights_.at, experts.count > 0 ? floats(rows, 1) : 0},
      {&expert_outputs_.at, floats(uses, config_.hidden_size)},
      {&chosen_, uses * sizeof(int32_t)},
      {&chosen_weights_, floats(uses, 1)},
  };
  for (const Wanted& one : wanted) {
    StatusOr<View> made = AllocateBytes(one.bytes);
    if (!made.ok()) return made.status();
    *one.view = *made;
  }
  for (Rows* of_hidden : {&x_, &last_, &normed_, &y_, &expert_outputs_}) {
    of_hidden->stride = config_.hidden_size;
  }
  q_.stride = attention_.stride = config_.q_size();
  k_.stride = v_.stride = config_.kv_size();
  logits_.stride = config_.vocab_size;
  router_logits_.stride = experts.count;
  shared_weights_.stride = 1;
  absent_count_ = static_cast<int>(absent.size());
  Send(absent_, gpu::AsBytes(absent));
  return {};
}

void GpuPass::FillTables(const core::Batch& batch) {
  tables_.clear();
  table_begins_.clear();
  const int groups = pool_.groups.count();
  for (const core::BatchItem& item : batch.items) {
    table_begins_.push_back(static_cast<int32_t>(tables_.size()));
    const int blocks = (item.end() + base::kBlockTokens - 1) / base::kBlockTokens;
    const auto entries = static_cast<size_t>(blocks * groups);
    tables_.insert(tables_.end(), item.blocks.begin(),
                   item.blocks.begin() + static_cast<ptrdiff_t>(entries));
  }
  Send(at_tables_, gpu::AsBytes(tables_));
}

void GpuPass::Fill(const core::Batch& batch, const RowSet& set, RowInputs* inputs) {
  const auto dim = static_cast<size_t>(config_.rope.dim);
  const bool rotates = config_.position != model::PositionKind::kLearned;
  // Layers that see all positions, and those that do not, have tables of RoPE of their own.
  int full = -1;
  int windowed = -1;
  for (int layer = 0; rotates && layer < config_.num_layers; ++layer) {
    (config_.window(layer) > 0 ? windowed : full) = layer;
  }
  inputs->rows = set.size();
  inputs->ids.clear();
  inputs->positions = set.position;
  inputs->slots.clear();
  inputs->ends.clear();
  inputs->row_tables.clear();
  inputs->cos_sin.clear();
  inputs->window_cos_sin.clear();
  for (int row = 0; row < set.size(); ++row) {
    const auto r = static_cast<size_t>(row);
    const auto number = static_cast<size_t>(set.item[r]);
    const core::BatchItem& item = batch.items[number];
    const int position = set.position[r];
    inputs->ids.push_back(item.tokens[static_cast<size_t>(position - item.start)]);
    inputs->slots.push_back(item.padding ? -1 : position);
    inputs->ends.push_back(config_.causal ? position + 1 : item.end());
    inputs->row_tables.push_back(table_begins_[number]);
    const auto add = [&](int layer, std::vector<float>* to) {
      if (layer < 0) return;
      const float* const from = model_.rope_row(layer, position, item.long_rope);
      to->insert(to->end(), from, from + dim);
    };
    add(full, &inputs->cos_sin);
    add(windowed, &inputs->window_cos_sin);
  }
  inputs->splits.clear();
  for (const int32_t window : pool_.groups.windows) {
    inputs->splits.push_back(gpu::MostSplits(inputs->ends, window));
  }
}

void GpuPass::Send(RowInputs* inputs) {
  Send(inputs->at_ids, gpu::AsBytes(inputs->ids));
  Send(inputs->at_positions, gpu::AsBytes(inputs->positions));
  Send(inputs->at_slots, gpu::AsBytes(inputs->slots));
  Send(inputs->at_ends, gpu::AsBytes(inputs->ends));
  Send(inputs->at_row_tables, gpu::AsBytes(inputs->row_tables));
  Send(inputs->at_cos_sin, gpu::AsBytes(inputs->cos_sin));
  Send(inputs->at_window, gpu::AsBytes(inputs->window_cos_sin));
}

void GpuPass::Begin(const core::Batch& batch, const StepPlan& plan) {
  FillTables(batch);
  Fill(batch, plan.all(), &all_);
  Fill(batch, plan.outputs(), &outputs_);
  for (size_t i = 0; i < plan.output_rows().size(); ++i) {
    outputs_.ids[i] = plan.output_rows()[i].row;
  }
  Send(&all_);
  Send(&outputs_);
  Embed(all_);
  const int last = config_.num_layers - 1;
  for (int layer = 0; layer < last; ++layer) {
    ComputeQkv(all_, layer, kQ | kKv, x_);
    Attend(all_, layer);
    FinishLayer(all_, layer, x_);
  }
  // In the last layer, rows whose logits are not wanted need only K and V.
  ComputeQkv(all_, last, kKv, x_);
  if (outputs_.rows == 0) return;
  ops_.Gather(x_, outputs_.at_ids, outputs_.rows, config_.hidden_size, last_);
  ComputeQkv(outputs_, last, kQ, last_);
  Attend(outputs_, last);
  FinishLayer(outputs_, last, last_);
}

void GpuPass::Embed(const RowInputs& in) {
  const int hidden = config_.hidden_size;
  ops_.Unpack(weights_.token_embedding(), in.at_ids, in.rows, x_);
  if (config_.embedding_scale != 1.0F) ops_.Scale(x_, config_.embedding_scale, in.rows, hidden);
  // The same row for all: a stride of 0.
  if (weights_.type_embedding()) ops_.Add(x_, {weights_.type_embedding(), 0}, in.rows, hidden);
  if (config_.position == model::PositionKind::kLearned) {
    ops_.Unpack(weights_.position_embedding(), in.at_positions, in.rows, y_);
    ops_.Add(x_, y_, in.rows, hidden);
  }
  Norm(x_, weights_.embedding_norm(), weights_.embedding_norm_bias(), in.rows, x_);
}

Rows GpuPass::Norm(Rows x, View weight, View bias, int rows, Rows to) {
  if (!weight) return x;
  switch (config_.norm) {
    case model::NormKind::kRms:
      ops_.RmsNorm(x, weight, rows, config_.hidden_size, config_.norm_eps, to);
      break;
    case model::NormKind::kLayer:
      ops_.LayerNorm(x, weight, bias, rows, config_.hidden_size, config_.norm_eps, to);
      break;
  }
  return to;
}

void GpuPass::PackFor(std::initializer_list<const DeviceMatrix*> matrices, Rows x, int rows) {
  for (const DeviceMatrix* matrix : matrices) {
    if (!IsQuantised(*matrix)) continue;
    ops_.Pack(x, rows, matrix->k, packed_);
    return;
  }
}

void GpuPass::Multiply(const DeviceMatrix& matrix, Rows x, int rows, Rows y,
                       const gpu::RowMatrices& which) {
  ops_.MatMul(matrix, {x, packed_}, rows, y, which);
}

void GpuPass::ComputeQkv(const RowInputs& in, int layer, int projections, Rows x) {
  const GpuLayer& weights = weights_.layers()[static_cast<size_t>(layer)];
  const Rows from = Norm(x, weights.attention_norm, weights.attention_norm_bias, in.rows, normed_);
  PackFor({&weights.q, &weights.k, &weights.v}, from, in.rows);
  if ((projections & kQ) != 0) {
    Multiply(weights.q, from, in.rows, q_);
    RotateHeads(in, layer, config_.num_heads, weights.q_norm, q_);
  }
  if ((projections & kKv) == 0) return;
  Multiply(weights.k, from, in.rows, k_);
  Multiply(weights.v, from, in.rows, v_);
  RotateHeads(in, layer, config_.num_kv_heads, weights.k_norm, k_);
  ops_.StoreKv(KvOf(in, layer), k_, v_, in.at_slots, in.rows);
}

void GpuPass::RotateHeads(const RowInputs& in, int layer, int heads, View norm, Rows x) {
  if (norm) {
    // Each head is a row of its own.
    const Rows by_head = {x.at, config_.head_dim};
    ops_.RmsNorm(by_head, norm, in.rows * heads, config_.head_dim, config_.norm_eps, by_head);
  }
  if (config_.position == model::PositionKind::kLearned) return;
  const Rows cos_sin = {config_.window(layer) > 0 ? in.at_window : in.at_cos_sin, config_.rope.dim};
  ops_.Rope(x, in.rows, heads, config_.head_dim, config_.rope.dim,
            config_.position == model::PositionKind::kRopeNeox, cos_sin);
}

gpu::KvView GpuPass::KvOf(const RowInputs& in, int layer) const {
  const model::KvGroups::Place& place = pool_.groups.places[static_cast<size_t>(layer)];
  gpu::KvView kv;
  kv.type = pool_.type;
  kv.head_dim = config_.head_dim;
  kv.kv_heads = config_.num_kv_heads;
  kv.pool = {pool_.memory.get(), static_cast<uint64_t>(place.index) *
                                     static_cast<uint64_t>(config_.num_kv_heads) *
                                     pool_.head_bytes};
  kv.block_bytes = pool_.block_bytes;
  kv.tables = at_tables_;
  kv.row_tables = in.at_row_tables;
  kv.table_step = pool_.groups.count();
  kv.table_first = place.group;
  return kv;
}

void GpuPass::Attend(const RowInputs& in, int layer) {
  gpu::AttentionCall call;
  call.q = q_;
  call.out = attention_;
  call.rows = in.rows;
  call.heads = config_.num_heads;
  call.scale = config_.attention_scale;
  call.soft_cap = config_.attention_soft_cap;
  call.window = config_.window(layer);
  call.ends = in.at_ends;
  call.sinks = weights_.layers()[static_cast<size_t>(layer)].sinks;
  const model::KvGroups::Place& place = pool_.groups.places[static_cast<size_t>(layer)];
  call.splits = in.splits[static_cast<size_t>(place.group)];
  call.partials = partials_;
  ops_.Attend(KvOf(in, layer), call);
}

// x += y_, normalised first and x after it, where the layer has such norms.
void GpuPass::AddToStream(View post_norm, View out_norm, View out_norm_bias, int rows, Rows x) {
  ops_.Add(x, Norm(y_, post_norm, {}, rows, y_), rows, config_.hidden_size);
  Norm(x, out_norm, out_norm_bias, rows, x);
}

void GpuPass::RunFfn(const GpuFfn& ffn, Rows in, int rows, int inner, Rows out,
                     const gpu::RowMatrices& first, const gpu::RowMatrices& second) {
  const Rows gate = {gate_, inner};
  const Rows up = {up_, inner};
  if (ffn.gate) Multiply(ffn.gate, in, rows, gate, first);
  Multiply(ffn.up, in, rows, up, first);
  ops_.Activate(ActivationOf(config_.activation), gate, up, rows, inner);
  PackFor({&ffn.down}, gate, rows);
  Multiply(ffn.down, gate, rows, out, second);
}

void GpuPass::FinishLayer(const RowInputs& in, int layer, Rows x) {
  const GpuLayer& weights = weights_.layers()[static_cast<size_t>(layer)];
  PackFor({&weights.o}, attention_, in.rows);
  Multiply(weights.o, attention_, in.rows, y_);
  AddToStream(weights.attention_post_norm, weights.attention_out_norm,
              weights.attention_out_norm_bias, in.rows, x);
  if (weights.experts.up) {
    ComputeExperts(in, weights, x);
  } else {
    const Rows from = Norm(x, weights.ffn_norm, weights.ffn_norm_bias, in.rows, normed_);
    PackFor({&weights.ffn.gate, &weights.ffn.up}, from, in.rows);
    RunFfn(weights.ffn, from, in.rows, weights.ffn.up.n, y_);
  }
  AddToStream(weights.ffn_post_norm, weights.ffn_out_norm, weights.ffn_out_norm_bias, in.rows, x);
}

// y_ = the sum of each row's experts. Their weights are read for each use of
// one: rows are not gathered by expert.
void GpuPass::ComputeExperts(const RowInputs& in, const GpuLayer& weights, Rows x) {
  const model::ExpertsConfig& experts = config_.experts;
  const Rows from = Norm(x, weights.ffn_norm, weights.ffn_norm_bias, in.rows, normed_);
  PackFor({&weights.router, &weights.shared_gate, &weights.experts.gate, &weights.experts.up,
           &weights.shared.gate, &weights.shared.up},
          from, in.rows);
  Multiply(weights.router, from, in.rows, router_logits_);
  ops_.ChooseExperts(router_logits_, in.rows, experts.count, experts.used, experts.normalized,
                     chosen_, chosen_weights_);
  Rows shared;
  if (weights.shared.up) {
    // First: what it packs is another row's than the experts'.
    Multiply(weights.shared_gate, from, in.rows, shared_weights_);
    ops_.Sigmoid(shared_weights_, in.rows);
    RunFfn(weights.shared, from, in.rows, weights.shared.up.n, y_);
    shared = y_;
    PackFor({&weights.experts.gate, &weights.experts.up}, from, in.rows);
  }
  const int uses = in.rows * experts.used;
  experts_read_ += uses;
  RunFfn(weights.experts, from, uses, weights.experts.up.n, expert_outputs_,
         {chosen_, experts.used}, {chosen_, 1});
  ops_.SumScaled(expert_outputs_, chosen_weights_, experts.used, shared, shared_weights_.at,
                 in.rows, config_.hidden_size, y_);
}

Rows GpuPass::NormOutputs(int begin, int rows) {
  const int hidden = config_.hidden_size;
  const Rows x = {last_.at + static_cast<uint64_t>(begin) * static_cast<uint64_t>(hidden) * 4,
                  hidden};
  return Norm(x, weights_.output_norm(), weights_.output_norm_bias(), rows, normed_);
}

void GpuPass::ComputeLogits(int begin, int rows) {
  const Rows from = NormOutputs(begin, rows);
  PackFor({&weights_.output()}, from, rows);
  Multiply(weights_.output(), from, rows, logits_);
  ops_.FinishLogits(logits_, rows, config_.vocab_size, config_.logit_soft_cap, absent_,
                    absent_count_);
}

void GpuPass::GetLogits(int begin, int rows, std::span<float> logits) {
  ComputeLogits(begin, rows);
  Get(logits_.at, gpu::AsWritableBytes(logits));
}

void GpuPass::GetLargest(int begin, int rows, std::span<float> logits, std::span<TokenId> ids) {
  ComputeLogits(begin, rows);
  ops_.FindLargest(logits_, rows, config_.vocab_size, largest_, largest_ids_);
  Get(largest_, gpu::AsWritableBytes(logits));
  Get(largest_ids_, gpu::AsWritableBytes(ids));
}

void GpuPass::GetHidden(int begin, int rows, std::span<float> hidden) {
  Get(NormOutputs(begin, rows).at, gpu::AsWritableBytes(hidden));
}

}  // namespace ropeway::executor
