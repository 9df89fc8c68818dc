#include "engine/open_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "engine/machine.h"
#include "engine/test_fakes.h"
#include "model/test_gguf_writer.h"
#include "model/test_tiny_models.h"

namespace ropeway::engine {
namespace {

using testing::HasSubstr;

class KvCacheDtypeTest : public testing::Test {
 protected:
  StatusOr<std::unique_ptr<LlmEngine>> Open(const std::string& dtype) {
    EngineOptions options;
    options.model.path = file_.path();
    options.threads = 1;
    options.cache.kv_bytes = 1 << 20;
    options.cache.kv_dtype = dtype;
    return OpenEngine(options, &clock_, &random_);
  }

  // The blocks that an engine with this type tells of, beside the type.
  int Blocks(const std::string& dtype) {
    const auto engine = Open(dtype);
    if (!engine.ok()) return -1;
    const std::string before =
        "ropeway_cache_config_info{block_size=\"16\",cache_dtype=\"" + dtype + "\",num_blocks=\"";
    const std::string text = (*engine)->MetricsText();
    const size_t at = text.find(before);
    return at == std::string::npos ? -1 : std::stoi(text.substr(at + before.size()));
  }

  const model::TempFile file_{model::TinyLlama().Bytes()};
  base::RealClock clock_;
  base::SystemRandom random_;
};

TEST_F(KvCacheDtypeTest, EightBitsHoldMoreBlocksInTheSameMemory) {
  // 2 layers of 2 heads of 16 numbers: 1024 bytes each in f16, 512 and 128 of scales in q8_0.
  EXPECT_EQ(Blocks("f16"), (1 << 20) / 4096);
  EXPECT_EQ(Blocks("q8_0"), (1 << 20) / 2560);
}

TEST_F(KvCacheDtypeTest, AnotherTypeIsRejectedByName) {
  const Status status = Open("f32").status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.field(), "kv_cache_dtype");
  EXPECT_EQ(status.message(), "kv_cache_dtype must be f16 or q8_0, not 'f32'");
}

TEST_F(KvCacheDtypeTest, TheTokenizerIsTheModelsWithTheTemplateThatIsUsed) {
  EngineOptions options;
  options.model.path = file_.path();
  options.threads = 1;
  options.cache.kv_bytes = 1 << 20;
  const auto described = [&] {
    const auto engine = OpenEngine(options, &clock_, &random_);
    return engine.ok() ? (*engine)->DescribeTokenizer() : engine.status();
  };
  const auto own = described();
  ASSERT_TRUE(own.ok());
  EXPECT_EQ(own->bos_token, "<|im_start|>");
  EXPECT_EQ(own->eos_token, "<|im_end|>");
  EXPECT_THAT(own->chat_template, HasSubstr("messages"));
  options.model.chat_template = "{{ messages[0].content }}";
  EXPECT_EQ(described()->chat_template, "{{ messages[0].content }}");
}

// A second copy of the file, as another machine has; no KV cache's type or disk changes it.
TEST_F(KvCacheDtypeTest, TheFingerprintIsTheModels) {
  const model::TempFile copy{model::TinyLlama().Bytes()};
  const model::TempFile wider{model::TinyLlama({.ffn = 128}).Bytes()};
  const auto fingerprint = [&](const std::string& path, const std::string& dtype) {
    EngineOptions options;
    options.model.path = path;
    options.threads = 1;
    options.cache.kv_bytes = 1 << 20;
    options.cache.kv_dtype = dtype;
    const auto engine = OpenEngine(options, &clock_, &random_);
    return engine.ok() ? (*engine)->Models()[0].fingerprint : engine.status().message();
  };
  const std::string own = fingerprint(file_.path(), "f16");
  EXPECT_THAT(own, testing::MatchesRegex("fp_[0-9a-f]+"));
  EXPECT_EQ(own.size(), 15U);
  EXPECT_EQ(fingerprint(copy.path(), "q8_0"), own);
  EXPECT_NE(fingerprint(wider.path(), "f16"), own);
}

class DiskTierOptionsTest : public testing::Test {
 protected:
  DiskTierOptionsTest() { std::filesystem::remove_all(folder_); }
  ~DiskTierOptionsTest() override { std::filesystem::remove_all(folder_); }

  EngineOptions Options() const {
    EngineOptions options;
    options.model.path = file_.path();
    options.threads = 1;
    options.cache.kv_bytes = 1 << 20;
    options.cache.disk_path = folder_;
    return options;
  }
  Status StatusOf(const EngineOptions& options) {
    return OpenEngine(options, &clock_, &random_).status();
  }

  const model::TempFile file_{model::TinyLlama().Bytes()};
  const std::string folder_ =
      testing::TempDir() + "open_engine_test_disk_" + std::to_string(getpid());
  base::RealClock clock_;
  base::SystemRandom random_;
};

TEST_F(DiskTierOptionsTest, APathBringsATier) {
  EngineOptions options = Options();
  {
    const auto engine = OpenEngine(options, &clock_, &random_);
    ASSERT_TRUE(engine.ok()) << engine.status().message();
    EXPECT_THAT((*engine)->MetricsText(), HasSubstr("ropeway_kv_disk_on 1"));
    const Status second = StatusOf(options);
    EXPECT_EQ(second.field(), "kv_disk_path");
    EXPECT_THAT(second.message(), HasSubstr("--kv-disk-path"));
  }
  options.cache.disk_path = "";
  const auto engine = OpenEngine(options, &clock_, &random_);
  ASSERT_TRUE(engine.ok());
  EXPECT_THAT((*engine)->MetricsText(), HasSubstr("ropeway_kv_disk_on 0"));
}

// The tokens that a new engine on this model finds of one prompt, the same each time.
int32_t CachedTokens(EngineOptions options, const std::string& model, const base::Clock* clock,
                     base::Random* random) {
  options.model.path = model;
  const auto engine = OpenEngine(options, clock, random);
  if (!engine.ok()) return -1;
  Request request;
  request.prompt = std::vector<TokenId>(100, 70);
  request.max_tokens = 1;
  const auto sink = std::make_shared<TestSink>();
  if (!(*engine)->Submit(std::move(request), sink).ok()) return -1;
  const TestSink::Seen seen = sink->WaitEnd();
  return seen.finish ? seen.finish->usage.cached_tokens : -1;
}

TEST_F(DiskTierOptionsTest, AnotherModelsBlocksAreNeverRead) {
  const auto cached = [this](const EngineOptions& options, const std::string& model) {
    return CachedTokens(options, model, &clock_, &random_);
  };
  const model::TempFile other(model::TinyLlama({.seed = 2}).Bytes());  // Its blocks are as large.
  EXPECT_EQ(cached(Options(), file_.path()), 0);
  EXPECT_EQ(cached(Options(), other.path()), 0);
  EXPECT_EQ(cached(Options(), file_.path()), 96);
  EXPECT_EQ(cached(Options(), other.path()), 96);
  const model::TempFile copy(model::TinyLlama().Bytes());
  EXPECT_EQ(cached(Options(), copy.path()), 96) << "what a file is called is nothing";
}

TEST_F(DiskTierOptionsTest, WhatIsWrongNamesTheOption) {
  EngineOptions options = Options();
  options.cache.disk_path = file_.path();
  EXPECT_THAT(StatusOf(options).message(), HasSubstr("--kv-disk-path"));
  options = Options();
  options.cache.disk_bytes = 100;
  EXPECT_EQ(StatusOf(options).field(), "kv_disk_bytes");
  EXPECT_THAT(StatusOf(options).message(), HasSubstr("--kv-disk-size"));
  options = Options();
  options.cache.prefix_caching = false;
  EXPECT_THAT(StatusOf(options).message(), HasSubstr("--prefix-caching on"));
  options = Options();
  options.cache.disk_write_rate = -1;
  EXPECT_EQ(StatusOf(options).field(), "kv_disk_write_rate");
  options = Options();
  options.cache.preempt_checkpoint = "never";
  EXPECT_EQ(StatusOf(options).field(), "preempt_checkpoint");
}

TEST(ParseSpecialTest, MessagesAreQuotedUnlessItIsAskedFor) {
  const ByteTokenizer bytes;
  const Chat said_chat{.messages = {{"user", "<end>"}}};
  const tokenizer::Spans said = {{0, 5}};
  for (const bool parse_special : {false, true}) {
    StatusOr<tokenizer::ChatTemplate> parsed =
        tokenizer::ChatTemplate::Parse("{{ messages[0].content }}{{ eos_token }}");
    ASSERT_TRUE(parsed.ok()) << parsed.status().message();
    const ChatRenderer render =
        RenderWith(*std::move(parsed), bytes, {.parse_special = parse_special});
    const StatusOr<tokenizer::RenderedChat> chat = render(said_chat, nullptr);
    ASSERT_TRUE(chat.ok()) << chat.status().message();
    EXPECT_EQ(chat->text, "<end><end>");
    EXPECT_EQ(chat->quoted, parse_special ? tokenizer::Spans() : said);
  }
}

TEST(MachineTest, ReadsWhatTheSystemSays) {
  EXPECT_EQ(ParseMemAvailable("MemTotal: 9 kB\nMemAvailable:    1234 kB\nX: 1 kB\n"), 1234 * 1024);
  EXPECT_EQ(ParseMemAvailable("MemTotal: 9 kB\n"), std::nullopt);
  EXPECT_EQ(ParseCpuMax("max 100000\n"), std::nullopt);
  EXPECT_EQ(ParseCpuMax("150000 100000\n"), 2);
  EXPECT_EQ(ParseCpuMax("100000 100000\n"), 1);
  EXPECT_EQ(ParseCpuMax(""), std::nullopt);
  EXPECT_EQ(ParseCpuName("processor\t: 0\nmodel name\t: AMD EPYC 9354\nmodel name\t: x\n"),
            "AMD EPYC 9354");
  EXPECT_EQ(ParseCpuName("model name\t:\n"), std::nullopt);
  EXPECT_EQ(ParseCpuName("Model\t: a board\n"), std::nullopt);
  EXPECT_GE(PhysicalCores(), 1);
  EXPECT_GT(AvailableMemoryBytes(), 0);
}

TEST(MachineTest, SiblingsShareACore) {
  std::string pattern = (std::filesystem::temp_directory_path() / "ropeway_XXXXXX").string();
  ASSERT_NE(mkdtemp(pattern.data()), nullptr);
  for (const auto& [cpu, siblings] : {std::pair{2, "2,6\n"}, {6, "2,6\n"}, {3, "3-4\n"}}) {
    const std::string folder = pattern + "/cpu" + std::to_string(cpu) + "/topology";
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/thread_siblings_list") << siblings;
  }
  EXPECT_EQ(CoreOf(pattern, 2), 2);
  EXPECT_EQ(CoreOf(pattern, 6), 2);
  EXPECT_EQ(CoreOf(pattern, 3), 3);
  EXPECT_EQ(CoreOf(pattern, 9), 9);
  std::filesystem::remove_all(pattern);
}

class OpenEncoderTest : public testing::Test {
 protected:
  OpenEncoderTest() : writer_(model::TinyModel("bert")) {}

  std::unique_ptr<LlmEngine> Open(int max_model_len) {
    const model::TempFile file(writer_.Bytes());
    EngineOptions options;
    options.model.path = file.path();
    options.model.max_model_len = max_model_len;
    options.threads = 1;
    options.cache.kv_bytes = 1 << 20;
    auto engine = OpenEngine(options, &clock_, &random_);
    EXPECT_TRUE(engine.ok()) << engine.status().message();
    return engine.ok() ? *std::move(engine) : nullptr;
  }

  model::GgufWriter writer_;
  base::RealClock clock_;
  base::SystemRandom random_;
};

TEST_F(OpenEncoderTest, TextsAreAsLongAsTheModelSaysOrTheUser) {
  constexpr int kAll = model::kTinyModelContext;
  for (const auto& [said, asked, length] :
       std::vector<std::array<int, 3>>{{0, 0, kAll}, {40, 0, 40}, {40, 100, 100}, {40, 8, 8}}) {
    if (said > 0) writer_.SetUint32("bert.max_seq_length", static_cast<uint32_t>(said));
    const auto engine = Open(asked);
    ASSERT_NE(engine, nullptr);
    EXPECT_EQ(engine->max_model_len(), length) << said << " " << asked;
  }
}

TEST_F(OpenEncoderTest, AChatIsNotEvenCounted) {
  const auto engine = Open(0);
  ASSERT_NE(engine, nullptr);
  const auto chat = engine->TokenizeChat({.messages = {{"user", "a"}}}, true);
  EXPECT_THAT(chat.status().message(), HasSubstr("makes embeddings only"));
  EXPECT_TRUE(engine->Tokenize("a", true).ok());
}

}  // namespace
}  // namespace ropeway::engine
