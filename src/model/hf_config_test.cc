// What config.json becomes, where fields are absent, null or new: as transformers has it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "model/gguf.h"
#include "model/hf_folder.h"
#include "model/model_tensors.h"
#include "model/open_model.h"
#include "model/test_hf_writer.h"

namespace ropeway::model {
namespace {

using ::testing::HasSubstr;

struct HfRead {
  Status status;
  HfModel model;
  std::unique_ptr<GgufFile> file;  // Null after a failure.
};

// Reads a configuration of 4 layers, 2 heads and these fields.
HfRead ReadHf(const std::string& architecture, const std::string& more = "") {
  const nlohmann::json config = nlohmann::json::parse(fmt::format(
      R"({{"architectures": ["{}"], "hidden_size": 64, "intermediate_size": 96,
          "num_hidden_layers": 4, "num_attention_heads": 2, "max_position_embeddings": 128{}}})",
      architecture, more));
  HfFields fields("folder", "config.json", config);
  GgufFile::Builder builder("folder");
  HfRead read;
  read.model = ReadHfConfig(&fields, &builder);
  read.status = fields.failures().first();
  if (!fields.ok()) return read;
  auto file = builder.Build();
  if (file.ok()) {
    read.file = *std::move(file);
  } else {
    read.status = file.status();
  }
  return read;
}

std::unique_ptr<GgufFile> HfMetadata(const std::string& architecture, const std::string& more) {
  HfRead read = ReadHf(architecture, more);
  EXPECT_TRUE(read.status.ok()) << read.status.message();
  return std::move(read.file);
}

std::string HfConfigError(const std::string& architecture, const std::string& more) {
  const HfRead read = ReadHf(architecture, more);
  return read.status.ok() ? "read" : read.status.message();
}

// What the recipe of GGUF makes of it.
ModelConfig HfModelConfig(const std::string& architecture, const std::string& more) {
  const auto file = HfMetadata(architecture, more);
  if (file == nullptr) return {};
  const auto config = ReadModelConfig(*file);
  EXPECT_TRUE(config.ok()) << config.status().message();
  return config.ok() ? *config : ModelConfig();
}

using Windows = std::vector<int32_t>;

TEST(HfConfigTest, AbsentFieldsAreThoseOfTransformers) {
  const std::string kv = R"(, "num_key_value_heads": 2)";
  EXPECT_EQ(HfModelConfig("Phi3ForCausalLM", "").norm_eps, 1e-5F);
  EXPECT_EQ(HfModelConfig("MixtralForCausalLM", kv).norm_eps, 1e-5F);
  EXPECT_EQ(HfModelConfig("MixtralForCausalLM", kv).rope.freq_base, 1e6);
  EXPECT_EQ(HfModelConfig("Qwen2ForCausalLM", kv).norm_eps, 1e-6F);
  EXPECT_EQ(HfModelConfig("Qwen2ForCausalLM", kv).head_dim, 32);
  EXPECT_EQ(HfModelConfig("Qwen3ForCausalLM", kv).head_dim, 128);
  EXPECT_EQ(HfModelConfig("Qwen3ForCausalLM", kv + R"(, "head_dim": null)").head_dim, 32);
  EXPECT_EQ(ReadHf("LlamaForCausalLM").model.kv_heads, 2U);
  EXPECT_EQ(ReadHf("MistralForCausalLM").model.kv_heads, 8U);
  EXPECT_EQ(ReadHf("MistralForCausalLM", R"(, "num_key_value_heads": null)").model.kv_heads, 2U);
  EXPECT_EQ(ReadHf("GptOssForCausalLM").model.head_dim, 64U);
}

TEST(HfConfigTest, GemmasDefaultsAreTheirOwn) {
  const std::string heads = R"(, "num_attention_heads": null)";
  const ModelConfig gemma2 = HfModelConfig("Gemma2ForCausalLM", heads);
  EXPECT_EQ(gemma2.num_heads, 8);
  EXPECT_EQ(gemma2.num_kv_heads, 4);
  EXPECT_EQ(gemma2.head_dim, 256);
  EXPECT_EQ(gemma2.windows, (Windows{4096, 0, 4096, 0}));
  EXPECT_EQ(gemma2.attention_soft_cap, 50.0F);
  EXPECT_EQ(gemma2.logit_soft_cap, 30.0F);
  const ModelConfig without = HfModelConfig(
      "Gemma2ForCausalLM", heads + R"(, "sliding_window": null, "attn_logit_softcapping": null,
                                        "final_logit_softcapping": null)");
  EXPECT_EQ(without.windows, Windows());
  EXPECT_EQ(without.attention_soft_cap, 0.0F);
  EXPECT_EQ(without.logit_soft_cap, 0.0F);
  const std::string full = R"("full_attention")";
  EXPECT_EQ(
      HfModelConfig("Gemma2ForCausalLM", heads + fmt::format(R"(, "layer_types": [{}, {}, {}, {}])",
                                                             full, full, full, full))
          .windows,
      Windows());
  EXPECT_EQ(HfModelConfig("Gemma3ForCausalLM", heads).windows, (Windows{4096, 4096, 4096, 4096}));
}

TEST(HfConfigTest, GemmasScaleIsOfItsScalarWhateverItsSize) {
  const std::string head = R"(, "num_key_value_heads": 1, "head_dim": 64)";
  EXPECT_EQ(HfModelConfig("Gemma3ForCausalLM", head).attention_scale, 0.0625F);
  const std::string equal = head + R"(, "query_pre_attn_scalar": 64)";
  EXPECT_EQ(HfModelConfig("Gemma3ForCausalLM", equal).attention_scale, 0.125F);
  // As many layers as the largest has, whose scale GGUF's recipe knows.
  EXPECT_EQ(
      HfModelConfig("Gemma3ForCausalLM", equal + R"(, "num_hidden_layers": 62)").attention_scale,
      0.125F);
  EXPECT_THAT(HfConfigError("Gemma3ForCausalLM", head + R"(, "query_pre_attn_scalar": 0)"),
              HasSubstr("\"query_pre_attn_scalar\": 0 is out of range; it must be above 0"));
}

TEST(HfConfigTest, WindowsAreThoseThatTransformersApplies) {
  const std::string kv = R"(, "num_key_value_heads": 2)";
  const std::string window = kv + R"(, "sliding_window": 16)";
  EXPECT_EQ(HfModelConfig("LlamaForCausalLM", window).windows, Windows());
  EXPECT_EQ(HfModelConfig("MistralForCausalLM", window).windows, (Windows{16, 16, 16, 16}));
  EXPECT_EQ(HfModelConfig("MistralForCausalLM", kv).windows, (Windows{4096, 4096, 4096, 4096}));
  EXPECT_EQ(HfModelConfig("MistralForCausalLM", kv + R"(, "sliding_window": null)").windows,
            Windows());
  EXPECT_EQ(HfModelConfig("MixtralForCausalLM", kv).windows, Windows());
  const std::string types = R"(, "layer_types": ["full_attention", "sliding_attention",
                                                 "sliding_attention", "full_attention"])";
  EXPECT_EQ(HfModelConfig("Qwen2ForCausalLM", window + types).windows, Windows());
  const std::string used = window + R"(, "use_sliding_window": true)";
  EXPECT_EQ(HfModelConfig("Qwen2ForCausalLM", used + types).windows, (Windows{0, 16, 16, 0}));
  EXPECT_EQ(HfModelConfig("Qwen2ForCausalLM", used).windows, Windows());  // From layer 28 on.
  EXPECT_EQ(HfModelConfig("Qwen2ForCausalLM", used + R"(, "max_window_layers": 3)").windows,
            (Windows{0, 0, 0, 16}));
  EXPECT_THAT(HfConfigError("Qwen3MoeForCausalLM", used),
              HasSubstr("\"use_sliding_window\": true is not supported without layer_types"));
  EXPECT_THAT(HfConfigError("MistralForCausalLM", window + R"(, "layer_types": [])"),
              HasSubstr("\"layer_types\": expected 4 entries, one per layer, got 0"));
}

TEST(HfConfigTest, WhatWouldChangeAnswersIsRejected) {
  EXPECT_THAT(HfConfigError("Gemma2ForCausalLM", R"(, "use_bidirectional_attention": true)"),
              HasSubstr("\"use_bidirectional_attention\": only false is supported"));
  EXPECT_THAT(HfConfigError("GptOssForCausalLM", R"(, "swiglu_limit": 5)"),
              HasSubstr("\"swiglu_limit\": only 7 is supported"));
  EXPECT_THAT(HfConfigError("GptOssForCausalLM", R"(, "swiglu_alpha": 1)"),
              HasSubstr("\"swiglu_alpha\": only 1.702 is supported"));
}

TEST(HfConfigTest, AllThatIsWrongIsSaid) {
  const nlohmann::json config = nlohmann::json::parse(
      R"({"architectures": ["MistralForCausalLM"], "hidden_size": 64, "intermediate_size": "wide",
          "num_hidden_layers": 4, "num_attention_heads": 2, "head_dim": 1000000000,
          "hidden_act": "relu", "layer_types": [], "sliding_window": 16,
          "rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": "few"}})");
  HfFields fields("folder", "config.json", config);
  GgufFile::Builder builder("folder");
  ReadHfConfig(&fields, &builder);
  std::vector<std::string> names;
  for (const Status& failure : fields.failures().all()) names.push_back(failure.field());
  EXPECT_THAT(names, ::testing::ElementsAre(
                         "config.json \"hidden_act\"", "config.json \"max_position_embeddings\"",
                         "config.json \"intermediate_size\"", "config.json \"head_dim\"",
                         "config.json \"rope_scaling\" \"low_freq_factor\"",
                         "config.json \"layer_types\""));
}

TEST(HfConfigTest, Gpt2HasAsManyPositionsAsTransformersReads) {
  const auto file = HfMetadata("GPT2LMHeadModel", R"(, "max_position_embeddings": null,
                                                     "n_ctx": 8, "n_positions": 16)");
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->GetUint("gpt2.context_length", 0, 99).value(), 16U);
}

float HfFloat(const GgufFile& file, const std::string& key) {
  const auto value = file.GetFloat(key);
  EXPECT_TRUE(value.ok() && value->has_value()) << key;
  return value.ok() ? static_cast<float>(value->value_or(-1)) : -1.0F;
}

TEST(HfRopeTest, YarnsMagnitudeIsThatOfTransformers) {
  const std::string key = "llama.rope.scaling.attn_factor";
  const auto with = [](const std::string& more) {
    return HfMetadata("LlamaForCausalLM", R"(, "rope_scaling": {"rope_type": "yarn", "factor": 4,
        "original_max_position_embeddings": 32)" +
                                              more + "}");
  };
  const double usual = 0.1 * std::log(4.0) + 1.0;
  EXPECT_EQ(with("")->Find(key), nullptr);
  EXPECT_EQ(with(R"(, "mscale": 0.5)")->Find(key), nullptr);
  EXPECT_FLOAT_EQ(HfFloat(*with(R"(, "attention_factor": 1.0)"), key),
                  static_cast<float>(1.0 / usual));
  // GGUF's factor is beside the usual one.
  EXPECT_FLOAT_EQ(HfFloat(*with(R"(, "mscale": 1.0, "mscale_all_dim": 0.5)"), key),
                  static_cast<float>(1.0 / (0.05 * std::log(4.0) + 1.0)));
}

TEST(HfRopeTest, AFactorStretches) {
  for (const char* type : {"linear", "yarn", "longrope", "llama3"}) {
    for (const char* factor : {"0", "0.0", "-0.0", "-8", "-1e-300", "1e-300", "\"8\"", "[8]"}) {
      const std::string scaling = fmt::format(
          R"(, "rope_scaling": {{"rope_type": "{}", "factor": {}, "long_factor": [2, 3],
              "short_factor": [1, 1]}})",
          type, factor);
      EXPECT_THAT(HfConfigError("LlamaForCausalLM", scaling),
                  HasSubstr(R"(config.json "rope_scaling" "factor": )"))
          << type << factor;
    }
  }
}

TEST(HfRopeTest, GptOssHasItsOwnYarn) {
  const auto file = HfMetadata("GptOssForCausalLM", "");
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->GetString("gpt-oss.rope.scaling.type").value(), "yarn");
  EXPECT_EQ(HfFloat(*file, "gpt-oss.rope.scaling.factor"), 32.0F);
  EXPECT_EQ(HfFloat(*file, "gpt-oss.rope.freq_base"), 150000.0F);
  EXPECT_EQ(file->GetUint("gpt-oss.rope.scaling.original_context_length", 0, 9999).value(), 4096U);
  const std::string yarn = R"("rope_type": "yarn", "factor": 8.0)";
  EXPECT_THAT(HfConfigError("GptOssForCausalLM", R"(, "rope_scaling": {)" + yarn + "}"),
              HasSubstr("\"truncate\": only false is supported"));
  EXPECT_EQ(HfConfigError("GptOssForCausalLM",
                          R"(, "rope_parameters": {"truncate": false, )" + yarn + "}"),
            "read");
  EXPECT_THAT(HfConfigError("LlamaForCausalLM",
                            R"(, "rope_parameters": {"truncate": false, )" + yarn + "}"),
              HasSubstr("\"truncate\": only true is supported"));
}

TEST(HfRopeTest, Phi3sYarnIsLongRope) {
  const auto with = [](const std::string& more) {
    return HfMetadata("Phi3ForCausalLM", R"(, "original_max_position_embeddings": 32,
        "rope_scaling": {"long_factor": [2, 3], "short_factor": [1, 1])" +
                                             more + "}");
  };
  for (const char* type : {"yarn", "su", "longrope"}) {
    const auto file = with(fmt::format(R"(, "type": "{}")", type));
    ASSERT_NE(file, nullptr);
    EXPECT_EQ(file->GetString("phi3.rope.scaling.type").value(), "longrope");
    EXPECT_EQ(file->GetUint("phi3.rope.scaling.original_context_length", 0, 99).value(), 32U);
    EXPECT_FLOAT_EQ(HfFloat(*file, "phi3.rope.scaling.attn_factor"),
                    static_cast<float>(std::sqrt(1.0 + std::log(4.0) / std::log(32.0))));
  }
  // As transformers 5 writes it.
  const auto file = with(R"(, "rope_type": "longrope", "factor": 16,
                              "original_max_position_embeddings": 64)");
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->GetUint("phi3.rope.scaling.original_context_length", 0, 99).value(), 32U);
  EXPECT_FLOAT_EQ(HfFloat(*file, "phi3.rope.scaling.attn_factor"),
                  static_cast<float>(std::sqrt(1.0 + std::log(16.0) / std::log(32.0))));
}

// As transformers 5 saves it: by kinds of layers.
TEST(HfRopeTest, KindsOfLayersHaveTheirOwn) {
  const std::string heads = R"(, "num_key_value_heads": 2, "head_dim": 32, "rope_parameters": {
      "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 500000.0},
      "sliding_attention": {"rope_type": )";
  const ModelConfig gemma3 =
      HfModelConfig("Gemma3ForCausalLM", heads + R"("default", "rope_theta": 20000.0}})");
  EXPECT_EQ(gemma3.rope.scaling, RopeScaling::kLinear);
  EXPECT_EQ(gemma3.rope.factor, 8.0);
  EXPECT_EQ(gemma3.rope.freq_base, 500000.0);
  ASSERT_TRUE(gemma3.window_rope.has_value());
  EXPECT_EQ(gemma3.window_rope->scaling, RopeScaling::kNone);
  EXPECT_EQ(gemma3.window_rope->freq_base, 20000.0);
  EXPECT_THAT(HfConfigError("Gemma3ForCausalLM", heads + R"("linear", "factor": 2.0}})"),
              HasSubstr("\"sliding_attention\": RoPE fields of these layers alone"));
  EXPECT_THAT(HfConfigError("Gemma2ForCausalLM", heads + R"("default", "rope_theta": 20000.0}})"),
              HasSubstr("\"sliding_attention\": RoPE fields of these layers alone"));
}

// What sentence-transformers keeps beside a model.
class EncoderFolderTest : public ::testing::Test {
 protected:
  EncoderFolderTest() {
    SafetensorsWriter weights;
    weights.Add("encoder.layer.1.output.dense.bias", {4}, "F32", {0, 1, 2, 3});
    folder_.Write("model.safetensors", weights.Bytes());
    std::filesystem::create_directory(folder_.PathOf("1_Pooling"));
    WriteConfig("BertModel");
  }
  void WriteConfig(const std::string& architecture) {
    folder_.Write("config.json",
                  fmt::format(R"({{"architectures": ["{}"], "hidden_size": 4, "head_dim": 2,
                                  "intermediate_size": 6, "num_hidden_layers": 2,
                                  "num_attention_heads": 2, "max_position_embeddings": 8}})",
                              architecture));
  }
  // A number of the metadata; 0: there is none.
  uint64_t Number(const std::string& key) const {
    const auto file = OpenModel(folder_.path());
    EXPECT_TRUE(file.ok()) << file.status().message();
    return file.ok() ? (*file)->GetUint("bert." + key, 0, 1000).value().value_or(0) : 0;
  }
  std::string Error() const { return std::string(OpenModel(folder_.path()).status().message()); }

  const TempFolder folder_;
};

TEST_F(EncoderFolderTest, PoolingIsRead) {
  EXPECT_EQ(Number("pooling_type"), 0U);
  folder_.Write("1_Pooling/config.json", R"({"pooling_mode_cls_token": true})");
  EXPECT_EQ(Number("pooling_type"), 2U);
  folder_.Write("1_Pooling/config.json", R"({"pooling_mode_max_tokens": true})");
  EXPECT_THAT(Error(), HasSubstr("\"pooling_mode_max_tokens\": true is not supported"));
}

TEST_F(EncoderFolderTest, OtherModulesAreRejected) {
  folder_.Write("modules.json", R"([{"type": "sentence_transformers.models.Transformer"},
                                    {"type": "sentence_transformers.models.Pooling"}])");
  EXPECT_EQ(Error(), "");
  folder_.Write("modules.json", R"([{"type": "sentence_transformers.models.Dense"}])");
  EXPECT_THAT(Error(), HasSubstr("a module of type \"sentence_transformers.models.Dense\" is not"));
}

TEST_F(EncoderFolderTest, TextsAreAsLongAsItSays) {
  EXPECT_EQ(Number("max_seq_length"), 0U);
  folder_.Write("sentence_bert_config.json", R"({"max_seq_length": 6, "do_lower_case": false})");
  EXPECT_EQ(Number("max_seq_length"), 6U);
  folder_.Write("sentence_bert_config.json", R"({"max_seq_length": null})");
  EXPECT_EQ(Number("max_seq_length"), 0U);
  folder_.Write("sentence_bert_config.json", R"({"max_seq_length": "6"})");
  EXPECT_THAT(Error(), HasSubstr("sentence_bert_config.json \"max_seq_length\": expected a whole"));
}

TEST_F(EncoderFolderTest, LettersAreLoweredByTheTokenizerAlone) {
  folder_.Write("sentence_bert_config.json", R"({"max_seq_length": 6, "do_lower_case": true})");
  EXPECT_EQ(Error(), "");
  folder_.Write("tokenizer_config.json", R"({"do_lower_case": true})");
  EXPECT_EQ(Error(), "");
  folder_.Write("tokenizer_config.json", R"({"do_lower_case": false})");
  EXPECT_THAT(Error(), HasSubstr("sentence_bert_config.json \"do_lower_case\": true is not"));
  folder_.Write("sentence_bert_config.json", R"({"do_lower_case": false})");
  EXPECT_EQ(Error(), "");
}

}  // namespace
}  // namespace ropeway::model
