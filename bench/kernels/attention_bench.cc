#include "bench/kernels/attention_bench.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "executor/row_packer.h"
#include "executor/step_plan.h"

namespace ropeway::bench {
namespace {

constexpr size_t kRandomBlocks = 61;  // Different ones; they repeat in the pool.

// K and V of one block and head.
size_t HeadBytes(const AttentionShape& shape) {
  return kernels::KvHeadBlockBytes(shape.kv_type, shape.head_dim);
}

int BlocksPerSequence(const AttentionCase& problem) {
  return (problem.start() + problem.rows + base::kBlockTokens - 1) / base::kBlockTokens;
}

// K and V of all sequences in one layer.
size_t LayerBytes(const AttentionShape& shape, const AttentionCase& problem) {
  return executor::Product(problem.sequences, BlocksPerSequence(problem)) * HeadBytes(shape) *
         static_cast<size_t>(shape.num_kv_heads);
}

}  // namespace

AttentionBench::AttentionBench(const AttentionShape& shape, const AttentionCase& problem,
                               const kernels::Kernels& kernels, base::WorkerTeam* team)
    : shape_(shape), problem_(problem), kernels_(kernels), team_(team) {
  blocks_per_sequence_ = BlocksPerSequence(problem);
  head_bytes_ = HeadBytes(shape);
}

StatusOr<std::unique_ptr<AttentionBench>> AttentionBench::Make(
    const AttentionShape& shape, const AttentionCase& problem, size_t rotate_bytes,
    size_t max_bytes, const kernels::Kernels& kernels, base::WorkerTeam* team) {
  std::unique_ptr<AttentionBench> bench(new AttentionBench(shape, problem, kernels, team));
  if (Status status = bench->MakePool(rotate_bytes, max_bytes); !status.ok()) return status;
  const size_t queries = executor::Product(problem.sequences, problem.rows) *
                         executor::Product(shape.num_kv_heads, shape.group * shape.head_dim);
  bench->q_.resize(queries);
  bench->out_.resize(queries);
  std::mt19937 random(3);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  for (float& value : bench->q_) value = uniform(random);
  bench->MakeUnits();
  if (Status status = bench->MakePartials(); !status.ok()) return status;
  return bench;
}

size_t AttentionBench::LeastPoolBytes(const AttentionShape& shape, const AttentionCase& problem,
                                      size_t rotate_bytes) {
  const size_t layer_bytes = LayerBytes(shape, problem);
  return std::max<size_t>(1, (rotate_bytes + layer_bytes - 1) / layer_bytes) * layer_bytes;
}

Status AttentionBench::MakePool(size_t rotate_bytes, size_t max_bytes) {
  const size_t layer_bytes = LayerBytes(shape_, problem_);
  // In layers, of all sets together.
  const size_t needed = LeastPoolBytes(shape_, problem_, rotate_bytes) / layer_bytes;
  const size_t fitting = std::max(needed, max_bytes / layer_bytes);
  size_t layers = std::min(fitting, static_cast<size_t>(shape_.num_layers));
  const size_t sets = (needed + layers - 1) / layers;
  layers = std::min(layers, fitting / sets);
  layers_ = static_cast<int>(layers);
  sets_ = static_cast<int>(sets);
  block_bytes_ = head_bytes_ * executor::Product(layers_, shape_.num_kv_heads);
  auto arena = base::PageArena::Make(layer_bytes * layers * sets);
  if (!arena.ok()) return arena.status();
  pool_ = *std::move(arena);

  const std::vector<std::byte> pattern = RandomBlocks();
  const size_t heads = pool_.size() / head_bytes_;
  team_->Run([&](int worker) {
    for (size_t i = static_cast<size_t>(worker); i < heads;
         i += static_cast<size_t>(team_->size())) {
      std::memcpy(pool_.data() + i * head_bytes_, pattern.data() + i % kRandomBlocks * head_bytes_,
                  head_bytes_);
    }
  });
  // Sequences that were served together have their blocks in turns.
  const int sequences = problem_.sequences * sets_;
  for (int sequence = 0; sequence < sequences; ++sequence) {
    for (int block = 0; block < blocks_per_sequence_; ++block) {
      blocks_.push_back(block * sequences + sequence);
    }
  }
  return {};
}

// K and V as a model would have written them.
std::vector<std::byte> AttentionBench::RandomBlocks() const {
  std::vector<std::byte> blocks(kRandomBlocks * head_bytes_);
  std::vector<float> k(static_cast<size_t>(shape_.head_dim));
  std::vector<float> v(k.size());
  std::mt19937 random(4);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  for (size_t block = 0; block < kRandomBlocks; ++block) {
    for (int slot = 0; slot < base::kBlockTokens; ++slot) {
      for (float& value : k) value = uniform(random);
      for (float& value : v) value = uniform(random);
      kernels_.store_kv(shape_.kv_type, k.data(), v.data(), shape_.head_dim, slot,
                        blocks.data() + block * head_bytes_);
    }
  }
  return blocks;
}

int AttentionBench::SplitsOf(int row) const {
  return (problem_.start() + row) / kernels::kSplitTokens + 1;
}

void AttentionBench::MakeUnits() {
  const int tile = executor::kAttentionTileRows;
  for (int sequence = 0; sequence < problem_.sequences; ++sequence) {
    for (int row = 0; row < problem_.rows; row += tile) {
      const int rows = std::min(tile, problem_.rows - row);
      for (int head = 0; head < shape_.num_kv_heads; ++head) {
        units_.push_back({sequence, row, rows, head, 0, SplitsOf(row + rows - 1)});
      }
    }
  }
  // Too few for the workers: one for each split, which are merged when all are there.
  deferred_ =
      problem_.rows == 1 && team_->size() > 1 && SplitsOf(0) > 1 &&
      units_.size() <= static_cast<size_t>(executor::StepPlan::MaxDeferredPairs(team_->size()));
  if (!deferred_) return;
  const std::vector<Unit> whole = std::move(units_);
  units_.clear();
  for (Unit unit : whole) {
    for (int split = 0; split < SplitsOf(0); ++split) {
      unit.split_begin = split;
      unit.split_end = split + 1;
      units_.push_back(unit);
    }
  }
}

// Deferred: a buffer for each unit; else one for each worker, used again and again.
Status AttentionBench::MakePartials() {
  size_t floats = 0;
  for (const Unit& unit : units_) {
    floats = std::max(floats,
                      executor::Product(unit.split_end - unit.split_begin, unit.rows) *
                          executor::Product(shape_.group, kernels::PartialFloats(shape_.head_dim)));
  }
  partial_floats_ = floats;
  const size_t buffers = deferred_ ? units_.size() : static_cast<size_t>(team_->size());
  auto partials = base::PageArena::Make(buffers * floats * sizeof(float));
  if (!partials.ok()) return partials.status();
  partials_ = *std::move(partials);
  return {};
}

float* AttentionBench::PartialAt(size_t index) const {
  return reinterpret_cast<float*>(partials_.data()) + index * partial_floats_;
}

Timing AttentionBench::Measure(const TimingBudget& budget) {
  return TimePhases(team_, budget, [&](int worker, int phase) { Attend(worker, phase); });
}

void AttentionBench::Attend(int worker, int phase) {
  const int layer = phase % layers_;
  const int set = phase / layers_ % sets_;
  const auto workers = static_cast<size_t>(team_->size());
  for (size_t i = static_cast<size_t>(worker); i < units_.size(); i += workers) {
    float* partial = PartialAt(deferred_ ? i : static_cast<size_t>(worker));
    AttendUnit(units_[i], i + workers < units_.size() ? &units_[i + workers] : nullptr, layer, set,
               partial);
    if (!deferred_) Merge(units_[i], units_[i].split_end, partial);
  }
  if (!deferred_) return;
  team_->Barrier();
  const auto splits = static_cast<size_t>(SplitsOf(0));
  for (size_t i = static_cast<size_t>(worker) * splits; i < units_.size(); i += workers * splits) {
    Merge(units_[i], static_cast<int>(splits), PartialAt(i));
  }
}

void AttentionBench::AttendUnit(const Unit& unit, const Unit* next, int layer, int set,
                                float* partial) {
  const int query_floats = shape_.num_kv_heads * shape_.group * shape_.head_dim;
  kernels::AttentionArgs args;
  args.q = q_.data() + executor::Product(unit.sequence * problem_.rows + unit.row, query_floats) +
           executor::Product(unit.head, shape_.group * shape_.head_dim);
  args.q_stride = query_floats;
  args.scale = 1.0F / std::sqrt(static_cast<float>(shape_.head_dim));
  args.rows = unit.rows;
  args.start = problem_.start() + unit.row;
  args.group = shape_.group;
  args.head_dim = shape_.head_dim;
  args.kv_type = shape_.kv_type;
  args.kv = KvOf(unit, layer);
  args.block_stride = block_bytes_;
  args.blocks = BlocksOf(unit, set);
  if (next != nullptr) {
    const int first = next->split_begin * kernels::kSplitTokens / base::kBlockTokens;
    args.next_kv = KvOf(*next, layer);
    args.next_blocks = BlocksOf(*next, set) + first;
    args.next_count =
        (problem_.start() + next->row + next->rows - 1) / base::kBlockTokens + 1 - first;
  }
  const int64_t split_floats =
      int64_t{unit.rows} * shape_.group * kernels::PartialFloats(shape_.head_dim);
  for (int split = unit.split_begin; split < unit.split_end; ++split) {
    kernels_.attention(args, split, partial + (split - unit.split_begin) * split_floats);
  }
}

const std::byte* AttentionBench::KvOf(const Unit& unit, int layer) const {
  return pool_.data() + executor::Product(layer * shape_.num_kv_heads + unit.head,
                                          static_cast<int64_t>(head_bytes_));
}

const int32_t* AttentionBench::BlocksOf(const Unit& unit, int set) const {
  return blocks_.data() +
         executor::Product(set * problem_.sequences + unit.sequence, blocks_per_sequence_);
}

// Of the results of `splits` splits, one behind another.
void AttentionBench::Merge(const Unit& unit, int splits, const float* partials) {
  const int partial = kernels::PartialFloats(shape_.head_dim);
  const int64_t split_floats = int64_t{unit.rows} * shape_.group * partial;
  const int heads = shape_.num_kv_heads * shape_.group;
  for (int row = 0; row < unit.rows; ++row) {
    const int first_head =
        (unit.sequence * problem_.rows + unit.row + row) * heads + unit.head * shape_.group;
    for (int h = 0; h < shape_.group; ++h) {
      kernels_.attention_merge(partials + executor::Product(row * shape_.group + h, partial),
                               splits, split_floats, shape_.head_dim, nullptr,
                               out_.data() + executor::Product(first_head + h, shape_.head_dim));
    }
  }
}

Work AttentionBench::WorkOf(const AttentionShape& shape, const AttentionCase& problem) {
  double pairs = 0;
  for (int row = 0; row < problem.rows; ++row) pairs += problem.start() + row + 1;
  const double sequences = problem.sequences;
  Work work;
  work.f32_ops = 4.0 * pairs * shape.head_dim * shape.group * shape.num_kv_heads * sequences;
  const double bytes_per_position =
      static_cast<double>(HeadBytes(shape)) / base::kBlockTokens * shape.num_kv_heads;
  work.bytes = bytes_per_position * (problem.start() + problem.rows) * sequences;
  return work;
}

}  // namespace ropeway::bench
