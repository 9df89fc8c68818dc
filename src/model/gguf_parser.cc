// Turns the bytes of a GGUF file into GgufFile's tables. Every number is checked against the bytes
// that are left before it is used, so nothing larger than the file is ever allocated.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "model/gguf.h"

namespace ropeway::model {
namespace {

static_assert(std::endian::native == std::endian::little,
              "GGUF numbers are read without a byte swap");

constexpr uint64_t kMaxNameBytes = 65535;  // The format's bound on keys.
constexpr uint32_t kMaxDims = 4;
constexpr uint64_t kMaxAlignment = 1 << 20;
constexpr uint64_t kMaxEntries = UINT32_MAX;  // The order tables hold 32-bit indices.

// Read at first; each further attempt doubles it. The metadata of models with large vocabularies
// have some 10 MB.
constexpr uint64_t kFirstHeaderBytes = uint64_t{4} << 20;
constexpr uint64_t kMaxHeaderBytes = uint64_t{1} << 30;

// The fewest bytes that one of them takes in a file, whatever it holds.
constexpr uint64_t kMinEntryBytes = 8 + 1 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;
// The most strings in an array. The largest known vocabularies have half a million merges.
constexpr uint64_t kMaxStrings = uint64_t{1} << 23;
constexpr uint64_t kMinStringBytes = 8;

// Sets `*order` to the indices of `items` sorted by their member `name`. Returns a name that occurs
// twice; empty, which no name is: there is none.
template <typename Item>
std::string_view SortByName(const std::vector<Item>& items, std::string_view Item::*name,
                            std::vector<uint32_t>* order) {
  order->resize(items.size());
  std::iota(order->begin(), order->end(), 0U);
  const auto name_of = [&](uint32_t i) { return items[i].*name; };
  std::ranges::sort(*order, {}, name_of);
  const auto twice = std::ranges::adjacent_find(*order, {}, name_of);
  return twice == order->end() ? std::string_view() : name_of(*twice);
}

}  // namespace

class GgufFile::Parser {
 public:
  explicit Parser(GgufFile* file)
      : file_(file), header_(file->headers_.front()), file_bytes_(file->file_bytes()) {}

  Status Parse() {
    ParseHeader() && ParseMetadata() && ParseAlignment() && ParseTensors() && LocateTensors();
    return status_;
  }
  // The header goes on in the file behind what was read of it: nothing is known yet.
  bool needs_more() const { return needs_more_; }

 private:
  // Each returns false after it has set status_ or needs_more_.
  bool ParseHeader();
  bool ParseMetadata();
  bool ParseEntry(uint64_t index);
  bool ParseValue(const std::string& field, GgufType type, GgufValue* value);
  bool ParseArray(const std::string& field, GgufArray* array);
  bool ParseAlignment();
  bool ParseTensors();
  bool ParseTensorInfo(uint64_t index);
  bool ParseShape(const std::string& field, GgufTensor* tensor);
  bool LocateTensors();
  bool LocateTensor(GgufTensor* tensor, uint64_t offset);
  bool CheckOverlaps();

  bool TakeBytes(const std::string& field, uint64_t count, std::span<const std::byte>* bytes);
  bool TakeString(const std::string& field, std::string_view* text);
  bool TakeName(const std::string& field, std::string_view* name);
  bool TakeType(const std::string& field, GgufType* type);
  bool TakeBool(const std::string& field, bool* value);
  template <typename T>
  bool Take(const std::string& field, T* value) {
    std::span<const std::byte> bytes;
    if (!TakeBytes(field, sizeof(T), &bytes)) return false;
    std::memcpy(value, bytes.data(), sizeof(T));
    return true;
  }
  template <typename T, typename Stored>
  bool TakeAs(const std::string& field, GgufValue* value) {
    T number{};
    if (!Take(field, &number)) return false;
    *value = static_cast<Stored>(number);
    return true;
  }
  bool Fail(const std::string& field, const std::string& what) {
    status_ = file_->Error(StatusCode::kDataLoss, field, what);
    return false;
  }

  uint64_t remaining() const { return file_bytes_ - pos_; }

  GgufFile* file_;
  std::span<const std::byte> header_;
  const uint64_t file_bytes_;
  uint64_t pos_ = 0;  // At most header_.size().
  bool needs_more_ = false;
  uint64_t tensor_count_ = 0;
  uint64_t metadata_count_ = 0;
  uint64_t alignment_ = 32;
  std::vector<uint64_t> offsets_;  // Of each tensor, within the data section.
  Status status_;
};

Status GgufFile::Parse() {
  for (uint64_t bytes = kFirstHeaderBytes; bytes <= kMaxHeaderBytes; bytes *= 2) {
    if (Status status = ReadHeader(std::min(bytes, file_bytes())); !status.ok()) return status;
    metadata_.clear();
    tensors_.clear();
    Parser parser(this);
    Status status = parser.Parse();
    if (!parser.needs_more()) return status;
  }
  return Error(StatusCode::kDataLoss, "metadata",
               fmt::format("more than {} bytes are not supported", kMaxHeaderBytes));
}

Status GgufFile::ReadHeader(uint64_t bytes) {
  std::vector<std::byte>& header = headers_.front();
  const size_t known = header.size();
  header.resize(bytes);
  return Read(known, std::span(header).subspan(known));
}

Status GgufFile::IndexMetadata() {
  const std::string_view twice = SortByName(metadata_, &Entry::key, &metadata_order_);
  if (twice.empty()) return {};
  return Error(StatusCode::kDataLoss, MetadataField(twice), "the key occurs twice");
}

Status GgufFile::IndexTensors() {
  const std::string_view twice = SortByName(tensors_, &GgufTensor::name, &tensor_order_);
  if (twice.empty()) return {};
  return Error(StatusCode::kDataLoss, TensorField(twice), "the name occurs twice");
}

bool GgufFile::Parser::TakeBytes(const std::string& field, uint64_t count,
                                 std::span<const std::byte>* bytes) {
  if (count > remaining()) {
    return Fail(field, fmt::format("{} bytes at byte {} are needed, but the file has {} bytes",
                                   count, pos_, file_bytes_));
  }
  if (count > header_.size() - pos_) {
    needs_more_ = true;
    return false;
  }
  *bytes = header_.subspan(pos_, count);
  pos_ += count;
  return true;
}

bool GgufFile::Parser::TakeString(const std::string& field, std::string_view* text) {
  uint64_t length = 0;
  std::span<const std::byte> bytes;
  if (!Take(field, &length) || !TakeBytes(field, length, &bytes)) return false;
  *text = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  return true;
}

// The format allows ASCII only in keys and tensor names. Anything else indicates corruption, and
// would reach logs and terminals.
bool GgufFile::Parser::TakeName(const std::string& field, std::string_view* name) {
  if (!TakeString(field, name)) return false;
  if (name->empty()) return Fail(field, "the name is empty");
  if (name->size() > kMaxNameBytes) {
    return Fail(field, fmt::format("the name has {} bytes; at most {} are allowed", name->size(),
                                   kMaxNameBytes));
  }
  const auto printable = [](char c) { return c >= 0x20 && c < 0x7F; };
  if (!std::ranges::all_of(*name, printable)) {
    return Fail(field, "the name has a byte that is not printable ASCII");
  }
  return true;
}

bool GgufFile::Parser::TakeType(const std::string& field, GgufType* type) {
  uint32_t number = 0;
  if (!Take(field, &number)) return false;
  if (number > static_cast<uint32_t>(GgufType::kFloat64)) {
    return Fail(field, fmt::format("value type {} is unknown", number));
  }
  *type = static_cast<GgufType>(number);
  return true;
}

bool GgufFile::Parser::TakeBool(const std::string& field, bool* value) {
  uint8_t byte = 0;
  if (!Take(field, &byte)) return false;
  if (byte > 1) return Fail(field, fmt::format("a bool must be 0 or 1, not {}", byte));
  *value = byte == 1;
  return true;
}

bool GgufFile::Parser::ParseHeader() {
  std::span<const std::byte> magic;
  if (!TakeBytes("magic", 4, &magic)) return false;
  if (std::memcmp(magic.data(), "GGUF", 4) != 0) {
    return Fail("magic", "the file does not begin with \"GGUF\"; it is not a GGUF file");
  }
  if (!Take("version", &file_->version_)) return false;
  const uint32_t version = file_->version_;
  if (version != 0 && (version & 0xFFFFU) == 0) {
    return Fail("version", "the file is big-endian, which is not supported");
  }
  if (version != 2 && version != 3) {
    return Fail("version",
                fmt::format("version {} is not supported; versions 2 and 3 are", version));
  }
  if (!Take("tensor count", &tensor_count_) || !Take("metadata count", &metadata_count_)) {
    return false;
  }
  const auto check = [&](const char* field, uint64_t count, uint64_t min_bytes) {
    if (count <= remaining() / min_bytes && count <= kMaxEntries) return true;
    return Fail(field,
                fmt::format("{} is more than a file of {} bytes can hold", count, file_bytes_));
  };
  return check("tensor count", tensor_count_, kMinTensorBytes) &&
         check("metadata count", metadata_count_, kMinEntryBytes);
}

bool GgufFile::Parser::ParseMetadata() {
  for (uint64_t i = 0; i < metadata_count_; ++i) {
    if (!ParseEntry(i)) return false;
  }
  status_ = file_->IndexMetadata();
  return status_.ok();
}

bool GgufFile::Parser::ParseEntry(uint64_t index) {
  GgufFile::Entry entry{};
  if (!TakeName(fmt::format("metadata key {}", index), &entry.key)) return false;
  const std::string field = MetadataField(entry.key);
  if (!TakeType(field, &entry.type) || !ParseValue(field, entry.type, &entry.value)) return false;
  file_->metadata_.push_back(std::move(entry));
  return true;
}

bool GgufFile::Parser::ParseValue(const std::string& field, GgufType type, GgufValue* value) {
  switch (type) {
    case GgufType::kUint8:
      return TakeAs<uint8_t, uint64_t>(field, value);
    case GgufType::kInt8:
      return TakeAs<int8_t, int64_t>(field, value);
    case GgufType::kUint16:
      return TakeAs<uint16_t, uint64_t>(field, value);
    case GgufType::kInt16:
      return TakeAs<int16_t, int64_t>(field, value);
    case GgufType::kUint32:
      return TakeAs<uint32_t, uint64_t>(field, value);
    case GgufType::kInt32:
      return TakeAs<int32_t, int64_t>(field, value);
    case GgufType::kUint64:
      return TakeAs<uint64_t, uint64_t>(field, value);
    case GgufType::kInt64:
      return TakeAs<int64_t, int64_t>(field, value);
    case GgufType::kFloat32:
      return TakeAs<float, double>(field, value);
    case GgufType::kFloat64:
      return TakeAs<double, double>(field, value);
    case GgufType::kBool: {
      bool flag = false;
      if (!TakeBool(field, &flag)) return false;
      *value = flag;
      return true;
    }
    case GgufType::kString: {
      std::string_view text;
      if (!TakeString(field, &text)) return false;
      *value = text;
      return true;
    }
    case GgufType::kArray: {
      GgufArray array;
      if (!ParseArray(field, &array)) return false;
      *value = std::move(array);
      return true;
    }
  }
  return Fail(field, "the value type is unknown");
}

bool GgufFile::Parser::ParseArray(const std::string& field, GgufArray* array) {
  if (!TakeType(field, &array->type) || !Take(field, &array->count)) return false;
  if (array->type == GgufType::kArray) return Fail(field, "arrays within arrays are not supported");
  const bool strings = array->type == GgufType::kString;
  const uint64_t min_bytes = strings ? kMinStringBytes : GgufTypeBytes(array->type);
  if (array->count > remaining() / min_bytes) {
    return Fail(field,
                fmt::format("{} elements at byte {} are more than the file's {} bytes can hold",
                            array->count, pos_, file_bytes_));
  }
  if (!strings) return TakeBytes(field, array->count * min_bytes, &array->data);
  if (array->count > kMaxStrings) {
    return Fail(field, fmt::format("{} strings are too many; at most {} are supported",
                                   array->count, kMaxStrings));
  }
  array->strings.reserve(array->count);
  for (uint64_t i = 0; i < array->count; ++i) {
    std::string_view text;
    if (!TakeString(field, &text)) return false;
    array->strings.push_back(text);
  }
  return true;
}

bool GgufFile::Parser::ParseAlignment() {
  constexpr const char* kKey = "general.alignment";
  auto alignment = file_->GetUint(kKey, 1, kMaxAlignment);
  if (!alignment.ok()) {
    status_ = alignment.status();
    return false;
  }
  alignment_ = alignment->value_or(alignment_);
  if (!std::has_single_bit(alignment_)) {
    return Fail(MetadataField(kKey), fmt::format("{} is not a power of two", alignment_));
  }
  return true;
}

bool GgufFile::Parser::ParseTensors() {
  for (uint64_t i = 0; i < tensor_count_; ++i) {
    if (!ParseTensorInfo(i)) return false;
  }
  status_ = file_->IndexTensors();
  return status_.ok();
}

bool GgufFile::Parser::ParseTensorInfo(uint64_t index) {
  GgufTensor tensor;
  if (!TakeName(fmt::format("name of tensor {}", index), &tensor.name)) return false;
  const std::string field = TensorField(tensor.name);
  uint64_t offset = 0;
  if (!ParseShape(field, &tensor) || !Take(field, &tensor.type) || !Take(field, &offset)) {
    return false;
  }
  if (offset % alignment_ != 0) {
    return Fail(field,
                fmt::format("offset {} is not a multiple of the alignment {}", offset, alignment_));
  }
  file_->tensors_.push_back(std::move(tensor));
  offsets_.push_back(offset);
  return true;
}

bool GgufFile::Parser::ParseShape(const std::string& field, GgufTensor* tensor) {
  uint32_t dims = 0;
  if (!Take(field, &dims)) return false;
  if (dims < 1 || dims > kMaxDims) {
    return Fail(field, fmt::format("{} dimensions; 1 to {} are supported", dims, kMaxDims));
  }
  uint64_t elements = 1;
  for (uint32_t i = 0; i < dims; ++i) {
    uint64_t dim = 0;
    if (!Take(field, &dim)) return false;
    if (dim == 0) return Fail(field, fmt::format("dimension {} is 0", i));
    // Users of the shape may rely on the element count fitting in a signed 64-bit integer.
    if (__builtin_mul_overflow(elements, dim, &elements) || elements > INT64_MAX) {
      return Fail(field, fmt::format("dimension {} is {}, which makes too many elements", i, dim));
    }
    tensor->shape.push_back(dim);
  }
  return true;
}

bool GgufFile::Parser::LocateTensors() {
  // Cannot overflow: pos_ is within the header, and the alignment is at most kMaxAlignment.
  file_->data_offset_ = (pos_ + alignment_ - 1) & ~(alignment_ - 1);
  for (size_t i = 0; i < offsets_.size(); ++i) {
    if (!LocateTensor(&file_->tensors_[i], offsets_[i])) return false;
  }
  return CheckOverlaps();
}

bool GgufFile::Parser::LocateTensor(GgufTensor* tensor, uint64_t offset) {
  const std::string field = TensorField(tensor->name);
  uint64_t begin = 0;
  if (__builtin_add_overflow(file_->data_offset_, offset, &begin) || begin > file_bytes_) {
    return Fail(field, fmt::format("offset {} is beyond the end of the file, which has {} bytes",
                                   offset, file_bytes_));
  }
  const GgmlTypeInfo* type = FindGgmlType(tensor->type);
  if (type == nullptr) return true;  // Reported when the tensor is used; its size is unknown.
  if (tensor->shape[0] % type->block_elements != 0) {
    return Fail(field,
                fmt::format("dimension 0 is {}, which is not a multiple of {}'s block size {}",
                            tensor->shape[0], type->name, type->block_elements));
  }
  uint64_t blocks = 1;
  for (uint64_t dim : tensor->shape) blocks *= dim;  // Checked in ParseShape.
  blocks /= type->block_elements;
  uint64_t bytes = 0;
  uint64_t end = 0;
  if (__builtin_mul_overflow(blocks, uint64_t{type->block_bytes}, &bytes) ||
      __builtin_add_overflow(begin, bytes, &end)) {
    return Fail(field, "the data's size does not fit in 64 bits");
  }
  if (end > file_bytes_) {
    return Fail(field,
                fmt::format("data ends at byte {}, but the file has {} bytes", end, file_bytes_));
  }
  tensor->begin = begin;
  tensor->bytes = bytes;
  return true;
}

// Tensors that share bytes would let a small file request any amount of memory at load.
bool GgufFile::Parser::CheckOverlaps() {
  std::vector<const GgufTensor*> located;
  for (const GgufTensor& tensor : file_->tensors_) {
    if (tensor.bytes > 0) located.push_back(&tensor);
  }
  std::ranges::sort(located, {}, [](const GgufTensor* tensor) { return tensor->begin; });
  for (size_t i = 1; i < located.size(); ++i) {
    if (located[i - 1]->begin + located[i - 1]->bytes > located[i]->begin) {
      return Fail(TensorField(located[i]->name),
                  fmt::format("its data overlaps the data of \"{}\"", located[i - 1]->name));
    }
  }
  return true;
}

}  // namespace ropeway::model
