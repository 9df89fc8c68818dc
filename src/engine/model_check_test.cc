#include "engine/model_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/failures.h"
#include "model/open_model.h"
#include "model/test_gguf_writer.h"
#include "model/test_tiny_models.h"

namespace ropeway::engine {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr int64_t kPlenty = int64_t{1} << 40;
constexpr int64_t kGiB = int64_t{1} << 30;

std::string ArchitectureOf(const model::GgufWriter& writer) {
  const model::TempFile temp(writer.Bytes());
  const auto file = model::OpenModel(temp.path());
  return std::string((*file)->GetString("general.architecture").value().value_or(""));
}

ModelCheck CheckOf(const model::GgufWriter& writer, int64_t available = kPlenty,
                   const EngineOptions& options = {}) {
  const model::TempFile temp(writer.Bytes());
  const auto file = model::OpenModel(temp.path());
  EXPECT_TRUE(file.ok()) << file.status().message();
  ModelCheck check = CheckModel(**file, options, available);
  EXPECT_EQ(check.path, temp.path());
  return check;
}

TEST(ModelCheckTest, SaysWhatARunnableModelIsAndTakes) {
  const ModelCheck check = CheckOf(model::TinyLlama());
  EXPECT_THAT(check.reasons, IsEmpty());
  EXPECT_TRUE(check.status().ok());
  EXPECT_NE(check.tokenizer, nullptr);
  // 2 layers x 2 KV heads x (K and V) x 16 elements of 2 bytes.
  EXPECT_EQ(check.memory.kv_per_token, 256U);
  EXPECT_GT(check.memory.weights, 50'000U);
  EXPECT_GT(check.memory.kv_cache, 0U);
  const std::string text = VerdictText(check);
  EXPECT_THAT(text, HasSubstr("Ropeway can run this model: llama, 2 layers"));
  EXPECT_THAT(text, HasSubstr("256 KV bytes per token (160 in q8_0)"));
  EXPECT_THAT(text,
              HasSubstr("KV cache 128 KiB for 1 user of 512 tokens, 2.0 MiB for 16 users of"));
  EXPECT_THAT(text, HasSubstr("1024.0 GiB are free here"));
  EXPECT_THAT(text, HasSubstr("The values of its weights are checked when it is loaded\n"));
  EXPECT_THAT(text, Not(HasSubstr("Sampling")));
}

TEST(ModelCheckTest, ModelsOfAllArchitecturesRun) {
  for (const std::string& name : model::TinyModelNames()) {
    const ModelCheck check = CheckOf(model::TinyModel(name));
    EXPECT_TRUE(check.ok()) << name << ": " << check.status().message();
    if (!check.ok()) continue;
    EXPECT_THAT(VerdictText(check), HasSubstr("Ropeway can run this model"));
  }
}

TEST(ModelCheckTest, AnEncoderOnlyEmbeds) {
  const ModelCheck check = CheckOf(model::TinyModel("bert"));
  ASSERT_TRUE(check.ok()) << check.status().message();
  const std::string text = VerdictText(check);
  EXPECT_THAT(text, HasSubstr("context 1024, no output"));
  EXPECT_THAT(text, HasSubstr("It makes embeddings only: requests for text are rejected\n"));
  for (const char* other : {"chats", "KV", "RoPE"}) EXPECT_THAT(text, Not(HasSubstr(other)));
}

TEST(ModelCheckTest, NamesAllReasonsAtOnce) {
  model::GgufWriter writer = model::TinyLlama();
  for (const char* name : {"blk.0.attn_q.weight", "blk.1.attn_q.weight"}) {
    writer.RemoveTensor(name);
    writer.AddRawTensor(name, {256, 16}, 16, std::string(66 * 16, '\0'));  // IQ2_XXS.
  }
  writer.SetString("tokenizer.ggml.pre", "no-such-split");
  const ModelCheck check = CheckOf(writer);
  ASSERT_THAT(check.reasons, SizeIs(2));
  const std::string message = check.status().message();
  EXPECT_THAT(message, HasSubstr(check.path + ": cannot be run, for 2 reasons:\n"));
  EXPECT_THAT(message, HasSubstr("\n  - tensor \"blk.0.attn_q.weight\": type IQ2_XXS is not "
                                 "supported; F32, F16,"));
  EXPECT_THAT(message, HasSubstr(" and MXFP4 are (and 1 more like it)\n"));
  EXPECT_THAT(message, HasSubstr("\n  - tokenizer.ggml.pre: \"no-such-split\""));
  EXPECT_THAT(message, HasSubstr("What to do: use the same model as a GGUF file of"));
  const std::string verdict = VerdictText(check);
  EXPECT_THAT(verdict, HasSubstr("Ropeway cannot run this model:\n  - tensor"));
  EXPECT_THAT(verdict, Not(HasSubstr(check.path)));
}

TEST(ModelCheckTest, NamesEachKeyAndTensorAtOnce) {
  model::GgufWriter writer = model::TinyLlama();
  writer.Remove("llama.context_length");
  writer.SetFloat32("llama.attention.layer_norm_rms_epsilon", 7.0F);
  writer.RemoveTensor("blk.0.attn_v.weight");
  writer.RemoveTensor("output_norm.weight");
  writer.SetString("tokenizer.ggml.pre", "no-such-split");
  const std::string message = CheckOf(writer).status().message();
  EXPECT_THAT(message, HasSubstr(": cannot be run, for 5 reasons:\n"));
  EXPECT_THAT(message, HasSubstr("\n  - metadata \"llama.context_length\": the key is missing\n"));
  EXPECT_THAT(message,
              HasSubstr("\n  - metadata \"llama.attention.layer_norm_rms_epsilon\": 7 is"));
  EXPECT_THAT(message, HasSubstr("\n  - tensor \"blk.0.attn_v.weight\": the tensor is missing\n"));
  EXPECT_THAT(message, HasSubstr("\n  - tensor \"output_norm.weight\": the tensor is missing\n"));
  EXPECT_THAT(message, HasSubstr("\n  - tokenizer.ggml.pre: "));
}

// What follows from a size that is missing is no reason of its own.
TEST(ModelCheckTest, AMissingSizeIsOneReason) {
  for (const char* key : {"llama.block_count", "llama.embedding_length",
                          "llama.feed_forward_length", "llama.attention.head_count"}) {
    model::GgufWriter writer = model::TinyLlama();
    writer.Remove(key);
    const ModelCheck check = CheckOf(writer);
    EXPECT_THAT(check.reasons, SizeIs(1)) << check.status().message();
    EXPECT_THAT(check.status().message(), HasSubstr(key));
  }
  for (const std::string& name : model::TinyModelNames()) {
    for (const char* key :
         {"block_count", "context_length", "embedding_length", "feed_forward_length",
          "attention.head_count", "expert_count", "expert_used_count", "attention.key_length"}) {
      model::GgufWriter writer = model::TinyModel(name);
      const std::string full = ArchitectureOf(writer) + "." + key;
      writer.SetUint64(full, uint64_t{1} << 40);
      const ModelCheck check = CheckOf(writer);
      EXPECT_THAT(check.reasons, SizeIs(1)) << name << ": " << check.status().message();
      EXPECT_THAT(check.status().message(), HasSubstr(full)) << name;
    }
  }
}

TEST(ModelCheckTest, ManyReasonsAreBounded) {
  model::GgufWriter writer = model::TinyLlama();
  writer.SetUint32("llama.block_count", 4000);
  const ModelCheck check = CheckOf(writer);
  EXPECT_THAT(check.reasons, SizeIs(model::Failures::kMost + 1));
  EXPECT_THAT(check.status().message(), HasSubstr("\n  - there may be more reasons"));
  // One of several tensors with the same fault is named.
  writer = model::TinyLlama();
  writer.SetUint32("llama.embedding_length", 96);
  EXPECT_THAT(CheckOf(writer).status().message(),
              HasSubstr("[64, 267], but the metadata asks for [96, 267] (and 19 more like it)"));
}

TEST(ModelCheckTest, OneReasonIsOneLine) {
  model::GgufWriter writer = model::TinyLlama();
  writer.SetString("general.architecture", "mamba");
  const ModelCheck check = CheckOf(writer);
  const std::string message = check.status().message();
  EXPECT_THAT(message,
              AllOf(HasSubstr(check.path + ": metadata \"general.architecture\": "
                                           "\"mamba\" is not supported"),
                    HasSubstr(". What to do: choose a model that `ropeway models list` shows")));
  EXPECT_EQ(message.find('\n'), std::string::npos);
}

TEST(ModelCheckTest, AModelWithoutAVocabularyIsNamed) {
  model::GgufWriter writer = model::TinyLlama();
  writer.Remove("tokenizer.ggml.model");
  EXPECT_THAT(CheckOf(writer).status().message(), HasSubstr("the file has no tokenizer"));
}

TEST(ModelCheckTest, AVocabularyThatIsNotTheEmbeddingsIsNamed) {
  model::GgufWriter writer = model::TinyLlama();
  writer.Remove("llama.vocab_size");
  const std::vector<float> rows(size_t{64} * (model::kTinyVocab + 5), 0.5F);
  writer.SetTensor("token_embd.weight", {64, model::kTinyVocab + 5}, kernels::WeightType::kQ8_0,
                   rows);
  const ModelCheck check = CheckOf(writer);
  EXPECT_EQ(check.status().field(), "metadata \"tokenizer.ggml.tokens\"");
  EXPECT_THAT(check.status().message(),
              HasSubstr("267 tokens, but token_embd.weight has 272 rows. What to do"));
}

TEST(ModelCheckTest, ASpecialTokenThatIsNoneIsAWarning) {
  model::GgufWriter writer = model::TinyLlama();
  writer.SetUint32("tokenizer.ggml.eos_token_id", 99999);
  const ModelCheck check = CheckOf(writer);
  EXPECT_TRUE(check.ok()) << check.status().message();
  ASSERT_EQ(check.warnings.size(), 1U);
  EXPECT_EQ(check.warnings[0],
            "has a tokenizer.ggml.eos_token_id of 99999, which is not the id of one of its 267 "
            "tokens: it is not used");
  EXPECT_THAT(VerdictText(check), HasSubstr("It " + check.warnings[0]));
}

TEST(ModelCheckTest, ATemplateThatLosesCallsIsAWarning) {
  model::GgufWriter writer = model::TinyLlama();
  const std::string shows = "{% for t in tools or [] %}{{ t.function.name }}{% endfor %}";
  writer.SetString("tokenizer.chat_template", shows);
  const ModelCheck check = CheckOf(writer);
  EXPECT_TRUE(check.ok()) << check.status().message();
  ASSERT_EQ(check.warnings.size(), 1U);
  EXPECT_THAT(check.warnings[0], HasSubstr("shows tools but not the calls of them"));
  writer.SetString("tokenizer.chat_template",
                   shows +
                       "{% for m in messages %}{% for c in m.tool_calls or [] %}"
                       "{{ c.function.arguments|tojson }}{% endfor %}{% endfor %}");
  EXPECT_THAT(CheckOf(writer).warnings, IsEmpty());
}

TEST(ModelCheckTest, AContextOutOfAllProportionIsNamed) {
  model::GgufWriter writer = model::TinyLlama();
  writer.SetUint32("llama.context_length", 1 << 24);
  const ModelCheck check = CheckOf(writer);
  EXPECT_EQ(check.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(check.status().message(),
              AllOf(HasSubstr("metadata \"llama.context_length\": 16777216 positions need"),
                    HasSubstr("What to do: choose a smaller --max-model-len.")));
  EngineOptions options;
  options.model.max_model_len = 512;
  EXPECT_TRUE(CheckOf(writer, kPlenty, options).ok());
}

TEST(ModelCheckTest, ForeseesMemoryThatIsNotThere) {
  EngineOptions options;
  options.cache.kv_bytes = 100 << 20;
  EXPECT_TRUE(CheckOf(model::TinyLlama(), 110 << 20, options).ok());
  const ModelCheck check = CheckOf(model::TinyLlama(), 99 << 20, options);
  EXPECT_EQ(check.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(check.status().message(),
              HasSubstr("100.0 MiB for the KV cache; 99.0 MiB are free on this machine. What to "
                        "do: use a smaller model or type"));
  EXPECT_EQ(check.memory.kv_cache, uint64_t{100} << 20);
  // Unknown is not too little; a pool of no given size fits what is left.
  EXPECT_TRUE(CheckOf(model::TinyLlama(), 0, options).ok());
  EXPECT_TRUE(CheckOf(model::TinyLlama(), 4 << 20).ok());
}

TEST(ModelCheckTest, ReadsSamplingDefaults) {
  model::GgufWriter writer = model::TinyLlama();
  writer.SetFloat32("general.sampling.temp", 0.6F);
  writer.SetInt32("general.sampling.top_k", 40);
  writer.SetFloat32("general.sampling.min_p", 7.0F);
  writer.SetString("general.sampling.top_p", "high");
  const ModelCheck check = CheckOf(writer);
  ASSERT_TRUE(check.ok()) << check.status().message();
  EXPECT_EQ(check.sampling.temperature, 0.6F);
  EXPECT_EQ(check.sampling.top_k, 40);
  EXPECT_EQ(check.sampling.min_p, std::nullopt);
  EXPECT_EQ(check.sampling.top_p, std::nullopt);
  EXPECT_THAT(check.warnings, SizeIs(2));
  const std::string verdict = VerdictText(check);
  EXPECT_THAT(verdict, HasSubstr("Its sampling defaults: temperature 0.6, top_k 40\n"));
  EXPECT_THAT(
      verdict,
      HasSubstr(
          "It has a general.sampling.min_p that is not a number of at least 0 and at most 1:"));
}

TEST(SamplingDefaultsTest, EachGoesBeforeTheNext) {
  SamplingDefaults flags;
  flags.temperature = 0.2F;
  SamplingDefaults model;
  model.temperature = 0.6F;
  model.top_p = 0.9F;
  const SamplingParams params = flags.Or(model).Params();
  EXPECT_EQ(params.temperature, 0.2F);
  EXPECT_EQ(params.top_p, 0.9F);
  EXPECT_EQ(params.top_k, SamplingParams().top_k);
}

TEST(DefaultKvCacheBytesTest, TakesAQuarterWithinItsBounds) {
  constexpr size_t kBlock = 1 << 20;
  // Enough sequences to fill any pool.
  EXPECT_EQ(DefaultKvCacheBytes(8 * kGiB, 1000, 8192, kBlock), 2 * kGiB);
  EXPECT_EQ(DefaultKvCacheBytes(64 * kGiB, 1000, 8192, kBlock), 4 * kGiB);
  // Two sequences of 100 tokens fill 14 blocks.
  EXPECT_EQ(DefaultKvCacheBytes(8 * kGiB, 2, 100, kBlock), 14 * int64_t{kBlock});
  // Whole blocks, at least one; unknown is 1 GiB.
  EXPECT_EQ(DefaultKvCacheBytes(1, 64, 100, kBlock), int64_t{kBlock});
  EXPECT_EQ(DefaultKvCacheBytes(0, 1000, 8192, kBlock), kGiB / 4);
  EXPECT_EQ(DefaultKvCacheBytes(kGiB, 1000, 8192, 3000) % 3000, 0);
  // A sequence of 100 tokens has 7 blocks of all layers that see all, and 5 of those that see 20.
  EXPECT_EQ(DefaultKvCacheBytes(8 * kGiB, 2, 100, kBlock, {0, 20}), 24 * int64_t{kBlock});
  EXPECT_EQ(DefaultKvCacheBytes(1, 64, 100, kBlock, {0, 20}), 2 * int64_t{kBlock});
}

TEST(MemoryTextTest, UsesTheUnitThatReadsBest) {
  EXPECT_EQ(MemoryText(1), "1 KiB");
  EXPECT_EQ(MemoryText(12 << 10), "12 KiB");
  EXPECT_EQ(MemoryText(253 << 20), "253.0 MiB");
  EXPECT_EQ(MemoryText(uint64_t{7} << 29), "3.5 GiB");
}

}  // namespace
}  // namespace ropeway::engine
