// A model as the tables of GGUF: its metadata, and its tensors. They come from a GGUF file (v2 and
// v3), from the parts of one that is split, or from a folder in Hugging Face's format, which is
// presented as the GGUF file that llama.cpp's converter would make of it. So the rest of the
// program knows one format. Every offset, count, length and string is checked before use.
#ifndef ROPEWAY_MODEL_GGUF_H_
#define ROPEWAY_MODEL_GGUF_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kernels/number_types.h"
#include "model/model_bytes.h"
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
  uint64_t begin = 0;           // Where its data begins for GgufFile::Read, which has all of it.
  uint64_t bytes = 0;           // Of its data; 0 if the type's size is unknown.
};

// The field of an error that concerns a metadata key or a tensor: metadata "KEY", tensor "NAME".
std::string MetadataField(std::string_view key);
std::string TensorField(std::string_view name);

// An open model. Immutable once OpenModel has made it, and thread-safe; views into it are valid as
// long as the object lives.
class GgufFile {
 public:
  // Opens a GGUF file, or the first part of a split one (NAME-00001-of-00003.gguf; the others lie
  // beside it), for OpenModel (open_model.h). Throws std::bad_alloc.
  static StatusOr<std::unique_ptr<GgufFile>> Open(const std::string& path);
  GgufFile(const GgufFile&) = delete;
  GgufFile& operator=(const GgufFile&) = delete;

  uint32_t version() const { return version_; }  // Of the format; 0: a folder of Hugging Face.
  uint64_t file_bytes() const { return bytes_.file_bytes(); }  // Of all files when opened.
  const std::string& path() const { return path_; }            // As it was given to OpenModel.
  const std::string& quantize() const { return quantize_; }
  // What is wrong with it and does not keep it from being used: "has ...". Of a folder only.
  const std::vector<std::string>& warnings() const { return warnings_; }
  // The files that decide what the model computes.
  const std::vector<base::RandomAccessFile>& files() const { return bytes_.files(); }

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

  // Offset in the (first) file of the tensor data section.
  uint64_t data_offset() const { return data_offset_; }

  // Typed look-ups. They return nullopt (GetArray: nullptr) if the key is absent, and kDataLoss
  // naming the key if its value has another type or is outside [min, max].
  StatusOr<std::optional<uint64_t>> GetUint(std::string_view key, uint64_t min, uint64_t max) const;
  StatusOr<std::optional<double>> GetFloat(std::string_view key) const;
  StatusOr<std::optional<bool>> GetBool(std::string_view key) const;
  StatusOr<std::optional<std::string_view>> GetString(std::string_view key) const;
  StatusOr<const GgufArray*> GetArray(std::string_view key, GgufType element) const;

  // An error about this model: its message is "PATH: FIELD: WHAT". A field of a folder's is called
  // as in the folder.
  Status Error(StatusCode code, const std::string& field, const std::string& what) const;

  // Reads the model's bytes from `begin` on, as a tensor names it, into all of `to`. Errors as for
  // ModelBytes::Read. Allocates nothing where it reads a GGUF file as it is.
  Status Read(uint64_t begin, std::span<std::byte> to) const { return bytes_.Read(begin, to); }
  // kDataLoss if a file was changed since it was opened: what was read may be of two models.
  Status CheckUnchanged() const { return bytes_.CheckUnchanged(); }

  // Presents matrices in F32, F16 and BF16 in the type `quantize`, "q8_0" or "q4_0"
  // (QuantizedType). kInvalidArgument where there are none.
  Status Quantize(std::string_view quantize);

  class Builder;  // Makes one from what is no GGUF file.

 private:
  class Parser;  // gguf_parser.cc

  GgufFile() = default;
  static StatusOr<std::unique_ptr<GgufFile>> OpenOne(const std::string& path);
  Status AddPart(const std::string& path, uint64_t number, uint64_t count);
  Status CheckSplit() const;
  Status Parse();  // Fills everything below headers_.
  Status ReadHeader(uint64_t bytes);
  // Sort the tables for look-ups. kDataLoss, naming it, if a name occurs twice.
  Status IndexMetadata();
  Status IndexTensors();

  std::string path_;
  std::string quantize_;
  ModelBytes bytes_;
  // The first bytes of each file, with all metadata.
  std::deque<std::vector<std::byte>> headers_;
  std::deque<std::string> texts_;              // What views of a folder's tables refer to.
  std::map<std::string, std::string> fields_;  // A folder's names of fields.
  std::vector<std::string> warnings_;
  uint32_t version_ = 0;
  uint64_t data_offset_ = 0;
  std::vector<Entry> metadata_;
  std::vector<GgufTensor> tensors_;
  // Indices into metadata_ and tensors_, sorted by name.
  std::vector<uint32_t> metadata_order_;
  std::vector<uint32_t> tensor_order_;
};

// Makes the tables of GGUF of a model that is stored in another format.
// Setters replace nothing: a key or a tensor that is set twice is an error of Build.
class GgufFile::Builder {
 public:
  explicit Builder(const std::string& path) : file_(new GgufFile()) { file_->path_ = path; }

  // `field`: what messages call the key instead, such as config.json "hidden_size"; "": as GGUF.
  void SetUint32(std::string_view key, uint32_t value, std::string_view field = {});
  void SetFloat32(std::string_view key, float value, std::string_view field = {});
  void SetBool(std::string_view key, bool value, std::string_view field = {});
  void SetString(std::string_view key, std::string_view value, std::string_view field = {});
  void SetBools(std::string_view key, const std::vector<bool>& values);

  // Where tensors' data come from.
  ModelBytes* bytes() { return &file_->bytes_; }

  // A tensor whose data begin at `begin` in bytes(). `shape`: the contiguous dimension first.
  // `field`: what messages call it.
  void AddTensor(std::string_view name, std::vector<uint64_t> shape, uint32_t type, uint64_t begin,
                 std::string_view field);

  void AddWarning(std::string warning) { file_->warnings_.push_back(std::move(warning)); }

  // Errors that name the model: see GgufFile::Error.
  Status Error(StatusCode code, const std::string& field, const std::string& what) const {
    return file_->Error(code, field, what);
  }

  // Call once, and last.
  StatusOr<std::unique_ptr<GgufFile>> Build();

 private:
  // A copy that lives as long as the file.
  std::string_view Keep(std::string text);
  void Set(std::string_view key, GgufType type, GgufValue value, std::string_view field);

  std::unique_ptr<GgufFile> file_;
};

}  // namespace ropeway::model

#endif  // ROPEWAY_MODEL_GGUF_H_
