// For tests: writes .safetensors files and folders in Hugging Face's format from code.
#ifndef ROPEWAY_MODEL_TEST_HF_WRITER_H_
#define ROPEWAY_MODEL_TEST_HF_WRITER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/test_gguf_writer.h"

namespace ropeway::model {

// Collects tensors, then writes the file.
class SafetensorsWriter {
 public:
  // `shape` has the contiguous dimension last. `values` are stored as `dtype`: F32, F16 or BF16
  // (rounded to nearest even).
  void Add(std::string_view name, const std::vector<uint64_t>& shape, std::string_view dtype,
           const std::vector<float>& values);
  // Data as they are.
  void AddBytes(std::string_view name, const std::vector<uint64_t>& shape, std::string_view dtype,
                const std::string& bytes);

  std::string Bytes() const;

  // A file of any header, also of one that is not valid, and any data.
  static std::string WithHeader(std::string_view header, std::string_view data);

 private:
  std::string header_;  // Entries, each with a comma behind it.
  std::string data_;
};

// A new folder, removed with the object.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string PathOf(std::string_view name) const { return path_ + "/" + std::string(name); }
  void Write(std::string_view name, std::string_view bytes) const;
  void Remove(std::string_view name) const;

 private:
  std::string path_;
};

// Writes the tiny model in Hugging Face's format into a folder that exists, with a tokenizer. It
// computes the same to the bit as the GGUF file of these options. REQUIRES: weights in F32 or F16.
void WriteTinyFolder(const TinyLlamaOptions& options, const std::string& folder);

}  // namespace ropeway::model

#endif  // ROPEWAY_MODEL_TEST_HF_WRITER_H_
