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

  // The tensor of that name, which must have this shape, and a type that matrices or vectors have.
  const GgufTensor* Find(const std::string& name, const std::vector<int32_t>& shape, bool vector);
  bool CheckShape(const GgufTensor& tensor, const std::vector<int32_t>& shape);
  // The role of a whole tensor. Its last dimension is the number of rows, or of elements.
  TensorPart FindMatrix(const std::string& name, int32_t inputs, int32_t outputs);
  TensorPart FindVector(const std::string& name, int32_t elements);
  void BindSpec(const TensorSpec& spec, const GgufTensor* tensor, LayerTensors* layer);
  TensorPart Add(const TensorPart& part);
  std::vector<float> ReadDivisors(const std::string& name);

  void Keep(const Status& status) {
    if (status_.ok()) status_ = status;
  }
  void Fail(StatusCode code, std::string_view tensor, const std::string& what) {
    Keep(file_.Error(code, TensorField(tensor), what));
  }

  const GgufFile& file_;
  const Recipe& recipe_;
  ModelTensors result_;
  std::vector<const GgufTensor*> known_;
  Status status_;
};

bool TensorBinder::CheckShape(const GgufTensor& tensor, const std::vector<int32_t>& shape) {
  const auto same = [](uint64_t a, int32_t b) { return a == static_cast<uint64_t>(b); };
  // One row may have lost its number of rows.
  const auto rest = [](const auto& dims) {
    size_t size = dims.size();
    while (size > 1 && dims[size - 1] == 1) --size;
    return std::span(dims).first(size);
  };
  if (std::ranges::equal(rest(tensor.shape), rest(shape), same)) return true;
  Fail(StatusCode::kDataLoss, tensor.name,
       fmt::format("its shape is [{}], but the metadata asks for [{}]",
                   fmt::join(tensor.shape, ", "), fmt::join(shape, ", ")));
  return false;
}

const GgufTensor* TensorBinder::Find(const std::string& name, const std::vector<int32_t>& shape,
                                     bool vector) {
  if (!status_.ok()) return nullptr;
  const GgufTensor* tensor = file_.FindTensor(name);
  if (tensor == nullptr) {
    Fail(StatusCode::kDataLoss, name, "the tensor is missing");
    return nullptr;
  }
  const TensorUse use = vector ? TensorUse::kVector : TensorUse::kMatrix;
  if (const auto problem = UnsupportedType(tensor->type, use)) {
    Fail(StatusCode::kUnimplemented, name, *problem);
  }
  if (!CheckShape(*tensor, shape)) return nullptr;
  known_.push_back(tensor);
  return status_.ok() ? tensor : nullptr;
}

TensorPart TensorBinder::Add(const TensorPart& part) {
  if (part) result_.parts.push_back(part);
  return part;
}

TensorPart TensorBinder::FindMatrix(const std::string& name, int32_t inputs, int32_t outputs) {
  return Add({Find(name, {inputs, outputs}, false), 0, outputs, inputs});
}

TensorPart TensorBinder::FindVector(const std::string& name, int32_t elements) {
  return Add({Find(name, {elements}, true), 0, elements, 0});
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
  result_.token_embedding = FindMatrix(name, config.hidden_size, config.vocab_size);
  CheckVocabulary(vocab);
  if (config.position == PositionKind::kLearned) {
    result_.position_embedding =
        FindMatrix("position_embd.weight", config.hidden_size, config.context_length);
  }
  result_.output_norm = FindVector("output_norm.weight", config.hidden_size);
  if (config.norm == NormKind::kLayer) {
    result_.output_norm_bias = FindVector("output_norm.bias", config.hidden_size);
  }
  config.tied_output = file_.FindTensor("output.weight") == nullptr;
  if (!config.tied_output) {
    result_.output = FindMatrix("output.weight", config.hidden_size, config.vocab_size);
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
  const TensorSpecs specs = recipe_.layer_tensors(result_.config);
  for (int32_t i = 0; i < result_.config.num_layers && status_.ok(); ++i) {
    LayerTensors& layer = result_.layers.emplace_back();
    const GgufTensor* tensor = nullptr;
    std::string_view found;  // What `tensor` is: of a tensor with several roles the specs follow.
    for (const TensorSpec& spec : specs) {
      if (spec.name != found) {
        tensor = Find(fmt::format("blk.{}.{}", i, spec.name), spec.shape, spec.vector);
        found = spec.name;
      }
      if (tensor == nullptr) break;
      BindSpec(spec, tensor, &layer);
    }
  }
}

void TensorBinder::BindSpec(const TensorSpec& spec, const GgufTensor* tensor, LayerTensors* layer) {
  const int32_t k = spec.vector ? 0 : spec.shape[0];
  TensorPart part = {tensor, static_cast<uint64_t>(spec.begin), spec.n, k};
  switch (spec.of) {
    case TensorSpec::Of::kLayer:
      layer->*spec.role = Add(part);
      return;
    case TensorSpec::Of::kSharedExpert:
      layer->shared.*spec.ffn_role = Add(part);
      return;
    case TensorSpec::Of::kEachExpert:
      break;
  }
  // As many as the file has: the shape was checked.
  layer->experts.resize(static_cast<size_t>(spec.shape.back()));
  for (FfnTensors& expert : layer->experts) {
    expert.*spec.ffn_role = Add(part);
    part.begin += static_cast<uint64_t>(spec.n);
  }
}

void TensorBinder::BindRopeDivisors() {
  const bool is_long = result_.config.rope.scaling == RopeScaling::kLongRope;
  const char* const name = is_long ? "rope_factors_short.weight" : "rope_freqs.weight";
  if (is_long && file_.FindTensor(name) == nullptr) {
    return Fail(StatusCode::kDataLoss, name, "the tensor is missing");
  }
  result_.rope_divisors = ReadDivisors(name);
  if (is_long) result_.long_rope_divisors = ReadDivisors("rope_factors_long.weight");
}

std::vector<float> TensorBinder::ReadDivisors(const std::string& name) {
  const GgufTensor* tensor = file_.FindTensor(name);
  if (!status_.ok() || tensor == nullptr) return {};
  known_.push_back(tensor);
  if (WeightTypeOf(tensor->type) != kernels::WeightType::kF32) {
    Fail(StatusCode::kUnimplemented, name,
         fmt::format("type {} is not supported here; F32 is", GgmlTypeName(tensor->type)));
    return {};
  }
  if (!CheckShape(*tensor, {result_.config.rope.dim / 2})) return {};
  std::vector<float> divisors(tensor->shape[0]);
  Keep(file_.Read(tensor->begin, std::as_writable_bytes(std::span(divisors))));
  if (!status_.ok()) return {};
  for (size_t i = 0; i < divisors.size(); ++i) {
    if (divisors[i] >= kMinDivisor && divisors[i] <= kMaxDivisor) continue;
    Fail(StatusCode::kDataLoss, name,
         fmt::format("element {} is {}; it must be from {} to {}", i, divisors[i], kMinDivisor,
                     kMaxDivisor));
  }
  return divisors;
}

void TensorBinder::RejectUnknownTensors() {
  std::ranges::sort(known_);
  for (const GgufTensor& tensor : file_.tensors()) {
    // Old files repeat the plain RoPE frequencies in each layer.
    if (tensor.name == "rope_freqs.weight" || tensor.name.ends_with(".attn_rot_embd.weight")) {
      continue;
    }
    if (std::ranges::binary_search(known_, &tensor)) continue;
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
