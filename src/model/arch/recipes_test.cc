// All architectures: what their recipes read, and how broken files of theirs are named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "executor/weights.h"
#include "model/model_tensors.h"
#include "model/open_model.h"
#include "model/test_tiny_models.h"

namespace ropeway::model {
namespace {

using ::testing::HasSubstr;

using TinyEdit = std::function<void(GgufWriter*)>;

StatusOr<ModelTensors> BindWriter(const GgufWriter& writer) {
  const TempFile temp(writer.Bytes());
  const auto file = OpenModel(temp.path());
  if (!file.ok()) return file.status();
  return BindTensors(**file);  // Its pointers end with the file.
}

StatusOr<ModelTensors> BindTiny(const std::string& name, const TinyEdit& edit = nullptr) {
  GgufWriter writer = TinyModel(name);
  if (edit) edit(&writer);
  return BindWriter(writer);
}

ModelConfig TinyConfig(const std::string& name, const TinyEdit& edit = nullptr) {
  const auto tensors = BindTiny(name, edit);
  EXPECT_TRUE(tensors.ok()) << name << ": " << tensors.status().message();
  return tensors.ok() ? tensors->config : ModelConfig();
}

std::string TinyError(const std::string& name, const TinyEdit& edit) {
  const auto tensors = BindTiny(name, edit);
  if (tensors.ok()) return "accepted";
  EXPECT_FALSE(tensors.status().field().empty());
  return tensors.status().message();
}

class EachTinyModel : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Recipes, EachTinyModel, ::testing::ValuesIn(AllTinyModelNames()),
                         [](const auto& info) { return info.param; });

TEST_P(EachTinyModel, LoadsWithTheWeightsOfItsFile) {
  const TempFile temp(TinyModel(GetParam()).Bytes());
  const auto file = OpenModel(temp.path()).value();
  const auto model = executor::Weights::Load(*file, 2);
  ASSERT_TRUE(model.ok()) << model.status().message();
  const ModelConfig& c = (*model)->config();
  EXPECT_EQ(c.num_layers, static_cast<int32_t>((*model)->layers().size()));
  for (const executor::LayerWeights& layer : (*model)->layers()) {
    EXPECT_EQ(layer.q.n, c.q_size());
    EXPECT_EQ(layer.k.n, c.kv_size());
    EXPECT_EQ(layer.v.n, c.kv_size());
    EXPECT_EQ(layer.o.k, c.q_size());
    EXPECT_EQ(static_cast<int32_t>(layer.experts.size()), c.experts.count);
    EXPECT_EQ(layer.up.panels == nullptr, c.experts.count > 0);
    executor::ForEachMatrix(layer, [](const kernels::Matrix& m) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(m.panels) % 64, 0U);
    });
  }
}

// One fewer of its tensors each time, or one of another shape: the message names it.
TEST_P(EachTinyModel, EveryTensorIsNeededAndChecked) {
  const TempFile temp(TinyModel(GetParam()).Bytes());
  const auto file = OpenModel(temp.path()).value();
  int checked = 0;
  for (const GgufTensor& tensor : file->tensors()) {
    const std::string name(tensor.name);
    // Later layers are like the first; these three may be absent.
    if (name.starts_with("blk.") && !name.starts_with("blk.0.")) continue;
    if (name == "output.weight" || name == "rope_freqs.weight" || name == "token_types.weight") {
      continue;
    }
    ++checked;
    const std::string error = TinyError(GetParam(), [&](GgufWriter* w) { w->RemoveTensor(name); });
    // Without the long factors of RoPE, the short ones are too many.
    const std::string named = name == "rope_factors_long.weight" ? "rope_factors_short" : name;
    EXPECT_THAT(error, HasSubstr("tensor \"" + named));
    EXPECT_THAT(TinyError(GetParam(),
                          [&](GgufWriter* w) {
                            const std::vector<uint64_t> shape = {32, 7};
                            w->SetTensor(name, shape, kernels::WeightType::kF32,
                                         std::vector<float>(32 * 7));
                          }),
                HasSubstr("tensor \"" + name));
  }
  EXPECT_GE(checked, 8);
}

TEST_P(EachTinyModel, AnUnknownTensorIsNamed) {
  EXPECT_THAT(TinyError(GetParam(),
                        [](GgufWriter* w) {
                          w->SetTensor("blk.0.strange.weight", {1}, kernels::WeightType::kF32,
                                       std::vector<float>{1});
                        }),
              HasSubstr("tensor \"blk.0.strange.weight\""));
}

// The numbers that an architecture's recipe reads, by their keys without the prefix: what the tiny
// file has, and what it leaves out.
struct NumericKeys {
  std::set<std::string> integers;
  std::set<std::string> floats;
};

NumericKeys NumericKeysOf(const GgufFile& file, const std::string& architecture) {
  NumericKeys keys = {
      {"vocab_size", "attention.head_count_kv", "attention.key_length", "attention.value_length"},
      {"attention.scale"}};
  if (architecture != "gpt2" && architecture != "bert") {
    keys.integers.insert({"rope.dimension_count", "attention.sliding_window"});
    keys.floats.insert({"rope.freq_base", "rope.scaling.factor", "rope.scaling.attn_factor"});
  }
  if (architecture.starts_with("gemma")) keys.floats.insert("final_logit_softcapping");
  if (architecture.starts_with("gemma") || architecture == "gpt-oss") {
    keys.floats.insert("rope.freq_base_swa");
  }
  const std::string prefix = architecture + ".";
  for (const GgufFile::Entry& entry : file.metadata()) {
    if (!entry.key.starts_with(prefix)) continue;
    const std::string key(entry.key.substr(prefix.size()));
    if (std::holds_alternative<uint64_t>(entry.value)) keys.integers.insert(key);
    if (std::holds_alternative<double>(entry.value)) keys.floats.insert(key);
  }
  return keys;
}

// Whatever number a file has under any of its recipe's keys, the message names that key.
TEST_P(EachTinyModel, AbsurdNumbersAreNamed) {
  const GgufWriter good = TinyModel(GetParam());
  const TempFile temp(good.Bytes());
  const auto file = OpenModel(temp.path()).value();
  const std::string architecture(file->GetString("general.architecture").value().value());
  const NumericKeys keys = NumericKeysOf(*file, architecture);
  const auto expect_named = [&](const std::string& key, const std::string& what,
                                const auto& set_value) {
    GgufWriter bad = good;
    const std::string full = architecture + "." + key;
    set_value(&bad, full);
    const auto tensors = BindWriter(bad);
    ASSERT_FALSE(tensors.ok()) << full << " = " << what;
    EXPECT_THAT(tensors.status().message(), HasSubstr("metadata \"" + full + "\"")) << what;
  };
  const auto set_text = [](GgufWriter* w, const std::string& key) { w->SetString(key, "8"); };
  for (const std::string& key : keys.integers) {
    expect_named(key, "a text", set_text);
    expect_named(key, "-1", [](GgufWriter* w, const auto& at) { w->SetInt32(at, -1); });
    for (const uint64_t value : {uint64_t{0xFFFFFFFFU}, uint64_t{1} << 32 | 64}) {
      expect_named(key, std::to_string(value),
                   [&](GgufWriter* w, const auto& at) { w->SetUint64(at, value); });
    }
    // Here 0 stands for none.
    if (key == "attention.sliding_window" || key == "pooling_type" ||
        (GetParam() == "mixtral" && key == "expert_count")) {
      continue;
    }
    expect_named(key, "0", [](GgufWriter* w, const auto& at) { w->SetUint32(at, 0); });
  }
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const std::string& key : keys.floats) {
    expect_named(key, "a text", set_text);
    for (const float value :
         {-1.0F, 1e30F, kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
      expect_named(key, std::to_string(value),
                   [&](GgufWriter* w, const auto& at) { w->SetFloat32(at, value); });
    }
  }
}

TEST(RecipesTest, HowEmbeddingsArePooled) {
  const auto with_type = [](const char* name, uint32_t type) {
    return TinyConfig(
        name, [&](GgufWriter* w) { w->SetUint32(name + std::string(".pooling_type"), type); });
  };
  EXPECT_EQ(with_type("bert", 0).pooling, Pooling::kMean);
  EXPECT_EQ(with_type("bert", 2).pooling, Pooling::kFirst);
  EXPECT_EQ(with_type("bert", 3).pooling, Pooling::kLast);
  EXPECT_EQ(with_type("qwen3", 0).pooling, Pooling::kLast);
  EXPECT_EQ(with_type("qwen3", 1).pooling, Pooling::kMean);
  EXPECT_THAT(TinyError("bert", [](GgufWriter* w) { w->SetUint32("bert.pooling_type", 4); }),
              HasSubstr("4 (a model that ranks) is not supported"));
  EXPECT_THAT(TinyError("bert", [](GgufWriter* w) { w->SetBool("bert.attention.causal", true); }),
              HasSubstr("true is not supported; only false is"));
  // Texts may be shorter than the positions, and not longer.
  const auto with_length = [](uint32_t length) {
    return TinyConfig("bert", [&](GgufWriter* w) { w->SetUint32("bert.max_seq_length", length); });
  };
  EXPECT_EQ(TinyConfig("bert").usual_length, 0);
  EXPECT_EQ(with_length(100).usual_length, 100);
  EXPECT_EQ(with_length(100'000).usual_length, TinyConfig("bert").context_length);
  EXPECT_THAT(TinyError("bert", [](GgufWriter* w) { w->SetUint32("bert.max_seq_length", 1); }),
              HasSubstr("max_seq_length"));
  // An embedding of types is not needed.
  const auto untyped =
      TinyConfig("bert", [](GgufWriter* w) { w->RemoveTensor("token_types.weight"); });
  EXPECT_FALSE(untyped.token_types);
}

TEST(RecipesTest, VariantsAreRead) {
  EXPECT_EQ(TinyConfig("mistral").windows, (std::vector<int32_t>{20, 20, 20}));
  const ModelConfig mixtral = TinyConfig("mixtral");
  EXPECT_EQ(mixtral.experts.count, 4);
  EXPECT_EQ(mixtral.experts.used, 2);
  EXPECT_EQ(mixtral.experts.intermediate_size, 96);
  EXPECT_TRUE(mixtral.experts.normalized);
  EXPECT_EQ(TinyConfig("qwen2").position, PositionKind::kRopeNeox);
  EXPECT_EQ(TinyConfig("qwen3").head_dim, 32);
  const ModelConfig gemma2 = TinyConfig("gemma2");
  EXPECT_EQ(gemma2.windows, (std::vector<int32_t>{24, 0, 24, 0}));
  EXPECT_EQ(gemma2.activation, Activation::kGeGlu);
  EXPECT_EQ(gemma2.attention_soft_cap, 5.0F);
  EXPECT_EQ(gemma2.logit_soft_cap, 10.0F);
  EXPECT_EQ(gemma2.embedding_scale, 8.0F);
  EXPECT_FALSE(gemma2.window_rope.has_value());
  const ModelConfig gemma3 = TinyConfig("gemma3");
  EXPECT_EQ(gemma3.windows, (std::vector<int32_t>{24, 24, 24, 24, 24, 0, 24}));
  ASSERT_TRUE(gemma3.window_rope.has_value());
  EXPECT_EQ(gemma3.window_rope->freq_base, 10000.0);
  EXPECT_EQ(gemma3.rope.freq_base, 1e6);
  const ModelConfig gpt2 = TinyConfig("gpt2");
  EXPECT_EQ(gpt2.norm, NormKind::kLayer);
  EXPECT_EQ(gpt2.position, PositionKind::kLearned);
  EXPECT_EQ(gpt2.rope.dim, 0);
  EXPECT_TRUE(gpt2.causal);
  EXPECT_EQ(gpt2.pooling, Pooling::kLast);
  const ModelConfig bert = TinyConfig("bert");
  EXPECT_FALSE(bert.causal);
  EXPECT_TRUE(bert.token_types);
  EXPECT_EQ(bert.norm_placement, NormPlacement::kAfter);
  EXPECT_EQ(bert.activation, Activation::kExactGelu);
  EXPECT_EQ(bert.pooling, Pooling::kMean);
  const ModelConfig moe = TinyConfig("qwen2moe");
  EXPECT_FALSE(moe.experts.normalized);
  EXPECT_EQ(moe.experts.shared_intermediate_size, 64);
  EXPECT_EQ(TinyConfig("phi3long").rope.scaling, RopeScaling::kLongRope);
  const ModelConfig gptoss = TinyConfig("gptoss");
  EXPECT_EQ(gptoss.windows, (std::vector<int32_t>{24, 0, 24, 0}));
  EXPECT_EQ(gptoss.activation, Activation::kSwiGluClamped);
  EXPECT_FALSE(gptoss.rope.yarn_whole_pairs);
}

TEST(RecipesTest, WindowLayersMayHaveABaseOfTheirOwn) {
  const auto base = [](const char* architecture, float value) {
    return [=](GgufWriter* w) {
      w->SetFloat32(std::string(architecture) + ".rope.freq_base_swa", value);
    };
  };
  EXPECT_FALSE(TinyConfig("gemma2", base("gemma2", 10000.0F)).window_rope.has_value());
  const ModelConfig gemma2 = TinyConfig("gemma2", base("gemma2", 20000.0F));
  ASSERT_TRUE(gemma2.window_rope.has_value());
  EXPECT_EQ(gemma2.window_rope->freq_base, 20000.0);
  EXPECT_EQ(gemma2.window_rope->dim, gemma2.rope.dim);
  const ModelConfig gptoss = TinyConfig("gptoss", base("gpt-oss", 20000.0F));
  ASSERT_TRUE(gptoss.window_rope.has_value());
  EXPECT_EQ(gptoss.window_rope->scaling, RopeScaling::kYarn);
  EXPECT_FALSE(gptoss.window_rope->yarn_whole_pairs);
}

TEST(RecipesTest, TheLargestGemmasScaleOtherwise) {
  const auto with_layers = [](uint32_t layers, bool named) {
    const TempFile temp([&] {
      GgufWriter w = TinyModel("gemma3");
      w.SetUint32("gemma3.block_count", layers);
      if (named) w.SetFloat32("gemma3.attention.scale", 0.5F);
      return w.Bytes();
    }());
    return ReadModelConfig(*OpenModel(temp.path()).value())->attention_scale;
  };
  EXPECT_EQ(with_layers(26, false), 1.0F / std::sqrt(32.0F));
  EXPECT_EQ(with_layers(62, false), 1.0F / std::sqrt(16.0F));
  EXPECT_EQ(with_layers(62, true), 0.5F);
}

TEST(RecipesTest, AbsurdExpertsAreNamed) {
  const auto with = [](const char* model, const char* key, uint32_t value) {
    return TinyError(model, [&](GgufWriter* w) { w->SetUint32(key, value); });
  };
  EXPECT_THAT(with("qwen3moe", "qwen3moe.expert_count", 0), HasSubstr("expert_count\": 0"));
  EXPECT_THAT(with("qwen3moe", "qwen3moe.expert_used_count", 0), HasSubstr("expert_used_count"));
  EXPECT_THAT(with("qwen3moe", "qwen3moe.expert_used_count", 9), HasSubstr("expert_used_count"));
  EXPECT_THAT(with("qwen3moe", "qwen3moe.expert_count", 7), HasSubstr("ffn_gate_inp.weight"));
  EXPECT_THAT(with("qwen3moe", "qwen3moe.expert_feed_forward_length", 48),
              HasSubstr("48 is not a multiple of 32"));
  EXPECT_THAT(with("qwen3moe", "qwen3moe.expert_count", 1U << 31), HasSubstr("expert_count"));
  EXPECT_THAT(with("mixtral", "llama.expert_count", 0),
              HasSubstr("must be 0, because the model has no experts"));
  EXPECT_THAT(with("gptoss", "gpt-oss.attention.sliding_window", 0), HasSubstr("sliding_window"));
  EXPECT_THAT(with("qwen2", "qwen2.expert_count", 8), HasSubstr("qwen2.expert_count\": 8"));
}

std::vector<int32_t> GroupWindows(const std::vector<int32_t>& windows) {
  ModelConfig c;
  c.num_layers = static_cast<int32_t>(windows.size());
  c.windows = windows;
  return c.kv_groups().windows;
}

TEST(KvGroupsTest, LayersOfOneWindowShareGroupsOfOneSize) {
  EXPECT_EQ(GroupWindows({0, 0, 0}), (std::vector<int32_t>{0}));
  EXPECT_EQ(GroupWindows({8, 8}), (std::vector<int32_t>{8}));
  EXPECT_EQ(GroupWindows({8, 0, 8, 0}), (std::vector<int32_t>{0, 8}));
  // Gemma 3 270M: three layers a group.
  std::vector<int32_t> windows;
  for (int i = 0; i < 18; ++i) windows.push_back(i % 6 == 5 ? 0 : 512);
  EXPECT_EQ(GroupWindows(windows), (std::vector<int32_t>{0, 512, 512, 512, 512, 512}));
  // 1B: four full layers and 22 others; 2 of 28 places are empty.
  windows.clear();
  for (int i = 0; i < 26; ++i) windows.push_back(i % 6 == 5 ? 0 : 512);
  EXPECT_EQ(GroupWindows(windows).size(), 7U);
  ModelConfig c;
  c.num_layers = 26;
  c.windows = windows;
  const KvGroups groups = c.kv_groups();
  EXPECT_EQ(groups.layers, 4);
  std::vector<int> seen(static_cast<size_t>(groups.count() * groups.layers));
  for (size_t layer = 0; layer < groups.places.size(); ++layer) {
    const KvGroups::Place& place = groups.places[layer];
    EXPECT_EQ(groups.windows[static_cast<size_t>(place.group)], windows[layer]);
    EXPECT_LT(place.index, groups.layers);
    ++seen[static_cast<size_t>(place.group * groups.layers + place.index)];
  }
  for (const int count : seen) EXPECT_LE(count, 1);
}

}  // namespace
}  // namespace ropeway::model
