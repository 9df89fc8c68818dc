#include "model/model_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/utf8.h"
#include "model/arch/recipe.h"

namespace ropeway::model {
namespace {

constexpr uint64_t kMaxVocab = 1 << 24;
// Pairs may turn faster than without scaling, but the table's sine is exact to 2^28 radians only.
constexpr float kMinDivisor = 1.0F / 16.0F;
constexpr float kMaxDivisor = 1e9F;

StatusOr<const Recipe*> RecipeOf(const GgufFile& file) {
  constexpr const char* kKey = "general.architecture";
  StatusOr<std::optional<std::string_view>> name = file.GetString(kKey);
  if (!name.ok()) return name.status();
  if (!name->has_value()) {
    return file.Error(StatusCode::kDataLoss, MetadataField(kKey), "the key is missing");
  }
  const Recipe* recipe = FindRecipe(**name);
  if (recipe != nullptr) return recipe;
  return file.Error(
      StatusCode::kUnimplemented, MetadataField(kKey),
      fmt::format("\"{}\" is not supported; {}", base::PrintableText((*name)->substr(0, 64)),
                  SupportedArchitectures()));
}

StatusOr<ModelConfig> ReadConfig(const GgufFile& file, const Recipe& recipe) {
  MetadataReader reader(file, recipe.architecture);
  ModelConfig config = recipe.read_config(&reader);
  reader.RejectKeysNotRead();
  if (!reader.status().ok()) return reader.status();
  return config;
}

// Finds tensors one after another and keeps the first failure.
class TensorBinder {
 public:
  TensorBinder(const GgufFile& file, const Recipe& recipe, ModelConfig config)
      : file_(file), recipe_(recipe) {
    result_.config = std::move(config);
  }

  StatusOr<ModelTensors> Bind() {
    BindEmbeddingAndOutput();
    BindLayers();
    BindRopeDivisors();
    RejectUnknownTensors();
    if (!status_.ok()) return status_;
    return std::move(result_);
  }

 private:
  void BindEmbeddingAndOutput();
  void BindLayers();
  void BindRopeDivisors();
  void CheckVocabulary(uint64_t vocab);
  void RejectUnknownTensors();

  // The tensor of that name, which must have this shape; one dimension: a norm.
  const GgufTensor* Find(const std::string& name, const std::vector<int32_t>& shape);
  bool CheckShape(const GgufTensor& tensor, const std::vector<int32_t>& shape);

  void Keep(const Status& status) {
    if (status_.ok()) status_ = status;
  }
  void Fail(StatusCode code, std::string_view tensor, const std::string& what) {
    Keep(file_.Error(code, TensorField(tensor), what));
  }

  const GgufFile& file_;
  const Recipe& recipe_;
  ModelTensors result_;
  Status status_;
};

bool TensorBinder::CheckShape(const GgufTensor& tensor, const std::vector<int32_t>& shape) {
  const auto same = [](uint64_t a, int32_t b) { return a == static_cast<uint64_t>(b); };
  if (std::ranges::equal(tensor.shape, shape, same)) return true;
  Fail(StatusCode::kDataLoss, tensor.name,
       fmt::format("its shape is [{}], but the metadata asks for [{}]",
                   fmt::join(tensor.shape, ", "), fmt::join(shape, ", ")));
  return false;
}

const GgufTensor* TensorBinder::Find(const std::string& name, const std::vector<int32_t>& shape) {
  if (!status_.ok()) return nullptr;
  const GgufTensor* tensor = file_.FindTensor(name);
  if (tensor == nullptr) {
    Fail(StatusCode::kDataLoss, name, "the tensor is missing");
    return nullptr;
  }
  const TensorUse use = shape.size() > 1 ? TensorUse::kMatrix : TensorUse::kVector;
  if (const auto problem = UnsupportedType(tensor->type, use)) {
    Fail(StatusCode::kUnimplemented, name, *problem);
  }
  CheckShape(*tensor, shape);
  result_.all.push_back(tensor);
  return tensor;
}

void TensorBinder::BindEmbeddingAndOutput() {
  ModelConfig& config = result_.config;
  const std::string name = "token_embd.weight";
  const GgufTensor* tensor = file_.FindTensor(name);
  if (tensor == nullptr) {
    Fail(StatusCode::kDataLoss, name,
         file_.tensors().empty() ? "the file has no tensors, only metadata"
                                 : "the tensor is missing");
    return;
  }
  const uint64_t vocab = tensor->shape.size() == 2 ? tensor->shape[1] : 0;
  if (vocab < 1 || vocab > kMaxVocab) {
    Fail(StatusCode::kDataLoss, name,
         fmt::format("its shape is [{}]; [embedding length, vocabulary size] is expected",
                     fmt::join(tensor->shape, ", ")));
    return;
  }
  config.vocab_size = static_cast<int32_t>(vocab);
  result_.token_embedding = Find(name, {config.hidden_size, config.vocab_size});
  CheckVocabulary(vocab);
  result_.output_norm = Find("output_norm.weight", {config.hidden_size});
  config.tied_output = file_.FindTensor("output.weight") == nullptr;
  if (!config.tied_output) {
    result_.output = Find("output.weight", {config.hidden_size, config.vocab_size});
  }
}

void TensorBinder::CheckVocabulary(uint64_t vocab) {
  const auto check = [&](const std::string& key, uint64_t count) {
    if (count == vocab) return;
    Keep(file_.Error(StatusCode::kDataLoss, MetadataField(key),
                     fmt::format("{} tokens, but token_embd.weight has {} rows", count, vocab)));
  };
  constexpr const char* kTokens = "tokenizer.ggml.tokens";
  const StatusOr<const GgufArray*> tokens = file_.GetArray(kTokens, GgufType::kString);
  if (!tokens.ok()) return Keep(tokens.status());
  if (*tokens != nullptr) check(kTokens, (*tokens)->count);
  const std::string size_key = fmt::format("{}.vocab_size", recipe_.architecture);
  const StatusOr<std::optional<uint64_t>> size = file_.GetUint(size_key, 1, kMaxVocab);
  if (!size.ok()) return Keep(size.status());
  check(size_key, size->value_or(vocab));
}

void TensorBinder::BindLayers() {
  const std::vector<TensorSpec> specs = recipe_.layer_tensors(result_.config);
  for (int32_t i = 0; i < result_.config.num_layers && status_.ok(); ++i) {
    LayerTensors& layer = result_.layers.emplace_back();
    for (const TensorSpec& spec : specs) {
      layer.*spec.tensor = Find(fmt::format("blk.{}.{}", i, spec.name), spec.shape);
    }
  }
}

void TensorBinder::BindRopeDivisors() {
  const std::string name = "rope_freqs.weight";
  const GgufTensor* tensor = file_.FindTensor(name);
  if (!status_.ok() || tensor == nullptr) return;
  if (WeightTypeOf(tensor->type) != kernels::WeightType::kF32) {
    return Fail(StatusCode::kUnimplemented, name,
                fmt::format("type {} is not supported here; F32 is", GgmlTypeName(tensor->type)));
  }
  if (!CheckShape(*tensor, {result_.config.rope.dim / 2})) return;
  std::vector<float>& divisors = result_.rope_divisors;
  divisors.resize(tensor->shape[0]);
  Keep(file_.Read(tensor->begin, std::as_writable_bytes(std::span(divisors))));
  if (!status_.ok()) return;
  for (size_t i = 0; i < divisors.size(); ++i) {
    if (divisors[i] >= kMinDivisor && divisors[i] <= kMaxDivisor) continue;
    Fail(StatusCode::kDataLoss, name,
         fmt::format("element {} is {}; it must be from {} to {}", i, divisors[i], kMinDivisor,
                     kMaxDivisor));
  }
}

void TensorBinder::RejectUnknownTensors() {
  std::vector<const GgufTensor*> known = result_.all;
  std::ranges::sort(known);
  for (const GgufTensor& tensor : file_.tensors()) {
    // Old files repeat the plain RoPE frequencies in each layer.
    if (tensor.name == "rope_freqs.weight" || tensor.name.ends_with(".attn_rot_embd.weight")) {
      continue;
    }
    if (std::ranges::binary_search(known, &tensor)) continue;
    return Fail(
        StatusCode::kUnimplemented, tensor.name,
        fmt::format("the {} models that are supported have no such tensor", recipe_.architecture));
  }
}

}  // namespace

StatusOr<ModelConfig> ReadModelConfig(const GgufFile& file) {
  const StatusOr<const Recipe*> recipe = RecipeOf(file);
  if (!recipe.ok()) return recipe.status();
  return ReadConfig(file, **recipe);
}

StatusOr<ModelTensors> BindTensors(const GgufFile& file) {
  const StatusOr<const Recipe*> recipe = RecipeOf(file);
  if (!recipe.ok()) return recipe.status();
  StatusOr<ModelConfig> config = ReadConfig(file, **recipe);
  if (!config.ok()) return config.status();
  return TensorBinder(file, **recipe, *std::move(config)).Bind();
}

}  // namespace ropeway::model
