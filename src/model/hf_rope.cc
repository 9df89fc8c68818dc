#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/utf8.h"
#include "model/hf_folder.h"
#include "model/rope.h"

namespace ropeway::model {
namespace {

using nlohmann::json;

constexpr char kOriginalContext[] = "original_max_position_embeddings";
constexpr uint32_t kPhi3OriginalContext = 4096;  // Where the configuration names none.

// What transformers takes for gpt-oss where the configuration has no scaling.
json GptOssScaling() {
  return {{"rope_type", "yarn"}, {"factor", 32.0},    {"beta_fast", 32.0},
          {"beta_slow", 1.0},    {"truncate", false}, {kOriginalContext, 4096U}};
}

// What YaRN multiplies cosine and sine with, by transformers. `mscale`: 1 where there is none.
double YarnMagnitude(double factor, double mscale) {
  return 0.1 * mscale * PortableLog(std::max(factor, 1.0)) + 1.0;
}

class RopeReader {
 public:
  RopeReader(HfFields* config, uint32_t context, GgufFile::Builder* builder, HfModel* model)
      : in_(*config), context_(context), out_(*builder), model_(*model) {}

  void Read();

 private:
  bool Is(std::string_view gguf) const { return model_.architecture->gguf == gguf; }
  std::string Key(std::string_view key) const {
    return fmt::format("{}.{}", model_.architecture->gguf, key);
  }
  void PutFloat(std::string_view key, double value, std::string_view field) {
    out_.SetFloat32(Key(key), static_cast<float>(value), in_.Field(field));
  }

  static std::string TypeIn(HfFields* rope) {
    return rope->Text("rope_type", rope->Text("type", "default"));
  }
  void ReadLocal(HfFields* rope);
  void ReadDimensions(HfFields* rope);
  void ReadScaling(HfFields* rope, std::string_view type);
  static void CheckFactor(HfFields* rope);
  void ReadYarn(HfFields* rope);
  void ReadLongRope(HfFields* rope);
  void ReadLlama3(HfFields* rope, double theta);

  HfFields& in_;
  const uint32_t context_;
  GgufFile::Builder& out_;
  HfModel& model_;
};

// transformers 5 has one object "rope_parameters", by kinds of layers or not; before that
// "rope_scaling" holds what is beside rope_theta.
void RopeReader::Read() {
  const std::string_view field = in_.Name({"rope_parameters", "rope_scaling"});
  const json none = json::object();
  const json absent = Is("gpt-oss") ? GptOssScaling() : none;
  const json* all = in_.Object(field);
  if (all == nullptr) all = &absent;
  const json* global = all;
  const json* local = &none;
  if (all->contains("full_attention") && (*all)["full_attention"].is_object()) {
    global = &(*all)["full_attention"];
    const auto at = all->find("sliding_attention");
    if (at != all->end() && at->is_object()) local = &*at;
  }
  HfFields rope(in_.path(), in_.Field(field), *global);
  HfFields rope_local(in_.path(), in_.Field(field), *local);
  const double theta =
      rope.Number("rope_theta", in_.Number("rope_theta", model_.architecture->rope_theta));
  PutFloat("rope.freq_base", theta, "rope_theta");
  ReadLocal(&rope_local);
  ReadDimensions(&rope);
  std::string type = TypeIn(&rope);
  // The first models' names of the same.
  if (type == "su" || (type == "yarn" && Is("phi3"))) type = "longrope";
  if (type == "llama3") {
    ReadLlama3(&rope, theta);
  } else {
    ReadScaling(&rope, type);
  }
  in_.Keep(rope.failures());
  in_.Keep(rope_local.failures());
}

// Reads the RoPE parameters of layers with a window.
void RopeReader::ReadLocal(HfFields* rope) {
  if (Is("gemma3")) {
    PutFloat("rope.freq_base_swa",
             rope->Number("rope_theta", in_.Number("rope_local_base_freq", 1e4)),
             "rope_local_base_freq");
    if (TypeIn(rope) == "default") return;
  } else if (!rope->Has("rope_theta") && !rope->Has("rope_type")) {
    return;
  }
  rope->Fail(StatusCode::kUnimplemented, "sliding_attention",
             "RoPE fields of these layers alone are not supported, except rope_theta of gemma3");
}

void RopeReader::ReadDimensions(HfFields* rope) {
  constexpr const char* kPart = "partial_rotary_factor";
  const double part = rope->Number(kPart, in_.Number(kPart, 1.0));
  if (part != 1.0 && !Is("phi3")) {
    in_.Fail(StatusCode::kUnimplemented, kPart,
             fmt::format("{} is not supported; only 1 is", part));
  }
  const double dims = std::floor(std::clamp(part, 0.0, 1.0) * model_.head_dim);
  out_.SetUint32(Key("rope.dimension_count"), static_cast<uint32_t>(dims), in_.Field(kPart));
}

void RopeReader::ReadScaling(HfFields* rope, std::string_view type) {
  if (type == "default") return;
  const bool longrope = type == "longrope";
  if (type != "linear" && type != "yarn" && !longrope) {
    rope->Fail(StatusCode::kUnimplemented, "rope_type",
               fmt::format("\"{}\" is not supported; default, linear, yarn, llama3 and longrope "
                           "are",
                           base::PrintableText(type.substr(0, 64))));
    return;
  }
  out_.SetString(Key("rope.scaling.type"), type, rope->Field("rope_type"));
  CheckFactor(rope);
  if (longrope) return ReadLongRope(rope);
  out_.SetFloat32(Key("rope.scaling.factor"), static_cast<float>(rope->Number("factor")),
                  rope->Field("factor"));
  if (type == "yarn") ReadYarn(rope);
}

// GGUF's 0, which stands for none, is not a folder's. What lies above is checked as GGUF's.
void RopeReader::CheckFactor(HfFields* rope) {
  constexpr const char* kFactor = "factor";
  const double factor = rope->Number(kFactor, 1.0);
  if (static_cast<float>(factor) > 0.0F) return;
  rope->Fail(StatusCode::kDataLoss, kFactor,
             fmt::format("{} is out of range; it must be at least 1", factor));
}

void RopeReader::ReadYarn(HfFields* rope) {
  const auto put = [&](std::string_view key, double value, std::string_view field) {
    out_.SetFloat32(Key(key), static_cast<float>(value), rope->Field(field));
  };
  out_.SetUint32(Key("rope.scaling.original_context_length"),
                 rope->Uint(kOriginalContext, context_), rope->Field(kOriginalContext));
  put("rope.scaling.yarn_beta_fast", rope->Number("beta_fast", 32.0), "beta_fast");
  put("rope.scaling.yarn_beta_slow", rope->Number("beta_slow", 1.0), "beta_slow");
  const double factor = rope->Number("factor");
  const double usual = YarnMagnitude(factor, 1.0);
  const double mscale = rope->Number("mscale", 0.0);
  const double mscale_all = rope->Number("mscale_all_dim", 0.0);
  const bool by_mscale = mscale != 0.0 && mscale_all != 0.0;  // One of them alone says nothing.
  const double magnitude = rope->Number(
      "attention_factor",
      by_mscale ? YarnMagnitude(factor, mscale) / YarnMagnitude(factor, mscale_all) : usual);
  // GGUF's is beside YaRN's own.
  if (magnitude != usual) {
    put("rope.scaling.attn_factor", magnitude / usual, by_mscale ? "mscale" : "attention_factor");
  }
  // gpt-oss has the ramp's ends as they are, others rounded to whole pairs: each recipe knows.
  if (rope->Bool("truncate", true) == Is("gpt-oss")) {
    rope->Fail(StatusCode::kUnimplemented, "truncate",
               fmt::format("only {} is supported", !Is("gpt-oss")));
  }
}

void RopeReader::ReadLongRope(HfFields* rope) {
  // The configuration's field takes precedence over the scaling's.
  const uint32_t original = in_.Uint(
      kOriginalContext, rope->Uint(kOriginalContext, Is("phi3") ? kPhi3OriginalContext : context_));
  out_.SetUint32(Key("rope.scaling.original_context_length"), original,
                 in_.Field(kOriginalContext));
  model_.rope_long = rope->Numbers("long_factor");
  model_.rope_short = rope->Numbers("short_factor");
  for (const char* key : {"long_factor", "short_factor"}) {
    if (!rope->Has(key)) rope->Fail(StatusCode::kDataLoss, key, "the field is missing");
  }
  const double scale =
      rope->Number("factor", original > 0 ? static_cast<double>(context_) / original : 0.0);
  double attention = 1.0;
  if (scale > 1.0 && original > 1) {
    attention = std::sqrt(1.0 + PortableLog(scale) / PortableLog(original));
  }
  out_.SetFloat32(Key("rope.scaling.attn_factor"),
                  static_cast<float>(rope->Number("attention_factor", attention)),
                  rope->Field("attention_factor"));
}

// Pairs that turn often within the original context stay, slow ones are stretched by `factor`, and
// between the two wave lengths the divisor goes from one to the other (Llama 3.1's description).
void RopeReader::ReadLlama3(HfFields* rope, double theta) {
  constexpr double kTwoPi = 6.283185307179586;
  const double factor = rope->Number("factor");
  const double low = rope->Number("low_freq_factor", 1.0);
  const double high = rope->Number("high_freq_factor", 4.0);
  const double original = rope->Uint(kOriginalContext, context_);
  if (!rope->ok()) return;
  if (!(factor >= 1.0 && low > 0.0 && high > low && original >= 1.0 && theta > 1.0)) {
    rope->Fail(StatusCode::kDataLoss, "factor",
               "llama3 scaling needs a factor of at least 1 and 0 < low_freq_factor < "
               "high_freq_factor");
    return;
  }
  for (uint32_t i = 0; i < model_.head_dim / 2; ++i) {
    const double frequency = PortablePow(theta, -2.0 * i / model_.head_dim);
    const double wave = kTwoPi / frequency;
    double divisor = factor;
    if (wave < original / high) {
      divisor = 1.0;
    } else if (wave <= original / low) {
      const double smooth = (original / wave - low) / (high - low);
      divisor = 1.0 / ((1.0 - smooth) / factor + smooth);
    }
    model_.rope_freqs.push_back(static_cast<float>(divisor));
  }
}

}  // namespace

void ReadHfRope(HfFields* config, uint32_t context, GgufFile::Builder* builder, HfModel* model) {
  RopeReader(config, context, builder, model).Read();
}

}  // namespace ropeway::model
