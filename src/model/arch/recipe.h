// How a GGUF file of one architecture becomes a ModelConfig and a table of tensors. Each recipe is
// one file of this folder; to add one, write it and add its line to kRecipes in recipe.cc.
#ifndef ROPEWAY_MODEL_ARCH_RECIPE_H_
#define ROPEWAY_MODEL_ARCH_RECIPE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/gguf.h"
#include "model/model_config.h"
#include "model/model_tensors.h"
#include "ropeway/status.h"

namespace ropeway::model {

// Reads the metadata keys of a model. A key is given without the prefix "ARCHITECTURE.". The first
// failure is kept in status(); later reads return values that are not used. Numbers are bounded, so
// nothing that is computed or allocated from them overflows.
class MetadataReader {
 public:
  // `architecture` must outlive the reader.
  MetadataReader(const GgufFile& file, std::string_view architecture)
      : file_(file), architecture_(architecture) {}

  const Status& status() const { return status_; }
  std::string Key(std::string_view key) const;  // With the prefix.
  bool Has(std::string_view key) const { return file_.Find(Key(key)) != nullptr; }

  // The key's value. A key that is absent yields `absent`, or fails if that is nullopt.
  // kDataLoss for a value of another type or outside [min, max].
  int32_t Uint(std::string_view key, uint64_t min, uint64_t max,
               std::optional<int32_t> absent = {});
  double Float(std::string_view key, double min, double max, std::optional<double> absent = {});
  std::string_view String(std::string_view key, std::string_view absent);

  // Records a failure that concerns the key, unless there is one already.
  void Fail(StatusCode code, std::string_view key, const std::string& what);

  // Fails with kUnimplemented if the file sets a key that is known to change what some architecture
  // computes, and the recipe has not read it.
  void RejectKeysNotRead();

 private:
  const std::string& Read(std::string_view key);
  template <typename T>
  T Keep(StatusOr<std::optional<T>> value, const std::string& key, std::optional<T> absent);
  void Fail(const Status& status);

  const GgufFile& file_;
  const std::string_view architecture_;
  std::vector<std::string> read_;  // Keys with their prefix.
  Status status_;
};

// What most architectures have in common: sizes, heads, and the vocabulary's bound.
void ReadSizes(MetadataReader* reader, ModelConfig* config);
// RoPE with its scaling. REQUIRES: ReadSizes was called.
void ReadRope(MetadataReader* reader, ModelConfig* config);

struct TensorSpec {
  const GgufTensor* LayerTensors::*tensor;
  std::string_view name;       // In the file, without the prefix "blk.N.".
  std::vector<int32_t> shape;  // GGUF order: {inputs, outputs} of a matrix, {elements} of a norm.
};

struct Recipe {
  std::string_view architecture;
  // Sets every field but vocab_size and tied_output, which the tensors give.
  ModelConfig (*read_config)(MetadataReader* reader);
  // The tensors of each layer.
  std::vector<TensorSpec> (*layer_tensors)(const ModelConfig& config);
};

// nullptr if there is none for this architecture.
const Recipe* FindRecipe(std::string_view architecture);
// The architectures that have a recipe: "llama", in quotes and with commas between.
std::string SupportedArchitectures();

extern const Recipe kLlamaRecipe;

}  // namespace ropeway::model

#endif  // ROPEWAY_MODEL_ARCH_RECIPE_H_
