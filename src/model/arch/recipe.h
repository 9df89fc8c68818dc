// How a GGUF file of one architecture becomes a ModelConfig and a table of tensors. Each recipe is
// one file of this folder; to add one, write it and add its line to kRecipes in recipe.cc.
#ifndef ROPEWAY_MODEL_ARCH_RECIPE_H_
#define ROPEWAY_MODEL_ARCH_RECIPE_H_

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/failures.h"
#include "model/gguf.h"
#include "model/model_config.h"
#include "ropeway/status.h"

namespace ropeway::model {

// Reads the metadata keys of a model. A key is given without the prefix "ARCHITECTURE.". Failures
// are kept, one of each key, and reading goes on, so that all can be told: a number that could not
// be read is 0, and what depends on it is not to fail for that. Numbers are bounded, so nothing
// that is computed or allocated from them overflows.
class MetadataReader {
 public:
  // `architecture` must outlive the reader.
  MetadataReader(const GgufFile& file, std::string_view architecture)
      : file_(file), architecture_(architecture) {}

  bool ok() const { return failures_.ok(); }
  const Failures& failures() const { return failures_; }
  bool Failed(std::string_view key) const;
  std::string_view architecture() const { return architecture_; }
  std::string Key(std::string_view key) const;  // With the prefix.
  bool Has(std::string_view key) const { return file_.Find(Key(key)) != nullptr; }
  bool HasTensor(std::string_view name) const { return file_.FindTensor(name) != nullptr; }

  // The key's value. A key that is absent yields `absent`, or fails if that is nullopt.
  // kDataLoss for a value of another type or outside [min, max].
  int32_t Uint(std::string_view key, uint64_t min, uint64_t max,
               std::optional<int32_t> absent = {});
  double Float(std::string_view key, double min, double max, std::optional<double> absent = {});
  bool Bool(std::string_view key, bool absent);
  std::string_view String(std::string_view key, std::string_view absent);
  // The flags of an array of bools or integers, which must have `count` elements. Empty if the key
  // is absent, or no array.
  std::vector<bool> Flags(std::string_view key, int32_t count);

  // Records a failure that concerns the key, unless there is one of it already.
  void Fail(StatusCode code, std::string_view key, const std::string& what);

  // Fails with kUnimplemented if the file sets a key that is known to change what some architecture
  // computes, and the recipe has not read it. After another failure it does nothing: recipes may
  // have left keys out then.
  void RejectKeysNotRead();

 private:
  const std::string& Read(std::string_view key);
  template <typename T>
  T Keep(StatusOr<std::optional<T>> value, const std::string& key, std::optional<T> absent);

  const GgufFile& file_;
  const std::string_view architecture_;
  std::vector<std::string> read_;  // Keys with their prefix.
  Failures failures_;
};

// What most architectures have in common. Each reads its keys and sets its fields; ReadSizes first.

// Sizes and heads.
void ReadSizes(MetadataReader* reader, ModelConfig* config);
void ReadRmsNorm(MetadataReader* reader, ModelConfig* config);
// The scale of scores, 1 / sqrt(head_dim) where the file names no other.
void ReadAttentionScale(MetadataReader* reader, ModelConfig* config);
// RoPE with its scaling.
void ReadRope(MetadataReader* reader, ModelConfig* config);
// Windows: of `window` positions where the file names no other length (0: none), in all layers but
// each `pattern`-th, or in all layers if `pattern` is 0.
void ReadWindows(MetadataReader* reader, int32_t window, int32_t pattern, ModelConfig* config);
// RoPE of the layers with a window, where the file names another base for them. After ReadRope and
// ReadWindows.
void ReadWindowRope(MetadataReader* reader, ModelConfig* config);
// Reads a decoder with RMSNorm and RoPE: its name and all of the above but windows. Most recipes
// begin with it.
ModelConfig ReadRopeDecoder(MetadataReader* reader, PositionKind position, Activation activation);
// A mixture of experts; `intermediate_size` of each where the file names no other.
void ReadExperts(MetadataReader* reader, int32_t intermediate_size, ModelConfig* config);
// The scales of a Gemma: of embeddings; and of scores in the largest of the family, which has so
// many layers and whose files mostly do not name it.
void ReadGemmaScales(MetadataReader* reader, int32_t layers_of_largest, ModelConfig* config);

// Consecutive rows of a matrix, or elements of a vector: all of them, unless one tensor has several
// roles (q, k and v in one matrix, the experts of a layer).
struct TensorPart {
  const GgufTensor* tensor = nullptr;  // nullptr: the model has none of this role.
  uint64_t begin = 0;                  // The first row (output feature), or element.
  int32_t n = 0;                       // Rows, or elements.
  int32_t k = 0;                       // Input features; 0: a vector.

  explicit operator bool() const { return tensor != nullptr; }
};

// The tensors of a feed-forward network, or of one expert.
struct FfnTensors {
  TensorPart gate;
  TensorPart up;
  TensorPart down;
  TensorPart gate_bias;
  TensorPart up_bias;
  TensorPart down_bias;
};

// Either the layer has a network of its own (`up`), or a router and experts.
struct LayerTensors : FfnTensors {
  TensorPart attention_norm;
  TensorPart attention_norm_bias;
  TensorPart q;
  TensorPart k;
  TensorPart v;
  TensorPart o;
  TensorPart q_bias;
  TensorPart k_bias;
  TensorPart v_bias;
  TensorPart o_bias;
  TensorPart q_norm;
  TensorPart k_norm;
  TensorPart sinks;
  TensorPart attention_post_norm;
  TensorPart ffn_norm;
  TensorPart ffn_norm_bias;
  TensorPart ffn_post_norm;
  TensorPart attention_out_norm;
  TensorPart attention_out_norm_bias;
  TensorPart ffn_out_norm;
  TensorPart ffn_out_norm_bias;
  TensorPart router;
  TensorPart router_bias;
  TensorPart shared_gate;
  std::vector<FfnTensors> experts;
  FfnTensors shared;  // The expert of all rows.
};

// A tensor that each layer has, and what it, or part of it, is.
struct TensorSpec {
  enum class Of { kLayer, kEachExpert, kSharedExpert };

  std::string_view name;       // In the file, without the prefix "blk.N.".
  std::vector<int32_t> shape;  // GGUF order: {inputs, outputs} of a matrix, {elements} of a vector;
                               // of kEachExpert with their number behind it.
  TensorPart LayerTensors::*role = nullptr;    // Of kLayer, ...
  TensorPart FfnTensors::*ffn_role = nullptr;  // ... of the others.
  Of of = Of::kLayer;
  bool vector = false;
  int32_t begin = 0;  // The first row or element that has the role.
  int32_t n = 0;      // The number of rows or elements.
};

TensorSpec MatrixSpec(TensorPart LayerTensors::*role, std::string_view name, int32_t inputs,
                      int32_t outputs);
TensorSpec VectorSpec(TensorPart LayerTensors::*role, std::string_view name, int32_t elements);
// Rows [begin, begin + n) of a matrix that has `outputs` of them.
TensorSpec MatrixRowsSpec(TensorPart LayerTensors::*role, std::string_view name, int32_t inputs,
                          int32_t outputs, int32_t begin, int32_t n);
TensorSpec VectorPartSpec(TensorPart LayerTensors::*role, std::string_view name, int32_t elements,
                          int32_t begin, int32_t n);
TensorSpec ExpertMatrixSpec(TensorPart FfnTensors::*role, std::string_view name, int32_t inputs,
                            int32_t outputs, int32_t experts);
TensorSpec ExpertVectorSpec(TensorPart FfnTensors::*role, std::string_view name, int32_t elements,
                            int32_t experts);
TensorSpec SharedExpertSpec(TensorPart FfnTensors::*role, std::string_view name, int32_t inputs,
                            int32_t outputs);

using TensorSpecs = std::vector<TensorSpec>;

// What most layers consist of: the norm, q, k, v and o; the norm and a network with a gate; the
// router and experts with a gate. And what many add: biases of q, k and v; norms of q's and k's
// heads.
TensorSpecs AttentionSpecs(const ModelConfig& config);
TensorSpecs GatedFfnSpecs(const ModelConfig& config);
TensorSpecs ExpertSpecs(const ModelConfig& config);
TensorSpecs QkvBiasSpecs(const ModelConfig& config);
TensorSpecs HeadNormSpecs(const ModelConfig& config);
// The specs of all parts, one after another.
TensorSpecs Join(std::initializer_list<TensorSpecs> parts);

// The embedding of the types of tokens.
inline constexpr const char* kTokenTypes = "token_types.weight";

struct Recipe {
  std::string_view architecture;
  // Sets every field but vocab_size and tied_output, which the tensors give, and pooling.
  ModelConfig (*read_config)(MetadataReader* reader);
  // The tensors of each layer.
  TensorSpecs (*layer_tensors)(const ModelConfig& config);
};

// The whole configuration: what the recipe reads, and what is the same for all of them.
ModelConfig ReadConfig(const Recipe& recipe, MetadataReader* reader);

// nullptr if there is none for this architecture.
const Recipe* FindRecipe(std::string_view architecture);
// The architectures that have a recipe: "gemma2", "llama", in quotes and with commas between.
std::string SupportedArchitectures();

extern const Recipe kBertRecipe;
extern const Recipe kGemma2Recipe;
extern const Recipe kGemma3Recipe;
extern const Recipe kGpt2Recipe;
extern const Recipe kGptOssRecipe;
extern const Recipe kLlamaRecipe;
extern const Recipe kPhi3Recipe;
extern const Recipe kQwen2Recipe;
extern const Recipe kQwen2MoeRecipe;
extern const Recipe kQwen3Recipe;
extern const Recipe kQwen3MoeRecipe;

}  // namespace ropeway::model

#endif  // ROPEWAY_MODEL_ARCH_RECIPE_H_
