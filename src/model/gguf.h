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

#include "model/ggml_types.h"
#include "ropeway/status.h"

namespace ropeway {

// The GGUF metadata value types, by the file's numbers.
// clang-format off
enum class GgufType : uint32_t {
  kUint8 = 0, kInt8 = 1, kUint16 = 2, kInt16 = 3, kUint32 = 4, kInt32 = 5, kFloat32 = 6, kBool = 7,
  kString = 8, kArray = 9, kUint64 = 10, kInt64 = 11, kFloat64 = 12,
};
// clang-format on

// "uint32", "string", ...
const char* GgufTypeName(GgufType type);
// Bytes of one number or bool; 0 for strings and arrays.
size_t GgufTypeBytes(GgufType type);

// A metadata array. Views point into the mapped file.
struct GgufArray {
  GgufType type = GgufType::kUint8;
  uint64_t count = 0;
  std::span<const std::byte> data;        // Numbers and bools, packed little-endian, unaligned.
  std::vector<std::string_view> strings;  // Where type is kString.
};

// Unsigned integers as uint64_t, signed ones as int64_t, floats as double.
using GgufValue = std::variant<uint64_t, int64_t, double, bool, std::string_view, GgufArray>;

struct GgufTensor {
  std::string_view name;
  std::vector<uint64_t> shape;      // GGUF order: shape[0] is the contiguous one (input features).
  uint32_t type = 0;                // ggml type number; GgmlTypeName names it.
  std::span<const std::byte> data;  // Within the file; empty where the type's size is unknown.
};

// An open file. Immutable and thread-safe; the views it hands out live as long as it.
class GgufFile {
 public:
  // kNotFound if it cannot be opened or is no regular file, kDataLoss with one sentence naming the
  // field if it is not a sound GGUF file. A file that is cut short while it is open kills the
  // reader (SIGBUS): replace model files, do not rewrite them in place.
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

  // How many bytes of file stand before the first tensor's data.
  uint64_t data_offset() const { return data_offset_; }

  // Typed look-ups. nullopt where the key is absent; kDataLoss naming the key where it has another
  // type or is out of [min, max].
  StatusOr<std::optional<uint64_t>> GetUint(std::string_view key, uint64_t min, uint64_t max) const;
  StatusOr<std::optional<double>> GetFloat(std::string_view key) const;
  StatusOr<std::optional<bool>> GetBool(std::string_view key) const;
  StatusOr<std::optional<std::string_view>> GetString(std::string_view key) const;
  StatusOr<const GgufArray*> GetArray(std::string_view key,
                                      GgufType element) const;  // null: absent

  // Tells the kernel that the pages of `data` (a tensor's) are not needed any more.
  void Release(std::span<const std::byte> data) const;

 private:
  GgufFile() = default;
  friend class GgufParser;
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

}  // namespace ropeway

#endif  // ROPEWAY_MODEL_GGUF_H_
