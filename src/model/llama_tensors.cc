#include "model/llama_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace ropeway {
namespace {

constexpr uint64_t kMaxVocab = 1 << 24;
// Pairs may turn faster than without scaling, but the table's sine is exact to 2^28 radians only.
constexpr float kMinDivisor = 1.0F / 16.0F;
constexpr float kMaxDivisor = 1e9F;

// Finds tensors one after another and keeps the first failure.
class TensorBinder {
 public:
  TensorBinder(const GgufFile& file, const LlamaConfig& config) : file_(file) {
    result_.config = config;
  }

  StatusOr<LlamaTensors> Bind() {
    BindEmbedding();
    BindLayers();
    BindRopeDivisors();
    CheckUnused();
    if (!status_.ok()) return status_;
    return std::move(result_);
  }

 private:
  void BindEmbedding();
  void BindLayers();
  void BindRopeDivisors();
  void CheckVocabulary(uint64_t vocab);
  void CheckUnused();

  void Fail(StatusCode code, const std::string& field, const std::string& what) {
    if (!status_.ok()) return;
    status_ = Status(code, fmt::format("{}: {}: {}", file_.path(), field, what), field);
  }
  static std::string Field(std::string_view name) { return fmt::format("tensor \"{}\"", name); }

  const GgufTensor* Find(const std::string& name);
  bool CheckShape(const GgufTensor& tensor, const std::vector<uint64_t>& shape);
  const GgufTensor* Matrix(const std::string& name, int32_t in, int32_t out);
  const GgufTensor* Norm(const std::string& name);

  const GgufFile& file_;
  LlamaTensors result_;
  std::vector<const GgufTensor*> used_;
  Status status_;
};

const GgufTensor* TensorBinder::Find(const std::string& name) {
  if (!status_.ok()) return nullptr;
  const GgufTensor* tensor = file_.FindTensor(name);
  if (tensor == nullptr) {
    Fail(StatusCode::kDataLoss, Field(name), "the tensor is missing");
  } else {
    used_.push_back(tensor);
  }
  return tensor;
}

bool TensorBinder::CheckShape(const GgufTensor& tensor, const std::vector<uint64_t>& shape) {
  if (tensor.shape == shape) return true;
  Fail(StatusCode::kDataLoss, Field(tensor.name),
       fmt::format("its shape is [{}], but the metadata asks for [{}]",
                   fmt::join(tensor.shape, ", "), fmt::join(shape, ", ")));
  return false;
}

const GgufTensor* TensorBinder::Matrix(const std::string& name, int32_t in, int32_t out) {
  const GgufTensor* tensor = Find(name);
  if (tensor == nullptr) return nullptr;
  if (!WeightTypeOf(tensor->type).has_value()) {
    Fail(StatusCode::kUnimplemented, Field(name),
         fmt::format("type {} is not supported; F32, F16, Q4_0, Q4_1 and Q8_0 are",
                     GgmlTypeName(tensor->type)));
  }
  CheckShape(*tensor, {static_cast<uint64_t>(in), static_cast<uint64_t>(out)});
  return tensor;
}

const GgufTensor* TensorBinder::Norm(const std::string& name) {
  const GgufTensor* tensor = Find(name);
  if (tensor == nullptr) return nullptr;
  const auto type = WeightTypeOf(tensor->type);
  if (type != WeightType::kF32 && type != WeightType::kF16) {
    Fail(StatusCode::kUnimplemented, Field(name),
         fmt::format("type {} is not supported here; F32 and F16 are", GgmlTypeName(tensor->type)));
  }
  CheckShape(*tensor, {static_cast<uint64_t>(result_.config.hidden_size)});
  return tensor;
}

void TensorBinder::BindEmbedding() {
  LlamaConfig& config = result_.config;
  const std::string name = "token_embd.weight";
  const GgufTensor* tensor = file_.FindTensor(name);
  if (tensor == nullptr) {
    Fail(StatusCode::kDataLoss, Field(name),
         file_.tensors().empty() ? "the file has no tensors, only metadata"
                                 : "the tensor is missing");
    return;
  }
  const uint64_t vocab = tensor->shape.size() == 2 ? tensor->shape[1] : 0;
  if (vocab < 1 || vocab > kMaxVocab) {
    Fail(StatusCode::kDataLoss, Field(name),
         fmt::format("its shape is [{}]; [embedding length, vocabulary size] is expected",
                     fmt::join(tensor->shape, ", ")));
    return;
  }
  config.vocab_size = static_cast<int32_t>(vocab);
  result_.token_embedding = Matrix(name, config.hidden_size, config.vocab_size);
  CheckVocabulary(vocab);
  result_.output_norm = Norm("output_norm.weight");
  config.tied_output = file_.FindTensor("output.weight") == nullptr;
  if (!config.tied_output) {
    result_.output = Matrix("output.weight", config.hidden_size, config.vocab_size);
  }
}

void TensorBinder::CheckVocabulary(uint64_t vocab) {
  const auto differs = [&](const char* key, uint64_t count) {
    Fail(StatusCode::kDataLoss, fmt::format("metadata \"{}\"", key),
         fmt::format("{} tokens, but token_embd.weight has {} rows", count, vocab));
  };
  constexpr const char* kTokens = "tokenizer.ggml.tokens";
  const StatusOr<const GgufArray*> tokens = file_.GetArray(kTokens, GgufType::kString);
  if (!tokens.ok()) {
    if (status_.ok()) status_ = tokens.status();
  } else if (*tokens != nullptr && (*tokens)->count != vocab) {
    differs(kTokens, (*tokens)->count);
  }
  constexpr const char* kSize = "llama.vocab_size";
  const StatusOr<std::optional<uint64_t>> size = file_.GetUint(kSize, 1, kMaxVocab);
  if (!size.ok()) {
    if (status_.ok()) status_ = size.status();
  } else if (size->value_or(vocab) != vocab) {
    differs(kSize, **size);
  }
}

void TensorBinder::BindLayers() {
  const LlamaConfig& c = result_.config;
  for (int32_t i = 0; i < c.num_layers && status_.ok(); ++i) {
    const auto name = [&](const char* part) { return fmt::format("blk.{}.{}.weight", i, part); };
    LlamaLayerTensors layer;
    layer.attention_norm = Norm(name("attn_norm"));
    layer.q = Matrix(name("attn_q"), c.hidden_size, c.q_size());
    layer.k = Matrix(name("attn_k"), c.hidden_size, c.kv_size());
    layer.v = Matrix(name("attn_v"), c.hidden_size, c.kv_size());
    layer.o = Matrix(name("attn_output"), c.q_size(), c.hidden_size);
    layer.ffn_norm = Norm(name("ffn_norm"));
    layer.gate = Matrix(name("ffn_gate"), c.hidden_size, c.intermediate_size);
    layer.up = Matrix(name("ffn_up"), c.hidden_size, c.intermediate_size);
    layer.down = Matrix(name("ffn_down"), c.intermediate_size, c.hidden_size);
    result_.layers.push_back(layer);
  }
}

void TensorBinder::BindRopeDivisors() {
  const std::string name = "rope_freqs.weight";
  if (!status_.ok() || file_.FindTensor(name) == nullptr) return;
  const GgufTensor* tensor = Find(name);
  if (WeightTypeOf(tensor->type) != WeightType::kF32) {
    Fail(StatusCode::kUnimplemented, Field(name),
         fmt::format("type {} is not supported here; F32 is", GgmlTypeName(tensor->type)));
    return;
  }
  if (!CheckShape(*tensor, {static_cast<uint64_t>(result_.config.rope_dim / 2)})) return;
  std::vector<float> divisors(tensor->shape[0]);
  std::memcpy(divisors.data(), tensor->data.data(), tensor->data.size());
  for (size_t i = 0; i < divisors.size(); ++i) {
    if (!(divisors[i] >= kMinDivisor && divisors[i] <= kMaxDivisor)) {
      Fail(StatusCode::kDataLoss, Field(name),
           fmt::format("element {} is {}; it must be from {} to {}", i, divisors[i], kMinDivisor,
                       kMaxDivisor));
    }
  }
  result_.rope_divisors = std::move(divisors);
}

void TensorBinder::CheckUnused() {
  std::ranges::sort(used_);
  for (const GgufTensor& tensor : file_.tensors()) {
    // Old files repeat the rotation's plain frequencies in each layer.
    if (tensor.name.ends_with(".attn_rot_embd.weight")) continue;
    if (std::ranges::binary_search(used_, &tensor)) continue;
    Fail(StatusCode::kUnimplemented, Field(tensor.name),
         "the llama models that are supported have no such tensor");
    return;
  }
}

}  // namespace

StatusOr<LlamaTensors> BindLlamaTensors(const GgufFile& file) {
  StatusOr<LlamaConfig> config = ReadLlamaConfig(file);
  if (!config.ok()) return config.status();
  return TensorBinder(file, *std::move(config)).Bind();
}

}  // namespace ropeway
