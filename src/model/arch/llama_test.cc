#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

#include "model/model_tensors.h"
#include "model/open_model.h"
#include "model/test_gguf_writer.h"

namespace ropeway::model {
namespace {

using ::testing::HasSubstr;

StatusOr<ModelTensors> Bind(const GgufWriter& writer) {
  const TempFile temp(writer.Bytes());
  const auto file = OpenModel(temp.path());
  if (!file.ok()) return file.status();
  StatusOr<ModelTensors> tensors = BindTensors(**file);
  // The tensors' pointers end with the file; the configuration does not.
  if (tensors.ok()) tensors->layers.clear();
  return tensors;
}

using Edit = std::function<void(GgufWriter*)>;

ModelConfig ConfigWith(const Edit& edit, const TinyLlamaOptions& options = {}) {
  GgufWriter writer = TinyLlama(options);
  edit(&writer);
  const auto tensors = Bind(writer);
  EXPECT_TRUE(tensors.ok()) << tensors.status().message();
  return tensors.ok() ? tensors->config : ModelConfig();
}

std::string ErrorWith(const Edit& edit, StatusCode code = StatusCode::kDataLoss) {
  GgufWriter writer = TinyLlama();
  edit(&writer);
  const auto tensors = Bind(writer);
  if (tensors.ok()) return "accepted";
  EXPECT_EQ(tensors.status().code(), code) << tensors.status().message();
  EXPECT_FALSE(tensors.status().field().empty());
  return tensors.status().message();
}

std::string UnsupportedWith(const Edit& edit) {
  return ErrorWith(edit, StatusCode::kUnimplemented);
}

TEST(ModelConfigTest, ReadsTheTinyModel) {
  const ModelConfig c = ConfigWith([](GgufWriter*) {});
  EXPECT_EQ(c.num_layers, 2);
  EXPECT_EQ(c.hidden_size, 64);
  EXPECT_EQ(c.num_heads, 4);
  EXPECT_EQ(c.num_kv_heads, 2);
  EXPECT_EQ(c.head_dim, 16);
  EXPECT_EQ(c.architecture, "llama");
  EXPECT_EQ(c.intermediate_size, 96);
  EXPECT_EQ(c.vocab_size, kTinyVocab);
  EXPECT_EQ(c.context_length, 512);
  EXPECT_EQ(c.norm, NormKind::kRms);
  EXPECT_EQ(c.norm_eps, 1e-5F);
  EXPECT_EQ(c.position, PositionKind::kRopeInterleaved);
  EXPECT_EQ(c.activation, Activation::kSwiGlu);
  EXPECT_EQ(c.attention_scale, 0.25F);
  EXPECT_TRUE(c.tied_output);
  EXPECT_EQ(c.rope.dim, 16);
  EXPECT_EQ(c.rope.scaling, RopeScaling::kNone);
  EXPECT_EQ(c.kv_block_bytes(kernels::KvType::kF16), 2U * 2 * 2 * 16 * 16 * 2);
  EXPECT_EQ(c.kv_block_bytes(kernels::KvType::kQ8_0), 2U * 2 * 2 * (16 * 16 + 16 * 4));
}

TEST(ModelConfigTest, FillsInWhatMayBeAbsent) {
  TinyLlamaOptions options;
  options.kv_heads = 4;
  const ModelConfig c = ConfigWith(
      [](GgufWriter* w) {
        w->Remove("llama.attention.head_count_kv");
        w->Remove("llama.attention.key_length");
        w->Remove("llama.attention.value_length");
        w->Remove("llama.rope.dimension_count");
        w->Remove("llama.rope.freq_base");
        w->Remove("llama.vocab_size");
        w->Remove("tokenizer.ggml.tokens");
      },
      options);
  EXPECT_EQ(c.num_kv_heads, 4);
  EXPECT_EQ(c.head_dim, 16);
  EXPECT_EQ(c.rope.dim, 16);
  EXPECT_EQ(c.rope.freq_base, 10000.0);
}

TEST(ModelConfigTest, RequiredKeysAreNamed) {
  for (const char* key : {"general.architecture", "llama.block_count", "llama.context_length",
                          "llama.embedding_length", "llama.feed_forward_length",
                          "llama.attention.head_count", "llama.attention.layer_norm_rms_epsilon"}) {
    EXPECT_THAT(ErrorWith([&](GgufWriter* w) { w->Remove(key); }),
                HasSubstr(std::string("metadata \"") + key + "\": the key is missing"));
    EXPECT_THAT(ErrorWith([&](GgufWriter* w) { w->SetBool(key, true); }), HasSubstr(key));
  }
}

TEST(ModelConfigTest, HostileNumbersAreNamed) {
  const auto with = [](const char* key, uint32_t value) {
    return ErrorWith([&](GgufWriter* w) { w->SetUint32(key, value); });
  };
  for (const char* key :
       {"llama.block_count", "llama.context_length", "llama.embedding_length",
        "llama.feed_forward_length", "llama.attention.head_count", "llama.attention.head_count_kv",
        "llama.attention.key_length", "llama.attention.value_length", "llama.rope.dimension_count",
        "llama.vocab_size"}) {
    EXPECT_THAT(with(key, 0), HasSubstr(key));
    EXPECT_THAT(with(key, 0xFFFFFFFFU), HasSubstr(key));
    EXPECT_THAT(ErrorWith([&](GgufWriter* w) { w->SetInt32(key, -1); }), HasSubstr(key));
    EXPECT_THAT(ErrorWith([&](GgufWriter* w) { w->SetUint64(key, uint64_t{1} << 32 | 64); }),
                HasSubstr(key));
  }
  EXPECT_THAT(with("llama.context_length", 1), HasSubstr("context_length\": 1 is out of range"));
  EXPECT_THAT(with("llama.attention.head_count_kv", 3), HasSubstr("3 does not divide"));
  EXPECT_THAT(with("llama.rope.dimension_count", 15), HasSubstr("15 is odd"));
  EXPECT_THAT(ErrorWith([](GgufWriter* w) {
                w->Remove("llama.attention.key_length");
                w->SetUint32("llama.attention.head_count", 6);
              }),
              HasSubstr("6 does not divide the embedding length 64"));
  EXPECT_THAT(UnsupportedWith([](GgufWriter* w) {
                w->SetUint32("llama.attention.key_length", 24);
                w->SetUint32("llama.attention.value_length", 24);
              }),
              HasSubstr("key_length\": a head of 24 elements"));
  EXPECT_THAT(
      UnsupportedWith([](GgufWriter* w) { w->SetUint32("llama.attention.value_length", 32); }),
      HasSubstr("value_length\": 32 differs"));
  EXPECT_THAT(UnsupportedWith([](GgufWriter* w) { w->SetUint32("llama.embedding_length", 65); }),
              HasSubstr("65 is not a multiple of 32"));
  for (const float eps : {0.0F, -1.0F, 1.0F, std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_THAT(ErrorWith([&](GgufWriter* w) {
                  w->SetFloat32("llama.attention.layer_norm_rms_epsilon", eps);
                }),
                HasSubstr("layer_norm_rms_epsilon"));
  }
  EXPECT_THAT(ErrorWith([](GgufWriter* w) { w->SetFloat32("llama.rope.freq_base", 0.0F); }),
              HasSubstr("freq_base"));
}

TEST(ModelConfigTest, KeysThatWouldChangeResultsAreRejectedByName) {
  const auto number = [](const char* key, uint32_t value) {
    return UnsupportedWith([&](GgufWriter* w) { w->SetUint32(key, value); });
  };
  EXPECT_THAT(number("llama.expert_group_count", 8),
              HasSubstr("llama.expert_group_count\": 8 is not supported"));
  EXPECT_THAT(number("llama.expert_gating_func", 2), HasSubstr("expert_gating_func"));
  EXPECT_THAT(UnsupportedWith([](GgufWriter* w) { w->SetBool("llama.attention.causal", false); }),
              HasSubstr("llama.attention.causal"));
  EXPECT_THAT(UnsupportedWith([](GgufWriter* w) { w->SetFloat32("llama.logit_scale", 2.0F); }),
              HasSubstr("llama.logit_scale"));
  EXPECT_THAT(UnsupportedWith([](GgufWriter* w) {
                w->SetInt32s("llama.attention.clamp_kqv", {1, 2});
              }),
              HasSubstr("only a single number"));
  EXPECT_THAT(UnsupportedWith([](GgufWriter* w) { w->SetString("general.architecture", "bloom"); }),
              HasSubstr("\"bloom\" is not supported; \"bert\", \"gemma2\", \"gemma3\", \"gpt2\", "
                        "\"gpt-oss\", \"llama\", \"phi3\", \"qwen2\", \"qwen2moe\", "
                        "\"qwen3\", \"qwen3moe\" are"));
  // The values at which they change nothing.
  ConfigWith([](GgufWriter* w) {
    w->SetUint32("llama.expert_count", 0);
    w->SetBool("llama.attention.causal", true);
    w->SetFloat32("llama.logit_scale", 1.0F);
    w->SetFloat32("llama.attention.scale", 0.25F);
    w->SetUint32("llama.attention.sliding_window", 0);
  });
}

TEST(ModelConfigTest, ReadsWindowsAndScales) {
  const ModelConfig all =
      ConfigWith([](GgufWriter* w) { w->SetUint32("llama.attention.sliding_window", 100); });
  EXPECT_EQ(all.windows, (std::vector<int32_t>{100, 100}));
  EXPECT_EQ(ConfigWith([](GgufWriter* w) {
              w->SetUint32("llama.attention.sliding_window", 100);
              w->SetUint32("llama.attention.sliding_window_pattern", 2);
            }).windows,
            (std::vector<int32_t>{100, 0}));
  EXPECT_EQ(ConfigWith([](GgufWriter* w) {
              w->SetUint32("llama.attention.sliding_window", 100);
              w->SetBools("llama.attention.sliding_window_pattern", {false, true});
            }).windows,
            (std::vector<int32_t>{0, 100}));
  EXPECT_THAT(ErrorWith([](GgufWriter* w) {
                w->SetUint32("llama.attention.sliding_window", 100);
                w->SetBools("llama.attention.sliding_window_pattern", {false});
              }),
              HasSubstr("sliding_window_pattern\": expected 2 flags"));
  const auto scale = [](GgufWriter* w) { w->SetFloat32("llama.attention.scale", 0.5F); };
  EXPECT_EQ(ConfigWith(scale).attention_scale, 0.5F);
}

TEST(ModelConfigTest, ReadsRopeScaling) {
  const auto scaled = [](const char* type, float factor) {
    return ConfigWith([&](GgufWriter* w) {
      w->SetString("llama.rope.scaling.type", type);
      w->SetFloat32("llama.rope.scaling.factor", factor);
      w->SetUint32("llama.rope.scaling.original_context_length", 128);
      w->SetFloat32("llama.rope.scaling.attn_factor", 1.5F);
    });
  };
  const ModelConfig linear = scaled("linear", 4.0F);
  EXPECT_EQ(linear.rope.scaling, RopeScaling::kLinear);
  EXPECT_EQ(linear.rope.factor, 4.0);
  EXPECT_EQ(linear.rope.attention_factor, 1.5);
  const ModelConfig yarn = scaled("yarn", 4.0F);
  EXPECT_EQ(yarn.rope.scaling, RopeScaling::kYarn);
  EXPECT_EQ(yarn.rope.original_context_length, 128);
  EXPECT_EQ(yarn.rope.beta_fast, 32.0);
  EXPECT_EQ(scaled("none", 4.0F).rope.scaling, RopeScaling::kNone);
  EXPECT_EQ(scaled("linear", 1.0F).rope.scaling, RopeScaling::kNone);
  const ModelConfig legacy =
      ConfigWith([](GgufWriter* w) { w->SetFloat32("llama.rope.scale_linear", 2.0F); });
  EXPECT_EQ(legacy.rope.scaling, RopeScaling::kLinear);
  EXPECT_EQ(legacy.rope.factor, 2.0);
  EXPECT_THAT(
      UnsupportedWith([](GgufWriter* w) { w->SetString("llama.rope.scaling.type", "longrope"); }),
      HasSubstr("\"longrope\" is not supported"));
  EXPECT_THAT(ErrorWith([](GgufWriter* w) {
                w->SetFloat32("llama.rope.scaling.factor", std::numeric_limits<float>::infinity());
              }),
              HasSubstr("llama.rope.scaling.factor"));
}

TEST(ModelConfigTest, AFactorOfRopesScalingStretches) {
  const auto with = [](const char* type, float factor, const char* key) {
    return [=](GgufWriter* w) {
      if (*type != '\0') w->SetString("llama.rope.scaling.type", type);
      w->SetFloat32(key, factor);
    };
  };
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const char* key : {"llama.rope.scaling.factor", "llama.rope.scale_linear"}) {
    for (const char* type : {"", "none", "linear", "yarn"}) {
      for (const float factor : {-1.0F, -1e-30F, kInfinity, -kInfinity,
                                 std::numeric_limits<float>::quiet_NaN(), 65537.0F}) {
        EXPECT_THAT(ErrorWith(with(type, factor, key)), HasSubstr(key)) << type << factor;
      }
    }
    // llama.cpp takes 0 for none, and there are such files.
    for (const char* type : {"", "none", "linear"}) {
      EXPECT_EQ(ConfigWith(with(type, 0.0F, key)).rope.scaling, RopeScaling::kNone);
    }
    for (const float zero : {0.0F, -0.0F}) {
      EXPECT_THAT(ErrorWith(with("yarn", zero, key)),
                  HasSubstr(std::string(key) + "\": 0 is out of range; it must be at least 1 "
                                               "for \"yarn\""));
    }
  }
}

TEST(ModelTensorsTest, TensorsAreCheckedAgainstTheMetadata) {
  EXPECT_THAT(ErrorWith([](GgufWriter* w) { w->RemoveTensor("blk.1.attn_v.weight"); }),
              HasSubstr("tensor \"blk.1.attn_v.weight\": the tensor is missing"));
  EXPECT_THAT(ErrorWith([](GgufWriter* w) { w->SetUint32("llama.block_count", 3); }),
              HasSubstr("tensor \"blk.2.attn_norm.weight\": the tensor is missing"));
  EXPECT_THAT(ErrorWith([](GgufWriter* w) { w->SetUint32("llama.embedding_length", 96); }),
              HasSubstr("tensor \"token_embd.weight\": its shape is [64, 267], but the metadata "
                        "asks for [96, 267]"));
  EXPECT_THAT(
      ErrorWith([](GgufWriter* w) { w->SetUint32("llama.vocab_size", 268); }),
      HasSubstr("metadata \"llama.vocab_size\": 268 tokens, but token_embd.weight has 267"));
  EXPECT_THAT(ErrorWith([](GgufWriter* w) { w->SetStrings("tokenizer.ggml.tokens", {"a"}); }),
              HasSubstr("metadata \"tokenizer.ggml.tokens\": 1 tokens"));
  EXPECT_THAT(UnsupportedWith([](GgufWriter* w) {
                w->SetTensor("blk.0.attn_q.bias", {1}, kernels::WeightType::kF32,
                             std::vector<float>{1});
              }),
              HasSubstr("tensor \"blk.0.attn_q.bias\""));
  // One layer fewer leaves the other's tensors over.
  EXPECT_THAT(UnsupportedWith([](GgufWriter* w) { w->SetUint32("llama.block_count", 1); }),
              HasSubstr("tensor \"blk.1.attn_norm.weight\""));
  EXPECT_THAT(UnsupportedWith([](GgufWriter* w) {
                w->SetTensor("output_norm.weight", {64}, kernels::WeightType::kQ8_0,
                             std::vector<float>(64));
              }),
              HasSubstr("tensor \"output_norm.weight\": type Q8_0 is not supported here; F32, F16 "
                        "and BF16 are"));
  EXPECT_THAT(
      UnsupportedWith([](GgufWriter* w) {
        w->RemoveTensor("blk.0.ffn_up.weight");
        w->AddRawTensor("blk.0.ffn_up.weight", {64, 96}, 24, std::string(64 * 96, '\0'));
      }),
      HasSubstr("tensor \"blk.0.ffn_up.weight\": type I8 is not supported; F32, F16, BF16, Q4_0, "
                "Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS and MXFP4 "
                "are"));
}

TEST(ModelTensorsTest, RopeDivisorsAreReadAndChecked) {
  GgufWriter writer = TinyLlama();
  std::vector<float> divisors = {1, 1, 1, 2, 4, 8, 8, 8};
  writer.SetTensor("rope_freqs.weight", {8}, kernels::WeightType::kF32, divisors);
  const auto tensors = Bind(writer);
  ASSERT_TRUE(tensors.ok()) << tensors.status().message();
  EXPECT_EQ(tensors->rope_divisors, divisors);
  for (const float bad : {0.0F, -1.0F, std::numeric_limits<float>::quiet_NaN()}) {
    divisors[3] = bad;
    EXPECT_THAT(ErrorWith([&](GgufWriter* w) {
                  w->SetTensor("rope_freqs.weight", {8}, kernels::WeightType::kF32, divisors);
                }),
                HasSubstr("tensor \"rope_freqs.weight\": element 3"));
  }
}

}  // namespace
}  // namespace ropeway::model
