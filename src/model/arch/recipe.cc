#include "model/arch/recipe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <variant>

namespace ropeway::model {
namespace {

// By name.
constexpr const Recipe* kRecipes[] = {
    &kBertRecipe, &kGemma2Recipe, &kGemma3Recipe,   &kGpt2Recipe,  &kGptOssRecipe,   &kLlamaRecipe,
    &kPhi3Recipe, &kQwen2Recipe,  &kQwen2MoeRecipe, &kQwen3Recipe, &kQwen3MoeRecipe,
};

// Far above any model's; they keep every product of two within 63 bits.
constexpr uint64_t kMaxLayers = 4096;
constexpr uint64_t kMaxWidth = 1 << 20;
constexpr uint64_t kMaxHeads = 4096;
constexpr uint64_t kMaxHeadDim = 256;
constexpr uint64_t kMaxContext = 1 << 24;
constexpr uint64_t kMaxExperts = 4096;

// Keys that change what some architecture computes, with the value that changes nothing.
struct NeutralValue {
  std::string_view key;
  double value;
};
constexpr NeutralValue kNeutralValues[] = {
    {"expert_count", 0},
    {"expert_used_count", 0},
    {"expert_shared_count", 0},
    {"expert_group_count", 1},
    {"expert_gating_func", 1},  // Softmax.
    {"expert_weights_scale", 1},
    {"leading_dense_block_count", 0},
    {"nextn_predict_layers", 0},
    {"attention.sliding_window", 0},
    {"attention.clamp_kqv", 0},
    {"attention.max_alibi_bias", 0},
    {"attention.causal", 1},
    {"attention.temperature_scale", 1},
    {"attn_logit_softcapping", 0},
    {"final_logit_softcapping", 0},
    {"logit_scale", 1},
    {"residual_scale", 1},
    {"embedding_scale", 1},
    {"use_parallel_residual", 0},
    {"rope.scaling.yarn_log_multiplier", 0},
    {"rope.scaling.yarn_ext_factor", 1},
    {"rope.scaling.yarn_attn_factor", 1},
};

std::optional<double> NumberOf(const GgufValue& value) {
  if (const auto* u = std::get_if<uint64_t>(&value)) return static_cast<double>(*u);
  if (const auto* i = std::get_if<int64_t>(&value)) return static_cast<double>(*i);
  if (const auto* d = std::get_if<double>(&value)) return *d;
  if (const auto* b = std::get_if<bool>(&value)) return *b ? 1.0 : 0.0;
  return std::nullopt;
}

void ReadYarn(MetadataReader* reader, ModelConfig* config) {
  RopeParams& rope = config->rope;
  rope.original_context_length =
      reader->Uint("rope.scaling.original_context_length", 1, kMaxContext, config->context_length);
  rope.beta_fast = reader->Float("rope.scaling.yarn_beta_fast", 1e-3, 1e6, 32.0);
  rope.beta_slow = reader->Float("rope.scaling.yarn_beta_slow", 1e-3, 1e6, 1.0);
}

void ReadScaling(MetadataReader* reader, ModelConfig* config) {
  RopeParams& rope = config->rope;
  const std::string_view type = reader->String("rope.scaling.type", "linear");
  // Older files say scale_linear. A factor of 0 stands for none; a factor without a type is linear.
  const char* key =
      reader->Has("rope.scaling.factor") ? "rope.scaling.factor" : "rope.scale_linear";
  const double factor = reader->Float(key, 0.0, 65536.0, 1.0);
  if (factor != 0.0 && factor < 1.0) {
    reader->Fail(StatusCode::kUnimplemented, key,
                 fmt::format("{} is below 1, which is not supported", factor));
  }
  // What stretches the context in its own way has no such stand-in.
  if (factor == 0.0 && (type == "yarn" || type == "longrope") && !reader->Failed(key)) {
    reader->Fail(StatusCode::kDataLoss, key,
                 fmt::format("0 is out of range; it must be at least 1 for \"{}\"", type));
  }
  if (type == "none") return;
  if (type == "linear") {
    rope.scaling = RopeScaling::kLinear;
  } else if (type == "yarn") {
    rope.scaling = RopeScaling::kYarn;
  } else if (type == "longrope" && reader->HasTensor("rope_factors_long.weight")) {
    return;  // ReadRope knows by the tensor.
  } else {
    reader->Fail(StatusCode::kUnimplemented, "rope.scaling.type",
                 fmt::format("\"{:.64}\" is not supported; none, linear and yarn are", type));
  }
  rope.factor = factor == 0.0 ? 1.0 : factor;
  if (rope.factor == 1.0) rope.scaling = RopeScaling::kNone;
  if (rope.scaling == RopeScaling::kYarn) ReadYarn(reader, config);
}

void ReadHeads(MetadataReader* reader, ModelConfig* config) {
  ModelConfig& c = *config;
  c.num_heads = reader->Uint("attention.head_count", 1, kMaxHeads);
  c.num_kv_heads = reader->Uint("attention.head_count_kv", 1, kMaxHeads, c.num_heads);
  if (c.num_heads == 0 || c.num_kv_heads == 0) return;  // What follows divides by these.
  if (c.num_heads % c.num_kv_heads != 0) {
    reader->Fail(StatusCode::kDataLoss, "attention.head_count_kv",
                 fmt::format("{} does not divide the head count {}", c.num_kv_heads, c.num_heads));
  }
  constexpr const char* kKeyLength = "attention.key_length";
  if (reader->Has(kKeyLength)) {
    c.head_dim = reader->Uint(kKeyLength, 1, kMaxHeadDim);
  } else if (c.hidden_size % c.num_heads != 0) {
    reader->Fail(
        StatusCode::kDataLoss, "attention.head_count",
        fmt::format("{} does not divide the embedding length {}", c.num_heads, c.hidden_size));
  } else {
    c.head_dim = c.hidden_size / c.num_heads;
  }
  if (c.head_dim == 0) return;
  const int32_t value_length = reader->Uint("attention.value_length", 1, kMaxHeadDim, c.head_dim);
  if (value_length != c.head_dim) {
    reader->Fail(StatusCode::kUnimplemented, "attention.value_length",
                 fmt::format("{} differs from the key length {}, which is not supported",
                             value_length, c.head_dim));
  }
  if (c.head_dim % 16 != 0 || c.head_dim > static_cast<int32_t>(kMaxHeadDim)) {
    reader->Fail(StatusCode::kUnimplemented, kKeyLength,
                 fmt::format("a head of {} elements is not supported; multiples of 16 up to {} are",
                             c.head_dim, kMaxHeadDim));
  }
}

}  // namespace

std::string MetadataReader::Key(std::string_view key) const {
  return fmt::format("{}.{}", architecture_, key);
}

const std::string& MetadataReader::Read(std::string_view key) {
  return read_.emplace_back(Key(key));
}

void MetadataReader::Fail(StatusCode code, std::string_view key, const std::string& what) {
  failures_.Add(file_.Error(code, MetadataField(Key(key)), what));
}

bool MetadataReader::Failed(std::string_view key) const {
  // A folder calls the key's field as in the folder.
  return failures_.Names(file_.Error(StatusCode::kDataLoss, MetadataField(Key(key)), "").field());
}

bool MetadataReader::Bool(std::string_view key, bool absent) {
  const std::string& full = Read(key);
  return Keep<bool>(file_.GetBool(full), full, absent);
}

std::vector<bool> MetadataReader::Flags(std::string_view key, int32_t count) {
  const GgufFile::Entry* entry = file_.Find(Read(key));
  const auto* array = entry != nullptr ? std::get_if<GgufArray>(&entry->value) : nullptr;
  if (array == nullptr) return {};
  const size_t bytes = GgufTypeBytes(array->type);  // 0: strings.
  const bool whole = array->type != GgufType::kFloat32 && array->type != GgufType::kFloat64;
  if (bytes == 0 || !whole || array->count != static_cast<uint64_t>(count)) {
    Fail(StatusCode::kDataLoss, key, fmt::format("expected {} flags, one per layer", count));
    return {};
  }
  std::vector<bool> flags;
  for (uint64_t i = 0; i < array->count; ++i) {
    const auto number = array->data.subspan(i * bytes, bytes);
    flags.push_back(std::ranges::any_of(number, [](std::byte b) { return b != std::byte{0}; }));
  }
  return flags;
}

template <typename T>
T MetadataReader::Keep(StatusOr<std::optional<T>> value, const std::string& key,
                       std::optional<T> absent) {
  if (!value.ok()) {
    failures_.Add(value.status());
    return T();
  }
  if (value->has_value()) return **value;
  if (!absent.has_value()) {
    failures_.Add(file_.Error(StatusCode::kDataLoss, MetadataField(key), "the key is missing"));
  }
  return absent.value_or(T());
}

int32_t MetadataReader::Uint(std::string_view key, uint64_t min, uint64_t max,
                             std::optional<int32_t> absent) {
  const std::string& full = Read(key);
  return static_cast<int32_t>(Keep<uint64_t>(file_.GetUint(full, min, max), full, absent));
}

double MetadataReader::Float(std::string_view key, double min, double max,
                             std::optional<double> absent) {
  const std::string& full = Read(key);
  const double value = Keep<double>(file_.GetFloat(full), full, absent);
  // Written so that NaN fails too.
  if (!(value >= min && value <= max)) {
    Fail(StatusCode::kDataLoss, key,
         fmt::format("{} is out of range; it must be from {} to {}", value, min, max));
  }
  return value;
}

std::string_view MetadataReader::String(std::string_view key, std::string_view absent) {
  const std::string& full = Read(key);
  return Keep<std::string_view>(file_.GetString(full), full, absent);
}

void MetadataReader::RejectKeysNotRead() {
  if (!ok()) return;
  for (const NeutralValue& neutral : kNeutralValues) {
    const std::string key = Key(neutral.key);
    const GgufFile::Entry* entry = file_.Find(key);
    if (entry == nullptr || std::ranges::find(read_, key) != read_.end()) continue;
    const std::optional<double> number = NumberOf(entry->value);
    if (number == neutral.value) continue;
    Fail(StatusCode::kUnimplemented, neutral.key,
         number.has_value() ? fmt::format("{} is not supported; only {} is", *number, neutral.value)
                            : "only a single number is supported");
  }
}

void ReadSizes(MetadataReader* reader, ModelConfig* config) {
  ModelConfig& c = *config;
  c.num_layers = reader->Uint("block_count", 1, kMaxLayers);
  // A request takes at least two positions: one of its prompt, one that is generated.
  c.context_length = reader->Uint("context_length", 2, kMaxContext);
  const auto width = [reader](const char* key) {
    const int32_t size = reader->Uint(key, 32, kMaxWidth);
    if (size % 32 != 0) {
      reader->Fail(StatusCode::kUnimplemented, key,
                   fmt::format("{} is not a multiple of 32", size));
    }
    return size;
  };
  c.hidden_size = width("embedding_length");
  c.intermediate_size = width("feed_forward_length");
  ReadHeads(reader, config);
}

void ReadRmsNorm(MetadataReader* reader, ModelConfig* config) {
  config->norm = NormKind::kRms;
  config->norm_eps =
      static_cast<float>(reader->Float("attention.layer_norm_rms_epsilon", 1e-12, 0.1));
}

void ReadAttentionScale(MetadataReader* reader, ModelConfig* config) {
  if (config->head_dim == 0) return;
  const double usual = 1.0 / std::sqrt(static_cast<double>(config->head_dim));
  const double scale = reader->Float("attention.scale", 0.0, 1e3, usual);  // 0: the usual.
  // In float throughout: the double's rounding may differ in the last bit.
  config->attention_scale = 1.0F / std::sqrt(static_cast<float>(config->head_dim));
  if (scale != 0.0 && std::fabs(scale - usual) > 1e-6 * usual) {
    config->attention_scale = static_cast<float>(scale);
  }
}

ModelConfig ReadRopeDecoder(MetadataReader* reader, PositionKind position, Activation activation) {
  ModelConfig c;
  c.architecture = reader->architecture();
  ReadSizes(reader, &c);
  ReadRmsNorm(reader, &c);
  ReadAttentionScale(reader, &c);
  ReadRope(reader, &c);
  c.position = position;
  c.activation = activation;
  return c;
}

void ReadGemmaScales(MetadataReader* reader, int32_t layers_of_largest, ModelConfig* config) {
  config->embedding_scale = std::sqrt(static_cast<float>(config->hidden_size));
  if (reader->Has("attention.scale") || config->num_layers != layers_of_largest) return;
  const float part =
      static_cast<float>(config->hidden_size) / static_cast<float>(config->num_heads);
  config->attention_scale = 1.0F / std::sqrt(part);
}

void ReadWindows(MetadataReader* reader, int32_t window, int32_t pattern, ModelConfig* config) {
  constexpr const char* kPattern = "attention.sliding_window_pattern";
  const int32_t length = reader->Uint("attention.sliding_window", 0, kMaxContext, window);
  if (config->num_layers == 0) return;
  std::vector<bool> has_window = reader->Flags(kPattern, config->num_layers);
  if (length == 0) return;
  if (has_window.empty()) {
    const int32_t every = reader->Uint(kPattern, 0, kMaxLayers, pattern);
    for (int32_t layer = 0; layer < config->num_layers; ++layer) {
      has_window.push_back(every == 0 || layer % every != every - 1);
    }
  }
  for (const bool has : has_window) config->windows.push_back(has ? length : 0);
}

void ReadExperts(MetadataReader* reader, int32_t intermediate_size, ModelConfig* config) {
  ExpertsConfig& experts = config->experts;
  experts.count = reader->Uint("expert_count", 1, kMaxExperts);
  if (experts.count == 0) return;
  experts.used = reader->Uint("expert_used_count", 1, static_cast<uint64_t>(experts.count));
  constexpr const char* kSize = "expert_feed_forward_length";
  experts.intermediate_size = reader->Uint(kSize, 32, kMaxWidth, intermediate_size);
  if (experts.intermediate_size % 32 != 0) {
    reader->Fail(StatusCode::kUnimplemented, kSize,
                 fmt::format("{} is not a multiple of 32", experts.intermediate_size));
  }
}

void ReadRope(MetadataReader* reader, ModelConfig* config) {
  constexpr const char* kDim = "rope.dimension_count";
  RopeParams& rope = config->rope;
  if (config->head_dim > 0) {
    rope.dim = reader->Uint(kDim, 2, static_cast<uint64_t>(config->head_dim), config->head_dim);
  }
  if (rope.dim % 2 != 0) {
    reader->Fail(StatusCode::kDataLoss, kDim, fmt::format("{} is odd; it must be even", rope.dim));
  }
  rope.freq_base = reader->Float("rope.freq_base", 2.0, 1e15, 10000.0);
  rope.attention_factor = reader->Float("rope.scaling.attn_factor", 1e-3, 1e3, 1.0);
  ReadScaling(reader, config);
  if (reader->HasTensor("rope_factors_long.weight")) {
    rope.scaling = RopeScaling::kLongRope;
    rope.original_context_length = reader->Uint("rope.scaling.original_context_length", 1,
                                                kMaxContext, config->context_length);
  }
}

void ReadWindowRope(MetadataReader* reader, ModelConfig* config) {
  constexpr const char* kBase = "rope.freq_base_swa";
  if (config->windows.empty() || !reader->Has(kBase)) return;
  RopeParams rope = config->rope;
  rope.freq_base = reader->Float(kBase, 2.0, 1e15);
  if (rope.freq_base != config->rope.freq_base) config->window_rope = rope;
}

TensorSpec MatrixSpec(TensorPart LayerTensors::*role, std::string_view name, int32_t inputs,
                      int32_t outputs) {
  return MatrixRowsSpec(role, name, inputs, outputs, 0, outputs);
}

TensorSpec VectorSpec(TensorPart LayerTensors::*role, std::string_view name, int32_t elements) {
  return VectorPartSpec(role, name, elements, 0, elements);
}

TensorSpec MatrixRowsSpec(TensorPart LayerTensors::*role, std::string_view name, int32_t inputs,
                          int32_t outputs, int32_t begin, int32_t n) {
  TensorSpec spec;
  spec.name = name;
  spec.shape = {inputs, outputs};
  spec.role = role;
  spec.begin = begin;
  spec.n = n;
  return spec;
}

TensorSpec VectorPartSpec(TensorPart LayerTensors::*role, std::string_view name, int32_t elements,
                          int32_t begin, int32_t n) {
  TensorSpec spec;
  spec.name = name;
  spec.shape = {elements};
  spec.role = role;
  spec.vector = true;
  spec.begin = begin;
  spec.n = n;
  return spec;
}

TensorSpec ExpertMatrixSpec(TensorPart FfnTensors::*role, std::string_view name, int32_t inputs,
                            int32_t outputs, int32_t experts) {
  TensorSpec spec;
  spec.name = name;
  spec.shape = {inputs, outputs, experts};
  spec.ffn_role = role;
  spec.of = TensorSpec::Of::kEachExpert;
  spec.n = outputs;
  return spec;
}

TensorSpec ExpertVectorSpec(TensorPart FfnTensors::*role, std::string_view name, int32_t elements,
                            int32_t experts) {
  TensorSpec spec;
  spec.name = name;
  spec.shape = {elements, experts};
  spec.ffn_role = role;
  spec.of = TensorSpec::Of::kEachExpert;
  spec.vector = true;
  spec.n = elements;
  return spec;
}

TensorSpec SharedExpertSpec(TensorPart FfnTensors::*role, std::string_view name, int32_t inputs,
                            int32_t outputs) {
  TensorSpec spec;
  spec.name = name;
  spec.shape = {inputs, outputs};
  spec.ffn_role = role;
  spec.of = TensorSpec::Of::kSharedExpert;
  spec.n = outputs;
  return spec;
}

TensorSpecs QkvBiasSpecs(const ModelConfig& c) {
  using L = LayerTensors;
  return {VectorSpec(&L::q_bias, "attn_q.bias", c.q_size()),
          VectorSpec(&L::k_bias, "attn_k.bias", c.kv_size()),
          VectorSpec(&L::v_bias, "attn_v.bias", c.kv_size())};
}

TensorSpecs HeadNormSpecs(const ModelConfig& c) {
  using L = LayerTensors;
  return {VectorSpec(&L::q_norm, "attn_q_norm.weight", c.head_dim),
          VectorSpec(&L::k_norm, "attn_k_norm.weight", c.head_dim)};
}

TensorSpecs AttentionSpecs(const ModelConfig& c) {
  using L = LayerTensors;
  return {VectorSpec(&L::attention_norm, "attn_norm.weight", c.hidden_size),
          MatrixSpec(&L::q, "attn_q.weight", c.hidden_size, c.q_size()),
          MatrixSpec(&L::k, "attn_k.weight", c.hidden_size, c.kv_size()),
          MatrixSpec(&L::v, "attn_v.weight", c.hidden_size, c.kv_size()),
          MatrixSpec(&L::o, "attn_output.weight", c.q_size(), c.hidden_size)};
}

TensorSpecs GatedFfnSpecs(const ModelConfig& c) {
  using L = LayerTensors;
  return {VectorSpec(&L::ffn_norm, "ffn_norm.weight", c.hidden_size),
          MatrixSpec(&L::gate, "ffn_gate.weight", c.hidden_size, c.intermediate_size),
          MatrixSpec(&L::up, "ffn_up.weight", c.hidden_size, c.intermediate_size),
          MatrixSpec(&L::down, "ffn_down.weight", c.intermediate_size, c.hidden_size)};
}

TensorSpecs ExpertSpecs(const ModelConfig& c) {
  using F = FfnTensors;
  const int32_t ffn = c.experts.intermediate_size;
  const int32_t count = c.experts.count;
  return {MatrixSpec(&LayerTensors::router, "ffn_gate_inp.weight", c.hidden_size, count),
          ExpertMatrixSpec(&F::gate, "ffn_gate_exps.weight", c.hidden_size, ffn, count),
          ExpertMatrixSpec(&F::up, "ffn_up_exps.weight", c.hidden_size, ffn, count),
          ExpertMatrixSpec(&F::down, "ffn_down_exps.weight", ffn, c.hidden_size, count)};
}

TensorSpecs Join(std::initializer_list<TensorSpecs> parts) {
  TensorSpecs all;
  for (const TensorSpecs& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

namespace {

// llama.cpp's enum llama_pooling_type. Where no one says it, an encoder's is the mean, as in
// sentence-transformers.
void ReadPooling(MetadataReader* reader, ModelConfig* config) {
  constexpr const char* kKey = "pooling_type";
  constexpr Pooling kTypes[] = {Pooling::kMean, Pooling::kFirst, Pooling::kLast};
  const int32_t type = reader->Uint(kKey, 0, 4, 0);
  if (type == 0) {
    config->pooling = config->causal ? Pooling::kLast : Pooling::kMean;
  } else if (type == 4) {
    reader->Fail(StatusCode::kUnimplemented, kKey, "4 (a model that ranks) is not supported");
  } else {
    config->pooling = kTypes[type - 1];
  }
}

}  // namespace

ModelConfig ReadConfig(const Recipe& recipe, MetadataReader* reader) {
  ModelConfig config = recipe.read_config(reader);
  ReadPooling(reader, &config);
  // Of encoders; folders alone say it.
  config.usual_length =
      std::min(reader->Uint("max_seq_length", 2, kMaxContext, 0), config.context_length);
  reader->RejectKeysNotRead();
  return config;
}

const Recipe* FindRecipe(std::string_view architecture) {
  const auto* at = std::ranges::find(kRecipes, architecture, &Recipe::architecture);
  return at == std::end(kRecipes) ? nullptr : *at;
}

std::string SupportedArchitectures() {
  std::vector<std::string> names;
  for (const Recipe* recipe : kRecipes)
    names.push_back(fmt::format("\"{}\"", recipe->architecture));
  return fmt::format("{} {}", fmt::join(names, ", "), names.size() == 1 ? "is" : "are");
}

}  // namespace ropeway::model
