// A model in a folder in Hugging Face's format, config.json and one or more .safetensors files: how
// it is opened, and the parts that hf_folder.cc reads it with.
#ifndef ROPEWAY_MODEL_HF_FOLDER_H_
#define ROPEWAY_MODEL_HF_FOLDER_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/random_access_file.h"
#include "model/failures.h"
#include "model/gguf.h"
#include "ropeway/status.h"

namespace ropeway::model {

// Whether the folder has a config.json and weights beside it.
bool IsHfFolder(const std::string& path);

// Reads the tables of the model, as OpenModel describes. The tokenizer's files are left to
// tokenizer::ReadHfVocabulary. *failures is added what is wrong, all that could be found.
StatusOr<std::unique_ptr<GgufFile>> OpenHfFolder(const std::string& path, Failures* failures);

// Reads FOLDER/NAME and parses it. kDataLoss, naming the file, for a file that is not valid JSON,
// or larger than `max_bytes`; kNotFound if there is none.
StatusOr<nlohmann::json> ReadHfFile(const std::string& folder, std::string_view name,
                                    size_t max_bytes, const base::JsonBounds& bounds);

// What messages call a field: config.json "hidden_size".
std::string HfField(std::string_view file, std::string_view key);

// Reads the fields of one JSON object. Failures are kept, one of each field, and reading goes on: a
// number that could not be read is 0. null is the same as an absent field.
class HfFields {
 public:
  // `path`: of the folder; `file`: its file, as messages call it. `object` must outlive this.
  HfFields(std::string_view path, std::string_view file, const nlohmann::json& object);

  const Failures& failures() const { return failures_; }
  bool ok() const { return failures_.ok(); }
  const std::string& path() const { return path_; }
  std::string Field(std::string_view key) const { return HfField(file_, key); }

  bool Has(std::string_view key) const { return Find(key) != nullptr; }
  // Whether the field is there, and null.
  bool IsNull(std::string_view key) const;
  // The first of the keys that there is; the first where there is none.
  std::string_view Name(std::initializer_list<std::string_view> keys) const;

  // The field's value; `absent` where there is none, or a failure if that is nullopt.
  uint32_t Uint(std::string_view key, std::optional<uint32_t> absent = {});
  double Number(std::string_view key, std::optional<double> absent = {});  // Finite.
  bool Bool(std::string_view key, bool absent);
  std::string Text(std::string_view key, const std::optional<std::string>& absent = {});
  std::vector<std::string> Texts(std::string_view key);  // Empty where absent.
  std::vector<float> Numbers(std::string_view key);      // Empty where absent.
  // An object; null where absent.
  const nlohmann::json* Object(std::string_view key);

  // Records a failure that concerns the key, unless there is one of it already.
  void Fail(StatusCode code, std::string_view key, const std::string& what);
  // Records failures that were found elsewhere.
  void Keep(const Failures& failures) { failures_.Add(failures); }

 private:
  const nlohmann::json* Find(std::string_view key) const;
  void Mismatch(std::string_view key, const char* expected);
  void Missing(std::string_view key) { Fail(StatusCode::kDataLoss, key, "the field is missing"); }

  const std::string path_;
  const std::string file_;
  const nlohmann::json& object_;
  Failures failures_;
};

// A tensor in the header of a .safetensors file (the format of Hugging Face's safetensors).
struct SafeTensor {
  std::string name;             // Printable ASCII.
  std::string dtype;            // As in the file: "BF16".
  std::vector<uint64_t> shape;  // The contiguous dimension last; empty: a single number.
  uint64_t begin = 0;           // Where its data begins in the file, which has all of it.
  uint64_t bytes = 0;           // As the type and the shape need.
};

// The tensors in the order of their data. kDataLoss with one sentence that names the file and the
// tensor if the header is not valid: every number is checked before it is used, the data must
// follow one another without gaps, and what is allocated is bounded by the file's size.
StatusOr<std::vector<SafeTensor>> ReadSafetensors(const base::RandomAccessFile& file);

// Bytes of an element of a type; 0 for one that is unknown.
uint64_t SafeDtypeBytes(const std::string& dtype);

// An architecture of transformers: what it takes where config.json has no such field, and how its
// weights differ from the weights in GGUF.
struct HfArchitecture {
  const char* name;  // In config.json's "architectures".
  const char* gguf;  // The architecture in GGUF.
  const char* activation;
  double rope_theta = 1e4;
  double norm_eps = 1e-6;
  uint32_t kv_heads = 0;  // 0: as many as heads.
  uint32_t head_dim = 0;  // 0: the heads share the hidden size.
  // Positions of its windows, 0: none. Absent: it has no windows, whatever config.json says.
  std::optional<uint32_t> window = std::nullopt;
  bool rope_pairs = false;     // GGUF keeps the rows of q and k so that RoPE turns neighbours.
  bool norm_plus_one = false;  // GGUF keeps the weights of norms plus 1.
  bool transposed = false;     // Matrices are [inputs, outputs].
};

// What the weights' names and shapes are read by.
struct HfModel {
  const HfArchitecture* architecture = nullptr;
  uint32_t layers = 0;
  uint32_t heads = 0;
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t experts = 0;      // 0: none.
  std::optional<bool> tied;  // The output matrix is the embedding; absent: the weights decide.
  // Divisors of RoPE's frequencies, as the tensors rope_freqs, rope_factors_long and
  // rope_factors_short; empty: none.
  std::vector<float> rope_freqs;
  std::vector<float> rope_long;
  std::vector<float> rope_short;
};

// Reads config.json, whose fields `config` has, and sets the metadata of the model. A failure is in
// config->failures(): kDataLoss for a field that is missing or impossible, kUnimplemented for one
// that Ropeway lacks; what GGUF's recipes check is left to them.
HfModel ReadHfConfig(HfFields* config, GgufFile::Builder* builder);

// Moves the fields of "text_config", where there is one (models that also see images), to the top.
void FlattenTextConfig(nlohmann::json* config);

// Sets how embeddings are pooled from the fields of sentence-transformers' 1_Pooling/config.json.
// Failures as above. REQUIRES: model.architecture is set.
void ReadHfPooling(HfFields* pooling, const HfModel& model, GgufFile::Builder* builder);

// Sets how long texts are where no flag says it, from the fields of sentence-transformers'
// sentence_bert_config.json. Failures as above. REQUIRES: model.architecture is set.
void ReadHfUsualLength(HfFields* sentences, const HfModel& model, GgufFile::Builder* builder);

// Sets general.sampling.* from the fields of generation_config.json. Failures as above.
void ReadHfGeneration(HfFields* generation, GgufFile::Builder* builder);

// Sets the metadata of RoPE from the fields of `config`, and the divisors of its frequencies in
// *model, whose architecture and head_dim are set. `context`: positions of the model. Failures as
// for ReadHfConfig.
void ReadHfRope(HfFields* config, uint32_t context, GgufFile::Builder* builder, HfModel* model);

// A tensor of one of the folder's files.
struct HfTensor {
  SafeTensor tensor;
  size_t file = 0;  // Its index in GgufFile::Builder::bytes().
};

// Adds all tensors. Matrices stay in the files; vectors, which are small, are read now and kept as
// F32. Fails, naming the tensor, for one that the architecture does not have (kUnimplemented), or
// whose type or shape cannot be (kDataLoss); whether shapes fit the configuration is left to
// BindTensors.
Status AddHfTensors(const HfModel& model, const std::vector<HfTensor>& tensors,
                    GgufFile::Builder* builder);

}  // namespace ropeway::model

#endif  // ROPEWAY_MODEL_HF_FOLDER_H_
