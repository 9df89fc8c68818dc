#include "model/gguf_builder.h"

#include <span>
#include <utility>

namespace ropeway::model {
namespace {

template <typename T>
std::string PackedBytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

}  // namespace

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

void GgufFile::Builder::SetStrings(std::string_view key, const std::vector<std::string>& values) {
  std::string all;
  for (const std::string& value : values) all += value;
  std::string_view rest = Keep(std::move(all));
  GgufArray array;
  array.type = GgufType::kString;
  array.count = values.size();
  array.strings.reserve(values.size());
  for (const std::string& value : values) {
    array.strings.push_back(rest.substr(0, value.size()));
    rest.remove_prefix(value.size());
  }
  Set(key, GgufType::kArray, std::move(array), {});
}

void GgufFile::Builder::SetNumbers(std::string_view key, GgufType type, uint64_t count,
                                   std::string packed) {
  GgufArray array;
  array.type = type;
  array.count = count;
  array.data = std::as_bytes(std::span(Keep(std::move(packed))));
  Set(key, GgufType::kArray, std::move(array), {});
}

void GgufFile::Builder::SetInt32s(std::string_view key, const std::vector<int32_t>& values) {
  SetNumbers(key, GgufType::kInt32, values.size(), PackedBytes(values));
}

void GgufFile::Builder::SetFloat32s(std::string_view key, const std::vector<float>& values) {
  SetNumbers(key, GgufType::kFloat32, values.size(), PackedBytes(values));
}

void GgufFile::Builder::SetBools(std::string_view key, const std::vector<bool>& values) {
  SetNumbers(key, GgufType::kBool, values.size(), std::string(values.begin(), values.end()));
}

void GgufFile::Builder::SetBytes(std::string_view key, std::string_view bytes) {
  SetNumbers(key, GgufType::kUint8, bytes.size(), std::string(bytes));
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
