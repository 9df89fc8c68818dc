// A model in a folder in Hugging Face's format, config.json and one or more .safetensors files: how
// it is opened, and the parts that hf_folder.cc reads it with.
#ifndef ROPEWAY_MODEL_HF_FOLDER_H_
#define ROPEWAY_MODEL_HF_FOLDER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/random_access_file.h"
#include "model/failures.h"
#include "model/gguf.h"
#include "model/gguf_builder.h"
#include "model/hf_json.h"
#include "ropeway/status.h"

namespace ropeway::model {

// Whether the folder has a config.json and weights beside it.
bool IsHfFolder(const std::string& path);

// Reads the tables of the model, as OpenModel describes. The tokenizer's files are left to
// tokenizer::ReadHfVocabulary. *failures is added what is wrong, all that could be found.
StatusOr<std::unique_ptr<GgufFile>> OpenHfFolder(const std::string& path, Failures* failures);

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
// weights differ from those of GGUF.
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
