#include "model/test_gguf_writer.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
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

// The element of largest magnitude, with its sign.
float Extreme(const float* x) {
  float extreme = 0.0F;
  for (int i = 0; i < 32; ++i) {
    if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
  }
  return extreme;
}

int Level(float value, int lowest, int highest) {
  return std::clamp(static_cast<int>(std::nearbyint(value)), lowest, highest);
}

// One block of 32 elements each. The inverse of the scale as stored (rounded to f16) is used, so
// that the levels are the nearest ones.
void PutQ80(const float* x, std::string* out) {
  const uint16_t scale = kernels::FloatToHalf(std::fabs(Extreme(x)) / 127.0F);
  const float d = kernels::HalfToFloat(scale);
  Put(out, scale);
  for (int i = 0; i < 32; ++i) {
    Put(out, static_cast<int8_t>(d == 0.0F ? 0 : Level(x[i] / d, -127, 127)));
  }
}

void PutQ40(const float* x, std::string* out) {
  const uint16_t scale = kernels::FloatToHalf(Extreme(x) / -8.0F);
  const float d = kernels::HalfToFloat(scale);
  Put(out, scale);
  auto level = [&](int i) { return d == 0.0F ? 8 : Level(x[i] / d, -8, 7) + 8; };
  for (int i = 0; i < 16; ++i) Put(out, static_cast<uint8_t>(level(i) | level(i + 16) << 4));
}

void PutQ41(const float* x, std::string* out) {
  const auto [lowest, highest] = std::minmax_element(x, x + 32);
  const uint16_t scale = kernels::FloatToHalf((*highest - *lowest) / 15.0F);
  const uint16_t minimum = kernels::FloatToHalf(*lowest);
  const float d = kernels::HalfToFloat(scale);
  const float m = kernels::HalfToFloat(minimum);
  Put(out, scale);
  Put(out, minimum);
  auto level = [&](int i) { return d == 0.0F ? 0 : Level((x[i] - m) / d, 0, 15); };
  for (int i = 0; i < 16; ++i) Put(out, static_cast<uint8_t>(level(i) | level(i + 16) << 4));
}

uint32_t GgmlTypeOf(kernels::WeightType type) {
  uint32_t number = 0;
  while (WeightTypeOf(number) != type) ++number;
  return number;
}

}  // namespace

std::string QuantiseForGguf(kernels::WeightType type, std::span<const float> values) {
  std::string out;
  const auto step = static_cast<size_t>(kernels::WeightBlockElements(type));
  for (size_t i = 0; i < values.size(); i += step) {
    const float* x = values.data() + i;
    switch (type) {
      case kernels::WeightType::kF32:
        Put(&out, *x);
        break;
      case kernels::WeightType::kF16:
        Put(&out, kernels::FloatToHalf(*x));
        break;
      case kernels::WeightType::kQ4_0:
        PutQ40(x, &out);
        break;
      case kernels::WeightType::kQ4_1:
        PutQ41(x, &out);
        break;
      case kernels::WeightType::kQ8_0:
        PutQ80(x, &out);
        break;
    }
  }
  return out;
}

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
