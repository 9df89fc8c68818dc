#include "model/model_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/utf8.h"

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

// A fault that many tensors may have: one failure names the first of them.
class Fault {
 public:
  void Add(const Status& status) {
    if (first_.ok()) {
      first_ = status;
    } else {
      ++more_;
    }
  }
  Status status() const {
    if (more_ == 0) return first_;
    return {first_.code(), fmt::format("{} (and {} more like it)", first_.message(), more_),
            first_.field()};
  }

 private:
  Status first_;
  size_t more_ = 0;
};

// Types that no tensor may have. Which tensors are vectors, TensorBinder knows.
void CheckTypes(const GgufFile& file, Failures* failures) {
  std::map<uint32_t, Fault> faults;
  for (const GgufTensor& tensor : file.tensors()) {
    const auto problem = UnsupportedType(tensor.type, TensorUse::kMatrix);
    if (!problem) continue;
    faults[tensor.type].Add(
        file.Error(StatusCode::kUnimplemented, TensorField(tensor.name), *problem));
  }
  for (const auto& [type, fault] : faults) failures->Add(fault.status());
}

// Finds tensors one after another. Sizes of the configuration that are 0 could not be read: they
// fit any tensor, since the failure of their keys is already recorded.
class TensorBinder {
 public:
  // `failures` may have some of the configuration.
  TensorBinder(const GgufFile& file, const Recipe& recipe, ModelConfig config, Failures* failures)
      : file_(file), recipe_(recipe), failures_(failures) {
    result_.config = std::move(config);
  }

  StatusOr<ModelTensors> Bind() {
    if (file_.tensors().empty()) {
      Fail(StatusCode::kDataLoss, kEmbedding, "the file has no tensors, only metadata");
      return failures_->first();
    }
    BindEmbeddingAndOutput();
    BindLayers();
    BindRopeDivisors();
    failures_->Add(misfits_.status());
    RejectUnknownTensors();
    if (!failures_->ok()) return failures_->first();
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

  void Fail(StatusCode code, std::string_view tensor, const std::string& what) {
    failures_->Add(file_.Error(code, TensorField(tensor), what));
  }

  static constexpr const char* kEmbedding = "token_embd.weight";

  const GgufFile& file_;
  const Recipe& recipe_;
  Failures* const failures_;
  ModelTensors result_;
  std::vector<const GgufTensor*> known_;
  Fault misfits_;  // Shapes.
};

bool TensorBinder::CheckShape(const GgufTensor& tensor, const std::vector<int32_t>& shape) {
  const auto same = [](uint64_t a, int32_t b) { return b == 0 || a == static_cast<uint64_t>(b); };
  // One row may have lost its number of rows.
  const auto rest = [](const auto& dims) {
    size_t size = dims.size();
    while (size > 1 && dims[size - 1] == 1) --size;
    return std::span(dims).first(size);
  };
  if (std::ranges::equal(rest(tensor.shape), rest(shape), same)) return true;
  misfits_.Add(file_.Error(StatusCode::kDataLoss, TensorField(tensor.name),
                           fmt::format("its shape is [{}], but the metadata asks for [{}]",
                                       fmt::join(tensor.shape, ", "), fmt::join(shape, ", "))));
  return false;
}

const GgufTensor* TensorBinder::Find(const std::string& name, const std::vector<int32_t>& shape,
                                     bool vector) {
  const GgufTensor* tensor = file_.FindTensor(name);
  if (tensor == nullptr) {
    Fail(StatusCode::kDataLoss, name, "the tensor is missing");
    return nullptr;
  }
  known_.push_back(tensor);
  // Matrices' types: CheckTypes.
  if (vector && !UnsupportedType(tensor->type, TensorUse::kMatrix)) {
    const auto problem = UnsupportedType(tensor->type, TensorUse::kVector);
    if (problem) Fail(StatusCode::kUnimplemented, name, *problem);
  }
  return CheckShape(*tensor, shape) ? tensor : nullptr;
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
  const GgufTensor* tensor = file_.FindTensor(kEmbedding);
  const uint64_t vocab = tensor != nullptr && tensor->shape.size() == 2 ? tensor->shape[1] : 0;
  const bool fits = vocab >= 1 && vocab <= kMaxVocab;
  if (tensor != nullptr && !fits) {
    Fail(StatusCode::kDataLoss, kEmbedding,
         fmt::format("its shape is [{}]; expected [embedding length, vocabulary size]",
                     fmt::join(tensor->shape, ", ")));
    known_.push_back(tensor);
  } else {
    config.vocab_size = static_cast<int32_t>(vocab);
    result_.token_embedding = FindMatrix(kEmbedding, config.hidden_size, config.vocab_size);
  }
  if (result_.token_embedding) CheckVocabulary(vocab);
  if (config.position == PositionKind::kLearned) {
    result_.position_embedding =
        FindMatrix("position_embd.weight", config.hidden_size, config.context_length);
  }
  if (config.token_types) {
    const auto& shape = file_.FindTensor(kTokenTypes)->shape;
    const auto types = static_cast<int32_t>(shape.size() == 2 ? shape[1] : 1);
    result_.type_embedding =
        Add({Find(kTokenTypes, {config.hidden_size, types}, true), 0, config.hidden_size});
  }
  const bool after = config.norm_placement == NormPlacement::kAfter;
  const std::string norm = after ? "token_embd_norm" : "output_norm";
  (after ? result_.embedding_norm : result_.output_norm) =
      FindVector(norm + ".weight", config.hidden_size);
  if (config.norm == NormKind::kLayer) {
    (after ? result_.embedding_norm_bias : result_.output_norm_bias) =
        FindVector(norm + ".bias", config.hidden_size);
  }
  if (!config.causal) return;
  config.tied_output = file_.FindTensor("output.weight") == nullptr;
  if (!config.tied_output) {
    result_.output = FindMatrix("output.weight", config.hidden_size, config.vocab_size);
  }
}

void TensorBinder::CheckVocabulary(uint64_t vocab) {
  const auto check = [&](const std::string& key, uint64_t count) {
    if (count == vocab) return;
    failures_->Add(
        file_.Error(StatusCode::kDataLoss, MetadataField(key),
                    fmt::format("{} tokens, but token_embd.weight has {} rows", count, vocab)));
  };
  constexpr const char* kTokens = "tokenizer.ggml.tokens";
  const StatusOr<const GgufArray*> tokens = file_.GetArray(kTokens, GgufType::kString);
  if (!tokens.ok()) failures_->Add(tokens.status());
  if (tokens.ok() && *tokens != nullptr) check(kTokens, (*tokens)->count);
  const std::string size_key = fmt::format("{}.vocab_size", recipe_.architecture);
  const StatusOr<std::optional<uint64_t>> size = file_.GetUint(size_key, 1, kMaxVocab);
  if (!size.ok()) return failures_->Add(size.status());
  check(size_key, size->value_or(vocab));
}

void TensorBinder::BindLayers() {
  const TensorSpecs specs = recipe_.layer_tensors(result_.config);
  for (int32_t i = 0; i < result_.config.num_layers && !failures_->full(); ++i) {
    LayerTensors& layer = result_.layers.emplace_back();
    const GgufTensor* tensor = nullptr;
    std::string_view found;  // What `tensor` is: of a tensor with several roles the specs follow.
    for (const TensorSpec& spec : specs) {
      if (spec.name != found) {
        tensor = Find(fmt::format("blk.{}.{}", i, spec.name), spec.shape, spec.vector);
        found = spec.name;
      }
      // After a failure sizes may be unknown, and the roles are not used.
      if (tensor != nullptr && failures_->ok()) BindSpec(spec, tensor, &layer);
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
  if (tensor == nullptr) return {};
  known_.push_back(tensor);
  if (WeightTypeOf(tensor->type) != kernels::WeightType::kF32) {
    Fail(StatusCode::kUnimplemented, name,
         fmt::format("type {} is not supported here; F32 is", GgmlTypeName(tensor->type)));
    return {};
  }
  if (!CheckShape(*tensor, {result_.config.rope.dim / 2})) return {};
  std::vector<float> divisors(tensor->shape[0]);
  const Status read = file_.Read(tensor->begin, std::as_writable_bytes(std::span(divisors)));
  if (!read.ok()) {
    failures_->Add(read);
    return {};
  }
  for (size_t i = 0; i < divisors.size(); ++i) {
    if (divisors[i] >= kMinDivisor && divisors[i] <= kMaxDivisor) continue;
    Fail(StatusCode::kDataLoss, name,
         fmt::format("element {} is {}; it must be from {} to {}", i, divisors[i], kMinDivisor,
                     kMaxDivisor));
    return {};
  }
  return divisors;
}

void TensorBinder::RejectUnknownTensors() {
  if (failures_->full()) return;  // Not all tensors were looked for.
  std::ranges::sort(known_);
  Fault unknown;
  for (const GgufTensor& tensor : file_.tensors()) {
    // Old files repeat the plain RoPE frequencies in each layer.
    if (tensor.name == "rope_freqs.weight" || tensor.name.ends_with(".attn_rot_embd.weight")) {
      continue;
    }
    if (std::ranges::binary_search(known_, &tensor)) continue;
    unknown.Add(
        file_.Error(StatusCode::kUnimplemented, TensorField(tensor.name),
                    fmt::format("supported {} models have no such tensor", recipe_.architecture)));
  }
  failures_->Add(unknown.status());
}

}  // namespace

StatusOr<ModelConfig> ReadModelConfig(const GgufFile& file) {
  const StatusOr<const Recipe*> recipe = RecipeOf(file);
  if (!recipe.ok()) return recipe.status();
  MetadataReader reader(file, (*recipe)->architecture);
  ModelConfig config = ReadConfig(**recipe, &reader);
  if (!reader.ok()) return reader.failures().first();
  return config;
}

StatusOr<ModelTensors> BindTensors(const GgufFile& file, Failures* failures) {
  Failures own;
  if (failures == nullptr) failures = &own;
  CheckTypes(file, failures);
  const StatusOr<const Recipe*> recipe = RecipeOf(file);
  if (!recipe.ok()) {
    failures->Add(recipe.status());
    return failures->first();
  }
  MetadataReader reader(file, (*recipe)->architecture);
  ModelConfig config = ReadConfig(**recipe, &reader);
  for (const Status& failure : reader.failures().all()) failures->Add(failure);
  // Which tensors there must be follows from the numbers of layers and experts.
  if (config.num_layers == 0 || reader.Failed("expert_count") ||
      reader.Failed("expert_used_count")) {
    return failures->first();
  }
  return TensorBinder(file, **recipe, std::move(config), failures).Bind();
}

}  // namespace ropeway::model
