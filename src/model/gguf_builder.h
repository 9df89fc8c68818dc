// Makes the tables of GGUF of a model that is stored in another format.
#ifndef ROPEWAY_MODEL_GGUF_BUILDER_H_
#define ROPEWAY_MODEL_GGUF_BUILDER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/gguf.h"
#include "model/model_bytes.h"
#include "ropeway/status.h"

namespace ropeway::model {

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

#endif  // ROPEWAY_MODEL_GGUF_BUILDER_H_
