#include "model/model_loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <utility>

#include "kernels/half.h"

namespace ropeway {
namespace {

// Source bytes of one job: enough to be worth its call, few enough to keep threads evenly busy and
// the file's resident pages few.
constexpr size_t kJobBytes = size_t{256} << 10;
constexpr int kPositionsPerJob = 256;

// A RoPE table beyond this is refused unless the model itself is as large: a small hostile file
// must not ask for gigabytes.
constexpr uint64_t kFreeRopeBytes = uint64_t{256} << 20;

// Calls run(i) once for each i in [0, count), on `threads` threads with the caller's.
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

std::vector<const GgufTensor*> AllOf(const LlamaTensors& t) {
  std::vector<const GgufTensor*> all = {t.token_embedding, t.output_norm};
  if (t.output != nullptr) all.push_back(t.output);
  for (const LlamaLayerTensors& layer : t.layers) {
    all.insert(all.end(), {layer.attention_norm, layer.q, layer.k, layer.v, layer.o, layer.ffn_norm,
                           layer.gate, layer.up, layer.down});
  }
  return all;
}

bool IsNorm(const GgufTensor& tensor) { return tensor.shape.size() == 1; }

// The matrix a tensor becomes, without its place. BindLlamaTensors has checked type and shape.
Matrix MatrixOf(const GgufTensor& tensor) {
  Matrix matrix;
  matrix.type = WeightTypeOf(tensor.type).value_or(WeightType::kF32);
  matrix.k = static_cast<int32_t>(tensor.shape[0]);
  matrix.n = static_cast<int32_t>(tensor.shape[1]);
  return matrix;
}

size_t StoredBytes(const GgufTensor& tensor) {
  if (IsNorm(tensor)) return WeightArena::Padded(tensor.shape[0] * sizeof(float));
  const Matrix matrix = MatrixOf(tensor);
  return WeightArena::Padded(MatrixBytes(matrix.type, matrix.n, matrix.k));
}

void CopyNorm(const GgufTensor& tensor, std::byte* to) {
  const size_t count = tensor.shape[0];
  if (WeightTypeOf(tensor.type) == WeightType::kF32) {
    std::memcpy(to, tensor.data.data(), count * sizeof(float));
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    uint16_t half = 0;
    std::memcpy(&half, tensor.data.data() + i * sizeof half, sizeof half);
    const float value = HalfToFloat(half);
    std::memcpy(to + i * sizeof value, &value, sizeof value);
  }
}

}  // namespace

StatusOr<std::unique_ptr<Model>> ModelLoader::Load(int threads, int32_t max_positions) {
  const StatusOr<LlamaTensors> tensors = BindLlamaTensors(file_);
  if (!tensors.ok()) return tensors.status();
  model_.reset(new Model());
  model_->config_ = tensors->config;
  if (Status status = FillRope(*tensors, threads, max_positions); !status.ok()) return status;
  if (Status status = MakeArena(*tensors); !status.ok()) return status;
  PlaceAll(*tensors);
  ParallelFor(jobs_.size(), threads, [&](size_t i) { RunJob(jobs_[i]); });
  // The pages at the jobs' edges, which each held a neighbour's bytes too.
  for (const GgufTensor* tensor : AllOf(*tensors)) file_.Release(tensor->data);
  return std::move(model_);
}

Status ModelLoader::MakeArena(const LlamaTensors& tensors) {
  size_t bytes = 0;
  for (const GgufTensor* tensor : AllOf(tensors)) bytes += StoredBytes(*tensor);
  StatusOr<WeightArena> arena = WeightArena::Make(bytes);
  if (!arena.ok()) return arena.status();
  model_->arena_ = *std::move(arena);
  next_ = model_->arena_.data();
  return {};
}

void ModelLoader::PlaceAll(const LlamaTensors& tensors) {
  Model& m = *model_;
  m.token_embedding_ = PlaceMatrix(*tensors.token_embedding);
  m.output_norm_ = PlaceNorm(*tensors.output_norm);
  for (const LlamaLayerTensors& t : tensors.layers) {
    LlamaLayer layer;
    layer.attention_norm = PlaceNorm(*t.attention_norm);
    layer.q = PlaceMatrix(*t.q);
    layer.k = PlaceMatrix(*t.k);
    layer.v = PlaceMatrix(*t.v);
    layer.o = PlaceMatrix(*t.o);
    layer.ffn_norm = PlaceNorm(*t.ffn_norm);
    layer.gate = PlaceMatrix(*t.gate);
    layer.up = PlaceMatrix(*t.up);
    layer.down = PlaceMatrix(*t.down);
    m.layers_.push_back(layer);
  }
  m.output_ = tensors.output != nullptr ? PlaceMatrix(*tensors.output) : m.token_embedding_;
}

std::byte* ModelLoader::Place(const GgufTensor& tensor) {
  return std::exchange(next_, next_ + StoredBytes(tensor));
}

Matrix ModelLoader::PlaceMatrix(const GgufTensor& tensor) {
  Matrix matrix = MatrixOf(tensor);
  std::byte* to = Place(tensor);
  matrix.panels = to;
  const size_t panel_source = WeightRowBytes(matrix.type, matrix.k) * kPanelCols;
  const int step = static_cast<int>(std::max<size_t>(1, kJobBytes / panel_source));
  for (int begin = 0; begin < matrix.num_panels(); begin += step) {
    jobs_.push_back({&tensor, begin, std::min(begin + step, matrix.num_panels()), to});
  }
  return matrix;
}

const float* ModelLoader::PlaceNorm(const GgufTensor& tensor) {
  std::byte* to = Place(tensor);
  jobs_.push_back({&tensor, 0, 0, to});
  return reinterpret_cast<const float*>(to);
}

void ModelLoader::RunJob(const Job& job) const {
  if (IsNorm(*job.tensor)) {
    CopyNorm(*job.tensor, job.to);
    return;
  }
  const Matrix matrix = MatrixOf(*job.tensor);
  const std::span<const std::byte> rows = job.tensor->data;
  PackPanels(matrix.type, matrix.n, matrix.k, rows.data(), job.panel_begin, job.panel_end, job.to);
  const size_t panel_source = WeightRowBytes(matrix.type, matrix.k) * kPanelCols;
  const size_t begin = static_cast<size_t>(job.panel_begin) * panel_source;
  const size_t end = std::min(rows.size(), static_cast<size_t>(job.panel_end) * panel_source);
  file_.Release(rows.subspan(begin, end - begin));
}

Status ModelLoader::FillRope(const LlamaTensors& tensors, int threads, int32_t max_positions) {
  const LlamaConfig& config = tensors.config;
  int32_t positions = config.context_length;
  if (max_positions > 0) positions = std::min(positions, max_positions);
  const size_t row = static_cast<size_t>(config.rope_dim);
  const uint64_t bytes = static_cast<uint64_t>(positions) * row * sizeof(float);
  if (bytes > std::max(kFreeRopeBytes, file_.file_bytes())) {
    const std::string field = "metadata \"llama.context_length\"";
    return {StatusCode::kResourceExhausted,
            fmt::format("{}: {}: {} positions need a RoPE table of {} bytes, more than the model; "
                        "use a smaller maximum length",
                        file_.path(), field, positions, bytes),
            field};
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

}  // namespace ropeway
