#include "model/hf_folder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "executor/weights.h"
#include "model/file_digest.h"
#include "model/gguf.h"
#include "model/open_model.h"
#include "model/test_gguf_writer.h"
#include "model/test_hf_writer.h"

namespace ropeway::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kLlamaConfig[] =
    R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 96,
        "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2,
        "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "hidden_act": "silu", "vocab_size": 40, "tie_word_embeddings": false)";

std::vector<float> RandomValues(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  // Exact in BF16.
  for (float& value : values) {
    value = static_cast<float>(static_cast<int>(random() % 255) - 127) / 64;
  }
  return values;
}

// The tensors of a llama model of the configuration above, as transformers names them.
class LlamaFolder {
 public:
  explicit LlamaFolder(const std::string& dtype = "F16") : dtype_(dtype) {
    Add("model.embed_tokens.weight", {40, 64});
    Add("model.norm.weight", {64});
    Add("lm_head.weight", {40, 64});
    const std::string layer = "model.layers.0.";
    Add(layer + "input_layernorm.weight", {64});
    Add(layer + "post_attention_layernorm.weight", {64});
    Add(layer + "self_attn.q_proj.weight", {64, 64});
    Add(layer + "self_attn.k_proj.weight", {32, 64});
    Add(layer + "self_attn.v_proj.weight", {32, 64});
    Add(layer + "self_attn.o_proj.weight", {64, 64});
    Add(layer + "mlp.gate_proj.weight", {96, 64});
    Add(layer + "mlp.up_proj.weight", {96, 64});
    Add(layer + "mlp.down_proj.weight", {64, 96});
    folder.Write("config.json", std::string(kLlamaConfig) + "}");
    folder.Write("model.safetensors", writer.Bytes());
  }

  void Add(const std::string& name, const std::vector<uint64_t>& shape) {
    size_t count = 1;
    for (const uint64_t dim : shape) count *= dim;
    writer.Add(name, shape, dtype_, RandomValues(count, next_seed_++));
  }

  SafetensorsWriter writer;
  TempFolder folder;

 private:
  const std::string dtype_;
  uint32_t next_seed_ = 1;
};

std::vector<float> FloatsOf(const GgufFile& file, const std::string& name) {
  const GgufTensor* tensor = file.FindTensor(name);
  EXPECT_NE(tensor, nullptr) << name;
  if (tensor == nullptr) return {};
  std::vector<std::byte> bytes(tensor->bytes);
  const Status status = file.Read(tensor->begin, bytes);
  EXPECT_TRUE(status.ok()) << status.message();
  const size_t element = tensor->type == ggml_type::kF32 ? 4 : 2;
  std::vector<float> values(bytes.size() / element);
  WidenRow(tensor->type, bytes.data(), values);
  return values;
}

std::string FolderError(const TempFolder& folder) {
  const auto file = OpenModel(folder.path());
  if (file.ok()) return "opened";
  EXPECT_THAT(file.status().message(), HasSubstr(folder.path()));
  EXPECT_EQ(file.status().message().find('\n'), std::string::npos);
  return file.status().message();
}

TEST(HfFolderTest, IsTheGgufFileThatItWouldBeConvertedTo) {
  const LlamaFolder llama;
  const auto opened = OpenModel(llama.folder.path());
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const GgufFile& file = **opened;
  EXPECT_EQ(file.version(), 0U);
  EXPECT_EQ(file.GetString("general.architecture").value(), "llama");
  EXPECT_EQ(file.GetUint("llama.block_count", 0, 9).value(), 1U);
  EXPECT_EQ(file.GetUint("llama.attention.key_length", 0, 99).value(), 16U);
  EXPECT_EQ(file.GetFloat("llama.rope.freq_base").value(), 10000.0);
  EXPECT_EQ(file.tensors().size(), 12U);
  EXPECT_THAT(file.FindTensor("blk.0.ffn_down.weight")->shape, ElementsAre(96U, 64U));
  EXPECT_EQ(GgmlTypeName(file.FindTensor("blk.0.ffn_down.weight")->type), "F16");
  EXPECT_EQ(GgmlTypeName(file.FindTensor("output_norm.weight")->type), "F32");
  EXPECT_EQ(FloatsOf(file, "token_embd.weight"), RandomValues(40 * 64, 1));
  EXPECT_EQ(FloatsOf(file, "output_norm.weight"), RandomValues(64, 2));
  EXPECT_EQ(FloatsOf(file, "blk.0.ffn_down.weight"), RandomValues(64 * 96, 12));
  // Row 2i of a head of 16 is the folder's i, row 2i + 1 its i + 8.
  const std::vector<float> stored = RandomValues(64 * 64, 6);
  std::vector<float> q;
  for (size_t row = 0; row < 64; ++row) {
    const size_t from = row / 16 * 16 + row % 2 * 8 + row % 16 / 2;
    q.insert(q.end(), stored.begin() + static_cast<long>(from * 64),
             stored.begin() + static_cast<long>(from * 64 + 64));
  }
  EXPECT_EQ(FloatsOf(file, "blk.0.attn_q.weight"), q);
  EXPECT_EQ(FloatsOf(file, "blk.0.attn_v.weight"), RandomValues(32 * 64, 8));
}

TEST(HfFolderTest, LoadsAndIsQuantisedOnTheWay) {
  const LlamaFolder llama;
  std::string before;
  for (const char* quantize : {"", "q8_0", "q4_0"}) {
    const auto file = OpenModel(llama.folder.path(), quantize);
    ASSERT_TRUE(file.ok()) << file.status().message();
    const auto model = executor::Weights::Load(**file, 2);
    ASSERT_TRUE(model.ok()) << model.status().message();
    EXPECT_EQ((*model)->config().vocab_size, 40);
    EXPECT_FALSE((*model)->config().tied_output);
    const auto digest = FileDigest(**file, 1);
    ASSERT_TRUE(digest.ok());
    EXPECT_NE(*digest, before);
    before = *digest;
    if (*quantize != '\0') continue;
    const std::vector<float> row = RandomValues(40 * 64, 1);
    std::vector<float> unpacked(64);
    kernels::UnpackRow((*model)->token_embedding(), 3, unpacked.data());
    EXPECT_EQ(unpacked, std::vector<float>(row.begin() + 192, row.begin() + 256));
  }
}

TEST(HfFolderTest, ATiedOutputIsNotKept) {
  const LlamaFolder llama;
  std::string config = std::string(kLlamaConfig) + "}";
  config.replace(config.find("false"), 5, "true");
  llama.folder.Write("config.json", config);
  const auto file = OpenModel(llama.folder.path());
  ASSERT_TRUE(file.ok());
  EXPECT_EQ((*file)->FindTensor("output.weight"), nullptr);
}

TEST(HfFolderTest, TheSingleFileGoesBeforeAnIndex) {
  const LlamaFolder llama;
  SafetensorsWriter shard;
  shard.Add("model.norm.weight", {64}, "F16", RandomValues(64, 77));
  llama.folder.Write("model-00001-of-00001.safetensors", shard.Bytes());
  // Indexes that name other weights, missing weights and no weights, and one that is not JSON.
  for (const char* index :
       {R"({"weight_map": {"model.norm.weight": "model-00001-of-00001.safetensors"}})",
        R"({"weight_map": {"model.norm.weight": "model-00001-of-00002.safetensors"}})",
        R"({"weight_map": {}})", "{"}) {
    llama.folder.Write("model.safetensors.index.json", index);
    const auto file = OpenModel(llama.folder.path());
    ASSERT_TRUE(file.ok()) << file.status().message();
    EXPECT_EQ(FloatsOf(**file, "output_norm.weight"), RandomValues(64, 2));
    EXPECT_EQ((*file)->warnings(),
              std::vector<std::string>{"has both model.safetensors.index.json and "
                                       "model.safetensors: only the latter is used, not the files "
                                       "that the index names"});
  }
}

TEST(HfFolderTest, ShardsAreOneModel) {
  const LlamaFolder llama;
  llama.folder.Remove("model.safetensors");
  SafetensorsWriter first;
  SafetensorsWriter second;
  first.Add("model.embed_tokens.weight", {40, 64}, "F16", RandomValues(40 * 64, 1));
  second.Add("model.norm.weight", {64}, "F16", RandomValues(64, 2));
  llama.folder.Write("model-00001-of-00002.safetensors", first.Bytes());
  llama.folder.Write("model-00002-of-00002.safetensors", second.Bytes());
  const auto index = [&](const std::string& map) {
    llama.folder.Write("model.safetensors.index.json", R"({"weight_map": {)" + map + "}}");
  };
  const std::string embedding =
      R"("model.embed_tokens.weight": "model-00001-of-00002.safetensors")";
  const std::string norm = R"("model.norm.weight": "model-00002-of-00002.safetensors")";
  index(embedding + "," + norm);
  std::string config = std::string(kLlamaConfig) + "}";
  config.replace(config.find("false"), 5, "true");
  llama.folder.Write("config.json", config);
  const auto file = OpenModel(llama.folder.path());
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ((*file)->files().size(), 3U);  // config.json decides too.
  EXPECT_EQ(FloatsOf(**file, "output_norm.weight"), RandomValues(64, 2));

  index(embedding + "," + norm + R"(, "x": "model-00001-of-00002.safetensors")");
  const auto lacking = OpenModel(llama.folder.path());
  ASSERT_TRUE(lacking.ok()) << lacking.status().message();
  EXPECT_EQ((*lacking)->warnings(),
            std::vector<std::string>{"has a model.safetensors.index.json that lists tensors "
                                     "that are missing from their files: \"x\""});
  // What the index does not name is not used, whatever it is.
  for (const char* name : {"model.layers.9.unknown", "q.0", "q.1", "q.2", "q.3"}) {
    first.Add(name, {2}, "F16", {0, 0});
  }
  first.Add("model.norm.weight", {64}, "F16", RandomValues(64, 3));
  llama.folder.Write("model-00001-of-00002.safetensors", first.Bytes());
  index(embedding + "," + norm);
  const auto more = OpenModel(llama.folder.path());
  ASSERT_TRUE(more.ok()) << more.status().message();
  EXPECT_EQ(FloatsOf(**more, "output_norm.weight"), RandomValues(64, 2));
  ASSERT_EQ((*more)->warnings().size(), 1U);
  EXPECT_THAT((*more)->warnings()[0],
              HasSubstr("has tensors that model.safetensors.index.json does not list, or lists in "
                        "another file; they are not used: \"model.layers.9.unknown\", "));
  EXPECT_THAT((*more)->warnings()[0], HasSubstr(" and 2 more"));
  for (const char* name : {"../secret.safetensors", "/etc/passwd", "a/b.safetensors", "weights.bin",
                           ".hidden.safetensors", "", "a\\nb.safetensors"}) {
    index(fmt::format(R"("t": "{}")", name));
    EXPECT_THAT(FolderError(llama.folder),
                HasSubstr("the file of tensor \"t\" is not the name of a .safetensors file"))
        << name;
  }
  index(R"("t": "absent.safetensors")");
  EXPECT_THAT(FolderError(llama.folder), HasSubstr("absent.safetensors: cannot be opened"));
  index("");
  EXPECT_THAT(FolderError(llama.folder), HasSubstr("weight_map is not an object"));
}

// --- The layouts of other architectures, tensor by tensor.

// Opens a folder of this configuration with these tensors alone.
std::unique_ptr<GgufFile> OpenWith(const std::string& config, const SafetensorsWriter& writer) {
  const TempFolder folder;
  folder.Write("config.json", config);
  folder.Write("model.safetensors", writer.Bytes());
  auto file = OpenModel(folder.path());
  EXPECT_TRUE(file.ok()) << file.status().message();
  return file.ok() ? *std::move(file) : nullptr;
}

std::string ConfigOf(const std::string& architecture, const std::string& more) {
  return fmt::format(
      R"({{"architectures": ["{}"], "hidden_size": 4, "intermediate_size": 6,
          "num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 8,
          "head_dim": 2{}}})",
      architecture, more);
}

TEST(HfFolderTest, GemmasNormsCountFromOne) {
  SafetensorsWriter writer;
  writer.Add("model.layers.1.post_attention_layernorm.weight", {4}, "BF16", {0, 0.5, -1, 2});
  writer.Add("model.layers.1.pre_feedforward_layernorm.weight", {4}, "F32", {1, 1, 1, 1});
  writer.Add("model.layers.1.self_attn.q_norm.weight", {2}, "F32", {0, 3});
  const auto file =
      OpenWith(ConfigOf("Gemma3ForCausalLM",
                        R"(, "sliding_window": 512, "hidden_activation": "gelu_pytorch_tanh",
                  "query_pre_attn_scalar": 16)"),
               writer);
  ASSERT_NE(file, nullptr);
  EXPECT_THAT(FloatsOf(*file, "blk.1.post_attention_norm.weight"), ElementsAre(1, 1.5, 0, 3));
  EXPECT_THAT(FloatsOf(*file, "blk.1.ffn_norm.weight"), ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(FloatsOf(*file, "blk.1.attn_q_norm.weight"), ElementsAre(1, 4));
  EXPECT_EQ(file->GetFloat("gemma3.rope.freq_base").value(), 1e6);
  EXPECT_EQ(file->GetFloat("gemma3.rope.freq_base_swa").value(), 1e4);
  EXPECT_EQ(file->GetFloat("gemma3.attention.scale").value(), 0.25);
  EXPECT_EQ(file->GetUint("gemma3.attention.sliding_window", 0, 9999).value(), 512U);
  EXPECT_EQ(file->Find("gemma3.attention.sliding_window_pattern"), nullptr);
}

TEST(HfFolderTest, UnusualWindowsAreSaid) {
  const auto file = OpenWith(
      ConfigOf("Gemma3ForCausalLM",
               R"(, "sliding_window": 5, "layer_types": ["full_attention", "sliding_attention"])"),
      SafetensorsWriter());
  ASSERT_NE(file, nullptr);
  const GgufArray* windows =
      file->GetArray("gemma3.attention.sliding_window_pattern", GgufType::kBool).value();
  ASSERT_NE(windows, nullptr);
  EXPECT_THAT(std::vector<std::byte>(windows->data.begin(), windows->data.end()),
              ElementsAre(std::byte{0}, std::byte{1}));
}

TEST(HfFolderTest, Gpt2IsTransposed) {
  SafetensorsWriter writer;
  writer.Add("transformer.h.0.mlp.c_fc.weight", {2, 3}, "F32", {1, 2, 3, 4, 5, 6});
  writer.Add("transformer.h.0.mlp.c_fc.bias", {3}, "F32", {7, 8, 9});
  writer.Add("transformer.h.0.attn.bias", {1, 1, 2, 2}, "F32", {1, 0, 1, 1});
  writer.Add("transformer.wpe.weight", {2, 2}, "F16", {1, 2, 3, 4});
  const auto file = OpenWith(
      R"({"architectures": ["GPT2LMHeadModel"], "n_embd": 4, "n_layer": 1, "n_head": 2,
          "n_ctx": 8, "activation_function": "gelu_new"})",
      writer);
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->tensors().size(), 3U);
  EXPECT_THAT(file->FindTensor("blk.0.ffn_up.weight")->shape, ElementsAre(2U, 3U));
  EXPECT_THAT(FloatsOf(*file, "blk.0.ffn_up.weight"), ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(FloatsOf(*file, "blk.0.ffn_up.bias"), ElementsAre(7, 8, 9));
  EXPECT_EQ(GgmlTypeName(file->FindTensor("position_embd.weight")->type), "F32");
  EXPECT_THAT(FloatsOf(*file, "position_embd.weight"), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(file->GetUint("gpt2.feed_forward_length", 0, 99).value(), 16U);
}

TEST(HfFolderTest, ExpertsAreJoined) {
  SafetensorsWriter writer;
  const std::string moe = "model.layers.0.block_sparse_moe.";
  writer.Add(moe + "experts.1.w1.weight", {1, 2}, "F32", {3, 4});
  writer.Add(moe + "experts.0.w1.weight", {1, 2}, "F32", {1, 2});
  writer.Add(moe + "gate.weight", {2, 2}, "BF16", {1, 2, 3, 4});
  const auto file = OpenWith(
      ConfigOf("MixtralForCausalLM", R"(, "num_local_experts": 2, "num_experts_per_tok": 1)"),
      writer);
  ASSERT_NE(file, nullptr);
  EXPECT_THAT(file->FindTensor("blk.0.ffn_gate_exps.weight")->shape, ElementsAre(2U, 1U, 2U));
  EXPECT_THAT(FloatsOf(*file, "blk.0.ffn_gate_exps.weight"), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(GgmlTypeName(file->FindTensor("blk.0.ffn_gate_inp.weight")->type), "F32");
  EXPECT_THAT(FloatsOf(*file, "blk.0.ffn_gate_inp.weight"), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(file->GetUint("llama.expert_count", 0, 9).value(), 2U);
}

TEST(HfFolderTest, FusedExpertsAreTakenApart) {
  SafetensorsWriter writer;
  // [2 experts, gate and up of 1 row each, 2]
  writer.Add("model.layers.0.mlp.experts.gate_up_proj", {2, 2, 2}, "F32", {1, 2, 3, 4, 5, 6, 7, 8});
  writer.Add("model.layers.0.mlp.experts.down_proj", {2, 2, 1}, "F32", {1, 2, 3, 4});
  writer.Add("model.layers.0.mlp.shared_expert_gate.weight", {1, 2}, "BF16", {5, 6});
  const auto file =
      OpenWith(ConfigOf("Qwen2MoeForCausalLM", R"(, "num_experts": 2, "num_experts_per_tok": 1,
               "moe_intermediate_size": 1, "norm_topk_prob": true)"),
               writer);
  ASSERT_NE(file, nullptr);
  EXPECT_THAT(FloatsOf(*file, "blk.0.ffn_gate_exps.weight"), ElementsAre(1, 2, 5, 6));
  EXPECT_THAT(FloatsOf(*file, "blk.0.ffn_up_exps.weight"), ElementsAre(3, 4, 7, 8));
  EXPECT_THAT(file->FindTensor("blk.0.ffn_down_exps.weight")->shape, ElementsAre(1U, 2U, 2U));
  EXPECT_THAT(FloatsOf(*file, "blk.0.ffn_down_exps.weight"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(file->FindTensor("blk.0.ffn_gate_inp_shexp.weight")->shape, ElementsAre(2U, 1U));
  EXPECT_EQ(GgmlTypeName(file->FindTensor("blk.0.ffn_gate_inp_shexp.weight")->type), "F32");
  EXPECT_THAT(FloatsOf(*file, "blk.0.ffn_gate_inp_shexp.weight"), ElementsAre(5, 6));
}

TEST(HfFolderTest, GptOssAlternatesBetweenGateAndUp) {
  SafetensorsWriter writer;
  // [1 expert, 2 inputs, gate 0, up 0, gate 1, up 1]
  writer.Add("model.layers.0.mlp.experts.gate_up_proj", {1, 2, 4}, "F32", {1, 2, 3, 4, 5, 6, 7, 8});
  writer.Add("model.layers.0.mlp.experts.gate_up_proj_bias", {1, 4}, "BF16", {1, 2, 3, 4});
  writer.Add("model.layers.0.mlp.experts.down_proj", {1, 2, 2}, "F32", {1, 2, 3, 4});
  writer.Add("model.layers.0.self_attn.sinks", {2}, "BF16", {1, -1});
  const std::string config =
      ConfigOf("GptOssForCausalLM", R"(, "num_local_experts": 1, "num_experts_per_tok": 1,
               "sliding_window": 128)");
  const auto file = OpenWith(config, writer);
  ASSERT_NE(file, nullptr);
  EXPECT_THAT(FloatsOf(*file, "blk.0.ffn_gate_exps.weight"), ElementsAre(1, 5, 3, 7));
  EXPECT_THAT(FloatsOf(*file, "blk.0.ffn_up_exps.weight"), ElementsAre(2, 6, 4, 8));
  EXPECT_THAT(FloatsOf(*file, "blk.0.ffn_gate_exps.bias"), ElementsAre(1, 3));
  EXPECT_THAT(FloatsOf(*file, "blk.0.ffn_up_exps.bias"), ElementsAre(2, 4));
  EXPECT_THAT(FloatsOf(*file, "blk.0.ffn_down_exps.weight"), ElementsAre(1, 3, 2, 4));
  EXPECT_THAT(FloatsOf(*file, "blk.0.attn_sinks.weight"), ElementsAre(1, -1));

  SafetensorsWriter packed;
  packed.AddBytes("model.layers.0.mlp.experts.gate_up_proj_blocks", {1, 2, 1, 16}, "U8",
                  std::string(16, '\x11') + std::string(16, '\x22'));
  packed.AddBytes("model.layers.0.mlp.experts.gate_up_proj_scales", {1, 2, 1}, "U8", "\x7F\x80");
  const auto mxfp4 = OpenWith(config, packed);
  ASSERT_NE(mxfp4, nullptr);
  const GgufTensor* up = mxfp4->FindTensor("blk.0.ffn_up_exps.weight");
  ASSERT_NE(up, nullptr);
  EXPECT_EQ(GgmlTypeName(up->type), "MXFP4");
  EXPECT_THAT(up->shape, ElementsAre(32U, 1U, 1U));
  std::vector<uint8_t> bytes(up->bytes);
  ASSERT_TRUE(mxfp4->Read(up->begin, std::as_writable_bytes(std::span(bytes))).ok());
  std::vector<uint8_t> expected(17, 0x22);
  expected[0] = 0x80;
  EXPECT_EQ(bytes, expected);
}

TEST(HfFolderTest, Llama3ScalingBecomesDivisors) {
  // head_dim 2 has one pair, of a wave length of 6.28: unscaled. With 128 pairs the slow ones are.
  const auto file = OpenWith(
      ConfigOf("LlamaForCausalLM", R"(, "rope_scaling": {"rope_type": "llama3", "factor": 8.0,
               "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 8192})"),
      SafetensorsWriter());
  ASSERT_NE(file, nullptr);
  EXPECT_THAT(FloatsOf(*file, "rope_freqs.weight"), ElementsAre(1));
  std::string wide = ConfigOf("LlamaForCausalLM", R"(, "rope_theta": 500000, "rope_scaling":
      {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
       "original_max_position_embeddings": 8192})");
  wide.replace(wide.find("\"head_dim\": 2"), 13, "\"head_dim\": 128");
  const auto llama31 = OpenWith(wide, SafetensorsWriter());
  ASSERT_NE(llama31, nullptr);
  const std::vector<float> divisors = FloatsOf(*llama31, "rope_freqs.weight");
  ASSERT_EQ(divisors.size(), 64U);
  EXPECT_EQ(divisors[28], 1.0F);
  EXPECT_NEAR(divisors[29], 1.20745F, 1e-4);  // In numpy.
  EXPECT_EQ(divisors[63], 8.0F);
}

// --- What is wrong is named as in the folder.

TEST(HfFolderTest, WrongFieldsAreNamed) {
  const auto error = [](const std::string& from, const std::string& to) {
    const LlamaFolder llama;
    std::string config = std::string(kLlamaConfig) + "}";
    const size_t at = config.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    config.replace(at, from.size(), to);
    llama.folder.Write("config.json", config);
    return FolderError(llama.folder);
  };
  EXPECT_EQ(error("silu", "silu"), "opened");
  EXPECT_THAT(error("LlamaForCausalLM", "MambaForCausalLM"),
              HasSubstr("config.json \"architectures\": \"MambaForCausalLM\" is not supported; "
                        "LlamaForCausalLM, MistralForCausalLM"));
  EXPECT_THAT(error("\"hidden_size\": 64,", ""),
              HasSubstr("config.json \"hidden_size\": the field is missing"));
  EXPECT_THAT(error("\"hidden_size\": 64", "\"hidden_size\": -64"),
              HasSubstr("config.json \"hidden_size\": expected a whole number from 0 to "
                        "2147483647, got -64"));
  EXPECT_THAT(
      error("\"num_hidden_layers\": 1", "\"num_hidden_layers\": 1000000000"),
      HasSubstr("\"num_hidden_layers\": 1000000000 is out of range; it must be at most 4096"));
  EXPECT_THAT(error("1e-5", "\"x\""), HasSubstr("\"rms_norm_eps\": expected a number"));
  EXPECT_THAT(error("silu", "relu"), HasSubstr("\"hidden_act\": \"relu\" is not supported"));
  EXPECT_THAT(error("\"silu\"", "\"silu\", \"quantization_config\": {\"quant_method\": \"gptq\"}"),
              HasSubstr("\"quantization_config\": quantised weights are not"));
  EXPECT_THAT(error("\"silu\"", "\"silu\", \"rope_scaling\": {\"type\": \"dynamic\"}"),
              HasSubstr("\"rope_type\": \"dynamic\" is not supported"));
  EXPECT_THAT(error("\"silu\"", "\"silu"), HasSubstr("config.json: the file is not valid JSON"));
}

TEST(HfFolderTest, WhatTheRecipeRejectsIsNamedAsInTheFolder) {
  const LlamaFolder llama;
  std::string config = std::string(kLlamaConfig) + "}";
  config.replace(config.find("\"num_key_value_heads\": 2"), 24, "\"num_key_value_heads\": 3");
  llama.folder.Write("config.json", config);
  const auto file = OpenModel(llama.folder.path());
  // k_proj still has two heads of 16.
  ASSERT_TRUE(file.ok()) << file.status().message();
  const Status status = executor::Weights::Load(**file, 1).status();
  EXPECT_THAT(status.message(),
              HasSubstr("config.json \"num_key_value_heads\": 3 does not divide"));
}

TEST(HfFolderTest, WrongTensorsAreNamed) {
  const auto error = [](const std::string& name, const std::vector<uint64_t>& shape,
                        const std::string& dtype, size_t bytes) {
    LlamaFolder llama;
    llama.writer.AddBytes(name, shape, dtype, std::string(bytes, '\0'));
    llama.folder.Write("model.safetensors", llama.writer.Bytes());
    return FolderError(llama.folder);
  };
  EXPECT_THAT(error("model.layers.0.self_attn.x.weight", {4}, "F32", 16),
              HasSubstr("tensor \"model.layers.0.self_attn.x.weight\": supported "
                        "LlamaForCausalLM models have no such tensor"));
  EXPECT_THAT(error("model.layers.1.mlp.up_proj.weight", {4}, "F32", 16),
              HasSubstr("its layer does not exist: config.json has 1 layers"));
  EXPECT_THAT(error("model.layers.0.self_attn.q_proj.bias", {16}, "F64", 128),
              HasSubstr("type F64 is not supported; BF16, F16 and F32 are"));
  EXPECT_THAT(error("model.layers.0.self_attn.q_proj.bias", {15}, "F32", 60),
              HasSubstr("its shape is [15]; expected a multiple of the head's 16 elements"));
  EXPECT_THAT(error("model.layers.0.self_attn.v_proj.bias", {2, 2, 2}, "F32", 32),
              HasSubstr("its shape is [2, 2, 2]; expected a vector or a matrix"));
  EXPECT_THAT(error("model.layers.0.mlp.experts.0.gate_proj.weight", {4}, "F32", 16),
              HasSubstr("belongs to an expert, but config.json has no experts"));
  EXPECT_EQ(error("model.layers.0.self_attn.rotary_emb.inv_freq", {8}, "F32", 32), "opened");
}

TEST(HfFolderTest, AMissingExpertIsNamed) {
  SafetensorsWriter writer;
  writer.Add("model.layers.0.block_sparse_moe.experts.1.w1.weight", {1, 2}, "F32", {3, 4});
  const TempFolder folder;
  folder.Write("config.json", ConfigOf("MixtralForCausalLM",
                                       R"(, "num_local_experts": 2, "num_experts_per_tok": 1)"));
  folder.Write("model.safetensors", writer.Bytes());
  EXPECT_THAT(FolderError(folder), HasSubstr("expert 0 has no such tensor"));
  for (const char* count : {"0", "2000000000"}) {
    folder.Write("config.json", ConfigOf("MixtralForCausalLM",
                                         fmt::format(R"(, "num_local_experts": {})", count)));
    EXPECT_THAT(FolderError(folder),
                HasSubstr("\"num_local_experts\": " + std::string(count) + " is out of range"));
  }
}

TEST(HfFolderTest, SamplingDefaultsComeAlong) {
  const LlamaFolder llama;
  llama.folder.Write("generation_config.json",
                     R"({"temperature": 0.6, "top_k": 40, "do_sample": true, "top_p": null})");
  const auto file = OpenModel(llama.folder.path());
  ASSERT_TRUE(file.ok());
  EXPECT_FLOAT_EQ(static_cast<float>(**(*file)->GetFloat("general.sampling.temp")), 0.6F);
  EXPECT_EQ((*file)->GetUint("general.sampling.top_k", 0, 99).value(), 40U);
  EXPECT_EQ((*file)->Find("general.sampling.top_p"), nullptr);
  llama.folder.Write("generation_config.json", R"({"temperature": "hot"})");
  EXPECT_THAT(FolderError(llama.folder),
              HasSubstr("generation_config.json \"temperature\": expected a number"));
}

TEST(HfFolderTest, ATopKThatIsOffAndAGreedyTemperature) {
  const LlamaFolder llama;
  for (const char* off : {"-1", "0", "null"}) {
    llama.folder.Write(
        "generation_config.json",
        fmt::format(R"({{"top_k": {}, "do_sample": false, "temperature": 0}})", off));
    const auto file = OpenModel(llama.folder.path());
    ASSERT_TRUE(file.ok()) << off << ": " << file.status().message();
    EXPECT_EQ((*file)->Find("general.sampling.top_k"), nullptr) << off;
    // Greedy, and not the default of a key that is absent.
    EXPECT_EQ((*file)->GetFloat("general.sampling.temp").value(), 0.0) << off;
  }
  for (const char* wrong : {"-2", "1.5", "\"all\""}) {
    llama.folder.Write("generation_config.json", fmt::format(R"({{"top_k": {}}})", wrong));
    EXPECT_THAT(FolderError(llama.folder),
                HasSubstr("generation_config.json \"top_k\": expected a "));
  }
}

}  // namespace
}  // namespace ropeway::model
