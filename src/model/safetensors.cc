#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "base/utf8.h"
#include "model/hf_folder.h"

namespace ropeway::model {
namespace {

using nlohmann::json;

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes64 = 100'000'000;  // The format's own bound.
// An object of objects with lists. The largest published files have some 10,000 tensors, of about
// twelve values each.
constexpr base::JsonBounds kHeaderBounds = {.max_depth = 3, .max_values = 2'000'000};
constexpr size_t kMaxTensorName = 65535;
constexpr size_t kMaxRank = 8;

struct Dtype {
  const char* name;
  uint64_t bytes;
};
constexpr auto kDtypes = std::to_array<Dtype>({{"F64", 8},
                                               {"F32", 4},
                                               {"F16", 2},
                                               {"BF16", 2},
                                               {"I64", 8},
                                               {"I32", 4},
                                               {"I16", 2},
                                               {"I8", 1},
                                               {"U64", 8},
                                               {"U32", 4},
                                               {"U16", 2},
                                               {"U8", 1},
                                               {"BOOL", 1},
                                               {"F8_E4M3", 1},
                                               {"F8_E5M2", 1},
                                               {"F8_E8M0", 1}});

// Reads one file's header. The first failure is kept.
class HeaderReader {
 public:
  explicit HeaderReader(const base::RandomAccessFile& file) : file_(file) {}

  StatusOr<std::vector<SafeTensor>> Read() {
    json header;
    if (ReadText(&header) && ReadTensors(header) && CheckOrder()) return std::move(tensors_);
    return status_;
  }

 private:
  // Each returns false after it has set status_.
  bool ReadText(json* header);
  bool ReadTensors(const json& header);
  bool ReadTensor(const std::string& name, const json& value);
  bool ReadShape(const json& value, SafeTensor* tensor);
  bool ReadOffsets(const json& value, SafeTensor* tensor);
  bool CheckOrder();

  bool Fail(const std::string& what) {
    status_ = {StatusCode::kDataLoss, fmt::format("{}: {}", file_.path(), what)};
    return false;
  }
  bool Fail(const SafeTensor& tensor, const std::string& what) {
    return Fail(fmt::format("tensor \"{}\": {}", tensor.name, what));
  }

  const base::RandomAccessFile& file_;
  uint64_t data_ = 0;  // Where the data section begins.
  std::vector<SafeTensor> tensors_;
  Status status_;
};

bool HeaderReader::ReadText(json* header) {
  if (file_.bytes() < kLengthBytes) return Fail("the file is too short for a safetensors header");
  uint64_t length = 0;
  status_ = file_.Read(0, std::as_writable_bytes(std::span(&length, 1)));
  if (!status_.ok()) return false;
  if (length > kMaxHeaderBytes64 || length > file_.bytes() - kLengthBytes) {
    return Fail(
        fmt::format("the header's length, {}, is more than the file's {} bytes can hold, "
                    "or more than {}; it is not a safetensors file",
                    length, file_.bytes(), kMaxHeaderBytes64));
  }
  std::string text(static_cast<size_t>(length), '\0');
  status_ = file_.Read(kLengthBytes, std::as_writable_bytes(std::span(text)));
  if (!status_.ok()) return false;
  if (!text.starts_with('{')) return Fail("the header does not begin with '{'");
  StatusOr<json> read = base::ReadJson(text, kHeaderBounds, "the header");
  if (!read.ok()) return Fail(base::PrintableText(read.status().message()));
  if (!read->is_object()) return Fail("the header is not a JSON object");
  *header = *std::move(read);
  data_ = kLengthBytes + length;
  return true;
}

bool HeaderReader::ReadTensors(const json& header) {
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") continue;
    if (!ReadTensor(name, value)) return false;
  }
  return true;
}

bool HeaderReader::ReadTensor(const std::string& name, const json& value) {
  const auto printable = [](char c) { return c >= 0x20 && c < 0x7F; };
  if (name.empty() || name.size() > kMaxTensorName || !std::ranges::all_of(name, printable)) {
    return Fail(fmt::format("the tensor's name \"{}\" is not 1 to {} characters of printable ASCII",
                            base::PrintableText(name.substr(0, 64)), kMaxTensorName));
  }
  SafeTensor tensor;
  tensor.name = name;
  if (!value.is_object() || value.size() != 3 || !value.contains("dtype") ||
      !value.contains("shape") || !value.contains("data_offsets")) {
    return Fail(tensor, "its entry is not an object of dtype, shape and data_offsets");
  }
  if (!value["dtype"].is_string()) return Fail(tensor, "dtype is not a string");
  tensor.dtype = value["dtype"].get<std::string>();
  if (SafeDtypeBytes(tensor.dtype) == 0) {
    return Fail(tensor, fmt::format("dtype \"{}\" is unknown",
                                    base::PrintableText(tensor.dtype.substr(0, 32))));
  }
  if (!ReadShape(value["shape"], &tensor) || !ReadOffsets(value["data_offsets"], &tensor)) {
    return false;
  }
  tensors_.push_back(std::move(tensor));
  return true;
}

// Sets `bytes` too.
bool HeaderReader::ReadShape(const json& value, SafeTensor* tensor) {
  if (!value.is_array() || value.size() > kMaxRank) {
    return Fail(*tensor, fmt::format("shape is not a list of at most {} dimensions", kMaxRank));
  }
  uint64_t elements = 1;
  for (const json& item : value) {
    if (!item.is_number_unsigned()) {
      return Fail(*tensor, "shape has a dimension that is not a whole number");
    }
    const auto dim = item.get<uint64_t>();
    if (__builtin_mul_overflow(elements, dim, &elements) || elements > INT64_MAX) {
      return Fail(*tensor, fmt::format("a dimension of {} makes too many elements", dim));
    }
    tensor->shape.push_back(dim);
  }
  if (__builtin_mul_overflow(elements, SafeDtypeBytes(tensor->dtype), &tensor->bytes)) {
    return Fail(*tensor, "the data's size does not fit in 64 bits");
  }
  return true;
}

bool HeaderReader::ReadOffsets(const json& value, SafeTensor* tensor) {
  if (!value.is_array() || value.size() != 2 || !value[0].is_number_unsigned() ||
      !value[1].is_number_unsigned()) {
    return Fail(*tensor, "data_offsets are not two whole numbers");
  }
  const auto begin = value[0].get<uint64_t>();
  const auto end = value[1].get<uint64_t>();
  const uint64_t section = file_.bytes() - data_;
  if (begin > end || end > section) {
    return Fail(*tensor, fmt::format("data_offsets [{}, {}] are not within the file's {} bytes of "
                                     "data",
                                     begin, end, section));
  }
  if (end - begin != tensor->bytes) {
    return Fail(*tensor, fmt::format("data_offsets hold {} bytes, but {} of shape [{}] needs {}",
                                     end - begin, tensor->dtype, fmt::join(tensor->shape, ", "),
                                     tensor->bytes));
  }
  tensor->begin = data_ + begin;
  return true;
}

// Tensors that share bytes would let a small file request any amount of memory at load.
bool HeaderReader::CheckOrder() {
  std::ranges::stable_sort(
      tensors_, {}, [](const SafeTensor& tensor) { return std::pair(tensor.begin, tensor.bytes); });
  uint64_t end = data_;
  for (const SafeTensor& tensor : tensors_) {
    if (tensor.begin < end) {
      return Fail(tensor, "its data overlaps the data of the previous tensor in the file");
    }
    if (tensor.begin > end) {
      return Fail(tensor,
                  fmt::format("{} bytes before its data belong to no tensor", tensor.begin - end));
    }
    end = tensor.begin + tensor.bytes;
  }
  if (end == file_.bytes()) return true;
  return Fail(fmt::format("{} bytes at the file's end belong to no tensor", file_.bytes() - end));
}

}  // namespace

uint64_t SafeDtypeBytes(const std::string& dtype) {
  const auto* at = std::ranges::find(kDtypes, std::string_view(dtype),
                                     [](const Dtype& type) { return std::string_view(type.name); });
  return at == kDtypes.end() ? 0 : at->bytes;
}

StatusOr<std::vector<SafeTensor>> ReadSafetensors(const base::RandomAccessFile& file) {
  return HeaderReader(file).Read();
}

}  // namespace ropeway::model
