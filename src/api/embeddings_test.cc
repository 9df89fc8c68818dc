// The dialects for embeddings: fields of bodies, and answers.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "api/dialects.h"
#include "api/embedding_body.h"

namespace ropeway::api {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

StatusOr<EmbeddingBody> ReadEmbedding(ApiFormatMaker make, const json& body,
                                      BodyLimits limits = {}) {
  const std::unique_ptr<ApiFormat> format = make();
  Status status = format->Parse(body.dump(), limits);
  if (!status.ok()) return status;
  return static_cast<const EmbeddingBody&>(*format->request());
}

EmbeddingBody GoodEmbedding(ApiFormatMaker make, const json& body) {
  StatusOr<EmbeddingBody> read = ReadEmbedding(make, body);
  EXPECT_TRUE(read.ok()) << body << read.status().message();
  return read.ok() ? *std::move(read) : EmbeddingBody();
}

// The fault of a body, which names `field`.
Status EmbeddingFault(ApiFormatMaker make, const json& body, const std::string& field) {
  const StatusOr<EmbeddingBody> read = ReadEmbedding(make, body);
  EXPECT_FALSE(read.ok()) << body;
  EXPECT_EQ(read.status().field(), field) << body << read.status().message();
  return read.status();
}

void ExpectEmbeddingFault(ApiFormatMaker make, const json& body, const std::string& field) {
  EXPECT_FALSE(EmbeddingFault(make, body, field).message().empty());
}

std::vector<std::string> InputTexts(const EmbeddingBody& body) {
  std::vector<std::string> texts;
  for (const Prompt& prompt : body.prompts) texts.push_back(std::get<std::string>(prompt));
  return texts;
}

ChoiceOutput EmbeddingOutput(std::vector<float> embedding, int32_t tokens) {
  ChoiceOutput output;
  output.embedding = std::move(embedding);
  output.finish.usage.prompt_tokens = tokens;
  return output;
}

std::string EmbeddingAnswer(ApiFormatMaker make, const json& body,
                            const std::vector<ChoiceOutput>& choices) {
  const std::unique_ptr<ApiFormat> format = make();
  const Status status = format->Parse(body.dump(), {});
  EXPECT_TRUE(status.ok()) << status.message();
  format->Start({.id = "1", .created = 2, .model = "m\"x"});
  return format->Whole(choices);
}

TEST(OpenAiEmbeddingsTest, AnInputHasFourForms) {
  EXPECT_THAT(InputTexts(GoodEmbedding(MakeOpenAiEmbeddings, {{"input", "a"}})), ElementsAre("a"));
  EXPECT_THAT(InputTexts(GoodEmbedding(MakeOpenAiEmbeddings, {{"input", {"a", "b"}}})),
              ElementsAre("a", "b"));
  using Ids = std::vector<TokenId>;
  const EmbeddingBody one = GoodEmbedding(MakeOpenAiEmbeddings, {{"input", {1, 2}}});
  ASSERT_EQ(one.prompts.size(), 1U);
  EXPECT_EQ(std::get<Ids>(one.prompts[0]), (Ids{1, 2}));
  const EmbeddingBody two = GoodEmbedding(MakeOpenAiEmbeddings, {{"input", {{1, 2}, {3}}}});
  ASSERT_EQ(two.prompts.size(), 2U);
  EXPECT_EQ(std::get<Ids>(two.prompts[1]), (Ids{3}));
  EXPECT_TRUE(one.request.embedding->normalize);
  EXPECT_FALSE(one.request.embedding->truncate);
  EXPECT_EQ(one.request.embedding->pooling, Pooling::kModel);
  EXPECT_EQ(one.request.max_tokens, 0);
  EXPECT_FALSE(one.request.prompt_logprobs.has_value());
}

TEST(OpenAiEmbeddingsTest, AWrongInputIsNamed) {
  for (const char* input :
       {"1", "null", "{}", "[]", "[[]]", "[1,\"a\"]", "[\"a\",1]", "[\"a\",[1]]", "[[1],\"a\"]",
        "[-1]", "[1.5]", "[[\"a\"]]", "[null]", "true"}) {
    ExpectEmbeddingFault(MakeOpenAiEmbeddings, {{"input", json::parse(input)}}, "input");
  }
  ExpectEmbeddingFault(MakeOpenAiEmbeddings, json::object(), "input");
}

// Among 2,048 of them it would be hard to find otherwise.
TEST(OpenAiEmbeddingsTest, AWrongInputOfAListIsFound) {
  const auto fault = [](const char* input) {
    return EmbeddingFault(MakeOpenAiEmbeddings, {{"input", json::parse(input)}}, "input").message();
  };
  EXPECT_EQ(fault("[[1],[]]"), "'input[1]' is empty.");
  EXPECT_THAT(fault("[[1],[2],[3,-1]]"), HasSubstr("'input[2][1]' must be an integer from 0"));
  EXPECT_THAT(fault("[7,-1]"), HasSubstr("'input[1]' must be an integer from 0"));
  EXPECT_THAT(fault("[\"a\",1]"), HasSubstr("'input[1]' is not of the type"));
}

TEST(OpenAiEmbeddingsTest, ItTakes2048InputsWhateverTheChoicesOfOtherRequests) {
  json inputs = json::array();
  for (int i = 0; i < 2048; ++i) inputs.push_back("x");
  StatusOr<EmbeddingBody> read =
      ReadEmbedding(MakeOpenAiEmbeddings, {{"input", inputs}}, {.max_choices = 1});
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->choices(), 2048U);
  inputs.push_back("x");
  EXPECT_EQ(EmbeddingFault(MakeOpenAiEmbeddings, {{"input", inputs}}, "input").message(),
            "'input' holds 2049 inputs; at most 2048 are allowed.");
}

TEST(OpenAiEmbeddingsTest, FieldsAreReadOrNamed) {
  const auto with = [](const char* field, json value) -> json {
    return {{"input", "a"}, {field, std::move(value)}};
  };
  const ApiFormatMaker make = MakeOpenAiEmbeddings;
  EXPECT_TRUE(GoodEmbedding(make, with("encoding_format", "base64")).base64);
  EXPECT_FALSE(GoodEmbedding(make, with("encoding_format", "float")).base64);
  EXPECT_EQ(GoodEmbedding(make, with("dimensions", 7)).dimensions, 7);
  EXPECT_EQ(GoodEmbedding(make, with("pooling", "mean")).request.embedding->pooling,
            Pooling::kMean);
  EXPECT_EQ(GoodEmbedding(make, with("pooling", "last")).request.embedding->pooling,
            Pooling::kLast);
  EXPECT_EQ(GoodEmbedding(make, with("pooling", "cls")).request.embedding->pooling,
            Pooling::kFirst);
  EXPECT_FALSE(GoodEmbedding(make, with("normalize", false)).request.embedding->normalize);
  EXPECT_TRUE(GoodEmbedding(make, with("truncate", true)).request.embedding->truncate);
  EXPECT_EQ(GoodEmbedding(make, with("priority", "high")).priority, Priority::kHigh);
  EXPECT_EQ(GoodEmbedding(make, with("timeout", 2)).request.timeout, std::chrono::seconds(2));
  EXPECT_EQ(GoodEmbedding(make, with("cache_salt", "s")).request.cache_salt, "s");
  EXPECT_EQ(GoodEmbedding(make, with("model", "n")).request.model, "n");
  EXPECT_THAT(GoodEmbedding(make, with("user", "u")).ignored, IsEmpty());
  EXPECT_THAT(GoodEmbedding(make, with("stream", false)).ignored, IsEmpty());
  EXPECT_THAT(GoodEmbedding(make, with("temperature", 1)).ignored, ElementsAre("temperature"));
  for (const auto& [field, value] :
       std::vector<std::pair<const char*, json>>{{"encoding_format", "int8"},
                                                 {"encoding_format", 1},
                                                 {"dimensions", 0},
                                                 {"dimensions", -1},
                                                 {"dimensions", 1.5},
                                                 {"dimensions", "7"},
                                                 {"pooling", "max"},
                                                 {"pooling", 1},
                                                 {"normalize", "yes"},
                                                 {"truncate", 1},
                                                 {"priority", "top"},
                                                 {"timeout", 0},
                                                 {"cache_salt", 1},
                                                 {"model", 1},
                                                 {"user", 1},
                                                 {"stream", true},
                                                 {"truncate_prompt_tokens", 5},
                                                 {"inputs", "b"},
                                                 {"dimension", 5}}) {
    ExpectEmbeddingFault(make, with(field, value), field);
  }
  EXPECT_EQ(
      EmbeddingFault(make, with("truncate_prompt_tokens", 5), "truncate_prompt_tokens").code(),
      StatusCode::kUnimplemented);
  StatusOr<EmbeddingBody> strict =
      ReadEmbedding(make, with("temperature", 1), {.reject_unknown = true});
  EXPECT_EQ(strict.status().field(), "temperature");
}

TEST(OpenAiEmbeddingsTest, AnAnswerIsAsOpenAis) {
  const std::string answer =
      EmbeddingAnswer(MakeOpenAiEmbeddings, {{"input", {"a", "b"}}},
                      {EmbeddingOutput({0.5F, -0.25F}, 3), EmbeddingOutput({1.0F, 0.1F}, 4)});
  EXPECT_EQ(answer, R"({"object":"list","data":[)"
                    R"({"object":"embedding","index":0,"embedding":[0.5,-0.25]},)"
                    R"({"object":"embedding","index":1,"embedding":[1,0.1]}],"model":"m\"x",)"
                    R"("usage":{"prompt_tokens":7,"total_tokens":7}})");
}

// Recorded of OpenAI's client: numpy's frombuffer(b64decode(...), "float32") of this text.
TEST(OpenAiEmbeddingsTest, Base64IsThatOfLittleEndianFloats) {
  const auto text = [](const std::vector<float>& embedding) {
    const std::string answer =
        EmbeddingAnswer(MakeOpenAiEmbeddings, {{"input", "a"}, {"encoding_format", "base64"}},
                        {EmbeddingOutput(embedding, 1)});
    return json::parse(answer)["data"][0]["embedding"].get<std::string>();
  };
  EXPECT_EQ(text({1.0F}), "AACAPw==");
  EXPECT_EQ(text({1.0F, -2.0F}), "AACAPwAAAMA=");
  EXPECT_EQ(text({1.0F, -2.0F, 0.1F}), "AACAPwAAAMDNzMw9");
}

TEST(OpenAiEmbeddingsTest, FewerDimensionsAreNormalisedAnew) {
  const auto shown = [](const json& more) {
    json body = {{"input", "a"}, {"dimensions", 2}};
    body.update(more);
    const json answer = json::parse(
        EmbeddingAnswer(MakeOpenAiEmbeddings, body, {EmbeddingOutput({0.3F, 0.4F, 0.866F}, 1)}));
    return answer["data"][0]["embedding"].get<std::vector<float>>();
  };
  EXPECT_THAT(shown(json::object()), ElementsAre(0.6F, 0.8F));
  EXPECT_THAT(shown({{"normalize", false}}), ElementsAre(0.3F, 0.4F));
  EXPECT_THAT(Shortened({0, 0, 1}, 2, true), ElementsAre(0, 0));
  EXPECT_THAT(Shortened({3, 4}, 2, true), ElementsAre(3, 4)) << "it is whole";
}

TEST(EmbeddingTextTest, EachNumberIsReadAsTheSameFloat) {
  std::vector<float> all = {0.0F, -0.0F, 1e-45F, 3.4e38F, 0.1F, 1.0F / 3, 16777216.0F, 1e-7F};
  uint32_t bits = 12345;
  for (int i = 0; i < 2000; ++i) {
    bits = bits * 1664525U + 1013904223U;
    const float x = std::bit_cast<float>(bits);
    if (std::isfinite(x)) all.push_back(x);
  }
  std::string text;
  AppendNumbers(all, &text);
  const json read = json::parse(text);
  ASSERT_EQ(read.size(), all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(std::bit_cast<uint32_t>(read[i].get<float>()), std::bit_cast<uint32_t>(all[i])) << i;
  }
  // JSON has no such numbers; an answer must stay JSON.
  text.clear();
  AppendNumbers(std::vector<float>{std::numeric_limits<float>::infinity(), std::nanf("")}, &text);
  EXPECT_EQ(text, "[0,0]");
}

TEST(OpenAiEmbeddingsTest, AnErrorNamesTheInput) {
  const std::unique_ptr<ApiFormat> format = MakeOpenAiEmbeddings();
  const json error = json::parse(format->ErrorBody(ToApiError(InvalidArgument("Long.", "prompt"))));
  EXPECT_EQ(error["error"]["param"], "input");
  EXPECT_EQ(error["error"]["type"], "invalid_request_error");
}

// What a backend of a gateway says was asked as OpenAI's input.
TEST(LlamaEmbeddingTest, AnErrorNamesTheContent) {
  for (const char* param : {"prompt", "input"}) {
    EXPECT_EQ(WithInput(ToApiError(InvalidArgument("Long.", param)), "content").param, "content");
  }
  EXPECT_EQ(WithInput(ToApiError(InvalidArgument("No.", "model")), "content").param, "model");
}

TEST(OllamaEmbedTest, FieldsAreReadOrNamed) {
  const ApiFormatMaker make = MakeOllamaEmbed;
  const EmbeddingBody body = GoodEmbedding(make, {{"model", "m"}, {"input", {"a", "b"}}});
  EXPECT_THAT(InputTexts(body), ElementsAre("a", "b"));
  EXPECT_TRUE(body.request.embedding->truncate) << "as Ollama's default is";
  EXPECT_TRUE(body.request.embedding->normalize);
  EXPECT_FALSE(
      GoodEmbedding(make, {{"input", "a"}, {"truncate", false}}).request.embedding->truncate);
  EXPECT_EQ(GoodEmbedding(make, {{"input", "a"}, {"dimensions", 3}}).most_dimensions, 3);
  EXPECT_EQ(GoodEmbedding(make, {{"input", "a"}, {"dimensions", 3}}).dimensions, 0)
      << "more are all";
  EXPECT_THAT(
      GoodEmbedding(make, {{"input", "a"}, {"options", {{"num_ctx", 9}}}, {"keep_alive", "5m"}})
          .ignored,
      IsEmpty());
  for (const char* input : {"[1,2]", "[[1]]", "[[]]", "1", "{}"}) {
    ExpectEmbeddingFault(make, {{"input", json::parse(input)}}, "input");
  }
  ExpectEmbeddingFault(make, {{"input", "a"}, {"truncate", "no"}}, "truncate");
  ExpectEmbeddingFault(make, {{"input", "a"}, {"dimensions", -1}}, "dimensions");
  EXPECT_THAT(EmbeddingFault(make, {{"input", "a"}, {"prompt", "b"}}, "prompt").message(),
              HasSubstr("use 'input'"));
}

TEST(OllamaEmbedTest, AnAnswerIsAsOllamas) {
  json answer = json::parse(
      EmbeddingAnswer(MakeOllamaEmbed, {{"input", {"a", "b"}}, {"dimensions", 1}},
                      {EmbeddingOutput({0.5F, 0.5F}, 3), EmbeddingOutput({-1.0F, 0.0F}, 4)}));
  EXPECT_GT(answer["total_duration"].get<int64_t>(), 0);
  answer.erase("total_duration");
  EXPECT_EQ(answer, json::parse(R"({"model":"m\"x","embeddings":[[1.0],[-1.0]],"load_duration":0,
                                    "prompt_eval_count":7})"));
  const std::string error =
      MakeOllamaEmbed()->ErrorBody(ToApiError(InvalidArgument("It is \"long\".", "prompt")));
  EXPECT_EQ(error, R"({"error":"It is \"long\"."})");
}

// Its clients load a model so.
TEST(OllamaEmbedTest, NothingToEmbedHasNoEmbeddings) {
  for (const char* body : {"{}", R"({"input":null})", R"({"input":""})", R"({"input":[]})"}) {
    EXPECT_THAT(GoodEmbedding(MakeOllamaEmbed, json::parse(body)).prompts, IsEmpty()) << body;
  }
  EXPECT_EQ(GoodEmbedding(MakeOllamaEmbed, {{"input", {""}}}).prompts.size(), 1U)
      << "an empty text is one";
  const json answer = json::parse(EmbeddingAnswer(MakeOllamaEmbed, {{"input", ""}}, {}));
  EXPECT_EQ(answer["embeddings"], json::array());
  EXPECT_EQ(answer["model"], "m\"x");
  EXPECT_EQ(answer["prompt_eval_count"], 0);
  for (const json& body : {json::object(), json{{"prompt", ""}}}) {
    EXPECT_THAT(GoodEmbedding(MakeOllamaOldEmbeddings, body).prompts, IsEmpty()) << body;
  }
  EXPECT_EQ(EmbeddingAnswer(MakeOllamaOldEmbeddings, {{"prompt", ""}}, {}), R"({"embedding":[]})");
}

TEST(OllamaEmbedTest, TheOlderPathNormalisesNothing) {
  const ApiFormatMaker make = MakeOllamaOldEmbeddings;
  const EmbeddingBody body =
      GoodEmbedding(make, {{"model", "m"}, {"prompt", "a"}, {"keep_alive", 5}});
  EXPECT_FALSE(body.request.embedding->normalize);
  EXPECT_TRUE(body.request.embedding->truncate);
  ExpectEmbeddingFault(make, {{"prompt", json::array({"a"})}}, "prompt");
  EXPECT_THAT(EmbeddingFault(make, {{"prompt", "a"}, {"input", "b"}}, "input").message(),
              HasSubstr("use 'prompt'"));
  EXPECT_EQ(EmbeddingAnswer(make, {{"prompt", "a"}}, {EmbeddingOutput({2.0F, 0.5F}, 3)}),
            R"({"embedding":[2,0.5]})");
}

TEST(LlamaEmbeddingTest, FieldsAreReadOrNamed) {
  const ApiFormatMaker make = MakeLlamaEmbedding;
  EXPECT_THAT(InputTexts(GoodEmbedding(make, {{"content", "a"}})), ElementsAre("a"));
  EXPECT_THAT(InputTexts(GoodEmbedding(make, {{"input", {"a", "b"}}})), ElementsAre("a", "b"));
  EXPECT_EQ(GoodEmbedding(make, {{"content", {1, 2}}}).prompts.size(), 1U);
  EXPECT_THAT(InputTexts(GoodEmbedding(make, {{"content", "a"}, {"input", "a"}})),
              ElementsAre("a"));
  ExpectEmbeddingFault(make, {{"content", "a"}, {"input", "b"}}, "input");
  ExpectEmbeddingFault(make, json::object(), "content");
  EXPECT_TRUE(
      GoodEmbedding(make, {{"content", "a"}, {"embd_normalize", 2}}).request.embedding->normalize);
  EXPECT_FALSE(
      GoodEmbedding(make, {{"content", "a"}, {"embd_normalize", -1}}).request.embedding->normalize);
  EXPECT_EQ(
      EmbeddingFault(make, {{"content", "a"}, {"embd_normalize", 1}}, "embd_normalize").code(),
      StatusCode::kUnimplemented);
  EXPECT_EQ(EmbeddingAnswer(make, {{"content", {"a", "b"}}},
                            {EmbeddingOutput({0.5F}, 3), EmbeddingOutput({1.0F}, 3)}),
            R"([{"index":0,"embedding":[[0.5]]},{"index":1,"embedding":[[1]]}])");
}

TEST(EmbeddingBodyTest, AnythingAnywhereIsReadOrNamed) {
  const json values = json::parse(
      R"([null,true,0,-1,1e300,18446744073709551615,"","x",[],{},[[]],[{}],{"a":{}},[null],[[1],[2,"x"]]])");
  for (const ApiFormatMaker make :
       {MakeOpenAiEmbeddings, MakeOllamaEmbed, MakeOllamaOldEmbeddings, MakeLlamaEmbedding}) {
    int rejected = 0;
    for (const std::string& name : make()->Fields()) {
      for (const json& value : values) {
        const json body = {{name, value}};
        const StatusOr<EmbeddingBody> read = ReadEmbedding(make, body);
        if (read.ok()) continue;
        ++rejected;
        EXPECT_FALSE(read.status().field().empty()) << body;
      }
    }
    EXPECT_GT(rejected, 30);
  }
}

TEST(OllamaEmbedTest, AnInputThatIsNoTextIsFound) {
  const auto fault = [](const char* input) {
    return EmbeddingFault(MakeOllamaEmbed, {{"input", json::parse(input)}}, "input").message();
  };
  EXPECT_EQ(fault(R"(["a",2])"), "'input[1]' must be a string, but is 2.");
  EXPECT_EQ(fault("[1,2]"), "'input[0]' must be a string, but is 1.");
  EXPECT_EQ(fault("7"), "'input' must be a string or a list of strings, but is 7.");
}

TEST(EmbeddingErrorTest, ATextThatIsTooLongMayBeCut) {
  ApiError error;
  error.message = "the prompt has 9 tokens";
  error.code = "context_length_exceeded";
  error.param = "prompt";
  const auto body = [](ApiFormatMaker make, const char* truncate, const ApiError& shown) {
    const std::unique_ptr<ApiFormat> format = make();
    const std::string request = fmt::format(R"({{"input":"a","truncate":{}}})", truncate);
    EXPECT_TRUE(format->Parse(request, {}).ok());
    return format->ErrorBody(shown);
  };
  for (const ApiFormatMaker make : {MakeOpenAiEmbeddings, MakeOllamaEmbed}) {
    EXPECT_THAT(body(make, "false", error), HasSubstr("9 tokens; with 'truncate': true it is cut"));
    // A client that has asked for that is not told to: a gateway's backend did not do it.
    EXPECT_THAT(body(make, "true", error), testing::Not(HasSubstr("truncate")));
  }
  ApiError of_backend = error;
  of_backend.message += "; with 'truncate': true it is cut";
  EXPECT_THAT(body(MakeOllamaEmbed, "false", of_backend),
              testing::Not(HasSubstr("cut; with 'truncate'")));
  for (const ApiFormatMaker make : {MakeLlamaEmbedding, MakeOllamaOldEmbeddings}) {
    EXPECT_THAT(make()->ErrorBody(error), testing::Not(HasSubstr("truncate")));
  }
  error.code = "";
  EXPECT_THAT(MakeOpenAiEmbeddings()->ErrorBody(error), testing::Not(HasSubstr("truncate")));
}

}  // namespace
}  // namespace ropeway::api
