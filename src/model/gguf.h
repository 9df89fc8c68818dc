// Reads GGUF v2 and v3 files. Every offset, count, length and string is checked before use. Nothing
// is mapped: a mapped file that another process cuts off ends this one by SIGBUS.
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

// A metadata array. Views point into the GgufFile.
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
  std::vector<uint64_t> shape;  // GGUF order: shape[0] is contiguous (input features).
  uint32_t type = 0;            // ggml type number; GgmlTypeName gives its name.
  uint64_t begin = 0;           // Where its data begins in the file, which has all of it.
  uint64_t bytes = 0;           // Of its data; 0 if the type's size is unknown.
};

// The field of an error that concerns a metadata key or a tensor: metadata "KEY", tensor "NAME".
std::string MetadataField(std::string_view key);
std::string TensorField(std::string_view name);

// An open file. Immutable and thread-safe; views into it are valid as long as the object lives.
class GgufFile {
 public:
  // Reads and parses the file's header. Returns kNotFound if the file cannot be opened or is not a
  // regular file, kDataLoss with one sentence that names the field if it is not a valid GGUF file.
  static StatusOr<std::unique_ptr<GgufFile>> Open(const std::string& path);
  ~GgufFile();
  GgufFile(const GgufFile&) = delete;
  GgufFile& operator=(const GgufFile&) = delete;

  uint32_t version() const { return version_; }
  uint64_t file_bytes() const { return file_bytes_; }  // When it was opened.
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

  // Reads the file's bytes from `begin` on into all of `to`. kDataLoss if the file has become
  // shorter, kUnavailable if the device fails. Allocates nothing where it succeeds.
  Status Read(uint64_t begin, std::span<std::byte> to) const;
  // kDataLoss if the file was changed since Open: what was read may be of two files.
  Status CheckUnchanged() const;

 private:
  class Parser;  // gguf_parser.cc

  // The state of a file that a write changes.
  struct Stamp {
    uint64_t bytes = 0;
    int64_t seconds = 0;  // Of the last change.
    int64_t nanoseconds = 0;
    bool operator==(const Stamp&) const = default;
  };

  GgufFile() = default;
  Status OpenFile();  // Sets file_, stamp_ and file_bytes_.
  StatusOr<Stamp> ReadStamp() const;
  Status Parse();  // Fills everything below header_.
  Status ReadHeader(uint64_t bytes);

  std::string path_;
  int file_ = -1;  // An open descriptor.
  Stamp stamp_;    // At Open.
  uint64_t file_bytes_ = 0;
  std::vector<std::byte> header_;  // The file's first bytes, with all metadata.
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
