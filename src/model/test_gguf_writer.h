// For tests: writes GGUF files from code, and a tiny random llama model that runs in microseconds.
// Other rooms' tests link ropeway_test_gguf; the program make_tiny_model writes the same to a file.
#ifndef ROPEWAY_MODEL_TEST_GGUF_WRITER_H_
#define ROPEWAY_MODEL_TEST_GGUF_WRITER_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernels.h"
#include "model/gguf.h"

namespace ropeway::model {

// `values` as GGUF stores them in `type`, block after block (test_quantise.cc). Throws
// std::runtime_error unless they are whole blocks.
std::string QuantiseForGguf(kernels::WeightType type, std::span<const float> values);

// Collects metadata and tensors, then writes them. The Set functions replace an entry of the same
// name; the Add functions always append, so that invalid files can be written too.
class GgufWriter {
 public:
  explicit GgufWriter(uint32_t version = 3) : version_(version) {}

  void SetUint32(std::string_view key, uint32_t value);
  void SetUint64(std::string_view key, uint64_t value);
  void SetInt32(std::string_view key, int32_t value);
  void SetFloat32(std::string_view key, float value);
  void SetBool(std::string_view key, bool value);
  void SetString(std::string_view key, std::string_view value);
  void SetStrings(std::string_view key, const std::vector<std::string>& values);
  void SetInt32s(std::string_view key, const std::vector<int32_t>& values);
  void SetFloat32s(std::string_view key, const std::vector<float>& values);
  void SetBools(std::string_view key, const std::vector<bool>& values);
  void Remove(std::string_view key);

  // Appends an entry of any type with the bytes of its value in the file.
  void AddRaw(std::string_view key, uint32_t type, std::string bytes);

  // `values` in GGUF order (shape[0] is contiguous), converted to `type`.
  void SetTensor(std::string_view name, const std::vector<uint64_t>& shape,
                 kernels::WeightType type, std::span<const float> values);
  // Appends a tensor with any type number and bytes; `offset_shift` is added to its true offset.
  void AddRawTensor(std::string_view name, const std::vector<uint64_t>& shape, uint32_t type,
                    std::string bytes, uint64_t offset_shift = 0);
  void RemoveTensor(std::string_view name);

  // Alignment of tensor data; also written as general.alignment unless 32.
  void SetAlignment(uint32_t alignment);

  std::string Bytes() const;

 private:
  struct Entry {
    std::string key;
    uint32_t type;
    std::string bytes;
  };
  struct Tensor {
    std::string name;
    std::vector<uint64_t> shape;
    uint32_t type;
    std::string bytes;
    uint64_t offset_shift;
  };
  void Set(std::string_view key, GgufType type, std::string bytes);

  uint32_t version_;
  uint32_t alignment_ = 32;
  std::vector<Entry> entries_;
  std::vector<Tensor> tensors_;
};

// A file in the temporary folder that is removed with the object.
class TempFile {
 public:
  explicit TempFile(std::string_view bytes, std::string_view suffix = ".gguf");
  ~TempFile();
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct TinyLlamaOptions {
  uint64_t seed = 1;
  int layers = 2;
  int hidden = 64;
  int heads = 4;
  int kv_heads = 2;
  int head_dim = 16;
  int ffn = 96;
  int context_length = 512;
  bool tied = true;  // No output.weight.
  kernels::WeightType embedding =
      kernels::WeightType::kQ8_0;  // token_embd.weight, and output.weight where untied.
  kernels::WeightType weights = kernels::WeightType::kQ4_1;  // All other matrices ...
  bool mixed = false;                           // ... or each next one of the next type of five ...
  std::vector<kernels::WeightType> types = {};  // ... or, unless empty, of these.
};

// A random llama model, the same on every machine. Byte-level BPE: ids 0 <|endoftext|>,
// 1 <|im_start|> (BOS), 2 <|im_end|> (EOS), 3 + b the byte b, then kTinyMerges merged tokens; so
// the vocabulary is no multiple of a panel. Different prompts have different greedy continuations.
GgufWriter TinyLlama(const TinyLlamaOptions& options = {});

// The same vocabulary for other tiny models.
void AddTinyTokenizer(GgufWriter* file);

// As many numbers about normal, mean 0 and deviation 1, the same on every machine: sums of four
// uniform ones from SplitMix64 (Steele, Lea & Flood 2014).
std::vector<double> TinyNormals(uint64_t seed, size_t count);

inline constexpr int kTinyMerges = 8;
inline constexpr int kTinyVocab = 3 + 256 + kTinyMerges;

}  // namespace ropeway::model

#endif  // ROPEWAY_MODEL_TEST_GGUF_WRITER_H_
