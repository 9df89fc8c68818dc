// The check gives the same answer as loading: for files that are wrong in one way each, in models
// that cannot be opened, and in folders.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "base/random_access_file.h"
#include "engine/model_check.h"
#include "engine/model_vocabulary.h"
#include "engine/open_engine.h"
#include "executor/weights.h"
#include "model/open_model.h"
#include "model/test_gguf_writer.h"
#include "model/test_hf_writer.h"

namespace ropeway::engine {
namespace {

using model::GgufWriter;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr int64_t kMuchMemory = int64_t{1} << 40;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

EngineOptions OptionsFor(const std::string& path) {
  EngineOptions options;
  options.model.path = path;
  options.threads = 1;
  options.cache.kv_bytes = 1 << 20;
  return options;
}

ModelCheck CheckAt(const std::string& path) {
  std::unique_ptr<model::GgufFile> file;
  return OpenAndCheckModel(OptionsFor(path), kMuchMemory, &file);
}

// Why `serve` and `run` do not start on it; OK: they do.
Status StartAt(const std::string& path) {
  base::RealClock clock;
  base::SystemRandom random;
  return OpenEngine(OptionsFor(path), &clock, &random).status();
}

struct Doctored {
  const char* what;
  std::function<void(GgufWriter*)> edit;
};

// Of a tiny model whose matrices are in F32.
const std::vector<Doctored>& DoctoredFiles() {
  static const std::vector<Doctored> kFiles = {
      {"nothing", [](GgufWriter*) {}},
      {"a missing key", [](GgufWriter* w) { w->Remove("llama.context_length"); }},
      {"an absurd key", [](GgufWriter* w) { w->SetUint32("llama.block_count", 1 << 30); }},
      {"a key of another type", [](GgufWriter* w) { w->SetString("llama.block_count", "two"); }},
      {"an unknown architecture",
       [](GgufWriter* w) { w->SetString("general.architecture", "mamba"); }},
      {"a key that changes results",
       [](GgufWriter* w) { w->SetFloat32("llama.logit_scale", 2.0F); }},
      {"a missing tensor", [](GgufWriter* w) { w->RemoveTensor("blk.1.ffn_up.weight"); }},
      {"an unknown tensor",
       [](GgufWriter* w) {
         w->SetTensor("blk.0.strange.weight", {1}, kernels::WeightType::kF32,
                      std::vector<float>{1});
       }},
      {"a wrong shape",
       [](GgufWriter* w) {
         w->SetTensor("output_norm.weight", {32}, kernels::WeightType::kF32,
                      std::vector<float>(32, 1.0F));
       }},
      {"an unsupported type",
       [](GgufWriter* w) {
         w->RemoveTensor("blk.0.ffn_up.weight");
         w->AddRawTensor("blk.0.ffn_up.weight", {64, 96}, 24, std::string(64 * 96, '\0'));
       }},
      {"an unsupported type of what is not read",
       [](GgufWriter* w) {
         w->AddRawTensor("blk.0.attn_rot_embd.weight", {8}, 24, std::string(8, '\0'));
       }},
      {"a quantised vector",
       [](GgufWriter* w) {
         w->SetTensor("output_norm.weight", {64}, kernels::WeightType::kQ8_0,
                      std::vector<float>(64, 1.0F));
       }},
      {"a huge context", [](GgufWriter* w) { w->SetUint32("llama.context_length", 1 << 24); }},
      {"another number of tokens", [](GgufWriter* w) { w->SetUint32("llama.vocab_size", 268); }},
      {"a divisor of RoPE that is 0",
       [](GgufWriter* w) {
         w->SetTensor("rope_freqs.weight", {8}, kernels::WeightType::kF32,
                      std::vector<float>(8, 0.0F));
       }},
  };
  return kFiles;
}

model::TinyLlamaOptions F32Options() {
  model::TinyLlamaOptions options;
  options.embedding = options.weights = kernels::WeightType::kF32;
  return options;
}

TEST(ModelCheckLoadTest, TheCheckSaysWhatLoadingSays) {
  for (const Doctored& doctored : DoctoredFiles()) {
    GgufWriter writer = model::TinyLlama(F32Options());
    doctored.edit(&writer);
    const model::TempFile temp(writer.Bytes());
    const auto file = model::OpenModel(temp.path());
    ASSERT_TRUE(file.ok()) << doctored.what;
    const ModelCheck check = CheckModel(**file, OptionsFor(temp.path()), kMuchMemory);
    const auto loaded = executor::Weights::Load(**file, 1);
    EXPECT_EQ(check.ok(), loaded.ok())
        << doctored.what << ": " << check.status().message() << loaded.status().message();
    EXPECT_EQ(check.ok(), doctored.what == std::string("nothing")) << doctored.what;
    if (check.ok() || loaded.ok()) continue;
    EXPECT_EQ(check.status().field(), loaded.status().field()) << doctored.what;
    EXPECT_THAT(check.status().message(), HasSubstr(". What to do: ")) << doctored.what;
    EXPECT_EQ(StartAt(temp.path()).message(), check.status().message());
  }
}

// These alone only loading finds. It says them as the check would.
TEST(ModelCheckLoadTest, NumbersOfWeightsAreNamedWhenTheyAreLoaded) {
  for (const auto type :
       {kernels::WeightType::kF32, kernels::WeightType::kF16, kernels::WeightType::kBF16}) {
    for (const float bad : {kNan, std::numeric_limits<float>::infinity()}) {
      GgufWriter vector = model::TinyLlama();
      std::vector<float> norm(64, 1.0F);
      norm[63] = bad;
      vector.SetTensor("blk.1.ffn_norm.weight", {64}, type, norm);
      GgufWriter matrix = model::TinyLlama();
      std::vector<float> rows(size_t{64} * 96, 0.5F);
      rows[size_t{95} * 64 + 7] = bad;
      matrix.SetTensor("blk.0.ffn_up.weight", {64, 96}, type, rows);
      const std::vector<std::pair<const GgufWriter*, const char*>> cases = {
          {&vector, "tensor \"blk.1.ffn_norm.weight\": element 63 is not a finite number"},
          {&matrix, "tensor \"blk.0.ffn_up.weight\": element 7 of row 95 is not a finite number"},
      };
      for (const auto& [writer, expected] : cases) {
        const model::TempFile temp(writer->Bytes());
        EXPECT_TRUE(CheckAt(temp.path()).ok());
        EXPECT_THAT(StartAt(temp.path()).message(),
                    AllOf(StartsWith(temp.path() + ": " + expected),
                          HasSubstr(". What to do: compare its SHA-256")));
      }
    }
  }
}

// A model whose weights fail, so that what fails before them is seen.
TEST(ModelCheckLoadTest, PathsAreOpenedBeforeTheWeightsAreRead) {
  GgufWriter writer = model::TinyLlama();
  writer.SetTensor("blk.1.ffn_norm.weight", {64}, kernels::WeightType::kF32,
                   std::vector<float>(64, kNan));
  const model::TempFile temp(writer.Bytes());
  const EngineOptions good = OptionsFor(temp.path());
  std::vector<std::pair<EngineOptions, const char*>> cases(4, {good, ""});
  cases[0].first.trace_file = "no/such/folder/trace.json";
  cases[0].second = "trace_file";
  cases[1].first.sessions.state_path = temp.path();  // A file.
  cases[1].second = "state_path";
  cases[2].first.cache.disk_path = temp.path();
  cases[2].second = "kv_disk_path";
  cases[3].first.cache.kv_bytes = 1;
  cases[3].second = "kv_cache_bytes";
  base::RealClock clock;
  base::SystemRandom random;
  EXPECT_THAT(OpenEngine(good, &clock, &random).status().message(),
              HasSubstr("not a finite number"));
  for (const auto& [options, field] : cases) {
    const Status status = OpenEngine(options, &clock, &random).status();
    EXPECT_EQ(status.field(), field) << status.message();
  }
}

TEST(ModelCheckLoadTest, WhatCannotBeOpenedSaysWhatToDo) {
  const std::string whole = model::TinyLlama().Bytes();
  const model::TempFile empty("");
  const model::TempFile cut(whole.substr(0, whole.size() / 2));
  const std::vector<std::pair<std::string, const char*>> cases = {
      {"no/such.gguf", "cannot be opened: No such file or directory. What to do: give the path"},
      {empty.path(), "the file is empty. What to do: compare its SHA-256"},
      {cut.path(), ". What to do: compare its SHA-256"},
  };
  for (const auto& [path, expected] : cases) {
    const ModelCheck check = CheckAt(path);
    EXPECT_FALSE(check.ok());
    EXPECT_THAT(check.status().message(), AllOf(StartsWith(path + ": "), HasSubstr(expected)));
    EXPECT_THAT(VerdictText(check), StartsWith("Ropeway cannot run this model:\n  - "));
    EXPECT_EQ(StartAt(path).message(), check.status().message());
  }
}

// A folder with a tiny model, and one of its JSON files changed.
class FolderCheckTest : public testing::Test {
 protected:
  FolderCheckTest() { model::WriteTinyFolder(F32Options(), folder_.path()); }

  void Change(const char* name, const std::function<void(json*)>& change) const {
    const std::string path = folder_.PathOf(name);
    StatusOr<std::string> text = base::ReadWholeFile(path, 1 << 24);
    json document = json::parse(text.value());
    change(&document);
    folder_.Write(name, document.dump());
  }

  const model::TempFolder folder_;
};

TEST_F(FolderCheckTest, WhatIsWrongWithAFileIsSaidOnceAndWithAdvice) {
  EXPECT_TRUE(CheckAt(folder_.path()).ok()) << CheckAt(folder_.path()).status().message();
  Change("config.json", [](json* config) { config->erase("hidden_size"); });
  const ModelCheck check = CheckAt(folder_.path());
  EXPECT_THAT(check.status().message(),
              AllOf(StartsWith(folder_.path()), HasSubstr("\"hidden_size\": the field is missing"),
                    HasSubstr(". What to do: compare its SHA-256")));
  EXPECT_EQ(StartAt(folder_.path()).message(), check.status().message());
}

TEST_F(FolderCheckTest, MergesAreNamedAsInTheFolder) {
  Change("tokenizer.json", [](json* tokenizer) { (*tokenizer)["model"]["merges"][7] = "q zz"; });
  const ModelCheck check = CheckAt(folder_.path());
  EXPECT_THAT(
      check.status().message(),
      AllOf(StartsWith(folder_.PathOf("tokenizer.json") + " \"model.merges[7]\": one of its"),
            HasSubstr(". What to do: compare its SHA-256"), Not(HasSubstr("tokenizer.ggml"))));
  EXPECT_EQ(check.status().field(), "tokenizer.json \"model.merges[7]\"");
  const auto file = model::OpenModel(folder_.path());
  ASSERT_TRUE(file.ok());
  EXPECT_THAT(LoadTokenizer(**file).status().message(),
              StartsWith(folder_.PathOf("tokenizer.json") + " \"model.merges[7]\": "));
  // In a list the folder's path stands in front of all.
  EXPECT_THAT(VerdictText(check), HasSubstr("\n  - tokenizer.json \"model.merges[7]\": "));
}

TEST_F(FolderCheckTest, AVocabularyThatIsNotTheEmbeddingsIsNamed) {
  Change("tokenizer.json",
         [](json* tokenizer) { (*tokenizer)["model"]["vocab"]["onemore"] = model::kTinyVocab; });
  const ModelCheck check = CheckAt(folder_.path());
  EXPECT_THAT(check.status().message(),
              StartsWith(folder_.PathOf("tokenizer.json") +
                         ": 268 tokens, but the model's embedding has 267 rows. What to do"));
  EXPECT_EQ(check.status().field(), "tokenizer.json");
}

// Published folders have one to some hundred added tokens more than rows.
TEST_F(FolderCheckTest, AddedTokensWithoutARowAreAWarning) {
  const auto add = [](int first, int last) {
    return [=](json* tokenizer) {
      for (int id = first; id < last; ++id) {
        const std::string text = id == model::kTinyVocab ? "<pad>" : "<" + std::to_string(id) + ">";
        (*tokenizer)["added_tokens"].push_back(
            {{"id", id}, {"content", text}, {"special", id % 2 == 0}});
      }
    };
  };
  const std::string head =
      "has added tokens beyond the 267 rows of its embedding, so requests that use them are "
      "rejected: \"<pad>\" (id 267)";
  Change("tokenizer.json", add(267, 268));
  const ModelCheck one = CheckAt(folder_.path());
  ASSERT_TRUE(one.ok()) << one.status().message();
  EXPECT_THAT(one.warnings, testing::ElementsAre(head));
  EXPECT_EQ(one.tokenizer->vocab_size(), 267);
  EXPECT_TRUE(StartAt(folder_.path()).ok());
  Change("tokenizer.json", add(268, 400));
  const ModelCheck many = CheckAt(folder_.path());
  ASSERT_TRUE(many.ok()) << many.status().message();
  EXPECT_THAT(many.warnings,
              testing::ElementsAre(head + ", \"<268>\" (id 268), \"<269>\" (id 269), \"<270>\" "
                                          "(id 270) and 129 more"));
  // Twice as many are another model's.
  Change("tokenizer.json", add(400, 540));
  EXPECT_THAT(CheckAt(folder_.path()).status().message(),
              HasSubstr("540 tokens, but the model's embedding has 267 rows"));
}

TEST_F(FolderCheckTest, SpecialIdsThatNoTokenHasAreAWarning) {
  Change("config.json", [](json* config) {
    (*config)["bos_token_id"] = 267;
    (*config)["eos_token_id"] = json::array({2, 300});
    (*config)["pad_token_id"] = -1;
  });
  folder_.Write("generation_config.json", R"({"eos_token_id": 999, "suppress_tokens": [5]})");
  const ModelCheck check = CheckAt(folder_.path());
  ASSERT_TRUE(check.ok()) << check.status().message();
  const auto none = [](const char* what) {
    return std::string("has ") + what + ", outside its vocabulary of 267 tokens: it is not used";
  };
  EXPECT_THAT(
      check.warnings,
      testing::ElementsAre(
          none("eos_token_id 999 in its generation_config.json"),
          none("bos_token_id 267 in its config.json"), none("eos_token_id 300 in its config.json"),
          none("pad_token_id -1 in its config.json"),
          "has a suppress_tokens in its generation_config.json, which is not applied"));
  EXPECT_TRUE(check.tokenizer->IsEnd(2));
  EXPECT_TRUE(StartAt(folder_.path()).ok());
}

TEST(ModelVocabularyErrorTest, AFilesTokenizerIsNamedWithItsPath) {
  GgufWriter writer = model::TinyLlama();
  writer.SetStrings("tokenizer.ggml.merges", {"q zz"});
  const model::TempFile temp(writer.Bytes());
  const auto file = model::OpenModel(temp.path());
  ASSERT_TRUE(file.ok());
  EXPECT_THAT(LoadTokenizer(**file).status().message(),
              StartsWith(temp.path() + ": tokenizer.ggml.merges[0]: "));
}

}  // namespace
}  // namespace ropeway::engine
