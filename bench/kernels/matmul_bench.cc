#include "bench/kernels/matmul_bench.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "executor/forward_pass.h"
#include "executor/output_layer.h"
#include "executor/step_plan.h"

namespace ropeway::bench {
namespace {

constexpr int kRandomPanels = 32;  // Different ones; they repeat within a matrix.

int PaddedColumns(int n) {
  return (n + kernels::kPanelCols - 1) / kernels::kPanelCols * kernels::kPanelCols;
}

// Floats from one row of a product to the next. Logits lie an odd number of cache lines apart, as
// in the executor: multiples of 4 KiB would all want the same few sets of a cache.
int StrideOf(const MatMulShape& shape, int n) {
  return shape.logits ? (PaddedColumns(n) / kernels::kPanelCols | 1) * kernels::kPanelCols
                      : PaddedColumns(n);
}

int RowStride(const MatMulShape& shape) {
  int columns = 0;
  for (const int n : shape.n) columns += StrideOf(shape, n);
  return columns;
}

// Of one worker's products of `rows` rows.
size_t YBytes(const MatMulShape& shape, int rows) {
  const auto count = static_cast<size_t>(rows);
  // A part of as many floats, and two cache lines to round each row up.
  if (shape.greedy) {
    return (static_cast<size_t>(executor::kLogitsPartFloats) + count * 3 * kernels::kPanelCols) *
           sizeof(float);
  }
  return count * static_cast<size_t>(RowStride(shape)) * sizeof(float);
}

size_t CopyBytes(const MatMulShape& shape) {
  size_t bytes = 0;
  for (const int n : shape.n)
    bytes += base::PageArena::Padded(kernels::MatrixBytes(shape.type, n, shape.k));
  return bytes;
}

size_t NumCopies(const MatMulShape& shape, size_t rotate_bytes) {
  return std::max<size_t>(1, (rotate_bytes + CopyBytes(shape) - 1) / CopyBytes(shape));
}

// Rows that one worker multiplies at a time, at most.
int TileRows(const MatMulShape& shape, int max_rows, int workers) {
  if (shape.logits) return max_rows;
  return std::min(max_rows,
                  std::max(executor::kTileRows, executor::kMinRowsPerWorker * workers - 1));
}

// GGUF rows of small random weights.
std::vector<std::byte> RandomRows(kernels::WeightType type, int n, int k) {
  std::mt19937 random(1);
  const size_t row_bytes = kernels::WeightRowBytes(type, k);
  std::vector<std::byte> rows(row_bytes * static_cast<size_t>(n));
  const auto put_half = [](std::byte* to, float value) {
    const uint16_t half = kernels::FloatToHalf(value);
    std::memcpy(to, &half, sizeof half);
  };
  std::uniform_real_distribution<float> uniform(-0.1F, 0.1F);
  const size_t blocks = static_cast<size_t>(k / kernels::WeightBlockElements(type));
  const kernels::StoredScales stored = kernels::StoredScalesOf(type);
  for (std::byte& byte : rows) byte = static_cast<std::byte>(random());
  for (size_t at = 0; at < rows.size(); at += row_bytes / blocks) {
    const float value = uniform(random);
    if (type == kernels::WeightType::kF32) {
      std::memcpy(&rows[at], &value, sizeof value);
    } else if (type == kernels::WeightType::kF16) {
      put_half(&rows[at], value);
    } else if (type == kernels::WeightType::kBF16) {
      std::memcpy(&rows[at], reinterpret_cast<const std::byte*>(&value) + 2, 2);
    } else if (type == kernels::WeightType::kMXFP4) {
      rows[at] = static_cast<std::byte>(120 + random() % 8);
    }
    if (stored.scale >= 0) put_half(&rows[at] + stored.scale, value);
    if (stored.min >= 0) put_half(&rows[at] + stored.min, uniform(random));
  }
  return rows;
}

}  // namespace

struct MatMulBench::Buffers {
  base::PageArena packed;
  base::PageArena y;    // [matrix][rows of a tile][its columns, padded] f32
  int64_t largest = 0;  // Sum of what searches found, so that they are not left out.
};

MatMulBench::MatMulBench(const MatMulShape& shape, const kernels::Kernels& kernels,
                         base::WorkerTeam* team)
    : shape_(shape), kernels_(kernels), team_(team) {}

MatMulBench::~MatMulBench() = default;

size_t MatMulBench::MemoryFor(const MatMulShape& shape, int max_rows, size_t rotate_bytes,
                              int workers) {
  const int tile = TileRows(shape, max_rows, workers);
  const size_t packed = static_cast<size_t>(tile) * static_cast<size_t>(shape.k) * sizeof(float);
  return NumCopies(shape, rotate_bytes) * CopyBytes(shape) +
         static_cast<size_t>(workers) * (packed + YBytes(shape, tile)) +
         static_cast<size_t>(max_rows) * static_cast<size_t>(shape.k) * sizeof(float);
}

StatusOr<std::unique_ptr<MatMulBench>> MatMulBench::Make(const MatMulShape& shape, int max_rows,
                                                         size_t rotate_bytes,
                                                         const kernels::Kernels& kernels,
                                                         base::WorkerTeam* team) {
  std::unique_ptr<MatMulBench> bench(new MatMulBench(shape, kernels, team));
  if (Status status = bench->FillWeights(rotate_bytes); !status.ok()) return status;
  bench->x_.resize(static_cast<size_t>(max_rows) * static_cast<size_t>(shape.k));
  std::mt19937 random(2);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  for (float& value : bench->x_) value = uniform(random);
  const int tile = TileRows(shape, max_rows, team->size());
  for (int worker = 0; worker < team->size(); ++worker) {
    auto packed = base::PageArena::Make(kernels::PackedRowsBytes(shape.type, tile, shape.k));
    auto y = base::PageArena::Make(YBytes(shape, tile));
    if (!packed.ok()) return packed.status();
    if (!y.ok()) return y.status();
    bench->buffers_.push_back({*std::move(packed), *std::move(y), 0});
  }
  return bench;
}

Status MatMulBench::FillWeights(size_t rotate_bytes) {
  const size_t copies = NumCopies(shape_, rotate_bytes);
  auto arena = base::PageArena::Make(copies * CopyBytes(shape_));
  if (!arena.ok()) return arena.status();
  weights_ = *std::move(arena);
  std::byte* at = weights_.data();
  for (size_t copy = 0; copy < copies; ++copy) {
    std::vector<kernels::Matrix>& matrices = copies_.emplace_back();
    for (const int n : shape_.n) {
      matrices.push_back({.type = shape_.type, .n = n, .k = shape_.k, .panels = at});
      at += base::PageArena::Padded(kernels::MatrixBytes(shape_.type, n, shape_.k));
    }
  }
  const size_t panel_bytes = kernels::PanelBytes(shape_.type, shape_.k);
  const int rows = kRandomPanels * kernels::kPanelCols;
  const std::vector<std::byte> gguf = RandomRows(shape_.type, rows, shape_.k);
  std::vector<std::byte> panels(kRandomPanels * panel_bytes);
  kernels::PackPanels(shape_.type, rows, shape_.k, gguf.data(), 0, kRandomPanels, panels.data());
  // Each worker writes a part of every matrix, so that its pages are spread as the loader's are.
  team_->Run([&](int worker) {
    for (const std::vector<kernels::Matrix>& matrices : copies_) {
      for (const kernels::Matrix& matrix : matrices) {
        auto* to = const_cast<std::byte*>(matrix.panels);  // They are ours, in weights_.
        for (int p = worker; p < matrix.num_panels(); p += team_->size()) {
          std::memcpy(to + static_cast<size_t>(p) * panel_bytes,
                      panels.data() + static_cast<size_t>(p % kRandomPanels) * panel_bytes,
                      panel_bytes);
        }
      }
    }
  });
  return {};
}

bool MatMulBench::ByRows(int rows) const {
  return !shape_.logits && team_->size() > 1 && rows >= executor::kMinRowsPerWorker * team_->size();
}

Timing MatMulBench::Measure(int rows, const TimingBudget& budget) {
  const int copies = static_cast<int>(copies_.size());
  return TimePhases(team_, budget,
                    [&](int worker, int phase) { Multiply(worker, rows, phase % copies); });
}

void MatMulBench::Multiply(int worker, int rows, int copy) {
  const int workers = team_->size();
  Buffers& own = buffers_[static_cast<size_t>(worker)];
  auto* y = reinterpret_cast<float*>(own.y.data());
  if (!ByRows(rows)) {
    y = reinterpret_cast<float*>(buffers_.front().y.data());
    MultiplyTile(&own, x_.data(), rows, worker, workers, y, copy);
    return;
  }
  const int end = rows * (worker + 1) / workers;
  for (int row = rows * worker / workers; row < end; row += executor::kTileRows) {
    const float* x = x_.data() + static_cast<size_t>(row) * static_cast<size_t>(shape_.k);
    MultiplyTile(&own, x, std::min(executor::kTileRows, end - row), 0, 1, y, copy);
  }
}

void MatMulBench::MultiplyTile(Buffers* buffers, const float* x, int rows, int part, int parts,
                               float* y, int copy) {
  kernels_.pack_rows(shape_.type, x, shape_.k, 0, rows, shape_.k, buffers->packed.data());
  if (shape_.greedy) {
    FindLargest(buffers, copies_[static_cast<size_t>(copy)].front(), rows, part, parts);
    return;
  }
  for (const kernels::Matrix& matrix : copies_[static_cast<size_t>(copy)]) {
    const int panels = matrix.num_panels();
    const int stride = StrideOf(shape_, matrix.n);
    kernels_.matmul(matrix, buffers->packed.data(), rows, panels * part / parts,
                    panels * (part + 1) / parts, y, stride);
    y += static_cast<size_t>(rows) * static_cast<size_t>(stride);
  }
}

void MatMulBench::FindLargest(Buffers* buffers, const kernels::Matrix& matrix, int rows, int part,
                              int parts) {
  const int panels = matrix.num_panels();
  const int end = panels * (part + 1) / parts;
  const int at_once = std::max(executor::kLogitsPartFloats / (rows * kernels::kPanelCols), 1);
  auto* y = reinterpret_cast<float*>(buffers->y.data());
  const int stride = StrideOf(shape_, at_once * kernels::kPanelCols);
  int64_t largest = 0;
  for (int begin = panels * part / parts; begin < end; begin += at_once) {
    const kernels::Matrix columns = matrix.PanelRange(begin, std::min(begin + at_once, end));
    kernels_.matmul(columns, buffers->packed.data(), rows, 0, columns.num_panels(), y, stride);
    for (int row = 0; row < rows; ++row) {
      largest +=
          kernels_.argmax(y + static_cast<size_t>(row) * static_cast<size_t>(stride), columns.n);
    }
  }
  buffers->largest = largest;
}

Work MatMulBench::WorkOf(const MatMulShape& shape, int rows) {
  Work work;
  const double ops = shape.ops_per_row() * rows;
  const bool floats = kernels::WeightBlockElements(shape.type) == 1;
  (floats ? work.f32_ops : work.int8_ops) = ops;
  work.bytes = static_cast<double>(shape.weight_bytes());
  return work;
}

}  // namespace ropeway::bench
