// Reads GGUF v2 and v3 files by mmap. Every offset, count, length and string is checked before use.
#ifndef ROPEWAY_MODEL_GGUF_H_
#define ROPEWAY_MODEL_GGUF_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kernels/kernels.h"
#include "ropeway/status.h"

namespace ropeway::model {

// How tensor data of one element type is stored. GGUF names the type by its number in ggml.
struct GgmlTypeInfo {
  uint32_t number;
  const char* name;         // "F32", "Q4_1", ...
  uint32_t block_elements;  // Consecutive elements of a row that are stored together.
  uint32_t block_bytes;     // Bytes of one such block.
  std::optional<kernels::WeightType> weight_type =
      std::nullopt;  // Set if the kernels compute with it.
};

// nullptr for an unknown number.
const GgmlTypeInfo* FindGgmlType(uint32_t number);
// The type's name, or "type 99" for an unknown number.
std::string GgmlTypeName(uint32_t number);
// nullopt for a type that the kernels do not compute with, or an unknown number.
std::optional<kernels::WeightType> WeightTypeOf(uint32_t number);

// What a model computes with a tensor: products, and rows looked up (embeddings), for which every
// WeightType serves, each matrix of its own; or numbers one by one (norms, biases), which are not
// quantised.
enum class TensorUse { kMatrix, kVector };
// What is wrong with a type for that use, as the end of an error that names the tensor: "type IQ1_S
// is not supported; F32, ... and MXFP4 are". nullopt: nothing. The one place that knows.
std::optional<std::string> UnsupportedType(uint32_t number, TensorUse use);

// The GGUF metadata value types, by the file's numbers.
// clang-format off
enum class GgufType : uint32_t {
  kUint8 = 0, kInt8 = 1, kUint16 = 2, kInt16 = 3, kUint32 = 4, kInt32 = 5, kFloat32 = 6, kBool = 7,
  kString = 8, kArray = 9, kUint64 = 10, kInt64 = 11, kFloat64 = 12,
};
// clang-format on

// "uint32", "string", ...
const char* GgufTypeName(GgufType type);
// Bytes of one number or bool; 0 for strings and arrays, whose length varies.
size_t GgufTypeBytes(GgufType type);

// A metadata array. Views point into the mapped file.
struct GgufArray {
  GgufType type = GgufType::kUint8;
  uint64_t count = 0;
  std::span<const std::byte> data;        // Numbers and bools, packed little-endian, unaligned.
  std::vector<std::string_view> strings;  // Set if type is kString.
};

// Unsigned integers as uint64_t, signed ones as int64_t, floats as double.
using GgufValue = std::variant<uint64_t, int64_t, double, bool, std::string_view, GgufArray>;

struct GgufTensor {
  std::string_view name;
  std::vector<uint64_t> shape;      // GGUF order: shape[0] is contiguous (input features).
  uint32_t type = 0;                // ggml type number; GgmlTypeName gives its name.
  std::span<const std::byte> data;  // Within the file; empty if the type's size is unknown.
};

// The field of an error that concerns a metadata key or a tensor: metadata "KEY", tensor "NAME".
std::string MetadataField(std::string_view key);
std::string TensorField(std::string_view name);

// An open file. Immutable and thread-safe; views into it are valid as long as the object lives.
class GgufFile {
 public:
  // Maps the file and parses its header. Returns kNotFound if the file cannot be opened or is not a
  // regular file, kDataLoss with one sentence that names the field if it is not a valid GGUF file.
  // Truncating a file while it is open kills the process (SIGBUS): replace model files, do not
  // rewrite them in place.
  static StatusOr<std::unique_ptr<GgufFile>> Open(const std::string& path);
  ~GgufFile();
  GgufFile(const GgufFile&) = delete;
  GgufFile& operator=(const GgufFile&) = delete;

  uint32_t version() const { return version_; }
  uint64_t file_bytes() const { return map_.size(); }
  std::span<const std::byte> bytes() const { return map_; }  // The whole file.
  const std::string& path() const { return path_; }

  // Metadata in file order.
  struct Entry {
    std::string_view key;
    GgufType type;
    GgufValue value;
  };
  const std::vector<Entry>& metadata() const { return metadata_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }

  const GgufTensor* FindTensor(std::string_view name) const;
  const Entry* Find(std::string_view key) const;

  // Offset in the file of the tensor data section.
  uint64_t data_offset() const { return data_offset_; }

  // Typed look-ups. They return nullopt (GetArray: nullptr) if the key is absent, and kDataLoss
  // naming the key if its value has another type or is outside [min, max].
  StatusOr<std::optional<uint64_t>> GetUint(std::string_view key, uint64_t min, uint64_t max) const;
  StatusOr<std::optional<double>> GetFloat(std::string_view key) const;
  StatusOr<std::optional<bool>> GetBool(std::string_view key) const;
  StatusOr<std::optional<std::string_view>> GetString(std::string_view key) const;
  StatusOr<const GgufArray*> GetArray(std::string_view key, GgufType element) const;

  // An error about this file: its message is "PATH: FIELD: WHAT".
  Status Error(StatusCode code, const std::string& field, const std::string& what) const;

  // Releases the resident pages of `data`, a range of bytes(); later reads load them again.
  void Release(std::span<const std::byte> data) const;

 private:
  class Parser;  // gguf_parser.cc

  GgufFile() = default;
  Status Parse();  // Fills everything below map_.

  std::string path_;
  std::span<const std::byte> map_;
  uint32_t version_ = 0;
  uint64_t data_offset_ = 0;
  std::vector<Entry> metadata_;
  std::vector<GgufTensor> tensors_;
  // Indices into metadata_ and tensors_, sorted by name.
  std::vector<uint32_t> metadata_order_;
  std::vector<uint32_t> tensor_order_;
};

}  // namespace ropeway::model

#endif  // ROPEWAY_MODEL_GGUF_H_
