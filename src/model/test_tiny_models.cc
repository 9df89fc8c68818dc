#include "model/test_tiny_models.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <utility>

#include "model/rope.h"

namespace ropeway::model {
namespace {

constexpr int kHidden = 64;
constexpr int kHeads = 4;
constexpr int kFfn = 96;
constexpr int kLongRopeOriginal = 32;

// What make_goldens.py has as CASES. 0: the model has no such thing.
struct TinySpec {
  const char* name;
  const char* architecture;
  int layers = 3;
  int kv_heads = 2;
  int head_dim = 16;
  bool tied = false;
  double eps = 1e-5;
  double rope_base = 10000.0;
  int window = 0;
  int experts = 0;
  int experts_used = 0;
  int expert_ffn = 0;
  int shared_ffn = 0;
  bool qkv_bias = false;
  bool qk_norm = false;
  int hidden = kHidden;
  bool encoder = false;
};

const std::vector<TinySpec>& TinySpecs() {
  static const std::vector<TinySpec> specs = {
      {.name = "llama", .architecture = "llama"},
      {.name = "llama3", .architecture = "llama", .tied = true, .rope_base = 500000.0},
      {.name = "mistral", .architecture = "llama", .window = 20},
      {.name = "mixtral",
       .architecture = "llama",
       .experts = 4,
       .experts_used = 2,
       .expert_ffn = kFfn},
      {.name = "qwen2", .architecture = "qwen2", .tied = true, .qkv_bias = true},
      {.name = "qwen3", .architecture = "qwen3", .head_dim = 32, .tied = true, .qk_norm = true},
      {.name = "gemma2",
       .architecture = "gemma2",
       .layers = 4,
       .head_dim = 32,
       .tied = true,
       .eps = 1e-6,
       .window = 24},
      {.name = "gemma3",
       .architecture = "gemma3",
       .layers = 7,
       .kv_heads = 1,
       .head_dim = 32,
       .tied = true,
       .eps = 1e-6,
       .rope_base = 1e6,
       .window = 24,
       .qk_norm = true},
      {.name = "gpt2", .architecture = "gpt2", .kv_heads = 4, .tied = true},
      {.name = "phi3", .architecture = "phi3", .window = 40},
      {.name = "phi3long", .architecture = "phi3"},
      {.name = "qwen2moe",
       .architecture = "qwen2moe",
       .experts = 6,
       .experts_used = 2,
       .expert_ffn = 32,
       .shared_ffn = 64,
       .qkv_bias = true},
      {.name = "qwen3moe",
       .architecture = "qwen3moe",
       .head_dim = 32,
       .experts = 8,
       .experts_used = 3,
       .expert_ffn = 32,
       .qk_norm = true},
      {.name = "gptoss",
       .architecture = "gpt-oss",
       .layers = 4,
       .rope_base = 150000.0,
       .window = 24,
       .experts = 4,
       .experts_used = 2,
       .expert_ffn = 64,
       .qkv_bias = true},
      {.name = "bert", .architecture = "bert", .kv_heads = 4, .qkv_bias = true, .encoder = true},
  };
  return specs;
}

// FNV-1a (Fowler, Noll and Vo).
uint64_t SeedOf(const std::string& name) {
  uint64_t hash = 0xCBF29CE484222325U;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3U;
  return hash;
}

bool Contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

// Mean and deviation of a tensor's elements: outputs are about as large as inputs, but what a layer
// adds is smaller, so that the roundings of K and V do not grow from layer to layer; routers choose
// clearly.
std::pair<double, double> RuleOf(const std::string& name, uint64_t inputs) {
  if (name.ends_with(".bias")) return {0.0, 0.1};
  if (name.ends_with("norm.weight")) return {1.0, 0.1};
  if (Contains(name, "attn_sinks")) return {0.0, 1.0};
  if (name == "token_types.weight" || name == "token_embd.weight" ||
      name == "position_embd.weight" || name == "output.weight") {
    return {0.0, 0.125};
  }
  static constexpr std::pair<const char*, double> kGains[] = {
      {"attn_output.", 0.5}, {"ffn_gate_inp", 1.5}, {"ffn_down", 0.5}};
  double gain = 1.0;
  for (const auto& [part, its_gain] : kGains) {
    if (Contains(name, part)) gain = its_gain;
  }
  return {0.0, gain / std::sqrt(static_cast<double>(inputs))};
}

class TinyModelMaker {
 public:
  // `down`: the type of the down matrices and of the output; `weights`: of the other matrices.
  TinyModelMaker(const TinySpec& spec, kernels::WeightType weights, kernels::WeightType down)
      : spec_(spec), weights_(weights), down_(down) {}

  GgufWriter Make() {
    AddMetadata();
    AddTinyTokenizer(&file_);
    Add("token_embd.weight", {spec_.hidden, kTinyVocab});
    AddEnds();
    for (int layer = 0; layer < spec_.layers; ++layer) {
      prefix_ = "blk." + std::to_string(layer) + ".";
      AddAttention();
      AddFfn();
    }
    AddRopeFactors();
    return std::move(file_);
  }

 private:
  void AddEnds() {
    if (Is("bert")) {
      Add("token_types.weight", {spec_.hidden, 2});
      Add("token_embd_norm.weight", {spec_.hidden});
      Add("token_embd_norm.bias", {spec_.hidden});
      Add("position_embd.weight", {spec_.hidden, kTinyModelContext});
      return;
    }
    Add("output_norm.weight", {spec_.hidden});
    if (!spec_.tied) Add("output.weight", {spec_.hidden, kTinyVocab});
    if (Is("gpt2")) {
      Add("output_norm.bias", {spec_.hidden});
      Add("position_embd.weight", {spec_.hidden, kTinyModelContext});
    }
  }
  bool Is(const char* architecture) const {
    return spec_.architecture == std::string(architecture);
  }
  bool Named(const char* name) const { return spec_.name == std::string(name); }
  std::string Key(const char* key) const { return std::string(spec_.architecture) + "." + key; }
  void Uint(const char* key, int value) { file_.SetUint32(Key(key), static_cast<uint32_t>(value)); }
  void Float(const char* key, double value) {
    file_.SetFloat32(Key(key), static_cast<float>(value));
  }

  void AddMetadata();
  void AddVariants();
  void AddAttention();
  void AddFfn();
  void AddExperts();
  void AddRopeFactors();
  // Add a tensor of the model, and one of the layer whose prefix is set.
  void Add(const std::string& name, const std::vector<int>& shape);
  void AddOfLayer(const std::string& name, const std::vector<int>& shape) {
    Add(prefix_ + name, shape);
  }

  const TinySpec& spec_;
  const kernels::WeightType weights_;
  const kernels::WeightType down_;
  GgufWriter file_;
  std::string prefix_;
};

void TinyModelMaker::Add(const std::string& name, const std::vector<int>& shape) {
  size_t count = 1;
  std::vector<uint64_t> dims;
  for (const int dim : shape) {
    count *= static_cast<size_t>(dim);
    dims.push_back(static_cast<uint64_t>(dim));
  }
  const auto [mean, deviation] = RuleOf(name, dims[0]);
  std::vector<float> values;
  for (const double normal : TinyNormals(SeedOf(name), count)) {
    values.push_back(static_cast<float>(mean + deviation * normal));
  }
  const bool exact = dims.size() == 1 || name.ends_with(".bias") ||
                     Contains(name, "ffn_gate_inp") || name == "token_types.weight";
  const bool down = Contains(name, "ffn_down") || name == "output.weight";
  const kernels::WeightType type = down ? down_ : weights_;
  file_.SetTensor(name, dims, exact ? kernels::WeightType::kF32 : type, values);
}

void TinyModelMaker::AddMetadata() {
  file_.SetString("general.architecture", spec_.architecture);
  file_.SetString("general.name", std::string("Tiny random ") + spec_.name);
  Uint("block_count", spec_.layers);
  Uint("context_length", kTinyModelContext);
  Uint("embedding_length", spec_.hidden);
  Uint("feed_forward_length", kFfn);
  Uint("attention.head_count", kHeads);
  if (Is("gpt2") || Is("bert")) {
    Float("attention.layer_norm_epsilon", spec_.eps);
    if (Is("bert")) file_.SetBool(Key("attention.causal"), false);
    if (Is("bert")) Uint("pooling_type", 1);
    return;
  }
  Uint("attention.head_count_kv", spec_.kv_heads);
  Float("attention.layer_norm_rms_epsilon", spec_.eps);
  Float("rope.freq_base", spec_.rope_base);
  if (!Is("phi3")) {
    Uint("attention.key_length", spec_.head_dim);
    Uint("attention.value_length", spec_.head_dim);
  }
  if (spec_.window > 0) Uint("attention.sliding_window", spec_.window);
  AddVariants();
}

void TinyModelMaker::AddVariants() {
  if (spec_.experts > 0) {
    Uint("expert_count", spec_.experts);
    Uint("expert_used_count", spec_.experts_used);
    if (!Named("mixtral")) Uint("expert_feed_forward_length", spec_.expert_ffn);
  }
  if (spec_.shared_ffn > 0) Uint("expert_shared_feed_forward_length", spec_.shared_ffn);
  if (Is("gemma2")) {
    Float("attn_logit_softcapping", 5.0);
    Float("final_logit_softcapping", 10.0);
  }
  if (Named("phi3long")) {
    Uint("rope.scaling.original_context_length", kLongRopeOriginal);
    const double scale = static_cast<double>(kTinyModelContext) / kLongRopeOriginal;
    Float("rope.scaling.attn_factor",
          std::sqrt(1.0 + std::log(scale) / std::log(static_cast<double>(kLongRopeOriginal))));
  }
  if (Is("gpt-oss")) {
    file_.SetString(Key("rope.scaling.type"), "yarn");
    Float("rope.scaling.factor", 8.0);
    Uint("rope.scaling.original_context_length", 128);
    Float("rope.scaling.yarn_beta_fast", 32.0);
    Float("rope.scaling.yarn_beta_slow", 1.0);
  }
}

void TinyModelMaker::AddAttention() {
  const int q = kHeads * spec_.head_dim;
  const int kv = spec_.kv_heads * spec_.head_dim;
  if (!Is("bert")) AddOfLayer("attn_norm.weight", {spec_.hidden});
  if (Is("gpt2")) AddOfLayer("attn_norm.bias", {spec_.hidden});
  if (Is("gpt2") || Is("phi3")) {
    AddOfLayer("attn_qkv.weight", {spec_.hidden, q + 2 * kv});
    if (Is("gpt2")) AddOfLayer("attn_qkv.bias", {q + 2 * kv});
  } else {
    AddOfLayer("attn_q.weight", {spec_.hidden, q});
    AddOfLayer("attn_k.weight", {spec_.hidden, kv});
    AddOfLayer("attn_v.weight", {spec_.hidden, kv});
  }
  if (spec_.qkv_bias) {
    AddOfLayer("attn_q.bias", {q});
    AddOfLayer("attn_k.bias", {kv});
    AddOfLayer("attn_v.bias", {kv});
  }
  if (spec_.qk_norm) {
    AddOfLayer("attn_q_norm.weight", {spec_.head_dim});
    AddOfLayer("attn_k_norm.weight", {spec_.head_dim});
  }
  AddOfLayer("attn_output.weight", {q, spec_.hidden});
  if (Is("gpt2") || Is("gpt-oss") || Is("bert")) {
    AddOfLayer("attn_output.bias", {spec_.hidden});
  }
  if (Is("bert")) {
    AddOfLayer("attn_output_norm.weight", {spec_.hidden});
    AddOfLayer("attn_output_norm.bias", {spec_.hidden});
  }
  if (Is("gpt-oss")) AddOfLayer("attn_sinks.weight", {kHeads});
  if (Is("gemma2") || Is("gemma3") || Is("gpt-oss")) {
    AddOfLayer("post_attention_norm.weight", {spec_.hidden});
  }
}

void TinyModelMaker::AddFfn() {
  if (!Is("gpt-oss") && !Is("bert")) AddOfLayer("ffn_norm.weight", {spec_.hidden});
  if (Is("gpt2")) AddOfLayer("ffn_norm.bias", {spec_.hidden});
  if (Is("gemma2") || Is("gemma3")) AddOfLayer("post_ffw_norm.weight", {spec_.hidden});
  if (spec_.experts > 0) return AddExperts();
  const bool gated = !Is("gpt2") && !Is("phi3") && !Is("bert");
  if (gated) AddOfLayer("ffn_gate.weight", {spec_.hidden, kFfn});
  AddOfLayer("ffn_up.weight", {spec_.hidden, Is("phi3") ? 2 * kFfn : kFfn});
  AddOfLayer("ffn_down.weight", {kFfn, spec_.hidden});
  if (Is("gpt2") || Is("bert")) {
    AddOfLayer("ffn_up.bias", {kFfn});
    AddOfLayer("ffn_down.bias", {spec_.hidden});
  }
  if (Is("bert")) {
    AddOfLayer("layer_output_norm.weight", {spec_.hidden});
    AddOfLayer("layer_output_norm.bias", {spec_.hidden});
  }
}

void TinyModelMaker::AddExperts() {
  const int count = spec_.experts;
  const int ffn = spec_.expert_ffn;
  AddOfLayer("ffn_gate_inp.weight", {spec_.hidden, count});
  AddOfLayer("ffn_gate_exps.weight", {spec_.hidden, ffn, count});
  AddOfLayer("ffn_up_exps.weight", {spec_.hidden, ffn, count});
  AddOfLayer("ffn_down_exps.weight", {ffn, spec_.hidden, count});
  if (Is("gpt-oss")) {
    AddOfLayer("ffn_gate_inp.bias", {count});
    AddOfLayer("ffn_gate_exps.bias", {ffn, count});
    AddOfLayer("ffn_up_exps.bias", {ffn, count});
    AddOfLayer("ffn_down_exps.bias", {spec_.hidden, count});
  }
  if (spec_.shared_ffn > 0) {
    AddOfLayer("ffn_gate_inp_shexp.weight", {spec_.hidden});
    AddOfLayer("ffn_gate_shexp.weight", {spec_.hidden, spec_.shared_ffn});
    AddOfLayer("ffn_up_shexp.weight", {spec_.hidden, spec_.shared_ffn});
    AddOfLayer("ffn_down_shexp.weight", {spec_.shared_ffn, spec_.hidden});
  }
}

void TinyModelMaker::AddRopeFactors() {
  const auto pairs = static_cast<size_t>(spec_.head_dim / 2);
  const auto set = [&](const char* name, const std::vector<float>& factors) {
    file_.SetTensor(name, {pairs}, kernels::WeightType::kF32, factors);
  };
  std::vector<float> factors;
  if (Named("llama3")) {
    // Llama 3.1's scaling: factor 8, 1 and 4 turns within 64 positions.
    for (size_t i = 0; i < pairs; ++i) {
      const double exponent = -2.0 * static_cast<double>(i) / spec_.head_dim;
      const double turns = 64 * PortablePow(spec_.rope_base, exponent) / 6.283185307179586;
      const double kept = std::clamp((turns - 1.0) / (4.0 - 1.0), 0.0, 1.0);
      factors.push_back(static_cast<float>(1.0 / ((1.0 - kept) / 8.0 + kept)));
    }
    set("rope_freqs.weight", factors);
  }
  if (Named("phi3long")) {
    for (size_t i = 0; i < pairs; ++i) factors.push_back(1.0F + 0.5F * static_cast<float>(i));
    set("rope_factors_long.weight", factors);
    for (float& factor : factors) factor = 1.0F + (factor - 1.0F) / 8.0F;
    set("rope_factors_short.weight", factors);
  }
}

}  // namespace

const std::vector<std::string>& TinyModelNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const TinySpec& spec : TinySpecs()) {
      if (!spec.encoder) all.emplace_back(spec.name);
    }
    return all;
  }();
  return names;
}

const std::vector<std::string>& AllTinyModelNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const TinySpec& spec : TinySpecs()) all.emplace_back(spec.name);
    return all;
  }();
  return names;
}

GgufWriter TinyModel(const std::string& name, kernels::WeightType weights) {
  for (const TinySpec& spec : TinySpecs()) {
    if (spec.name == name) return TinyModelMaker(spec, weights, weights).Make();
  }
  throw std::runtime_error("there is no tiny model " + name);
}

GgufWriter WideTinyExperts(kernels::WeightType weights, kernels::WeightType down) {
  const TinySpec spec = {.name = "wide",
                         .architecture = "qwen3moe",
                         .head_dim = 256 / kHeads,
                         .experts = 8,
                         .experts_used = 3,
                         .expert_ffn = 256,
                         .qk_norm = true,
                         .hidden = 256};
  return TinyModelMaker(spec, weights, down).Make();
}

}  // namespace ropeway::model
