#include "model/gguf_builder.h"

#include <span>
#include <utility>

namespace ropeway::model {

std::string_view GgufFile::Builder::Keep(std::string text) {
  return file_->texts_.emplace_back(std::move(text));
}

void GgufFile::Builder::Set(std::string_view key, GgufType type, GgufValue value,
                            std::string_view field) {
  const std::string_view kept = Keep(std::string(key));
  file_->metadata_.push_back({kept, type, std::move(value)});
  if (!field.empty()) file_->fields_.emplace(MetadataField(key), field);
}

void GgufFile::Builder::SetUint32(std::string_view key, uint32_t value, std::string_view field) {
  Set(key, GgufType::kUint32, uint64_t{value}, field);
}

void GgufFile::Builder::SetFloat32(std::string_view key, float value, std::string_view field) {
  Set(key, GgufType::kFloat32, static_cast<double>(value), field);
}

void GgufFile::Builder::SetBool(std::string_view key, bool value, std::string_view field) {
  Set(key, GgufType::kBool, value, field);
}

void GgufFile::Builder::SetString(std::string_view key, std::string_view value,
                                  std::string_view field) {
  Set(key, GgufType::kString, Keep(std::string(value)), field);
}

void GgufFile::Builder::SetBools(std::string_view key, const std::vector<bool>& values) {
  GgufArray array;
  array.type = GgufType::kBool;
  array.count = values.size();
  array.data = std::as_bytes(std::span(Keep(std::string(values.begin(), values.end()))));
  Set(key, GgufType::kArray, std::move(array), {});
}

void GgufFile::Builder::AddTensor(std::string_view name, std::vector<uint64_t> shape, uint32_t type,
                                  uint64_t begin, std::string_view field) {
  GgufTensor tensor;
  tensor.name = Keep(std::string(name));
  tensor.shape = std::move(shape);
  tensor.type = type;
  tensor.begin = begin;
  tensor.bytes = file_->bytes_.size() - begin;
  file_->tensors_.push_back(std::move(tensor));
  if (!field.empty()) file_->fields_.emplace(TensorField(name), field);
}

StatusOr<std::unique_ptr<GgufFile>> GgufFile::Builder::Build() {
  if (Status status = file_->IndexMetadata(); !status.ok()) return status;
  if (Status status = file_->IndexTensors(); !status.ok()) return status;
  return std::move(file_);
}

}  // namespace ropeway::model
