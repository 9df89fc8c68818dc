// Engines on models that are no single GGUF file: folders in Hugging Face's format, split files,
// weights that are quantised when they are loaded; and the sampling defaults that come with them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/test_gguf_writer.h"
#include "model/test_hf_writer.h"
#include "ropeway/engine.h"

namespace ropeway::engine {
namespace {

using testing::HasSubstr;

model::TinyLlamaOptions InF32() {
  model::TinyLlamaOptions options;
  options.embedding = options.weights = kernels::WeightType::kF32;
  return options;
}

StatusOr<std::unique_ptr<Engine>> OpenModel(const ModelOptions& model) {
  EngineOptions options;
  options.model = model;
  options.threads = 1;
  options.cache.kv_bytes = 1 << 20;
  return Engine::Create(options);
}

ModelOptions At(const std::string& path, const std::string& quantize = "") {
  ModelOptions model;
  model.path = path;
  model.quantize = quantize;
  return model;
}

// All that a model says to a text: tokens with the log-probs of the likeliest.
struct Said {
  std::string text;
  std::vector<float> logprobs;
  bool operator==(const Said&) const = default;
};
Said SaidBy(const ModelOptions& model) {
  const auto engine = OpenModel(model);
  EXPECT_TRUE(engine.ok()) << engine.status().message();
  if (!engine.ok()) return {};
  Request request;
  request.prompt = std::string("The other hand, 12 o'clock <|im_end|>");
  request.max_tokens = 24;
  request.sampling.temperature = 0.0F;
  request.logprobs = 3;
  request.ignore_eos = true;
  const StatusOr<Result> result = (*engine)->Submit(request)->Wait(std::chrono::seconds(60));
  EXPECT_TRUE(result.ok());
  Said said{result->text, {}};
  for (const OutputToken& token : result->tokens) {
    said.logprobs.push_back(token.logprob);
    for (const TokenLogprob& top : token.top_logprobs) said.logprobs.push_back(top.logprob);
  }
  EXPECT_EQ(said.logprobs.size(), 24U * 4);
  return said;
}

TEST(EngineFolderTest, SaysTheSameAsTheGgufFileToTheBit) {
  const model::TempFile file(model::TinyLlama(InF32()).Bytes());
  const model::TempFolder folder;
  model::WriteTinyFolder(InF32(), folder.path());
  const Said gguf = SaidBy(At(file.path()));
  EXPECT_EQ(SaidBy(At(folder.path())), gguf);
  EXPECT_EQ(SaidBy(At(folder.path() + "/")), gguf);
  // Quantised on the way, from either.
  for (const char* type : {"q8_0", "q4_0"}) {
    const Said quantised = SaidBy(At(file.path(), type));
    EXPECT_NE(quantised, gguf) << type;
    EXPECT_EQ(SaidBy(At(folder.path(), type)), quantised) << type;
  }
}

TEST(EngineFolderTest, ServesUnderTheFoldersName) {
  const model::TempFolder folder;
  std::filesystem::create_directory(folder.PathOf("My-Model"));
  model::WriteTinyFolder(InF32(), folder.PathOf("My-Model"));
  EXPECT_EQ((*OpenModel(At(folder.PathOf("My-Model"))))->model_name(), "My-Model");
  EXPECT_EQ((*OpenModel(At(folder.PathOf("My-Model/"))))->model_name(), "My-Model");
  folder.Write("m-00001-of-00001.gguf", model::TinyLlama().Bytes());
  EXPECT_EQ((*OpenModel(At(folder.PathOf("m-00001-of-00001.gguf"))))->model_name(), "m");
}

TEST(EngineFolderTest, WhatIsWrongWithAFolderNamesTheFile) {
  const model::TempFolder folder;
  model::WriteTinyFolder(InF32(), folder.path());
  const auto error = [&] { return OpenModel(At(folder.path())).status().message(); };
  folder.Write("tokenizer.json", "{}");
  EXPECT_THAT(error(), HasSubstr(folder.path() + "/tokenizer.json \"model\": must be an object"));
  folder.Remove("tokenizer.json");
  EXPECT_THAT(error(), HasSubstr("tokenizer.json: is missing"));
  folder.Write("config.json", "[]");
  EXPECT_THAT(error(), HasSubstr(folder.PathOf("config.json")));
  folder.Remove("config.json");
  EXPECT_FALSE(OpenModel(At(folder.path())).ok());
}

TEST(EngineFolderTest, ATokenWithoutARowIsAnErrorOfItsRequest) {
  const model::TempFolder folder;
  model::WriteTinyFolder(InF32(), folder.path());
  const Said before = SaidBy(At(folder.path()));
  folder.Write("added_tokens.json", R"({"<pad>": 267})");
  folder.Write("special_tokens_map.json", R"({"pad_token": "<pad>"})");
  EXPECT_EQ(SaidBy(At(folder.path())), before);
  const auto engine = OpenModel(At(folder.path()));
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  const auto error = [&](const std::function<void(Request*)>& change) {
    Request request;
    request.prompt = std::string("a");
    request.max_tokens = 1;
    change(&request);
    const auto result = (*engine)->Submit(request)->Wait(std::chrono::seconds(60));
    const Status status = result.ok() ? result->status : result.status();
    EXPECT_EQ(status.code(), status.ok() ? StatusCode::kOk : StatusCode::kInvalidArgument);
    return status.message();
  };
  EXPECT_EQ(error([](Request*) {}), "");
  EXPECT_THAT(error([](Request* r) { r->prompt = std::string("a<pad>b"); }),
              HasSubstr("has the token \"<pad>\" (id 267), which has no row in the model's"));
  EXPECT_THAT(error([](Request* r) {
                r->prompt = std::vector<TokenId>{5, 267};
              }),
              HasSubstr("token id 267 in the prompt"));
  EXPECT_THAT(error([](Request* r) {
                r->sampling.logit_bias = {{267, 1.0F}};
              }),
              HasSubstr("token id 267 in logit_bias"));
  EXPECT_THAT(error([](Request* r) { r->stop_token_ids = {267}; }),
              HasSubstr("token id 267 in stop_token_ids"));
  // What a message says is ordinary text.
  EXPECT_EQ(error([](Request* r) {
              r->prompt = Chat{.messages = {{.role = "user", .content = "<pad>"}}};
            }),
            "");
}

// A chat template that writes the BOS token writes nothing for one that the model lacks.
TEST(EngineFolderTest, ABosTokenWithoutARowIsNotWritten) {
  const model::TempFolder folder;
  model::WriteTinyFolder(InF32(), folder.path());
  folder.Write("added_tokens.json", R"({"<b>": 267})");
  folder.Write("special_tokens_map.json", R"({"bos_token": "<b>"})");
  folder.Write("chat_template.jinja", "{{ bos_token }}{{ messages[0].content }}");
  const auto engine = OpenModel(At(folder.path()));
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  Request request;
  request.prompt = Chat{.messages = {{.role = "user", .content = "a"}}};
  request.max_tokens = 1;
  const auto result = (*engine)->Submit(request)->Wait(std::chrono::seconds(60));
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->status.ok()) << result->status.message();
}

TEST(EngineFolderTest, TheModelsSamplingGoesBehindTheOptions) {
  const model::TempFolder folder;
  model::WriteTinyFolder(InF32(), folder.path());
  EXPECT_EQ((*OpenModel(At(folder.path())))->sampling_defaults().temperature, std::nullopt);
  folder.Write("generation_config.json",
               R"({"temperature": 0.6, "top_p": 0.95, "top_k": 20, "do_sample": true,
                   "eos_token_id": [2, 0], "_from_model_config": true})");
  ModelOptions model = At(folder.path());
  model.sampling.top_k = 5;
  const auto engine = OpenModel(model);
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  const SamplingDefaults& defaults = (*engine)->sampling_defaults();
  EXPECT_EQ(defaults.temperature, 0.6F);
  EXPECT_EQ(defaults.top_p, 0.95F);
  EXPECT_EQ(defaults.top_k, 5);
  EXPECT_EQ(defaults.min_p, std::nullopt);
  EXPECT_EQ(defaults.Params().min_p, SamplingParams().min_p);
}

TEST(EngineFolderTest, AnUnknownTypeToQuantiseInIsNamed) {
  const model::TempFile file(model::TinyLlama().Bytes());
  const Status status = OpenModel(At(file.path(), "q5_k")).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("q5_k"));
}

}  // namespace
}  // namespace ropeway::engine
