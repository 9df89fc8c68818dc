#include "model/llama_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "base/utf8.h"

namespace ropeway {
namespace {

// Far above any model's; they keep every product of two within 63 bits.
constexpr uint64_t kMaxLayers = 4096;
constexpr uint64_t kMaxWidth = 1 << 20;
constexpr uint64_t kMaxHeads = 4096;
constexpr uint64_t kMaxHeadDim = 256;
constexpr uint64_t kMaxContext = 1 << 24;

// Keys that change what a model computes, with the value at which they change nothing.
struct ForeignKey {
  const char* key;
  double neutral;
};
constexpr std::array kForeignKeys = {
    ForeignKey{"llama.expert_count", 0},
    ForeignKey{"llama.expert_used_count", 0},
    ForeignKey{"llama.attention.sliding_window", 0},
    ForeignKey{"llama.attention.clamp_kqv", 0},
    ForeignKey{"llama.attention.max_alibi_bias", 0},
    ForeignKey{"llama.attention.causal", 1},
    ForeignKey{"llama.attention.temperature_scale", 1},
    ForeignKey{"llama.attn_logit_softcapping", 0},
    ForeignKey{"llama.final_logit_softcapping", 0},
    ForeignKey{"llama.logit_scale", 1},
    ForeignKey{"llama.residual_scale", 1},
    ForeignKey{"llama.embedding_scale", 1},
    ForeignKey{"llama.use_parallel_residual", 0},
    ForeignKey{"llama.pooling_type", 0},
    ForeignKey{"llama.rope.scaling.yarn_log_multiplier", 0},
    ForeignKey{"llama.rope.scaling.yarn_ext_factor", 1},
    ForeignKey{"llama.rope.scaling.yarn_attn_factor", 1},
};

std::optional<double> NumberOf(const GgufValue& value) {
  if (const auto* u = std::get_if<uint64_t>(&value)) return static_cast<double>(*u);
  if (const auto* i = std::get_if<int64_t>(&value)) return static_cast<double>(*i);
  if (const auto* d = std::get_if<double>(&value)) return *d;
  if (const auto* b = std::get_if<bool>(&value)) return *b ? 1.0 : 0.0;
  return std::nullopt;
}

// Reads keys one after another and keeps the first failure; what follows one is not used.
class ConfigReader {
 public:
  explicit ConfigReader(const GgufFile& file) : file_(file) {}

  StatusOr<LlamaConfig> Read() {
    CheckArchitecture();
    CheckForeignKeys();
    ReadSizes();
    ReadHeads();
    ReadRope();
    if (!status_.ok()) return status_;
    return config_;
  }

 private:
  void CheckArchitecture();
  void CheckForeignKeys();
  void ReadSizes();
  void ReadHeads();
  void ReadRope();
  void ReadScaling();
  void ReadYarn();

  void Fail(StatusCode code, const char* key, const std::string& what) {
    if (!status_.ok()) return;
    const std::string field = fmt::format("metadata \"{}\"", key);
    status_ = Status(code, fmt::format("{}: {}: {}", file_.path(), field, what), field);
  }

  // The key's value, or `absent` where there is none; a key without `absent` is required.
  int32_t Uint(const char* key, uint64_t min, uint64_t max, std::optional<int32_t> absent = {}) {
    StatusOr<std::optional<uint64_t>> value = file_.GetUint(key, min, max);
    if (!value.ok()) return Keep(value.status());
    if (value->has_value()) return static_cast<int32_t>(**value);
    if (!absent.has_value()) Fail(StatusCode::kDataLoss, key, "the key is missing");
    return absent.value_or(0);
  }

  double Float(const char* key, double min, double max, std::optional<double> absent = {}) {
    StatusOr<std::optional<double>> value = file_.GetFloat(key);
    if (!value.ok()) return Keep(value.status());
    if (!value->has_value()) {
      if (!absent.has_value()) Fail(StatusCode::kDataLoss, key, "the key is missing");
      return absent.value_or(0.0);
    }
    // Written so that NaN fails too.
    if (!(**value >= min && **value <= max)) {
      Fail(StatusCode::kDataLoss, key,
           fmt::format("{} is out of range; it must be from {} to {}", **value, min, max));
    }
    return **value;
  }

  int32_t Keep(const Status& status) {
    if (status_.ok()) status_ = status;
    return 0;
  }

  const GgufFile& file_;
  LlamaConfig config_;
  Status status_;
};

void ConfigReader::CheckArchitecture() {
  constexpr const char* kKey = "general.architecture";
  StatusOr<std::optional<std::string_view>> name = file_.GetString(kKey);
  if (!name.ok()) {
    Keep(name.status());
  } else if (!name->has_value()) {
    Fail(StatusCode::kDataLoss, kKey, "the key is missing");
  } else if (**name != "llama") {
    Fail(StatusCode::kUnimplemented, kKey,
         fmt::format("\"{}\" is not supported; \"llama\" is",
                     PrintableText((*name)->substr(0, 64))));
  }
}

void ConfigReader::CheckForeignKeys() {
  for (const ForeignKey& foreign : kForeignKeys) {
    const GgufFile::Entry* entry = file_.Find(foreign.key);
    if (entry == nullptr) continue;
    const std::optional<double> number = NumberOf(entry->value);
    if (number == foreign.neutral) continue;
    Fail(StatusCode::kUnimplemented, foreign.key,
         number.has_value()
             ? fmt::format("{} is not supported; only {} is", *number, foreign.neutral)
             : "only a single number is supported");
  }
}

void ConfigReader::ReadSizes() {
  LlamaConfig& c = config_;
  c.num_layers = Uint("llama.block_count", 1, kMaxLayers);
  // A request takes two positions at least: one of its prompt, one that is generated.
  c.context_length = Uint("llama.context_length", 2, kMaxContext);
  c.hidden_size = Uint("llama.embedding_length", 32, kMaxWidth);
  c.intermediate_size = Uint("llama.feed_forward_length", 32, kMaxWidth);
  if (c.hidden_size % 32 != 0) {
    Fail(StatusCode::kUnimplemented, "llama.embedding_length",
         fmt::format("{} is no multiple of 32", c.hidden_size));
  }
  if (c.intermediate_size % 32 != 0) {
    Fail(StatusCode::kUnimplemented, "llama.feed_forward_length",
         fmt::format("{} is no multiple of 32", c.intermediate_size));
  }
  c.rms_norm_eps = static_cast<float>(Float("llama.attention.layer_norm_rms_epsilon", 1e-12, 0.1));
}

void ConfigReader::ReadHeads() {
  LlamaConfig& c = config_;
  c.num_heads = Uint("llama.attention.head_count", 1, kMaxHeads);
  c.num_kv_heads = Uint("llama.attention.head_count_kv", 1, kMaxHeads, c.num_heads);
  if (!status_.ok()) return;  // What follows divides by these.
  if (c.num_heads % c.num_kv_heads != 0) {
    Fail(StatusCode::kDataLoss, "llama.attention.head_count_kv",
         fmt::format("{} does not divide the head count {}", c.num_kv_heads, c.num_heads));
  }
  constexpr const char* kKeyLength = "llama.attention.key_length";
  if (file_.Find(kKeyLength) != nullptr) {
    c.head_dim = Uint(kKeyLength, 1, kMaxHeadDim);
  } else if (c.hidden_size % c.num_heads != 0) {
    Fail(StatusCode::kDataLoss, "llama.attention.head_count",
         fmt::format("{} does not divide the embedding length {}", c.num_heads, c.hidden_size));
  } else {
    c.head_dim = c.hidden_size / c.num_heads;
  }
  const int32_t value_length = Uint("llama.attention.value_length", 1, kMaxHeadDim, c.head_dim);
  if (value_length != c.head_dim) {
    Fail(StatusCode::kUnimplemented, "llama.attention.value_length",
         fmt::format("{} differs from the key length {}, which is not supported", value_length,
                     c.head_dim));
  }
  if (c.head_dim % 16 != 0 || c.head_dim > static_cast<int32_t>(kMaxHeadDim)) {
    Fail(StatusCode::kUnimplemented, kKeyLength,
         fmt::format("a head of {} elements is not supported; multiples of 16 up to {} are",
                     c.head_dim, kMaxHeadDim));
  }
  const double default_scale = 1.0 / std::sqrt(static_cast<double>(c.head_dim));
  const double scale = Float("llama.attention.scale", 0.0, 1e3, default_scale);
  if (scale != 0.0 && std::fabs(scale - default_scale) > 1e-6 * default_scale) {
    Fail(StatusCode::kUnimplemented, "llama.attention.scale",
         fmt::format("{} is not supported; only 1 / sqrt(key length) is", scale));
  }
}

void ConfigReader::ReadRope() {
  if (!status_.ok()) return;
  LlamaConfig& c = config_;
  constexpr const char* kDim = "llama.rope.dimension_count";
  c.rope_dim = Uint(kDim, 2, static_cast<uint64_t>(c.head_dim), c.head_dim);
  if (c.rope_dim % 2 != 0) {
    Fail(StatusCode::kDataLoss, kDim, fmt::format("{} is odd", c.rope_dim));
  }
  c.rope.dim = c.rope_dim;
  c.rope.freq_base = Float("llama.rope.freq_base", 2.0, 1e15, 10000.0);
  c.rope.attention_factor = Float("llama.rope.scaling.attn_factor", 1e-3, 1e3, 1.0);
  ReadScaling();
}

void ConfigReader::ReadScaling() {
  RopeParams& rope = config_.rope;
  constexpr const char* kType = "llama.rope.scaling.type";
  constexpr const char* kFactor = "llama.rope.scaling.factor";
  StatusOr<std::optional<std::string_view>> type = file_.GetString(kType);
  if (!type.ok()) {
    Keep(type.status());
    return;
  }
  // Older files say scale_linear. A factor of 0 stands for none, and a factor without a type is
  // linear.
  const char* key = file_.Find(kFactor) != nullptr ? kFactor : "llama.rope.scale_linear";
  const double factor = Float(key, 0.0, 65536.0, 1.0);
  if (factor != 0.0 && factor < 1.0) {
    Fail(StatusCode::kUnimplemented, key,
         fmt::format("{} is below 1, which is not supported", factor));
  }
  const std::string_view name = type->value_or("linear");
  if (name == "none") return;
  if (name == "linear") {
    rope.scaling = RopeScaling::kLinear;
  } else if (name == "yarn") {
    rope.scaling = RopeScaling::kYarn;
  } else {
    Fail(StatusCode::kUnimplemented, kType,
         fmt::format("\"{:.64}\" is not supported; none, linear and yarn are", name));
  }
  rope.factor = factor == 0.0 ? 1.0 : factor;
  if (rope.factor == 1.0) rope.scaling = RopeScaling::kNone;
  if (rope.scaling == RopeScaling::kYarn) ReadYarn();
}

void ConfigReader::ReadYarn() {
  RopeParams& rope = config_.rope;
  rope.original_context_length =
      Uint("llama.rope.scaling.original_context_length", 1, kMaxContext, config_.context_length);
  rope.beta_fast = Float("llama.rope.scaling.yarn_beta_fast", 1e-3, 1e6, 32.0);
  rope.beta_slow = Float("llama.rope.scaling.yarn_beta_slow", 1e-3, 1e6, 1.0);
}

}  // namespace

StatusOr<LlamaConfig> ReadLlamaConfig(const GgufFile& file) { return ConfigReader(file).Read(); }

}  // namespace ropeway
