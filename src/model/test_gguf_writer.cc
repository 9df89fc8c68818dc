#include "model/test_gguf_writer.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace ropeway::model {
namespace {

static_assert(std::endian::native == std::endian::little);

template <typename T>
void Put(std::string* out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out->append(bytes, sizeof(T));
}

template <typename T>
std::string Packed(T value) {
  std::string out;
  Put(&out, value);
  return out;
}

void PutString(std::string* out, std::string_view text) {
  Put<uint64_t>(out, text.size());
  out->append(text);
}

template <typename T>
std::string PackedArray(GgufType type, const std::vector<T>& values) {
  std::string out;
  Put(&out, static_cast<uint32_t>(type));
  Put<uint64_t>(&out, values.size());
  for (const T& value : values) Put(&out, value);
  return out;
}

uint32_t GgmlTypeOf(kernels::WeightType type) {
  uint32_t number = 0;
  while (WeightTypeOf(number) != type) ++number;
  return number;
}

}  // namespace

void GgufWriter::Set(std::string_view key, GgufType type, std::string bytes) {
  Entry entry{std::string(key), static_cast<uint32_t>(type), std::move(bytes)};
  const auto at = std::ranges::find(entries_, entry.key, &Entry::key);
  if (at != entries_.end()) {
    *at = std::move(entry);
  } else {
    entries_.push_back(std::move(entry));
  }
}

void GgufWriter::SetUint32(std::string_view key, uint32_t value) {
  Set(key, GgufType::kUint32, Packed(value));
}
void GgufWriter::SetUint64(std::string_view key, uint64_t value) {
  Set(key, GgufType::kUint64, Packed(value));
}
void GgufWriter::SetInt32(std::string_view key, int32_t value) {
  Set(key, GgufType::kInt32, Packed(value));
}
void GgufWriter::SetFloat32(std::string_view key, float value) {
  Set(key, GgufType::kFloat32, Packed(value));
}
void GgufWriter::SetBool(std::string_view key, bool value) {
  Set(key, GgufType::kBool, Packed<uint8_t>(value ? 1 : 0));
}
void GgufWriter::SetString(std::string_view key, std::string_view value) {
  std::string bytes;
  PutString(&bytes, value);
  Set(key, GgufType::kString, std::move(bytes));
}
void GgufWriter::SetStrings(std::string_view key, const std::vector<std::string>& values) {
  std::string bytes;
  Put(&bytes, static_cast<uint32_t>(GgufType::kString));
  Put<uint64_t>(&bytes, values.size());
  for (const std::string& value : values) PutString(&bytes, value);
  Set(key, GgufType::kArray, std::move(bytes));
}
void GgufWriter::SetInt32s(std::string_view key, const std::vector<int32_t>& values) {
  Set(key, GgufType::kArray, PackedArray(GgufType::kInt32, values));
}
void GgufWriter::SetFloat32s(std::string_view key, const std::vector<float>& values) {
  Set(key, GgufType::kArray, PackedArray(GgufType::kFloat32, values));
}

void GgufWriter::SetBools(std::string_view key, const std::vector<bool>& values) {
  Set(key, GgufType::kArray,
      PackedArray(GgufType::kBool, std::vector<uint8_t>(values.begin(), values.end())));
}

void GgufWriter::Remove(std::string_view key) {
  std::erase_if(entries_, [&](const Entry& entry) { return entry.key == key; });
}

void GgufWriter::AddRaw(std::string_view key, uint32_t type, std::string bytes) {
  entries_.push_back({std::string(key), type, std::move(bytes)});
}

void GgufWriter::SetTensor(std::string_view name, const std::vector<uint64_t>& shape,
                           kernels::WeightType type, std::span<const float> values) {
  Tensor tensor{std::string(name), shape, GgmlTypeOf(type), QuantiseForGguf(type, values), 0};
  const auto at = std::ranges::find(tensors_, tensor.name, &Tensor::name);
  if (at != tensors_.end()) {
    *at = std::move(tensor);
  } else {
    tensors_.push_back(std::move(tensor));
  }
}

void GgufWriter::AddRawTensor(std::string_view name, const std::vector<uint64_t>& shape,
                              uint32_t type, std::string bytes, uint64_t offset_shift) {
  tensors_.push_back({std::string(name), shape, type, std::move(bytes), offset_shift});
}

void GgufWriter::RemoveTensor(std::string_view name) {
  std::erase_if(tensors_, [&](const Tensor& tensor) { return tensor.name == name; });
}

void GgufWriter::SetAlignment(uint32_t alignment) {
  alignment_ = alignment;
  SetUint32("general.alignment", alignment);
}

std::string GgufWriter::Bytes() const {
  std::string out = "GGUF";
  Put(&out, version_);
  Put<uint64_t>(&out, tensors_.size());
  Put<uint64_t>(&out, entries_.size());
  for (const Entry& entry : entries_) {
    PutString(&out, entry.key);
    Put(&out, entry.type);
    out += entry.bytes;
  }
  auto padded = [&](uint64_t bytes) { return (bytes + alignment_ - 1) / alignment_ * alignment_; };
  uint64_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    PutString(&out, tensor.name);
    Put(&out, static_cast<uint32_t>(tensor.shape.size()));
    for (uint64_t dim : tensor.shape) Put(&out, dim);
    Put(&out, tensor.type);
    Put(&out, offset + tensor.offset_shift);
    offset += padded(tensor.bytes.size());
  }
  for (const Tensor& tensor : tensors_) {
    out.resize(padded(out.size()));
    out += tensor.bytes;
  }
  return out;
}

TempFile::TempFile(std::string_view bytes, std::string_view suffix) {
  const char* folder = std::getenv("TMPDIR");
  path_ = std::string(folder != nullptr ? folder : "/tmp") + "/ropeway-test-XXXXXX";
  path_ += suffix;
  const int fd = mkstemps(path_.data(), static_cast<int>(suffix.size()));
  if (fd < 0) throw std::runtime_error("cannot make a temporary file " + path_);
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = write(fd, bytes.data() + done, bytes.size() - done);
    if (n <= 0) throw std::runtime_error("cannot write the temporary file " + path_);
    done += static_cast<size_t>(n);
  }
  close(fd);
}

TempFile::~TempFile() { unlink(path_.c_str()); }

}  // namespace ropeway::model
