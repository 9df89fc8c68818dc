#include "model/gguf.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/split_name.h"

namespace ropeway::model {
namespace {

Status WrongType(const GgufFile& file, std::string_view key, const std::string& expected,
                 GgufType type) {
  return file.Error(StatusCode::kDataLoss, MetadataField(key),
                    fmt::format("expected {}, got {}", expected, GgufTypeName(type)));
}

template <typename T>
StatusOr<std::optional<T>> GetAs(const GgufFile& file, std::string_view key, const char* expected) {
  const GgufFile::Entry* entry = file.Find(key);
  if (entry == nullptr) return std::optional<T>();
  if (const auto* value = std::get_if<T>(&entry->value)) return std::optional<T>(*value);
  return WrongType(file, key, expected, entry->type);
}

// Numbers 4, 5, 31 to 33 and 36 to 38 were withdrawn from the format.
constexpr auto kGgmlTypes = std::to_array<GgmlTypeInfo>({
    {0, "F32", 1, 4, kernels::WeightType::kF32},
    {1, "F16", 1, 2, kernels::WeightType::kF16},
    {2, "Q4_0", 32, 18, kernels::WeightType::kQ4_0},
    {3, "Q4_1", 32, 20, kernels::WeightType::kQ4_1},
    {6, "Q5_0", 32, 22, kernels::WeightType::kQ5_0},
    {7, "Q5_1", 32, 24, kernels::WeightType::kQ5_1},
    {8, "Q8_0", 32, 34, kernels::WeightType::kQ8_0},
    {10, "Q2_K", 256, 84, kernels::WeightType::kQ2_K},
    {11, "Q3_K", 256, 110, kernels::WeightType::kQ3_K},
    {12, "Q4_K", 256, 144, kernels::WeightType::kQ4_K},
    {13, "Q5_K", 256, 176, kernels::WeightType::kQ5_K},
    {14, "Q6_K", 256, 210, kernels::WeightType::kQ6_K},
    {20, "IQ4_NL", 32, 18, kernels::WeightType::kIQ4_NL},
    {23, "IQ4_XS", 256, 136, kernels::WeightType::kIQ4_XS},
    {30, "BF16", 1, 2, kernels::WeightType::kBF16},
    {39, "MXFP4", 32, 17, kernels::WeightType::kMXFP4},
    // clang-format off
    {9, "Q8_1", 32, 36},      {15, "Q8_K", 256, 292},  {16, "IQ2_XXS", 256, 66},
    {17, "IQ2_XS", 256, 74},  {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},
    {21, "IQ3_S", 256, 110},  {22, "IQ2_S", 256, 82},  {24, "I8", 1, 1},
    {25, "I16", 1, 2},        {26, "I32", 1, 4},       {27, "I64", 1, 8},
    {28, "F64", 1, 8},        {29, "IQ1_M", 256, 56},  {34, "TQ1_0", 256, 54},
    {35, "TQ2_0", 256, 66},   {40, "NVFP4", 64, 36},
    // clang-format on
});

struct GgufTypeInfo {
  const char* name;
  size_t bytes;
};
// By the file's numbers.
constexpr std::array<GgufTypeInfo, 13> kGgufTypes = {{{"uint8", 1},
                                                      {"int8", 1},
                                                      {"uint16", 2},
                                                      {"int16", 2},
                                                      {"uint32", 4},
                                                      {"int32", 4},
                                                      {"float32", 4},
                                                      {"bool", 1},
                                                      {"string", 0},
                                                      {"array", 0},
                                                      {"uint64", 8},
                                                      {"int64", 8},
                                                      {"float64", 8}}};

}  // namespace

const GgmlTypeInfo* FindGgmlType(uint32_t number) {
  const auto* at = std::ranges::find(kGgmlTypes, number, &GgmlTypeInfo::number);
  return at == kGgmlTypes.end() ? nullptr : &*at;
}

std::string GgmlTypeName(uint32_t number) {
  const GgmlTypeInfo* info = FindGgmlType(number);
  return info != nullptr ? info->name : "type " + std::to_string(number);
}

std::optional<kernels::WeightType> WeightTypeOf(uint32_t number) {
  const GgmlTypeInfo* info = FindGgmlType(number);
  return info != nullptr ? info->weight_type : std::nullopt;
}

std::optional<std::string> UnsupportedType(uint32_t number, TensorUse use) {
  std::vector<std::string_view> supported;
  for (const kernels::WeightType type : kernels::kWeightTypes) {
    if (use == TensorUse::kVector && kernels::WeightBlockElements(type) > 1) continue;
    if (WeightTypeOf(number) == type) return std::nullopt;
    supported.emplace_back(kernels::WeightTypeName(type));
  }
  const std::string_view last = supported.back();
  supported.pop_back();
  const GgmlTypeInfo* info = FindGgmlType(number);
  return fmt::format("type {} is not supported{}; {} and {} are",
                     info != nullptr ? info->name : std::to_string(number),
                     use == TensorUse::kVector ? " here" : "", fmt::join(supported, ", "), last);
}

const char* GgufTypeName(GgufType type) { return kGgufTypes.at(static_cast<size_t>(type)).name; }

size_t GgufTypeBytes(GgufType type) { return kGgufTypes.at(static_cast<size_t>(type)).bytes; }

std::string MetadataField(std::string_view key) { return fmt::format("metadata \"{}\"", key); }

std::string TensorField(std::string_view name) { return fmt::format("tensor \"{}\"", name); }

StatusOr<std::unique_ptr<GgufFile>> GgufFile::OpenOne(const std::string& path) {
  StatusOr<base::RandomAccessFile> source = base::RandomAccessFile::Open(path);
  if (!source.ok()) return source.status();
  std::unique_ptr<GgufFile> file(new GgufFile());
  file->path_ = path;
  const uint64_t bytes = source->bytes();
  file->bytes_.AddRange(file->bytes_.AddFile(*std::move(source)), 0, bytes);
  file->headers_.emplace_back();
  if (Status status = file->Parse(); !status.ok()) return status;
  return file;
}

// A file that is not split has no key split.count.
StatusOr<std::unique_ptr<GgufFile>> GgufFile::Open(const std::string& path) {
  constexpr const char* kCount = "split.count";
  StatusOr<std::unique_ptr<GgufFile>> opened = OpenOne(path);
  if (!opened.ok()) return opened;
  GgufFile& file = **opened;
  const StatusOr<std::optional<uint64_t>> count = file.GetUint(kCount, 0, base::kMaxSplitFiles);
  if (!count.ok()) return count.status();
  if (count->value_or(1) <= 1) return opened;
  const std::optional<base::SplitName> name = base::ParseSplitName(path);
  if (!name || name->count != **count) {
    return file.Error(StatusCode::kDataLoss, MetadataField(kCount),
                      fmt::format("the model is split into {} files, so the name of this file must "
                                  "end in -00001-of-{:05}.gguf",
                                  **count, **count));
  }
  if (name->number != 1) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("{}: is part {} of {} of a model; name the first part, {}", path,
                              name->number, name->count, name->Part(1)));
  }
  for (uint32_t part = 2; part <= name->count; ++part) {
    if (Status status = file.AddPart(name->Part(part), part - 1, **count); !status.ok()) {
      return status;
    }
  }
  if (Status status = file.CheckSplit(); !status.ok()) return status;
  return opened;
}

Status GgufFile::AddPart(const std::string& path, uint64_t number, uint64_t count) {
  StatusOr<std::unique_ptr<GgufFile>> opened = OpenOne(path);
  if (!opened.ok()) return opened.status();
  GgufFile& part = **opened;
  const std::array<std::pair<const char*, uint64_t>, 2> expected = {
      {{"split.no", number}, {"split.count", count}}};
  for (const auto& [key, value] : expected) {
    const StatusOr<std::optional<uint64_t>> found = part.GetUint(key, value, value);
    if (!found.ok()) return found.status();
    if (!found->has_value()) {
      return part.Error(StatusCode::kDataLoss, MetadataField(key), "the key is missing");
    }
  }
  const uint64_t begin = bytes_.Append(std::move(part.bytes_));
  headers_.push_back(std::move(part.headers_.front()));  // Its names stay where they are.
  for (GgufTensor& tensor : part.tensors_) {
    if (tensor.bytes > 0) tensor.begin += begin;
    tensors_.push_back(std::move(tensor));
  }
  return IndexTensors();
}

Status GgufFile::CheckSplit() const {
  constexpr const char* kTensors = "split.tensors.count";
  const StatusOr<std::optional<uint64_t>> tensors = GetUint(kTensors, 0, UINT64_MAX);
  if (!tensors.ok()) return tensors.status();
  if (!tensors->has_value() || **tensors == tensors_.size()) return {};
  return Error(
      StatusCode::kDataLoss, MetadataField(kTensors),
      fmt::format("expected {} tensors, but the parts have {}", **tensors, tensors_.size()));
}

Status GgufFile::Quantize(std::string_view quantize) {
  bool changed = false;
  for (GgufTensor& tensor : tensors_) {
    const uint32_t type = QuantizedType(quantize, tensor.name, tensor.type, tensor.shape);
    if (type == tensor.type) continue;
    const uint64_t columns = tensor.shape[0];
    uint64_t rows = 1;
    for (size_t i = 1; i < tensor.shape.size(); ++i) rows *= tensor.shape[i];
    tensor.begin = bytes_.AddConverted({.from = tensor.begin,
                                        .rows = rows,
                                        .columns = columns,
                                        .stored = tensor.type,
                                        .type = type});
    tensor.bytes = bytes_.size() - tensor.begin;
    tensor.type = type;
    changed = true;
  }
  quantize_ = quantize;
  if (changed) return {};
  return InvalidArgument(
      fmt::format("{}: has no weights in F32, F16 or BF16 that can be quantised to {}", path_,
                  quantize),
      "quantize");
}

const GgufTensor* GgufFile::FindTensor(std::string_view name) const {
  const auto name_of = [&](uint32_t i) { return tensors_[i].name; };
  const auto at = std::ranges::lower_bound(tensor_order_, name, {}, name_of);
  return at != tensor_order_.end() && name_of(*at) == name ? &tensors_[*at] : nullptr;
}

const GgufFile::Entry* GgufFile::Find(std::string_view key) const {
  const auto key_of = [&](uint32_t i) { return metadata_[i].key; };
  const auto at = std::ranges::lower_bound(metadata_order_, key, {}, key_of);
  return at != metadata_order_.end() && key_of(*at) == key ? &metadata_[*at] : nullptr;
}

StatusOr<std::optional<uint64_t>> GgufFile::GetUint(std::string_view key, uint64_t min,
                                                    uint64_t max) const {
  const Entry* entry = Find(key);
  if (entry == nullptr) return std::optional<uint64_t>();
  const auto out_of_range = [&](auto number) {
    const std::string bound = max == std::numeric_limits<uint64_t>::max()
                                  ? fmt::format("at least {}", min)
                                  : fmt::format("from {} to {}", min, max);
    return Error(StatusCode::kDataLoss, MetadataField(key),
                 fmt::format("{} is out of range; it must be {}", number, bound));
  };
  uint64_t number = 0;
  if (const auto* value = std::get_if<uint64_t>(&entry->value)) {
    number = *value;
  } else if (const auto* signed_value = std::get_if<int64_t>(&entry->value)) {
    if (*signed_value < 0) return out_of_range(*signed_value);
    number = static_cast<uint64_t>(*signed_value);
  } else {
    return WrongType(*this, key, "an integer", entry->type);
  }
  if (number < min || number > max) return out_of_range(number);
  return std::optional<uint64_t>(number);
}

StatusOr<std::optional<double>> GgufFile::GetFloat(std::string_view key) const {
  return GetAs<double>(*this, key, "a float");
}

StatusOr<std::optional<bool>> GgufFile::GetBool(std::string_view key) const {
  return GetAs<bool>(*this, key, "a bool");
}

StatusOr<std::optional<std::string_view>> GgufFile::GetString(std::string_view key) const {
  return GetAs<std::string_view>(*this, key, "a string");
}

StatusOr<const GgufArray*> GgufFile::GetArray(std::string_view key, GgufType element) const {
  const Entry* entry = Find(key);
  if (entry == nullptr) return static_cast<const GgufArray*>(nullptr);
  const std::string expected = fmt::format("an array of {}", GgufTypeName(element));
  const auto* value = std::get_if<GgufArray>(&entry->value);
  if (value == nullptr) return WrongType(*this, key, expected, entry->type);
  if (value->type != element) return WrongType(*this, key, expected, value->type);
  return value;
}

Status GgufFile::Error(StatusCode code, const std::string& field, const std::string& what) const {
  const auto at = fields_.find(field);
  const std::string& shown = at == fields_.end() ? field : at->second;
  return {code, fmt::format("{}: {}: {}", path_, shown, what), shown};
}

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
