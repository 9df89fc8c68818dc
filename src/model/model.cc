#include "model/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace ropeway::model {
namespace {

// Larger tables of RoPE are rejected unless the file is as large.
constexpr uint64_t kMaxFreeRopeBytes = uint64_t{256} << 20;

// Rows of a RoPE table.
int32_t PositionsOf(const ModelConfig& config, int32_t max_positions) {
  return max_positions > 0 ? std::min(config.context_length, max_positions) : config.context_length;
}

Status MakeTable(const RopeParams& params, const std::vector<float>& divisors, int32_t positions,
                 std::unique_ptr<RopeTable>* table) {
  StatusOr<std::unique_ptr<RopeTable>> made =
      RopeTable::Make(RopeFrequencies(params, divisors), RopeMagnitude(params), positions);
  if (!made.ok()) return made.status();
  *table = *std::move(made);
  return {};
}

}  // namespace

StatusOr<std::unique_ptr<Model>> Model::Make(const GgufFile& file, const ModelTensors& tensors,
                                             int32_t max_positions) {
  const ModelConfig& config = tensors.config;
  if (Status status = CheckRopeBytes(file, config, max_positions); !status.ok()) return status;
  std::unique_ptr<Model> model(new Model(config));
  const int32_t positions = model->max_positions_ = PositionsOf(config, max_positions);
  Status status = MakeTable(config.rope, tensors.rope_divisors, positions, &model->rope_);
  if (status.ok() && positions > config.long_rope_above()) {
    status = MakeTable(config.rope, tensors.long_rope_divisors, positions, &model->long_rope_);
  }
  if (status.ok() && config.window_rope.has_value()) {
    status = MakeTable(*config.window_rope, {}, positions, &model->window_rope_);
  }
  if (!status.ok()) return status;
  return model;
}

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

}  // namespace ropeway::model
