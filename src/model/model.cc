#include "model/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <thread>
#include <utility>

#include "base/sha256.h"
#include "model/model_tensors.h"

namespace ropeway::model {
namespace {

// Source bytes of one job: few enough to keep the threads evenly busy and the file's resident pages
// few.
constexpr size_t kJobBytes = size_t{256} << 10;
constexpr int kPositionsPerJob = 256;
constexpr size_t kDigestChunkBytes = size_t{4} << 20;

// A larger RoPE table is rejected unless the file is as large: a small hostile file must not make
// us allocate gigabytes.
constexpr uint64_t kMaxFreeRopeBytes = uint64_t{256} << 20;

// Calls run(i) once for each i in [0, count) on `threads` threads, one of them the caller's.
template <typename Run>
void ParallelFor(size_t count, int threads, const Run& run) {
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) run(i);
  };
  std::vector<std::jthread> others;
  for (int t = 1; t < threads && static_cast<size_t>(t) < count; ++t) others.emplace_back(work);
  work();
}

bool IsNorm(const GgufTensor& tensor) { return tensor.shape.size() == 1; }

// The matrix that a tensor becomes, its panels not yet set. BindTensors has checked type and shape.
kernels::Matrix MatrixOf(const GgufTensor& tensor) {
  kernels::Matrix matrix;
  matrix.type = WeightTypeOf(tensor.type).value_or(kernels::WeightType::kF32);
  matrix.k = static_cast<int32_t>(tensor.shape[0]);
  matrix.n = static_cast<int32_t>(tensor.shape[1]);
  return matrix;
}

size_t StoredBytes(const GgufTensor& tensor) {
  if (IsNorm(tensor)) return base::PageArena::Padded(tensor.shape[0] * sizeof(float));
  const kernels::Matrix matrix = MatrixOf(tensor);
  return base::PageArena::Padded(kernels::MatrixBytes(matrix.type, matrix.n, matrix.k));
}

void CopyNorm(const GgufTensor& tensor, std::byte* to) {
  const size_t count = tensor.shape[0];
  const auto type = WeightTypeOf(tensor.type);
  if (type == kernels::WeightType::kF32) {
    std::memcpy(to, tensor.data.data(), count * sizeof(float));
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    uint16_t half = 0;
    std::memcpy(&half, tensor.data.data() + i * sizeof half, sizeof half);
    const float value = type == kernels::WeightType::kBF16 ? kernels::BFloatToFloat(half)
                                                           : kernels::HalfToFloat(half);
    std::memcpy(to + i * sizeof value, &value, sizeof value);
  }
}

// kDataLoss, naming the tensor, for a scale that is infinite or no number: every token would be.
Status CheckScales(const GgufFile& file, const GgufTensor& tensor) {
  const kernels::Matrix matrix = MatrixOf(tensor);
  const auto row_blocks = matrix.k / kernels::WeightBlockElements(matrix.type);
  const int64_t block =
      kernels::FindBadScale(matrix.type, tensor.data.data(), int64_t{row_blocks} * matrix.n);
  if (block < 0) return {};
  return file.Error(StatusCode::kDataLoss, TensorField(tensor.name),
                    fmt::format("the scale of block {} of row {} is no finite number",
                                block % row_blocks, block / row_blocks));
}

}  // namespace

// Lays out the arena, then repacks the weights on several threads. Used once.
class Model::Loader {
 public:
  explicit Loader(const GgufFile& file) : file_(file) {}

  // May throw what the standard library throws if memory or threads are short.
  StatusOr<std::unique_ptr<Model>> Load(int threads, int32_t max_positions);

 private:
  // Some panels of a matrix, or all of a norm.
  struct Job {
    const GgufTensor* tensor;
    int panel_begin;
    int panel_end;
    std::byte* to;  // Start of the whole tensor in the arena.
  };

  Status MakeArena(const ModelTensors& tensors);
  void AddTensors(const ModelTensors& tensors);
  std::byte* Allocate(const GgufTensor& tensor);
  kernels::Matrix AddMatrix(const GgufTensor& tensor);
  const float* AddNorm(const GgufTensor& tensor);
  void RunJob(const Job& job);
  Status FillRope(const ModelTensors& tensors, int threads, int32_t max_positions);

  const GgufFile& file_;
  std::unique_ptr<Model> model_{new Model()};
  std::byte* next_ = nullptr;  // The first free byte of the arena.
  std::vector<Job> jobs_;
  std::atomic<bool> bad_scales_ = false;  // A job found one.
};

StatusOr<std::unique_ptr<Model>> Model::Loader::Load(int threads, int32_t max_positions) {
  const StatusOr<ModelTensors> tensors = BindTensors(file_);
  if (!tensors.ok()) return tensors.status();
  model_->config_ = tensors->config;
  if (Status status = FillRope(*tensors, threads, max_positions); !status.ok()) return status;
  if (Status status = MakeArena(*tensors); !status.ok()) return status;
  AddTensors(*tensors);
  ParallelFor(jobs_.size(), threads, [&](size_t i) { RunJob(jobs_[i]); });
  for (const GgufTensor* tensor : tensors->all) {
    if (!bad_scales_) break;
    if (IsNorm(*tensor)) continue;
    if (Status status = CheckScales(file_, *tensor); !status.ok()) return status;
  }
  // The pages at the edges of jobs, which held bytes of two.
  for (const GgufTensor* tensor : tensors->all) file_.Release(tensor->data);
  return std::move(model_);
}

Status Model::Loader::MakeArena(const ModelTensors& tensors) {
  size_t bytes = 0;
  for (const GgufTensor* tensor : tensors.all) bytes += StoredBytes(*tensor);
  StatusOr<base::PageArena> arena = base::PageArena::Make(bytes);
  if (!arena.ok()) {
    return {arena.status().code(), fmt::format("no memory for {} bytes of weights", bytes)};
  }
  model_->arena_ = *std::move(arena);
  next_ = model_->arena_.data();
  return {};
}

void Model::Loader::AddTensors(const ModelTensors& tensors) {
  Model& m = *model_;
  m.token_embedding_ = AddMatrix(*tensors.token_embedding);
  m.output_norm_ = AddNorm(*tensors.output_norm);
  for (const LayerTensors& t : tensors.layers) {
    LayerWeights layer;
    layer.attention_norm = AddNorm(*t.attention_norm);
    layer.q = AddMatrix(*t.q);
    layer.k = AddMatrix(*t.k);
    layer.v = AddMatrix(*t.v);
    layer.o = AddMatrix(*t.o);
    layer.ffn_norm = AddNorm(*t.ffn_norm);
    layer.gate = AddMatrix(*t.gate);
    layer.up = AddMatrix(*t.up);
    layer.down = AddMatrix(*t.down);
    m.layers_.push_back(layer);
  }
  m.output_ = tensors.output != nullptr ? AddMatrix(*tensors.output) : m.token_embedding_;
}

std::byte* Model::Loader::Allocate(const GgufTensor& tensor) {
  return std::exchange(next_, next_ + StoredBytes(tensor));
}

kernels::Matrix Model::Loader::AddMatrix(const GgufTensor& tensor) {
  kernels::Matrix matrix = MatrixOf(tensor);
  std::byte* to = Allocate(tensor);
  matrix.panels = to;
  const size_t panel_source = kernels::WeightRowBytes(matrix.type, matrix.k) * kernels::kPanelCols;
  const int step = static_cast<int>(std::max<size_t>(1, kJobBytes / panel_source));
  for (int begin = 0; begin < matrix.num_panels(); begin += step) {
    jobs_.push_back({&tensor, begin, std::min(begin + step, matrix.num_panels()), to});
  }
  return matrix;
}

const float* Model::Loader::AddNorm(const GgufTensor& tensor) {
  std::byte* to = Allocate(tensor);
  jobs_.push_back({&tensor, 0, 0, to});
  return reinterpret_cast<const float*>(to);
}

void Model::Loader::RunJob(const Job& job) {
  if (IsNorm(*job.tensor)) {
    CopyNorm(*job.tensor, job.to);
    return;
  }
  const kernels::Matrix matrix = MatrixOf(*job.tensor);
  const std::span<const std::byte> rows = job.tensor->data;
  kernels::PackPanels(matrix.type, matrix.n, matrix.k, rows.data(), job.panel_begin, job.panel_end,
                      job.to);
  const size_t panel_source = kernels::WeightRowBytes(matrix.type, matrix.k) * kernels::kPanelCols;
  const size_t begin = static_cast<size_t>(job.panel_begin) * panel_source;
  const size_t end = std::min(rows.size(), static_cast<size_t>(job.panel_end) * panel_source);
  const size_t block_bytes =
      kernels::WeightRowBytes(matrix.type, kernels::WeightBlockElements(matrix.type));
  const auto blocks = static_cast<int64_t>((end - begin) / block_bytes);
  if (kernels::FindBadScale(matrix.type, rows.data() + begin, blocks) >= 0) bad_scales_ = true;
  file_.Release(rows.subspan(begin, end - begin));
}

Status Model::Loader::FillRope(const ModelTensors& tensors, int threads, int32_t max_positions) {
  const ModelConfig& config = tensors.config;
  int32_t positions = config.context_length;
  if (max_positions > 0) positions = std::min(positions, max_positions);
  const size_t row = static_cast<size_t>(config.rope.dim);
  const uint64_t bytes = static_cast<uint64_t>(positions) * row * sizeof(float);
  if (bytes > std::max(kMaxFreeRopeBytes, file_.file_bytes())) {
    return file_.Error(
        StatusCode::kResourceExhausted,
        MetadataField(fmt::format("{}.context_length", config.architecture)),
        fmt::format("{} positions need a RoPE table of {} bytes, more than the model; use a "
                    "smaller maximum length",
                    positions, bytes));
  }
  const std::vector<double> frequencies = RopeFrequencies(config.rope, tensors.rope_divisors);
  const double magnitude = RopeMagnitude(config.rope);
  model_->max_positions_ = positions;
  model_->rope_.resize(static_cast<size_t>(positions) * row);
  const int32_t jobs = (positions + kPositionsPerJob - 1) / kPositionsPerJob;
  ParallelFor(static_cast<size_t>(jobs), threads, [&](size_t job) {
    const auto begin = static_cast<int32_t>(job) * kPositionsPerJob;
    const int32_t end = std::min(begin + kPositionsPerJob, positions);
    for (int32_t position = begin; position < end; ++position) {
      float* to = model_->rope_.data() + static_cast<size_t>(position) * row;
      FillRopeRow(frequencies, magnitude, position, to);
    }
  });
  return {};
}

StatusOr<std::unique_ptr<Model>> Model::Load(const GgufFile& file, int threads,
                                             int32_t max_positions) {
  try {
    return Loader(file).Load(threads, max_positions);
  } catch (const std::exception& error) {  // No memory, or no threads.
    return Status(StatusCode::kResourceExhausted,
                  file.path() + ": cannot be loaded: " + error.what());
  }
}

std::string FileDigest(const GgufFile& file, int threads) {
  const std::span<const std::byte> bytes = file.bytes();
  std::vector<base::Sha256Digest> sums((bytes.size() + kDigestChunkBytes - 1) / kDigestChunkBytes);
  ParallelFor(sums.size(), threads, [&](size_t i) {
    const size_t first = i * kDigestChunkBytes;
    const auto chunk = bytes.subspan(first, std::min(kDigestChunkBytes, bytes.size() - first));
    sums[i] = base::Sha256(chunk.data(), chunk.size());
    file.Release(chunk);
  });
  std::vector<uint8_t> message(sums.size() * sizeof(base::Sha256Digest));
  std::memcpy(message.data(), sums.data(), message.size());
  for (int shift = 0; shift < 64; shift += 8) {
    message.push_back(static_cast<uint8_t>(uint64_t{bytes.size()} >> shift));
  }
  std::string hex;
  for (const uint8_t byte : base::Sha256(message.data(), message.size())) {
    hex += fmt::format("{:02x}", byte);
  }
  return hex;
}

}  // namespace ropeway::model
