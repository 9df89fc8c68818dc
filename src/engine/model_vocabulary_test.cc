#include "engine/model_vocabulary.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "model/open_model.h"
#include "model/test_gguf_writer.h"
#include "model/test_hf_writer.h"
#include "tokenizer/make_tokenizer.h"

namespace ropeway::engine {
namespace {

using testing::HasSubstr;

using Change = std::function<void(model::GgufWriter&)>;

// The tiny model's vocabulary, its kind `model`, after `change`.
StatusOr<tokenizer::Vocabulary> ReadAs(const std::string& model, const Change& change = nullptr) {
  model::GgufWriter writer = model::TinyLlama();
  writer.SetString("tokenizer.ggml.model", model);
  for (const char* key : {"bos_token_id", "eos_token_id", "unknown_token_id", "add_bos_token",
                          "add_space_prefix", "merges"}) {
    writer.Remove("tokenizer.ggml." + std::string(key));
  }
  writer.SetFloat32s("tokenizer.ggml.scores", std::vector<float>(model::kTinyVocab, -1.5F));
  if (change) change(writer);
  const model::TempFile file(writer.Bytes());
  const auto opened = model::OpenModel(file.path());
  EXPECT_TRUE(opened.ok()) << opened.status().message();
  return ReadVocabulary(**opened);
}

tokenizer::Vocabulary MustRead(const std::string& model, const Change& change = nullptr) {
  StatusOr<tokenizer::Vocabulary> vocabulary = ReadAs(model, change);
  EXPECT_TRUE(vocabulary.ok()) << vocabulary.status().message();
  return vocabulary.ok() ? *std::move(vocabulary) : tokenizer::Vocabulary();
}

TEST(ModelVocabularyTest, KnowsWhatFilesOfItsKindLeaveOut) {
  const tokenizer::Vocabulary llama = MustRead("llama");
  EXPECT_EQ(llama.scores, std::vector<float>(model::kTinyVocab, -1.5F));
  EXPECT_EQ(llama.bos, 1);
  EXPECT_EQ(llama.eos, 2);
  EXPECT_EQ(llama.unk, 0);
  EXPECT_EQ(llama.add_bos, true);
  EXPECT_EQ(llama.add_eos, false);
  EXPECT_EQ(llama.space_prefix, tokenizer::SpacePrefix::kEach);

  const tokenizer::Vocabulary t5 = MustRead("t5");
  EXPECT_EQ(t5.bos, std::nullopt);
  EXPECT_EQ(t5.eos, 1);
  EXPECT_EQ(t5.unk, 2);
  EXPECT_EQ(t5.add_eos, true);
  EXPECT_EQ(t5.space_prefix, tokenizer::SpacePrefix::kNone);

  const tokenizer::Vocabulary bert = MustRead("bert");
  EXPECT_EQ(bert.bos, 101);
  EXPECT_EQ(bert.eos, 102);
  EXPECT_EQ(bert.add_bos, true);
  EXPECT_EQ(bert.add_eos, true);
  EXPECT_TRUE(bert.lowercase && bert.strip_accents);

  const tokenizer::Vocabulary gpt2 = MustRead("gpt2");
  EXPECT_EQ(gpt2.bos, std::nullopt);
  EXPECT_EQ(gpt2.add_bos, std::nullopt);
}

TEST(ModelVocabularyTest, TheFileHasTheLastWord) {
  const tokenizer::Vocabulary llama = MustRead("llama", [](model::GgufWriter& w) {
    w.SetUint32("tokenizer.ggml.bos_token_id", 5);
    w.SetBool("tokenizer.ggml.add_bos_token", false);
    w.SetBool("tokenizer.ggml.add_space_prefix", false);
  });
  EXPECT_EQ(llama.bos, 5);
  EXPECT_EQ(llama.add_bos, false);
  EXPECT_EQ(llama.space_prefix, tokenizer::SpacePrefix::kNone);

  const tokenizer::Vocabulary bert = MustRead("bert", [](model::GgufWriter& w) {
    w.SetUint32("tokenizer.ggml.cls_token_id", 7);
    w.SetUint32("tokenizer.ggml.seperator_token_id", 8);
    w.SetBool("tokenizer.ggml.normalizer.lowercase", false);
  });
  EXPECT_EQ(bert.bos, 7);
  EXPECT_EQ(bert.eos, 8);
  EXPECT_FALSE(bert.lowercase || bert.strip_accents);
}

TEST(ModelVocabularyTest, ReadsACharacterMapOfBytesOfEitherSign) {
  constexpr uint32_t kArrayType = 9;
  for (const auto type : {model::GgufType::kUint8, model::GgufType::kInt8}) {
    const tokenizer::Vocabulary t5 = MustRead("t5", [&](model::GgufWriter& w) {
      const std::string head = {static_cast<char>(type), 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0};
      w.AddRaw("tokenizer.ggml.precompiled_charsmap", kArrayType, head + "a\xFF!");
      w.SetBool("tokenizer.ggml.remove_extra_whitespaces", true);
    });
    EXPECT_EQ(t5.char_map, "a\xFF!");
    EXPECT_TRUE(t5.remove_extra_spaces);
  }
}

// What Phi-3's own tokenizer file says of its added tokens, and XLM-RoBERTa's of <mask>.
TEST(ModelVocabularyTest, KnowsWhichTokensTakeWhiteSpaceAlong) {
  const auto set = [](const char* first, const char* second, const char* architecture) {
    return [=](model::GgufWriter& w) {
      w.SetStrings("tokenizer.ggml.tokens", {first, second, "a"});
      w.SetInt32s("tokenizer.ggml.token_type", {3, 3, 1});
      w.SetFloat32s("tokenizer.ggml.scores", {0, 0, 0});
      w.SetString("general.architecture", architecture);
    };
  };
  const tokenizer::Vocabulary phi = MustRead("llama", set("<s>", "<|end|>", "phi3"));
  EXPECT_EQ(phi.strip_right, std::vector<TokenId>{1});
  EXPECT_TRUE(phi.strip_left.empty());
  EXPECT_TRUE(MustRead("gpt2", set("<s>", "<|end|>", "phi3")).strip_right.empty());
  EXPECT_TRUE(MustRead("llama", set("<s>", "<|end|>", "llama")).strip_right.empty());
  const tokenizer::Vocabulary roberta = MustRead("t5", set("<s>", "<mask>", "nomic-bert-moe"));
  EXPECT_EQ(roberta.strip_left, std::vector<TokenId>{1});
  EXPECT_TRUE(roberta.strip_right.empty());
}

TEST(ModelVocabularyTest, ASpecialTokenThatIsNoneIsNotUsed) {
  const std::vector<const char*> keys = {"bos",     "eos",     "eot",    "eom",
                                         "unknown", "padding", "fim_pre"};
  for (const char* name : keys) {
    const std::string key = "tokenizer.ggml." + std::string(name) + "_token_id";
    const auto with = [&](const Change& set) { return MustRead("gpt2", set); };
    for (const tokenizer::Vocabulary& vocabulary :
         {with([&](model::GgufWriter& w) { w.SetUint32(key, model::kTinyVocab); }),
          with([&](model::GgufWriter& w) { w.SetUint32(key, 0xFFFFFFFF); }),
          with([&](model::GgufWriter& w) { w.SetUint64(key, UINT64_MAX); }),
          with([&](model::GgufWriter& w) { w.SetInt32(key, -1); }),
          with([&](model::GgufWriter& w) { w.SetFloat32(key, 1.5F); })}) {
      for (const auto& id :
           {vocabulary.bos, vocabulary.eos, vocabulary.eot, vocabulary.eom, vocabulary.unk}) {
        EXPECT_EQ(id, std::nullopt) << name;
      }
      ASSERT_EQ(vocabulary.warnings.size(), 1U) << name;
      EXPECT_THAT(vocabulary.warnings[0], HasSubstr("has a " + key + " of "));
      EXPECT_THAT(vocabulary.warnings[0], HasSubstr("of one of its 267 tokens: it is not used"));
    }
  }
  // What files of its kind leave out counts then.
  const tokenizer::Vocabulary llama = MustRead(
      "llama", [](model::GgufWriter& w) { w.SetUint32("tokenizer.ggml.eos_token_id", 9999); });
  EXPECT_EQ(llama.eos, 2);
  EXPECT_TRUE(MustRead("gpt2").warnings.empty());
}

TEST(ModelVocabularyTest, AnUndefinedTypeIsAnOrdinaryToken) {
  std::vector<int32_t> types(model::kTinyVocab, 0);
  types[1] = 3;
  const tokenizer::Vocabulary vocabulary = MustRead(
      "gpt2", [&](model::GgufWriter& w) { w.SetInt32s("tokenizer.ggml.token_type", types); });
  std::vector<int32_t> expected(model::kTinyVocab, 1);
  expected[1] = 3;
  EXPECT_EQ(vocabulary.types, expected);
  EXPECT_TRUE(vocabulary.warnings.empty());
}

TEST(ModelVocabularyTest, ScoresThatNothingNeedsMayBeAnyNumber) {
  for (const size_t count :
       {size_t{1}, size_t{model::kTinyVocab - 1}, size_t{model::kTinyVocab + 1}}) {
    const auto set = [&](model::GgufWriter& w) {
      w.SetFloat32s("tokenizer.ggml.scores", std::vector<float>(count, -1));
    };
    for (const char* kind : {"gpt2", "bert"}) {
      const tokenizer::Vocabulary vocabulary = MustRead(kind, set);
      ASSERT_EQ(vocabulary.warnings.size(), 1U) << kind;
      EXPECT_THAT(vocabulary.warnings[0],
                  HasSubstr(fmt::format("has {} tokenizer.ggml.scores for 267 tokens", count)));
    }
    for (const char* kind : {"llama", "t5", "gemma4"}) {
      tokenizer::Vocabulary vocabulary = MustRead(kind, set);
      EXPECT_TRUE(vocabulary.warnings.empty()) << kind;
      EXPECT_EQ(tokenizer::MakeTokenizer(std::move(vocabulary)).status().field(),
                "tokenizer.ggml.scores");
    }
  }
}

// The array's bytes, and before them its type and size.
template <typename T>
std::string RawArray(model::GgufType type, T value) {
  std::string bytes(12, '\0');
  const uint64_t count = model::kTinyVocab;
  bytes[0] = static_cast<char>(type);
  std::memcpy(bytes.data() + 4, &count, 8);
  for (uint64_t i = 0; i < count; ++i) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  return bytes;
}

TEST(ModelVocabularyTest, NumbersMayHaveAnyType) {
  using model::GgufType;
  constexpr uint32_t kArrayType = 9;
  const std::vector<std::string> threes = {
      RawArray(GgufType::kUint8, uint8_t{3}),   RawArray(GgufType::kInt8, int8_t{3}),
      RawArray(GgufType::kUint16, uint16_t{3}), RawArray(GgufType::kInt16, int16_t{3}),
      RawArray(GgufType::kUint32, uint32_t{3}), RawArray(GgufType::kInt32, int32_t{3}),
      RawArray(GgufType::kUint64, uint64_t{3}), RawArray(GgufType::kInt64, int64_t{3}),
      RawArray(GgufType::kFloat32, 3.0F),       RawArray(GgufType::kFloat64, 3.0)};
  for (const std::string& three : threes) {
    const tokenizer::Vocabulary vocabulary = MustRead("llama", [&](model::GgufWriter& w) {
      for (const char* key : {"tokenizer.ggml.token_type", "tokenizer.ggml.scores"}) {
        w.Remove(key);
        w.AddRaw(key, kArrayType, three);
      }
    });
    EXPECT_EQ(vocabulary.types, std::vector<int32_t>(model::kTinyVocab, 3));
    EXPECT_EQ(vocabulary.scores, std::vector<float>(model::kTinyVocab, 3.0F));
  }
  // What is no type of a token stays none.
  for (const std::string& wrong :
       {RawArray(GgufType::kFloat32, 1.5F), RawArray(GgufType::kUint32, 0xFFFFFFFFU),
        RawArray(GgufType::kFloat64, std::nan("")), RawArray(GgufType::kInt64, INT64_MIN)}) {
    tokenizer::Vocabulary vocabulary = MustRead("gpt2", [&](model::GgufWriter& w) {
      w.Remove("tokenizer.ggml.token_type");
      w.AddRaw("tokenizer.ggml.token_type", kArrayType, wrong);
    });
    EXPECT_EQ(tokenizer::MakeTokenizer(std::move(vocabulary)).status().field(),
              "tokenizer.ggml.token_type[0]");
  }
  const tokenizer::Vocabulary scalars = MustRead("llama", [](model::GgufWriter& w) {
    w.SetFloat32("tokenizer.ggml.eos_token_id", 7.0F);
    w.SetInt32("tokenizer.ggml.bos_token_id", 8);
    w.SetUint64("tokenizer.ggml.unknown_token_id", 9);
    w.SetUint32("tokenizer.ggml.add_bos_token", 0);
    w.SetFloat32("tokenizer.ggml.add_eos_token", 1.0F);
  });
  EXPECT_EQ(scalars.eos, 7);
  EXPECT_EQ(scalars.bos, 8);
  EXPECT_EQ(scalars.unk, 9);
  EXPECT_EQ(scalars.add_bos, false);
  EXPECT_EQ(scalars.add_eos, true);
}

TEST(ModelVocabularyTest, AKeyOfTheWrongTypeIsNamed) {
  for (const char* key :
       {"tokenizer.ggml.scores", "tokenizer.ggml.precompiled_charsmap",
        "tokenizer.ggml.add_space_prefix", "tokenizer.ggml.normalizer.lowercase"}) {
    const auto vocabulary =
        ReadAs("llama", [&](model::GgufWriter& w) { w.SetString(key, "text"); });
    ASSERT_FALSE(vocabulary.ok()) << key;
    EXPECT_NE(vocabulary.status().message().find(key), std::string::npos);
  }
}

TEST(ModelVocabularyTest, MoreTokensThanAnyVocabularyHasAreNotCopied) {
  const auto vocabulary = ReadAs("llama", [](model::GgufWriter& w) {
    w.SetStrings("tokenizer.ggml.tokens",
                 std::vector<std::string>(tokenizer::kMaxVocabularyTokens + 1));
  });
  EXPECT_EQ(vocabulary.status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(vocabulary.status().message(),
              HasSubstr("metadata \"tokenizer.ggml.tokens\" has 4194305 elements, more than the "
                        "limit of 4194304"));
}

TEST(ModelVocabularyTest, AVocabularyInAnotherFormatIsNamed) {
  const model::TempFolder folder;
  model::TinyLlamaOptions options;
  options.weights = options.embedding = kernels::WeightType::kF32;
  model::WriteTinyFolder(options, folder.path());
  const auto read = [&] { return ReadVocabulary(**model::OpenModel(folder.path())).status(); };
  folder.Write("vocab.json", "{}");
  folder.Write("merges.txt", "");
  EXPECT_TRUE(read().ok());
  folder.Remove("tokenizer.json");
  EXPECT_EQ(read().code(), StatusCode::kUnimplemented);
  EXPECT_THAT(read().message(),
              HasSubstr(folder.PathOf("vocab.json") +
                        ": a vocabulary in this format is not supported: a tokenizer.json is"));
}

// To read a pipe would be to wait for its writer.
TEST(ModelVocabularyTest, AFileOfAFolderIsARegularFile) {
  const model::TempFolder folder;
  model::TinyLlamaOptions options;
  options.weights = kernels::WeightType::kF32;
  options.embedding = kernels::WeightType::kF32;
  model::WriteTinyFolder(options, folder.path());
  const auto read = [&] {
    const auto opened = model::OpenModel(folder.path());
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    return ReadVocabulary(**opened).status();
  };
  EXPECT_TRUE(read().ok()) << read().message();
  for (const char* name : {"chat_template.jinja", "tokenizer.json"}) {
    const std::string path = folder.PathOf(name);
    std::filesystem::remove(path);
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    EXPECT_EQ(read().message(), path + ": is not a regular file");
    std::filesystem::remove(path);
    std::filesystem::create_directory(path);
    EXPECT_EQ(read().message(), path + ": is not a regular file");
    std::filesystem::remove(path);
  }
}

}  // namespace
}  // namespace ropeway::engine
