#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/utf8.h"
#include "core/parameters.h"
#include "model/hf_folder.h"

namespace ropeway::model {
namespace {

using nlohmann::json;

constexpr uint32_t kMaxLayersOfAFolder = 4096;
constexpr uint32_t kMaxExpertsOfAFolder = 1024;
constexpr uint32_t kMaxHeadDimOfAFolder = 4096;

constexpr char kSilu[] = "silu";
constexpr char kGelu[] = "gelu_pytorch_tanh";
constexpr char kExactGelu[] = "gelu";

// clang-format off
constexpr auto kArchitectures = std::to_array<HfArchitecture>({
    {.name = "LlamaForCausalLM", .gguf = "llama", .activation = kSilu, .rope_pairs = true},
    {.name = "MistralForCausalLM", .gguf = "llama", .activation = kSilu,
     .kv_heads = 8, .window = 4096, .rope_pairs = true},
    {.name = "MixtralForCausalLM", .gguf = "llama", .activation = kSilu,
     .rope_theta = 1e6, .norm_eps = 1e-5, .kv_heads = 8, .window = 0, .rope_pairs = true},
    {.name = "Qwen2ForCausalLM", .gguf = "qwen2", .activation = kSilu,
     .kv_heads = 32, .window = 4096},
    {.name = "Qwen3ForCausalLM", .gguf = "qwen3", .activation = kSilu,
     .kv_heads = 32, .head_dim = 128, .window = 4096},
    {.name = "Qwen2MoeForCausalLM", .gguf = "qwen2moe", .activation = kSilu,
     .kv_heads = 16, .window = 4096},
    {.name = "Qwen3MoeForCausalLM", .gguf = "qwen3moe", .activation = kSilu,
     .kv_heads = 4, .window = 4096},
    {.name = "Gemma2ForCausalLM", .gguf = "gemma2", .activation = kGelu,
     .kv_heads = 4, .head_dim = 256, .window = 4096, .norm_plus_one = true},
    {.name = "Gemma3ForCausalLM", .gguf = "gemma3", .activation = kGelu,
     .rope_theta = 1e6, .kv_heads = 4, .head_dim = 256, .window = 4096, .norm_plus_one = true},
    {.name = "Gemma3ForConditionalGeneration", .gguf = "gemma3", .activation = kGelu,
     .rope_theta = 1e6, .kv_heads = 4, .head_dim = 256, .window = 4096, .norm_plus_one = true},
    {.name = "GPT2LMHeadModel", .gguf = "gpt2", .activation = kGelu, .transposed = true},
    {.name = "Phi3ForCausalLM", .gguf = "phi3", .activation = kSilu,
     .norm_eps = 1e-5, .window = 0},
    {.name = "GptOssForCausalLM", .gguf = "gpt-oss", .activation = kSilu,
     .rope_theta = 150000.0, .norm_eps = 1e-5, .kv_heads = 8, .head_dim = 64, .window = 128},
    {.name = "BertModel", .gguf = "bert", .activation = kExactGelu, .norm_eps = 1e-12},
    {.name = "BertForMaskedLM", .gguf = "bert", .activation = kExactGelu, .norm_eps = 1e-12},
});
// clang-format on

// Reads one configuration and sets its metadata.
class ConfigReader {
 public:
  ConfigReader(HfFields* config, GgufFile::Builder* builder) : in_(*config), out_(*builder) {}

  HfModel Read() {
    if (!ReadArchitecture()) return model_;
    RejectWhatChangesAnswers();
    ReadSizes();
    ReadHeads();
    ReadNorms();
    if (!Is("gpt2") && !Is("bert")) ReadHfRope(&in_, context_, &out_, &model_);
    ReadWindows();
    ReadExperts();
    ReadSoftCaps();
    return model_;
  }

 private:
  bool Is(std::string_view gguf) const { return model_.architecture->gguf == gguf; }
  bool IsGemma() const { return Is("gemma2") || Is("gemma3"); }
  std::string Key(std::string_view key) const {
    return fmt::format("{}.{}", model_.architecture->gguf, key);
  }
  void Lacks(std::string_view key, const std::string& what) {
    in_.Fail(StatusCode::kUnimplemented, key, what);
  }
  // Sets a number of the model to the number in the first field that is present; returns it.
  uint32_t Put(std::string_view key, std::initializer_list<std::string_view> fields,
               std::optional<uint32_t> absent = {}) {
    const std::string_view field = in_.Name(fields);
    const uint32_t value = in_.Uint(field, absent);
    out_.SetUint32(Key(key), value, in_.Field(field));
    return value;
  }
  void PutFloat(std::string_view key, double value, std::string_view field) {
    out_.SetFloat32(Key(key), static_cast<float>(value), in_.Field(field));
  }

  bool ReadArchitecture();
  void RejectWhatChangesAnswers();
  void ReadSizes();
  void ReadHeads();
  void ReadNorms();
  void ReadWindows();
  std::vector<bool> WindowLayers();
  std::vector<bool> ListedWindows();
  bool UsualWindow(uint32_t layer, uint32_t pattern) const;
  void ReadExperts();
  void ReadSoftCaps();

  HfFields& in_;
  GgufFile::Builder& out_;
  HfModel model_;
  uint32_t context_ = 0;
};

bool ConfigReader::ReadArchitecture() {
  constexpr const char* kField = "architectures";
  const std::vector<std::string> names = in_.Texts(kField);
  if (in_.ok() && names.empty()) in_.Fail(StatusCode::kDataLoss, kField, "the field is missing");
  if (!in_.ok()) return false;
  const auto name_of = [](const HfArchitecture& a) { return std::string_view(a.name); };
  const auto* at = std::ranges::find(kArchitectures, std::string_view(names[0]), name_of);
  if (at == kArchitectures.end()) {
    std::vector<std::string_view> known;
    for (const HfArchitecture& architecture : kArchitectures) known.push_back(architecture.name);
    Lacks(kField, fmt::format("\"{}\" is not supported; {} are",
                              base::PrintableText(names[0].substr(0, 64)), fmt::join(known, ", ")));
    return false;
  }
  model_.architecture = at;
  out_.SetString("general.architecture", at->gguf, in_.Field(kField));
  return true;
}

void ConfigReader::RejectWhatChangesAnswers() {
  if (const json* quantised = in_.Object("quantization_config")) {
    const auto method = quantised->find("quant_method");
    const bool mxfp4 = method != quantised->end() && *method == "mxfp4" && Is("gpt-oss");
    if (!mxfp4) {
      Lacks("quantization_config",
            "quantised weights are not supported, except MXFP4 for gpt-oss; BF16, F16 and F32 are");
    }
  }
  const std::string_view field =
      in_.Name({"hidden_activation", "hidden_act", "activation_function"});
  const std::string expected = model_.architecture->activation;
  const std::string activation = in_.Text(field, expected);
  if (activation != expected && !(expected == kGelu && activation == "gelu_new")) {
    Lacks(field, fmt::format("\"{}\" is not supported; \"{}\" is",
                             base::PrintableText(activation.substr(0, 64)), expected));
  }
  const auto only = [&](const char* key, bool value) {
    if (in_.Bool(key, value) == value) return;
    Lacks(key, fmt::format("only {} is supported", value));
  };
  const auto only_number = [&](const char* key, double value) {
    if (in_.Number(key, value) == value) return;
    Lacks(key, fmt::format("only {} is supported", value));
  };
  if (Is("gpt2")) {
    only("scale_attn_weights", true);
    only("scale_attn_by_inverse_layer_idx", false);
    only("add_cross_attention", false);
  }
  if (Is("bert")) {
    only("is_decoder", false);
    only("add_cross_attention", false);
    constexpr const char* kPositions = "position_embedding_type";
    if (in_.Text(kPositions, "absolute") != "absolute") {
      Lacks(kPositions, "only \"absolute\" is supported");
    }
    out_.SetBool(Key("attention.causal"), false, in_.Field("architectures"));
    return;  // It has no output matrix.
  }
  if (IsGemma()) only("use_bidirectional_attention", false);
  if (Is("gpt-oss")) {
    only_number("swiglu_alpha", 1.702);
    only_number("swiglu_limit", 7.0);
  }
  const bool tied = IsGemma() || Is("gpt2");
  if (tied || in_.Has("tie_word_embeddings")) {
    model_.tied = in_.Bool("tie_word_embeddings", tied);
  }
}

void ConfigReader::ReadSizes() {
  model_.layers = Put("block_count", {"num_hidden_layers", "n_layer"});
  if (model_.layers > kMaxLayersOfAFolder) {
    in_.Fail(StatusCode::kDataLoss, in_.Name({"num_hidden_layers", "n_layer"}),
             fmt::format("{} is out of range; it must be at most {}", model_.layers,
                         kMaxLayersOfAFolder));
  }
  std::optional<uint32_t> context;
  if (Is("gemma3")) context = 131072;
  context_ = Put("context_length", {"max_position_embeddings", "n_positions", "n_ctx"}, context);
  const uint32_t hidden = Put("embedding_length", {"hidden_size", "n_embd"});
  if (Is("gpt2") && !in_.Has("n_inner")) {
    out_.SetUint32(Key("feed_forward_length"), 4 * hidden, in_.Field("n_inner"));
  } else {
    Put("feed_forward_length", {"intermediate_size", "n_inner"});
  }
  if (in_.Has("vocab_size")) Put("vocab_size", {"vocab_size"});
}

void ConfigReader::ReadHeads() {
  const HfArchitecture& usual = *model_.architecture;
  constexpr const char* kKvHeads = "num_key_value_heads";
  std::optional<uint32_t> heads;
  if (IsGemma()) heads = 8;  // The larger ones do not say.
  model_.heads = Put("attention.head_count", {"num_attention_heads", "n_head"}, heads);
  const bool as_heads = usual.kv_heads == 0 || in_.IsNull(kKvHeads);
  model_.kv_heads =
      Put("attention.head_count_kv", {kKvHeads}, as_heads ? model_.heads : usual.kv_heads);
  if (in_.Has("head_dim")) {
    model_.head_dim = in_.Uint("head_dim");
  } else if (usual.head_dim > 0 && !in_.IsNull("head_dim")) {
    model_.head_dim = usual.head_dim;
  } else if (model_.heads > 0) {
    model_.head_dim = in_.Uint(in_.Name({"hidden_size", "n_embd"}), 0) / model_.heads;
  }
  if (model_.head_dim > kMaxHeadDimOfAFolder) {  // RoPE's divisors are as many.
    in_.Fail(StatusCode::kDataLoss, in_.Has("head_dim") ? "head_dim" : "hidden_size",
             fmt::format("a head of {} elements is not supported; at most {} are", model_.head_dim,
                         kMaxHeadDimOfAFolder));
    model_.head_dim = 0;
  }
  if (Is("gpt2") || Is("bert")) return;  // Their files have no such keys.
  out_.SetUint32(Key("attention.key_length"), model_.head_dim, in_.Field("head_dim"));
  out_.SetUint32(Key("attention.value_length"), model_.head_dim, in_.Field("head_dim"));
  if (!IsGemma()) return;
  // Said where it is the usual one too: the recipes know another of the largest models.
  constexpr const char* kScalar = "query_pre_attn_scalar";
  const double scalar = in_.Number(kScalar, 256.0);
  if (scalar > 0.0) return PutFloat("attention.scale", 1.0 / std::sqrt(scalar), kScalar);
  in_.Fail(StatusCode::kDataLoss, kScalar,
           fmt::format("{} is out of range; it must be above 0", scalar));
}

void ConfigReader::ReadNorms() {
  if (Is("gpt2")) {
    PutFloat("attention.layer_norm_epsilon", in_.Number("layer_norm_epsilon", 1e-5),
             "layer_norm_epsilon");
  } else if (Is("bert")) {
    PutFloat("attention.layer_norm_epsilon",
             in_.Number("layer_norm_eps", model_.architecture->norm_eps), "layer_norm_eps");
  } else {
    PutFloat("attention.layer_norm_rms_epsilon",
             in_.Number("rms_norm_eps", model_.architecture->norm_eps), "rms_norm_eps");
  }
}

// Whether the layer attends to a window in the models that GGUF's recipes know.
bool ConfigReader::UsualWindow(uint32_t layer, uint32_t pattern) const {
  if (Is("gemma2") || Is("gpt-oss")) return layer % 2 == 0;
  if (Is("gemma3")) return (layer + 1) % pattern != 0;
  return Is("llama") || Is("phi3");
}

// Empty after a failure.
std::vector<bool> ConfigReader::WindowLayers() {
  constexpr const char* kUsed = "use_sliding_window";
  const std::string_view gguf = model_.architecture->gguf;
  const bool qwen = gguf.starts_with("qwen");
  std::vector<bool> windows(model_.layers);
  if (qwen && !in_.Bool(kUsed, false)) return windows;
  if (in_.Has("layer_types")) return ListedWindows();
  if (qwen && gguf.ends_with("moe")) {  // Versions of transformers differ in which layers.
    Lacks(kUsed, "true is not supported without layer_types");
    return {};
  }
  const uint32_t first = qwen ? in_.Uint("max_window_layers", 28) : 0;
  const uint32_t pattern = std::max(1U, in_.Uint("sliding_window_pattern", 6));
  for (uint32_t i = 0; i < windows.size(); ++i) {
    windows[i] = qwen ? i >= first : UsualWindow(i, pattern);
  }
  return windows;
}

std::vector<bool> ConfigReader::ListedWindows() {
  constexpr const char* kTypes = "layer_types";
  std::vector<bool> windows;
  for (const std::string& type : in_.Texts(kTypes)) {
    windows.push_back(type == "sliding_attention");
    if (windows.back() || type == "full_attention") continue;
    Lacks(kTypes, fmt::format("\"{}\" is not supported; full_attention and sliding_attention are",
                              base::PrintableText(type.substr(0, 64))));
  }
  if (windows.size() == model_.layers) return windows;
  in_.Fail(
      StatusCode::kDataLoss, kTypes,
      fmt::format("expected {} entries, one per layer, got {}", model_.layers, windows.size()));
  return {};
}

void ConfigReader::ReadWindows() {
  constexpr const char* kField = "sliding_window";
  const std::optional<uint32_t> absent = model_.architecture->window;
  if (model_.layers < 1 || model_.layers > kMaxLayersOfAFolder || !absent) return;
  const uint32_t window = in_.IsNull(kField) ? 0 : in_.Uint(kField, absent);
  const std::vector<bool> windows = WindowLayers();
  const bool any = window > 0 && std::ranges::find(windows, true) != windows.end();
  // GGUF's recipe of gemma2 has windows where the key is absent.
  if (any || Is("phi3") || Is("gemma2")) {
    out_.SetUint32(Key("attention.sliding_window"), any ? window : 0, in_.Field(kField));
  }
  if (!any) return;
  bool usual = true;
  for (uint32_t i = 0; i < windows.size(); ++i) usual = usual && windows[i] == UsualWindow(i, 6);
  if (!usual) out_.SetBools(Key("attention.sliding_window_pattern"), windows);
}

void ConfigReader::ReadExperts() {
  const std::string_view count = in_.Name({"num_local_experts", "num_experts"});
  if (!in_.Has(count)) return;
  model_.experts = Put("expert_count", {count});
  if (model_.experts < 1 || model_.experts > kMaxExpertsOfAFolder) {
    in_.Fail(StatusCode::kDataLoss, count,
             fmt::format("{} is out of range; it must be from 1 to {}", model_.experts,
                         kMaxExpertsOfAFolder));
  }
  Put("expert_used_count", {"num_experts_per_tok", "experts_per_token"});
  if (in_.Has("moe_intermediate_size")) {
    Put("expert_feed_forward_length", {"moe_intermediate_size"});
  } else if (Is("gpt-oss")) {
    Put("expert_feed_forward_length", {"intermediate_size"});
  }
  if (in_.Has("shared_expert_intermediate_size")) {
    Put("expert_shared_feed_forward_length", {"shared_expert_intermediate_size"});
  }
  if (Is("qwen2moe") || Is("qwen3moe")) {
    const bool usual = Is("qwen3moe");  // Whether the chosen experts' weights add up to 1.
    const bool norm = in_.Bool("norm_topk_prob", false);
    if (norm != usual) {
      out_.SetBool(Key("expert_weights_norm"), norm, in_.Field("norm_topk_prob"));
    }
    if (in_.Uint("decoder_sparse_step", 1) != 1) {
      Lacks("decoder_sparse_step", "only 1 is supported");
    }
    if (!in_.Numbers("mlp_only_layers").empty()) {
      Lacks("mlp_only_layers", "layers without experts are not supported");
    }
  }
}

void ConfigReader::ReadSoftCaps() {
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    // null is no cap, where GGUF's recipe of gemma2 has one for an absent key.
    if (in_.Has(key) || (Is("gemma2") && in_.IsNull(key))) PutFloat(key, in_.Number(key, 0.0), key);
  }
}

}  // namespace

void FlattenTextConfig(json* config) {
  if (!config->is_object() || !config->contains("text_config")) return;
  const json text = (*config)["text_config"];
  if (!text.is_object()) return;
  for (const auto& [key, value] : text.items()) {
    if (key != "architectures") (*config)[key] = value;
  }
}

HfModel ReadHfConfig(HfFields* config, GgufFile::Builder* builder) {
  return ConfigReader(config, builder).Read();
}

void ReadHfPooling(HfFields* pooling, const HfModel& model, GgufFile::Builder* builder) {
  // GGUF's numbers are llama.cpp's enum llama_pooling_type.
  struct Mode {
    const char* field;
    const char* name;  // Of newer files' "pooling_mode".
    uint32_t type;
  };
  constexpr Mode kModes[] = {{"pooling_mode_mean_tokens", "mean", 1},
                             {"pooling_mode_cls_token", "cls", 2},
                             {"pooling_mode_lasttoken", "lasttoken", 3}};
  constexpr const char* kMode = "pooling_mode";
  std::string chosen = kMode;
  uint32_t type = 0;
  int modes = 0;
  for (const Mode& mode : kModes) {
    const bool named = pooling->Has(kMode) && pooling->Text(kMode) == mode.name;
    if (!named && !(!pooling->Has(kMode) && pooling->Bool(mode.field, false))) continue;
    type = mode.type;
    if (!named) chosen = mode.field;
    ++modes;
  }
  for (const char* other : {"pooling_mode_max_tokens", "pooling_mode_mean_sqrt_len_tokens",
                            "pooling_mode_weightedmean_tokens"}) {
    if (!pooling->Has(kMode) && pooling->Bool(other, false)) {
      return pooling->Fail(StatusCode::kUnimplemented, other, "true is not supported");
    }
  }
  if (modes != 1) {
    return pooling->Fail(StatusCode::kUnimplemented, kMode,
                         "only one of mean, cls and lasttoken is supported");
  }
  builder->SetUint32(fmt::format("{}.pooling_type", model.architecture->gguf), type,
                     pooling->Field(chosen));
}

void ReadHfUsualLength(HfFields* sentences, const HfModel& model, GgufFile::Builder* builder) {
  constexpr const char* kLength = "max_seq_length";
  if (!sentences->Has(kLength)) return;
  builder->SetUint32(fmt::format("{}.max_seq_length", model.architecture->gguf),
                     sentences->Uint(kLength), sentences->Field(kLength));
}

void ReadHfGeneration(HfFields* generation, GgufFile::Builder* builder) {
  for (const core::Parameter& row : core::Parameters()) {
    if (row.gguf == nullptr || !generation->Has(row.name)) continue;
    const std::string key = std::string("general.sampling.") + row.gguf;
    const double value = generation->Number(row.name);
    if (std::holds_alternative<float SamplingParams::*>(row.member)) {
      builder->SetFloat32(key, static_cast<float>(value), generation->Field(row.name));
    } else if (value != -1.0 && value != 0.0) {
      // Files say so for "all tokens", which is what an absent key means.
      builder->SetUint32(key, generation->Uint(row.name), generation->Field(row.name));
    }
  }
}

}  // namespace ropeway::model
