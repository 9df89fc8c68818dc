// The body of POST /completion, llama.cpp's own.
#include "api/llamacpp_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "api/dialects.h"
#include "api/test_request_bodies.h"

namespace ropeway::api::llamacpp {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Ids = std::vector<TokenId>;

struct Read {
  Status status;
  std::unique_ptr<ApiFormat> format;
  const LlamaCppBody& body() const { return static_cast<LlamaCppBody&>(*format->request()); }
  const Request& request() const { return body().request; }
};

Read ReadBody(const std::string& body, const BodyLimits& limits = {}) {
  Read read{.status = {}, .format = MakeLlamaCppCompletion()};
  // As a server leaves it: the defaults are its own.
  read.format->request()->request.sampling.given = SamplingParams::kNoneGiven;
  read.status = read.format->Parse(body, limits);
  return read;
}
Read With(const std::string& members) { return ReadBody(R"({"prompt":"Hi")" + members + "}"); }
Read WithPrompt(const std::string& prompt) { return ReadBody("{\"prompt\":" + prompt + "}"); }

TEST(LlamaCppRequest, ATextWithItsParameters) {
  const Read all = With(R"(,"n_predict":5,"temperature":0.5,"top_k":3,"top_p":0.9,"min_p":0.1,
      "typical_p":0.8,"repeat_penalty":1.25,"presence_penalty":0.25,"frequency_penalty":0.75,
      "seed":7,"stop":["a","b"],"stream":true,"ignore_eos":true,"model":"m","priority":"low",
      "json_schema":{"type":"object"},"cache_prompt":false,"id_slot":3,"n_keep":-1)");
  ASSERT_TRUE(all.status.ok()) << all.status.message();
  const Request& request = all.request();
  EXPECT_EQ(std::get<std::string>(all.body().prompts.at(0)), "Hi");
  EXPECT_EQ(request.max_tokens, 5);
  EXPECT_EQ(request.sampling.temperature, 0.5F);
  EXPECT_EQ(request.sampling.top_k, 3);
  EXPECT_EQ(request.sampling.top_p, 0.9F);
  EXPECT_EQ(request.sampling.min_p, 0.1F);
  EXPECT_EQ(request.sampling.typical_p, 0.8F);
  EXPECT_EQ(request.sampling.repetition_penalty, 1.25F);
  EXPECT_EQ(request.sampling.presence_penalty, 0.25F);
  EXPECT_EQ(request.sampling.frequency_penalty, 0.75F);
  EXPECT_EQ(request.sampling.seed, 7U);
  EXPECT_THAT(request.stop, ElementsAre("a", "b"));
  EXPECT_TRUE(all.body().stream);
  EXPECT_TRUE(request.ignore_eos);
  EXPECT_EQ(request.model, "m");
  EXPECT_EQ(all.body().priority, Priority::kLow);
  EXPECT_EQ(request.format.kind, OutputFormat::Kind::kJsonSchema);
  EXPECT_THAT(all.body().ignored, IsEmpty());
}

TEST(LlamaCppRequest, WithoutABoundTheContextIsIt) {
  EXPECT_EQ(With("").request().max_tokens, std::nullopt);
  EXPECT_EQ(With(R"(,"n_predict":-1)").request().max_tokens, std::nullopt);
  EXPECT_EQ(With(R"(,"max_tokens":4)").request().max_tokens, 4);
  // The prompt alone is computed.
  const Read none = With(R"(,"n_predict":0)");
  ASSERT_TRUE(none.status.ok()) << none.status.message();
  EXPECT_EQ(none.request().max_tokens, 0);
  EXPECT_EQ(none.request().prompt_logprobs, 0);
}

TEST(LlamaCppRequest, ASeedOfMinusOneIsDrawn) {
  EXPECT_EQ(With(R"(,"seed":-1)").request().sampling.seed, std::nullopt);
  EXPECT_EQ(With(R"(,"seed":4294967295)").request().sampling.seed, std::nullopt);
  EXPECT_EQ(With(R"(,"seed":0)").request().sampling.seed, 0U);
  EXPECT_EQ(With(R"(,"seed":"x")").status.field(), "seed");
}

TEST(LlamaCppRequest, PromptsInAllForms) {
  const Read ids = WithPrompt("[1,2,3]");
  ASSERT_TRUE(ids.status.ok());
  EXPECT_EQ(std::get<Ids>(ids.body().prompts.at(0)), (Ids{1, 2, 3}));
  const Read list = WithPrompt(R"(["a",[1,2],{"prompt_string":"b"},[3,"c",4,5]])");
  ASSERT_TRUE(list.status.ok()) << list.status.message();
  ASSERT_EQ(list.body().prompts.size(), 4U);
  EXPECT_EQ(std::get<std::string>(list.body().prompts[0]), "a");
  EXPECT_EQ(std::get<Ids>(list.body().prompts[1]), (Ids{1, 2}));
  EXPECT_EQ(std::get<std::string>(list.body().prompts[2]), "b");
  ASSERT_EQ(list.body().mixed_prompts.size(), 1U);
  EXPECT_EQ(list.body().mixed_prompts[0].prompt, 3U);
  const std::vector<PromptPart>& parts = list.body().mixed_prompts[0].parts;
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(std::get<Ids>(parts[0]), (Ids{3}));
  EXPECT_EQ(std::get<std::string>(parts[1]), "c");
  EXPECT_EQ(std::get<Ids>(parts[2]), (Ids{4, 5}));
  // Texts in a list are prompts of their own.
  EXPECT_EQ(WithPrompt(R"(["a","b"])").body().prompts.size(), 2U);
  EXPECT_EQ(WithPrompt(R"(["a",1])").body().prompts.size(), 1U);
  EXPECT_EQ(std::get<std::string>(WithPrompt(R"([["a"]])").body().prompts.at(0)), "a");
  EXPECT_EQ(WithPrompt(R"({"prompt_string":"a"})").body().prompts.size(), 1U);
}

TEST(LlamaCppRequest, RejectsPromptsByName) {
  const std::vector<std::vector<std::string>> bad = {
      {"1", "prompt"},
      {"true", "prompt"},
      {"[]", "prompt"},
      {"{}", "prompt.prompt_string"},
      {R"({"prompt_string":1})", "prompt.prompt_string"},
      {R"({"prompt_string":"a","multimodal_data":["AAAA"]})", "prompt.multimodal_data"},
      {R"(["a",[]])", "prompt"},
      {R"(["a",true])", "prompt[1]"},
      {"[1,-1]", "prompt[1]"},
      {"[1,2.5]", "prompt[1]"},
      {"[1,[2]]", "prompt[1]"},
      {R"(["a",[1,true]])", "prompt[1][1]"},
  };
  for (const auto& row : bad) {
    const Read read = WithPrompt(row[0]);
    EXPECT_FALSE(read.status.ok()) << row[0];
    EXPECT_EQ(read.status.field(), row[1]) << row[0] << ": " << read.status.message();
  }
  EXPECT_EQ(ReadBody("{}").status.field(), "prompt");
  EXPECT_EQ(ReadBody(R"({"prompt":null})").status.field(), "prompt");
  EXPECT_EQ(ReadBody(R"({"prompt":["a","b","c"]})", {.max_choices = 2}).status.field(), "prompt");
  EXPECT_EQ(ReadBody(R"({"prompt":["a","b"],"n_cmpl":2})", {.max_choices = 3}).status.field(), "n");
}

TEST(LlamaCppRequest, BiasesInAllForms) {
  const auto biases = [](const std::string& value) {
    const Read read = With(",\"logit_bias\":" + value);
    EXPECT_TRUE(read.status.ok()) << value << ": " << read.status.message();
    std::vector<std::pair<TokenId, float>> pairs;
    for (const LogitBias& bias : read.request().sampling.logit_bias) {
      pairs.emplace_back(bias.id, bias.bias);
    }
    return pairs;
  };
  EXPECT_THAT(biases("[[5,1.5],[3,-1],[5,2]]"),
              ElementsAre(std::pair{3, -1.0F}, std::pair{5, 3.5F}));
  EXPECT_THAT(biases(R"({"5":1,"3":false})"),
              ElementsAre(std::pair{3, -100.0F}, std::pair{5, 1.0F}));
  EXPECT_THAT(biases("[]"), IsEmpty());
  const Read texts = With(R"(,"logit_bias":[["5",1],["the sea",false],[4,2]])");
  ASSERT_TRUE(texts.status.ok());
  ASSERT_EQ(texts.body().text_biases.size(), 2U);
  EXPECT_EQ(texts.body().text_biases[0].text, "5");
  EXPECT_EQ(texts.body().text_biases[1].text, "the sea");
  EXPECT_EQ(texts.body().text_biases[1].bias, -100);
  EXPECT_EQ(With(R"(,"logit_bias":{"sea":1})").body().text_biases.at(0).text, "sea");
  const std::string most = std::string(1024, 'x');
  EXPECT_TRUE(With(",\"logit_bias\":[[\"" + most + "\",1]]").status.ok());
  EXPECT_EQ(With(",\"logit_bias\":[[\"" + most + "x\",1]]").status.field(), "logit_bias[0]");
  for (const char* bad : {"1", "\"a\"", "[1]", "[[1]]", "[[1,2,3]]", "[[1,101]]", "[[1,true]]",
                          "[[-1,1]]", "[[1.5,1]]", R"({"5":"x"})", R"({"-5":1})"}) {
    EXPECT_THAT(With(std::string(",\"logit_bias\":") + bad).status.field(), HasSubstr("logit_bias"))
        << bad;
  }
}

TEST(LlamaCppRequest, ASamplerThatIsLeftOutIsOff) {
  const std::string all = R"(,"temperature":0.5,"top_k":5,"top_p":0.5,"min_p":0.25,"typical_p":0.5,
      "repeat_penalty":1.5,"presence_penalty":1,"frequency_penalty":1,"samplers":)";
  const Read none = With(all + "[]");
  ASSERT_TRUE(none.status.ok());
  const SamplingParams& off = none.request().sampling;
  EXPECT_EQ(off.temperature, 1);
  EXPECT_EQ(off.top_k, 0);
  EXPECT_EQ(off.top_p, 1);
  EXPECT_EQ(off.min_p, 0);
  EXPECT_EQ(off.typical_p, 1);
  EXPECT_EQ(off.repetition_penalty, 1);
  EXPECT_EQ(off.presence_penalty, 0);
  EXPECT_EQ(off.frequency_penalty, 0);
  EXPECT_NE(off.given & SamplingParams::kTopK, 0U) << "a gateway passes it on";
  const Read some = With(all + R"(["penalties","dry","top_k","typ_p","top_p","min_p","xtc",
      "temperature"])");
  ASSERT_TRUE(some.status.ok()) << some.status.message();
  EXPECT_EQ(some.request().sampling.temperature, 0.5F);
  EXPECT_EQ(some.request().sampling.top_k, 5);
  EXPECT_EQ(some.request().sampling.repetition_penalty, 1.5F);
  EXPECT_EQ(With(all + R"(["temperature","top_p"])").request().sampling.top_k, 0);
  EXPECT_EQ(With(R"(,"temperature":0,"samplers":[])").request().sampling.temperature, 0);
  EXPECT_EQ(With(R"(,"samplers":["top_p","top_k"])").status.field(), "samplers");
  EXPECT_EQ(With(R"(,"samplers":["top_p","top_p"])").status.field(), "samplers[1]");
  EXPECT_EQ(With(R"(,"samplers":["infill"])").status.field(), "samplers[0]");
  EXPECT_EQ(With(R"(,"samplers":[1])").status.field(), "samplers[0]");
  EXPECT_EQ(With(R"(,"samplers":"kt")").status.field(), "samplers");
}

TEST(LlamaCppRequest, WhatTheAnswerHas) {
  EXPECT_EQ(With("").request().logprobs, std::nullopt);
  EXPECT_FALSE(With("").body().keeps_tokens);
  EXPECT_EQ(With(R"(,"n_probs":0)").request().logprobs, std::nullopt);
  EXPECT_EQ(With(R"(,"n_probs":5)").request().logprobs, 5);
  EXPECT_EQ(With(R"(,"logprobs":5)").request().logprobs, 5);
  EXPECT_EQ(With(R"(,"n_probs":5,"logprobs":4)").status.message(),
            "'n_probs' and 'logprobs' differ; give one of them.");
  EXPECT_EQ(With(R"(,"n_probs":21)").status.field(), "n_probs");
  EXPECT_TRUE(With(R"(,"return_tokens":true)").body().keeps_tokens);
  EXPECT_TRUE(With(R"(,"stream":true)").body().keeps_tokens);
  EXPECT_EQ(With(R"(,"n_cmpl":3)").body().n, 3);
  EXPECT_EQ(With(R"(,"n":3)").body().n, 3);
  EXPECT_THAT(With(R"(,"response_fields":["a","b/c"])").body().response_fields,
              ElementsAre("a", "b/c"));
  EXPECT_EQ(With(R"(,"response_fields":"a")").status.field(), "response_fields");
  EXPECT_EQ(With(R"(,"response_fields":[1])").status.field(), "response_fields[0]");
}

TEST(LlamaCppRequest, WhatIsNotSupportedIsRejectedByName) {
  for (const char* field :
       {R"("grammar":"root ::= \"a\"")", R"("t_max_predict_ms":100)", R"("n_indent":2)",
        R"("min_keep":3)", R"("post_sampling_probs":true)", R"("lora":[{"id":0,"scale":1}])",
        R"("mirostat":2)", R"("dry_multiplier":0.5)", R"("xtc_probability":0.5)",
        R"("dynatemp_range":0.5)", R"("top_n_sigma":1)", R"("adaptive_target":0.5)",
        R"("image_data":[{"data":"AAAA","id":1}])", R"("echo":true)", R"("store":true)",
        R"("grammar_lazy":true)", R"("ropeway_gateway":{})", R"("messages":[])"}) {
    const Read read = With(std::string(",") + field);
    EXPECT_FALSE(read.status.ok()) << field;
    EXPECT_EQ("\"" + read.status.field() + "\"",
              std::string(field).substr(0, std::string(field).find(':')))
        << read.status.message();
  }
  for (const char* field :
       {R"("grammar":"")", R"("t_max_predict_ms":0)", R"("n_indent":0)", R"("min_keep":0)",
        R"("post_sampling_probs":false)", R"("lora":[])", R"("mirostat":0)",
        R"("dry_multiplier":0.0)", R"("xtc_probability":0.0)", R"("top_n_sigma":-1.0)",
        R"("dry_sequence_breakers":["\n"])", R"("timings_per_token":true)"}) {
    const Read read = With(std::string(",") + field);
    EXPECT_TRUE(read.status.ok()) << field << ": " << read.status.message();
    EXPECT_THAT(read.body().ignored, IsEmpty()) << field;
  }
  EXPECT_THAT(With(R"(,"repeat_last_n":64,"wholly_unknown":1)").body().ignored,
              testing::UnorderedElementsAre("repeat_last_n", "wholly_unknown"));
  EXPECT_EQ(With(R"(,"n_predickt":4)").status.field(), "n_predickt");
}

TEST(LlamaCppRequest, AnythingAnywhereIsReadOrRejectedByName) {
  const json good = json::parse(R"({"prompt":["a",[1,"b"],{"prompt_string":"c"}],"n_predict":3,
      "logit_bias":[[5,1],["a",false]],"samplers":["top_k"],"response_fields":["a"],"n_probs":2,
      "seed":1,"stop":["a"],"stream":true,"json_schema":{"type":"object"},"return_tokens":true,
      "n_cmpl":2,"lora":[],"id_slot":1})");
  EXPECT_GT(RejectedWithAnythingAnywhere(good, MakeLlamaCppCompletion), 100);
}

}  // namespace
}  // namespace ropeway::api::llamacpp
