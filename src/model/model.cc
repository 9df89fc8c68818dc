#include "model/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include "base/sha256.h"
#include "model/model_tensors.h"

namespace ropeway::model {
namespace {

// Source bytes of one job: few enough to keep the threads evenly busy, and the bytes in their
// caches from when they are read until they are repacked.
constexpr size_t kJobBytes = size_t{256} << 10;
constexpr size_t kDigestChunkBytes = size_t{4} << 20;

// Larger tables of RoPE are rejected unless the file is as large.
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

// BindTensors has checked types and shapes.
kernels::WeightType TypeOf(const TensorPart& part) {
  return WeightTypeOf(part.tensor->type).value_or(kernels::WeightType::kF32);
}

bool IsVector(const TensorPart& part) { return part.k == 0; }

// The matrix that a part becomes, its panels not yet set.
kernels::Matrix MatrixOf(const TensorPart& part) {
  kernels::Matrix matrix;
  matrix.type = TypeOf(part);
  matrix.k = part.k;
  matrix.n = part.n;
  return matrix;
}

size_t StoredBytes(const TensorPart& part) {
  if (IsVector(part)) {
    return base::PageArena::Padded(static_cast<size_t>(part.n) * sizeof(float));
  }
  const kernels::Matrix matrix = MatrixOf(part);
  return base::PageArena::Padded(kernels::MatrixBytes(matrix.type, matrix.n, matrix.k));
}

size_t ArenaBytes(const ModelTensors& tensors) {
  size_t bytes = 0;
  for (const TensorPart& part : tensors.parts) bytes += StoredBytes(part);
  return bytes;
}

// Rows of a RoPE table.
int32_t PositionsOf(const ModelConfig& config, int32_t max_positions) {
  return max_positions > 0 ? std::min(config.context_length, max_positions) : config.context_length;
}

// `data`: of the part, as in the file.
void CopyVector(const TensorPart& part, const std::byte* data, std::byte* to) {
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

// The first failure of many jobs. Thread-safe.
class FirstFailure {
 public:
  void Note(const Status& status) {
    if (status.ok()) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (status_.ok()) status_ = status;
    failed_ = true;
  }
  bool failed() const { return failed_; }
  // REQUIRES: all jobs have ended.
  const Status& status() const { return status_; }

 private:
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  Status status_;
};

// Part of a file in memory of its own.
class FilePart {
 public:
  // kResourceExhausted without memory for it; else as the file's Read.
  template <typename File>
  Status Read(const File& file, uint64_t begin, size_t bytes) {
    bytes_.reset(new (std::nothrow) std::byte[bytes]);
    if (bytes_ == nullptr) return {StatusCode::kResourceExhausted, "out of memory"};
    return file.Read(begin, {bytes_.get(), bytes});
  }
  const std::byte* data() const { return bytes_.get(); }

 private:
  std::unique_ptr<std::byte[]> bytes_;
};

}  // namespace

// Lays out the arena, then repacks the weights on several threads. Used once.
class Model::Loader {
 public:
  explicit Loader(const GgufFile& file) : file_(file) {}

  // May throw what the standard library throws if memory or threads are short.
  StatusOr<std::unique_ptr<Model>> Load(int threads, int32_t max_positions);

 private:
  // Some panels of a matrix, or all of a vector.
  struct Job {
    TensorPart part;
    int panel_begin;
    int panel_end;
    std::byte* to;  // Start of the whole part in the arena.
  };

  Status MakeArena(const ModelTensors& tensors);
  void AddTensors(const ModelTensors& tensors);
  FfnWeights AddFfn(const FfnTensors& tensors);
  LayerWeights AddLayer(const LayerTensors& tensors);
  std::byte* Allocate(const TensorPart& part);
  // For a part without a tensor: an empty matrix, and nullptr.
  kernels::Matrix AddMatrix(const TensorPart& part);
  const float* AddVector(const TensorPart& part);
  // Reads `count` rows or elements, of `size` bytes each, from the part's `first` on.
  Status Read(const TensorPart& part, uint64_t first, size_t count, size_t size,
              FilePart* data) const;
  Status RunJob(const Job& job) const;
  Status RunMatrixJob(const Job& job) const;
  Status MakeRopeTables(const ModelTensors& tensors, int32_t max_positions);
  Status MakeRopeTable(const RopeParams& params, const std::vector<float>& divisors,
                       std::unique_ptr<RopeTable>* table) const;

  const GgufFile& file_;
  std::unique_ptr<Model> model_{new Model()};
  std::byte* next_ = nullptr;  // The first free byte of the arena.
  std::vector<Job> jobs_;
};

StatusOr<std::unique_ptr<Model>> Model::Loader::Load(int threads, int32_t max_positions) {
  const StatusOr<ModelTensors> tensors = BindTensors(file_);
  if (!tensors.ok()) return tensors.status();
  model_->config_ = tensors->config;
  if (Status status = MakeRopeTables(*tensors, max_positions); !status.ok()) return status;
  if (Status status = MakeArena(*tensors); !status.ok()) return status;
  AddTensors(*tensors);
  FirstFailure failure;
  ParallelFor(jobs_.size(), threads, [&](size_t i) {
    if (!failure.failed()) failure.Note(RunJob(jobs_[i]));
  });
  if (failure.failed()) return failure.status();
  if (Status status = file_.CheckUnchanged(); !status.ok()) return status;
  return std::move(model_);
}

Status Model::Loader::MakeArena(const ModelTensors& tensors) {
  const size_t bytes = ArenaBytes(tensors);
  StatusOr<base::PageArena> arena = base::PageArena::Make(bytes);
  if (!arena.ok()) {
    return {arena.status().code(), fmt::format("not enough memory for {} bytes of weights", bytes)};
  }
  model_->arena_ = *std::move(arena);
  next_ = model_->arena_.data();
  return {};
}

void Model::Loader::AddTensors(const ModelTensors& tensors) {
  Model& m = *model_;
  m.token_embedding_ = AddMatrix(tensors.token_embedding);
  m.position_embedding_ = AddMatrix(tensors.position_embedding);
  m.type_embedding_ = AddVector(tensors.type_embedding);
  m.embedding_norm_ = AddVector(tensors.embedding_norm);
  m.embedding_norm_bias_ = AddVector(tensors.embedding_norm_bias);
  m.output_norm_ = AddVector(tensors.output_norm);
  m.output_norm_bias_ = AddVector(tensors.output_norm_bias);
  for (const LayerTensors& layer : tensors.layers) m.layers_.push_back(AddLayer(layer));
  if (!tensors.config.causal) return;
  m.output_ = tensors.output ? AddMatrix(tensors.output) : m.token_embedding_;
}

LayerWeights Model::Loader::AddLayer(const LayerTensors& t) {
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
  for (const FfnTensors& expert : t.experts) layer.experts.push_back(AddFfn(expert));
  layer.shared_gate = AddMatrix(t.shared_gate);
  layer.shared = AddFfn(t.shared);
  return layer;
}

FfnWeights Model::Loader::AddFfn(const FfnTensors& t) {
  FfnWeights ffn;
  ffn.gate = AddMatrix(t.gate);
  ffn.up = AddMatrix(t.up);
  ffn.down = AddMatrix(t.down);
  ffn.gate_bias = AddVector(t.gate_bias);
  ffn.up_bias = AddVector(t.up_bias);
  ffn.down_bias = AddVector(t.down_bias);
  return ffn;
}

std::byte* Model::Loader::Allocate(const TensorPart& part) {
  return std::exchange(next_, next_ + StoredBytes(part));
}

kernels::Matrix Model::Loader::AddMatrix(const TensorPart& part) {
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

const float* Model::Loader::AddVector(const TensorPart& part) {
  if (!part) return nullptr;
  std::byte* to = Allocate(part);
  jobs_.push_back({part, 0, 0, to});
  return reinterpret_cast<const float*>(to);
}

Status Model::Loader::Read(const TensorPart& part, uint64_t first, size_t count, size_t size,
                           FilePart* data) const {
  const uint64_t begin = part.tensor->begin + (part.begin + first) * size;
  Status status = data->Read(file_, begin, count * size);
  if (status.field() != kWeightsField) return status;
  return file_.Error(status.code(), TensorField(part.tensor->name), status.message());
}

Status Model::Loader::RunJob(const Job& job) const {
  if (!IsVector(job.part)) return RunMatrixJob(job);
  const size_t element = kernels::WeightRowBytes(TypeOf(job.part), 1);
  FilePart data;
  if (Status status = Read(job.part, 0, static_cast<size_t>(job.part.n), element, &data);
      !status.ok()) {
    return status;
  }
  const int64_t bad = kernels::FindBadScale(TypeOf(job.part), data.data(), job.part.n);
  if (bad >= 0) {
    return file_.Error(StatusCode::kDataLoss, TensorField(job.part.tensor->name),
                       fmt::format("element {} is not a finite number",
                                   job.part.begin + static_cast<uint64_t>(bad)));
  }
  CopyVector(job.part, data.data(), job.to);
  return {};
}

Status Model::Loader::RunMatrixJob(const Job& job) const {
  const kernels::Matrix matrix = MatrixOf(job.part);
  const size_t row_bytes = kernels::WeightRowBytes(matrix.type, matrix.k);
  const int row_begin = job.panel_begin * kernels::kPanelCols;
  const int row_end = std::min(job.panel_end * kernels::kPanelCols, matrix.n);
  const int rows = row_end - row_begin;
  const auto first_row = static_cast<uint64_t>(row_begin);
  FilePart data;
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
    return file_.Error(StatusCode::kDataLoss, TensorField(job.part.tensor->name),
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

Status Model::Loader::MakeRopeTables(const ModelTensors& tensors, int32_t max_positions) {
  const ModelConfig& config = model_->config_;
  const int32_t positions = PositionsOf(config, max_positions);
  if (Status status = CheckRopeBytes(file_, config, max_positions); !status.ok()) return status;
  model_->max_positions_ = positions;
  Status status = MakeRopeTable(config.rope, tensors.rope_divisors, &model_->rope_);
  if (status.ok() && positions > config.long_rope_above()) {
    status = MakeRopeTable(config.rope, tensors.long_rope_divisors, &model_->long_rope_);
  }
  if (status.ok() && config.window_rope.has_value()) {
    status = MakeRopeTable(*config.window_rope, {}, &model_->window_rope_);
  }
  return status;
}

Status Model::Loader::MakeRopeTable(const RopeParams& params, const std::vector<float>& divisors,
                                    std::unique_ptr<RopeTable>* table) const {
  StatusOr<std::unique_ptr<RopeTable>> made = RopeTable::Make(
      RopeFrequencies(params, divisors), RopeMagnitude(params), model_->max_positions_);
  if (!made.ok()) return made.status();
  *table = *std::move(made);
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

uint64_t LoadedBytes(const ModelTensors& tensors) { return ArenaBytes(tensors); }

Status CheckRopeBytes(const GgufFile& file, const ModelConfig& config, int32_t max_positions) {
  const uint64_t bytes = RopeBytes(config, max_positions);
  if (bytes <= std::max(kMaxFreeRopeBytes, file.file_bytes())) return {};
  return file.Error(
      StatusCode::kResourceExhausted,
      MetadataField(fmt::format("{}.context_length", config.architecture)),
      fmt::format("{} positions need a RoPE table of {} bytes, more than the model; use a "
                  "smaller maximum length",
                  PositionsOf(config, max_positions), bytes));
}

uint64_t RopeBytes(const ModelConfig& config, int32_t max_positions) {
  const int32_t positions = PositionsOf(config, max_positions);
  // The table of kLongRope's short factors is used for short sequences only.
  const int32_t is_short = config.long_rope_above();
  const int32_t all = positions > is_short ? positions + is_short : positions;
  const int32_t windowed = config.window_rope.has_value() ? config.window_rope->dim : 0;
  return RopeTable::Bytes(all, config.rope.dim) + RopeTable::Bytes(positions, windowed);
}

StatusOr<std::string> FileDigest(const GgufFile& file, int threads) {
  struct Chunk {
    const base::RandomAccessFile* file;
    uint64_t begin;
    size_t bytes;
  };
  std::vector<Chunk> chunks;
  for (const base::RandomAccessFile& source : file.files()) {
    for (uint64_t begin = 0; begin < source.bytes(); begin += kDigestChunkBytes) {
      const uint64_t bytes = std::min<uint64_t>(kDigestChunkBytes, source.bytes() - begin);
      chunks.push_back({&source, begin, static_cast<size_t>(bytes)});
    }
  }
  std::vector<base::Sha256Digest> sums(chunks.size());
  FirstFailure failure;
  ParallelFor(sums.size(), threads, [&](size_t i) {
    if (failure.failed()) return;
    FilePart chunk;
    const Status status = chunk.Read(*chunks[i].file, chunks[i].begin, chunks[i].bytes);
    failure.Note(status);
    if (status.ok()) sums[i] = base::Sha256(chunk.data(), chunks[i].bytes);
  });
  if (failure.failed()) return failure.status();
  if (Status status = file.CheckUnchanged(); !status.ok()) return status;
  std::vector<uint8_t> message(sums.size() * sizeof(base::Sha256Digest));
  std::memcpy(message.data(), sums.data(), message.size());
  for (const base::RandomAccessFile& source : file.files()) {
    for (int shift = 0; shift < 64; shift += 8) {
      message.push_back(static_cast<uint8_t>(source.bytes() >> shift));
    }
  }
  message.insert(message.end(), file.quantize().begin(), file.quantize().end());
  return base::HexText(base::Sha256(message.data(), message.size()));
}

}  // namespace ropeway::model
