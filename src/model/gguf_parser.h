// Turns the bytes of a GGUF file into GgufFile's tables. Every number read is checked against the
// bytes that are left before it is used, so that nothing larger than the file is ever allocated.
#ifndef ROPEWAY_MODEL_GGUF_PARSER_H_
#define ROPEWAY_MODEL_GGUF_PARSER_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "model/gguf.h"
#include "ropeway/status.h"

namespace ropeway {

class GgufParser {
 public:
  // Fills `file`, whose map_ and path_ are set. REQUIRES: `file` outlives the parser.
  explicit GgufParser(GgufFile* file) : file_(file), map_(file->map_) {}

  // kDataLoss with one sentence naming the field at fault.
  Status Parse();

 private:
  // Each returns false after having set status_.
  bool ParseHeader();
  bool ParseMetadata();
  bool ParseEntry(uint64_t index);
  bool ParseValue(const std::string& field, GgufType type, GgufValue* value);
  bool ParseArray(const std::string& field, GgufArray* array);
  bool ParseAlignment();
  bool ParseTensors();
  bool ParseTensorInfo(uint64_t index);
  bool ParseShape(const std::string& field, GgufTensor* tensor);
  bool PlaceTensors();
  bool PlaceTensor(GgufTensor* tensor, uint64_t offset);
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
  bool Fail(const std::string& field, const std::string& what);

  uint64_t remaining() const { return map_.size() - pos_; }

  GgufFile* file_;
  std::span<const std::byte> map_;
  uint64_t pos_ = 0;
  uint64_t tensor_count_ = 0;
  uint64_t metadata_count_ = 0;
  uint64_t alignment_ = 32;
  std::vector<uint64_t> offsets_;  // Of each tensor, within the data section.
  Status status_;
};

}  // namespace ropeway

#endif  // ROPEWAY_MODEL_GGUF_PARSER_H_
