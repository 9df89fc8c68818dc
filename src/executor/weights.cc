#include "executor/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "model/read_in_parallel.h"

namespace ropeway::executor {
namespace {

// Source bytes of one job: few enough to keep the threads evenly busy, and the bytes in their
// caches from when they are read until they are repacked.
constexpr size_t kJobBytes = size_t{256} << 10;

// BindTensors has checked types and shapes.
kernels::WeightType TypeOf(const model::TensorPart& part) {
  return model::WeightTypeOf(part.tensor->type).value_or(kernels::WeightType::kF32);
}

bool IsVector(const model::TensorPart& part) { return part.k == 0; }

// The matrix that a part becomes, its panels not yet set.
kernels::Matrix MatrixOf(const model::TensorPart& part) {
  kernels::Matrix matrix;
  matrix.type = TypeOf(part);
  matrix.k = part.k;
  matrix.n = part.n;
  return matrix;
}

size_t StoredBytes(const model::TensorPart& part) {
  if (IsVector(part)) {
    return base::PageArena::Padded(static_cast<size_t>(part.n) * sizeof(float));
  }
  const kernels::Matrix matrix = MatrixOf(part);
  return base::PageArena::Padded(kernels::MatrixBytes(matrix.type, matrix.n, matrix.k));
}

// `data`: of the part, as in the file.
void CopyVector(const model::TensorPart& part, const std::byte* data, std::byte* to) {
  const auto count = static_cast<size_t>(part.n);
  const kernels::WeightType type = TypeOf(part);
  if (type == kernels::WeightType::kF32) {
    std::memcpy(to, data, count * sizeof(float));
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    uint16_t half = 0;
    std::memcpy(&half, data + i * sizeof half, sizeof half);
    const float value = type == kernels::WeightType::kBF16 ? kernels::BFloatToFloat(half)
                                                           : kernels::HalfToFloat(half);
    std::memcpy(to + i * sizeof value, &value, sizeof value);
  }
}

}  // namespace

// Lays out the arena, then repacks the weights on several threads. Used once.
class Weights::Loader {
 public:
  explicit Loader(const model::GgufFile& file) : file_(file) {}

  // May throw what the standard library throws if memory or threads are short.
  StatusOr<std::unique_ptr<Weights>> Load(int threads, int32_t max_positions);

 private:
  // Some panels of a matrix, or all of a vector.
  struct Job {
    model::TensorPart part;
    int panel_begin;
    int panel_end;
    std::byte* to;  // Start of the whole part in the arena.
  };

  Status MakeArena(const model::ModelTensors& tensors);
  void AddTensors(const model::ModelTensors& tensors);
  FfnWeights AddFfn(const model::FfnTensors& tensors);
  LayerWeights AddLayer(const model::LayerTensors& tensors);
  std::byte* Allocate(const model::TensorPart& part);
  // For a part without a tensor: an empty matrix, and nullptr.
  kernels::Matrix AddMatrix(const model::TensorPart& part);
  const float* AddVector(const model::TensorPart& part);
  // Reads `count` rows or elements, of `size` bytes each, from the part's `first` on.
  Status Read(const model::TensorPart& part, uint64_t first, size_t count, size_t size,
              model::FilePart* data) const;
  Status RunJob(const Job& job) const;
  Status RunMatrixJob(const Job& job) const;

  const model::GgufFile& file_;
  std::unique_ptr<Weights> weights_{new Weights()};
  std::byte* next_ = nullptr;  // The first free byte of the arena.
  std::vector<Job> jobs_;
};

StatusOr<std::unique_ptr<Weights>> Weights::Loader::Load(int threads, int32_t max_positions) {
  const StatusOr<model::ModelTensors> tensors = BindTensors(file_);
  if (!tensors.ok()) return tensors.status();
  auto model = model::Model::Make(file_, *tensors, max_positions);
  if (!model.ok()) return model.status();
  weights_->model_ = *std::move(model);
  if (Status status = MakeArena(*tensors); !status.ok()) return status;
  AddTensors(*tensors);
  model::FirstFailure failure;
  model::ParallelFor(jobs_.size(), threads, [&](size_t i) {
    if (!failure.failed()) failure.Note(RunJob(jobs_[i]));
  });
  if (failure.failed()) return failure.status();
  if (Status status = file_.CheckUnchanged(); !status.ok()) return status;
  return std::move(weights_);
}

Status Weights::Loader::MakeArena(const model::ModelTensors& tensors) {
  const uint64_t bytes = LoadedBytes(tensors);
  StatusOr<base::PageArena> arena = base::PageArena::Make(bytes);
  if (!arena.ok()) {
    return {arena.status().code(), fmt::format("not enough memory for {} bytes of weights", bytes)};
  }
  weights_->arena_ = *std::move(arena);
  next_ = weights_->arena_.data();
  return {};
}

void Weights::Loader::AddTensors(const model::ModelTensors& tensors) {
  Weights& w = *weights_;
  w.token_embedding_ = AddMatrix(tensors.token_embedding);
  w.position_embedding_ = AddMatrix(tensors.position_embedding);
  w.type_embedding_ = AddVector(tensors.type_embedding);
  w.embedding_norm_ = AddVector(tensors.embedding_norm);
  w.embedding_norm_bias_ = AddVector(tensors.embedding_norm_bias);
  w.output_norm_ = AddVector(tensors.output_norm);
  w.output_norm_bias_ = AddVector(tensors.output_norm_bias);
  for (const model::LayerTensors& layer : tensors.layers) w.layers_.push_back(AddLayer(layer));
  if (!tensors.config.causal) return;
  w.output_ = tensors.output ? AddMatrix(tensors.output) : w.token_embedding_;
}

LayerWeights Weights::Loader::AddLayer(const model::LayerTensors& t) {
  LayerWeights layer;
  layer.attention_norm = AddVector(t.attention_norm);
  layer.attention_norm_bias = AddVector(t.attention_norm_bias);
  layer.q = AddMatrix(t.q);
  layer.k = AddMatrix(t.k);
  layer.v = AddMatrix(t.v);
  layer.o = AddMatrix(t.o);
  layer.q_bias = AddVector(t.q_bias);
  layer.k_bias = AddVector(t.k_bias);
  layer.v_bias = AddVector(t.v_bias);
  layer.o_bias = AddVector(t.o_bias);
  layer.q_norm = AddVector(t.q_norm);
  layer.k_norm = AddVector(t.k_norm);
  layer.sinks = AddVector(t.sinks);
  layer.attention_post_norm = AddVector(t.attention_post_norm);
  layer.ffn_norm = AddVector(t.ffn_norm);
  layer.ffn_norm_bias = AddVector(t.ffn_norm_bias);
  layer.ffn_post_norm = AddVector(t.ffn_post_norm);
  layer.attention_out_norm = AddVector(t.attention_out_norm);
  layer.attention_out_norm_bias = AddVector(t.attention_out_norm_bias);
  layer.ffn_out_norm = AddVector(t.ffn_out_norm);
  layer.ffn_out_norm_bias = AddVector(t.ffn_out_norm_bias);
  static_cast<FfnWeights&>(layer) = AddFfn(t);
  layer.router = AddMatrix(t.router);
  layer.router_bias = AddVector(t.router_bias);
  for (const model::FfnTensors& expert : t.experts) layer.experts.push_back(AddFfn(expert));
  layer.shared_gate = AddMatrix(t.shared_gate);
  layer.shared = AddFfn(t.shared);
  return layer;
}

FfnWeights Weights::Loader::AddFfn(const model::FfnTensors& t) {
  FfnWeights ffn;
  ffn.gate = AddMatrix(t.gate);
  ffn.up = AddMatrix(t.up);
  ffn.down = AddMatrix(t.down);
  ffn.gate_bias = AddVector(t.gate_bias);
  ffn.up_bias = AddVector(t.up_bias);
  ffn.down_bias = AddVector(t.down_bias);
  return ffn;
}

std::byte* Weights::Loader::Allocate(const model::TensorPart& part) {
  return std::exchange(next_, next_ + StoredBytes(part));
}

kernels::Matrix Weights::Loader::AddMatrix(const model::TensorPart& part) {
  if (!part) return {};
  kernels::Matrix matrix = MatrixOf(part);
  std::byte* to = Allocate(part);
  matrix.panels = to;
  const size_t panel_source = kernels::WeightRowBytes(matrix.type, matrix.k) * kernels::kPanelCols;
  const int step = static_cast<int>(std::max<size_t>(1, kJobBytes / panel_source));
  for (int begin = 0; begin < matrix.num_panels(); begin += step) {
    jobs_.push_back({part, begin, std::min(begin + step, matrix.num_panels()), to});
  }
  return matrix;
}

const float* Weights::Loader::AddVector(const model::TensorPart& part) {
  if (!part) return nullptr;
  std::byte* to = Allocate(part);
  jobs_.push_back({part, 0, 0, to});
  return reinterpret_cast<const float*>(to);
}

Status Weights::Loader::Read(const model::TensorPart& part, uint64_t first, size_t count,
                             size_t size, model::FilePart* data) const {
  const uint64_t begin = part.tensor->begin + (part.begin + first) * size;
  Status status = data->Read(file_, begin, count * size);
  if (status.field() != model::kWeightsField) return status;
  return file_.Error(status.code(), model::TensorField(part.tensor->name), status.message());
}

Status Weights::Loader::RunJob(const Job& job) const {
  if (!IsVector(job.part)) return RunMatrixJob(job);
  const size_t element = kernels::WeightRowBytes(TypeOf(job.part), 1);
  model::FilePart data;
  if (Status status = Read(job.part, 0, static_cast<size_t>(job.part.n), element, &data);
      !status.ok()) {
    return status;
  }
  const int64_t bad = kernels::FindBadScale(TypeOf(job.part), data.data(), job.part.n);
  if (bad >= 0) {
    return file_.Error(StatusCode::kDataLoss, model::TensorField(job.part.tensor->name),
                       fmt::format("element {} is not a finite number",
                                   job.part.begin + static_cast<uint64_t>(bad)));
  }
  CopyVector(job.part, data.data(), job.to);
  return {};
}

Status Weights::Loader::RunMatrixJob(const Job& job) const {
  const kernels::Matrix matrix = MatrixOf(job.part);
  const size_t row_bytes = kernels::WeightRowBytes(matrix.type, matrix.k);
  const int row_begin = job.panel_begin * kernels::kPanelCols;
  const int row_end = std::min(job.panel_end * kernels::kPanelCols, matrix.n);
  const int rows = row_end - row_begin;
  const auto first_row = static_cast<uint64_t>(row_begin);
  model::FilePart data;
  if (Status status = Read(job.part, first_row, static_cast<size_t>(rows), row_bytes, &data);
      !status.ok()) {
    return status;
  }
  const int row_blocks = matrix.k / kernels::WeightBlockElements(matrix.type);
  // With a number that is infinite or NaN, every token's logits would be. No model that is known
  // has one: what masks with infinities is no weight.
  if (const int64_t bad =
          kernels::FindBadScale(matrix.type, data.data(), int64_t{row_blocks} * rows);
      bad >= 0) {
    const uint64_t bad_row = job.part.begin + first_row + static_cast<uint64_t>(bad / row_blocks);
    return file_.Error(StatusCode::kDataLoss, model::TensorField(job.part.tensor->name),
                       fmt::format("{} {} of row {} is not a finite number",
                                   row_blocks == matrix.k ? "element" : "the scale of block",
                                   bad % row_blocks, bad_row));
  }
  // The read rows are packed as a matrix of their own, whose panels start at 0.
  std::byte* const to =
      job.to + static_cast<size_t>(job.panel_begin) * kernels::PanelBytes(matrix.type, matrix.k);
  kernels::PackPanels(matrix.type, rows, matrix.k, data.data(), 0, job.panel_end - job.panel_begin,
                      to);
  return {};
}

StatusOr<std::unique_ptr<Weights>> Weights::Load(const model::GgufFile& file, int threads,
                                                 int32_t max_positions) {
  try {
    return Loader(file).Load(threads, max_positions);
  } catch (const std::exception& error) {  // No memory, or no threads.
    return Status(StatusCode::kResourceExhausted,
                  file.path() + ": cannot be loaded: " + error.what());
  }
}

uint64_t LoadedBytes(const model::ModelTensors& tensors) {
  uint64_t bytes = 0;
  for (const model::TensorPart& part : tensors.parts) bytes += StoredBytes(part);
  return bytes;
}

}  // namespace ropeway::executor
