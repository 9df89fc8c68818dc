#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "api/dialects.h"
#include "api/test_request_bodies.h"

namespace ropeway::api {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::string Ones(int count) {
  std::string list = "1";
  for (int i = 1; i < count; ++i) list += ",1";
  return list;
}

std::string Biases(int count) {
  json object = json::object();
  for (int i = 0; i < count; ++i) object[std::to_string(i)] = 1;
  return object.dump();
}

TEST(CompletionRequest, AllFields) {
  StatusOr<OpenAiBody> api = Completion(
      R"({"model":"m","prompt":"text","max_tokens":7,"temperature":0.5,"top_p":0.25,"top_k":9,
          "min_p":0.125,"seed":42,"stop":["a","b"],"ignore_eos":true,"stream":true,
          "stream_options":{"include_usage":true},"logprobs":3,"n":2,"best_of":2,"echo":false,
          "suffix":null,"presence_penalty":0.5,"frequency_penalty":-1.5,"repetition_penalty":1.25,
          "typical_p":0.75,"min_tokens":3,"stop_token_ids":[5,0],"timeout":1.5,
          "logit_bias":{"40":-100,"7":1.5},"user":"u","store":false,"cache_salt":"s","priority":2,
          "prompt_cache_key":"k","prompt_cache_retention":"24h"})");
  ASSERT_TRUE(api.ok()) << api.status().message();
  const Request& r = api->request;
  EXPECT_EQ(r.model, "m");
  EXPECT_EQ(std::get<std::string>(api->prompts.at(0)), "text");
  EXPECT_EQ(r.max_tokens, 7);
  EXPECT_EQ(r.sampling.temperature, 0.5F);
  EXPECT_EQ(r.sampling.top_p, 0.25F);
  EXPECT_EQ(r.sampling.top_k, 9);
  EXPECT_EQ(r.sampling.min_p, 0.125F);
  EXPECT_EQ(r.sampling.seed, 42U);
  EXPECT_EQ(r.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(r.ignore_eos);
  EXPECT_EQ(r.logprobs, 3);
  EXPECT_EQ(r.sampling.presence_penalty, 0.5F);
  EXPECT_EQ(r.sampling.frequency_penalty, -1.5F);
  EXPECT_EQ(r.sampling.repetition_penalty, 1.25F);
  EXPECT_EQ(r.sampling.typical_p, 0.75F);
  EXPECT_EQ(r.sampling.min_tokens, 3);
  EXPECT_EQ(r.stop_token_ids, (std::vector<TokenId>{5, 0}));
  EXPECT_EQ(r.timeout, std::chrono::milliseconds(1500));
  EXPECT_EQ(r.cache_salt, "s");
  EXPECT_EQ(r.cache_retention, CacheRetention::kLong);
  EXPECT_EQ(r.cache_scope, "");  // The key's, never the body's.
  EXPECT_EQ(api->priority, Priority::kLow);
  EXPECT_FALSE(api->service_tier);
  ASSERT_EQ(r.sampling.logit_bias.size(), 2U);
  EXPECT_EQ(r.sampling.logit_bias[0].id, 7);
  EXPECT_EQ(r.sampling.logit_bias[0].bias, 1.5F);
  EXPECT_EQ(r.sampling.logit_bias[1].id, 40);
  EXPECT_EQ(r.sampling.logit_bias[1].bias, -100.0F);
  EXPECT_EQ(api->n, 2);
  EXPECT_FALSE(r.prompt_logprobs.has_value());
  EXPECT_TRUE(api->stream);
  EXPECT_TRUE(api->include_usage);
}

TEST(CompletionRequest, Defaults) {
  StatusOr<OpenAiBody> api = Completion(R"({"prompt":"p","temperature":null,"stop":null})");
  ASSERT_TRUE(api.ok());
  EXPECT_EQ(api->request.model, "");
  EXPECT_EQ(api->request.max_tokens, 16);
  EXPECT_EQ(api->request.sampling.temperature, 1.0F);
  EXPECT_FALSE(api->request.sampling.seed.has_value());
  EXPECT_FALSE(api->request.logprobs.has_value());
  EXPECT_TRUE(api->request.stop.empty());
  EXPECT_FALSE(api->request.timeout.has_value());
  EXPECT_EQ(api->request.sampling.repetition_penalty, 1.0F);
  EXPECT_EQ(api->request.sampling.typical_p, 1.0F);
  EXPECT_EQ(api->request.choice, 0U);
  EXPECT_EQ(api->n, 1);
  EXPECT_FALSE(api->stream);
  EXPECT_FALSE(api->shows_prompts);
}

TEST(CompletionRequest, PromptForms) {
  const auto texts = [](const std::string& body) {
    std::vector<std::string> all;
    const StatusOr<OpenAiBody> api = Completion(body);
    for (const Prompt& p : api->prompts) all.push_back(std::get<std::string>(p));
    return all;
  };
  const auto ids = [](const std::string& body) {
    std::vector<std::vector<TokenId>> all;
    const StatusOr<OpenAiBody> api = Completion(body);
    for (const Prompt& p : api->prompts) {
      all.push_back(std::get<std::vector<TokenId>>(p));
    }
    return all;
  };
  using Texts = std::vector<std::string>;
  using Ids = std::vector<std::vector<TokenId>>;
  EXPECT_EQ(texts(R"({"prompt":"one"})"), Texts{"one"});
  EXPECT_EQ(texts(R"({"prompt":["one"]})"), Texts{"one"});
  EXPECT_EQ(texts(R"({"prompt":["a","","c"]})"), (Texts{"a", "", "c"}));
  EXPECT_EQ(ids(R"({"prompt":[1,0,2147483647]})"), (Ids{{1, 0, 2147483647}}));
  EXPECT_EQ(ids(R"({"prompt":[[1,0,2147483647]]})"), (Ids{{1, 0, 2147483647}}));
  EXPECT_EQ(ids(R"({"prompt":[[1,2],[7]]})"), (Ids{{1, 2}, {7}}));
  for (const char* value : {"1", "true", "{}", "[]", "[[]]", "[1,\"a\"]", "[1.5]", "[-1]", "[null]",
                            "[2147483648]", "[[1,[2]]]", "[1e2]", "[\"a\",1]", "[[\"a\"]]",
                            "[\"a\",[1]]", "[[1],\"a\"]", "[[1],[]]", "[\"a\",null]"}) {
    StatusOr<OpenAiBody> api = Completion("{\"prompt\":" + std::string(value) + "}");
    ASSERT_FALSE(api.ok()) << value;
    EXPECT_EQ(api.status().field(), "prompt") << value;
  }
  EXPECT_EQ(Completion("{}").status().field(), "prompt");
  EXPECT_EQ(Completion(R"({"prompt":null})").status().field(), "prompt");
}

TEST(CompletionRequest, ChoicesAreBounded) {
  const auto parse = [](const std::string& body) { return Completion(body, {.max_choices = 6}); };
  EXPECT_EQ(parse(R"({"prompt":["a","b"],"n":3})")->choices(), 6U);
  EXPECT_EQ(parse(R"({"prompt":["a","b"],"n":4})").status().field(), "n");
  EXPECT_EQ(parse(R"({"prompt":"a","n":7})").status().field(), "n");
  EXPECT_EQ(parse(R"({"prompt":["a","a","a","a","a","a"]})")->choices(), 6U);
  EXPECT_EQ(parse(R"({"prompt":["a","a","a","a","a","a","a"]})").status().field(), "prompt");
  EXPECT_EQ(CompletionWith("n", "128")->choices(), 128U);
  EXPECT_EQ(CompletionWith("n", "129").status().field(), "n");
}

TEST(CompletionRequest, BestOfIsAnotherNameOfN) {
  EXPECT_TRUE(CompletionWith("best_of", "1").ok());
  EXPECT_EQ(CompletionWith("best_of", "2,\"n\":2")->n, 2);
  for (const char* value : {"2", "3,\"n\":2", "1,\"n\":2"}) {
    StatusOr<OpenAiBody> api = CompletionWith("best_of", value);
    EXPECT_EQ(api.status().code(), StatusCode::kUnimplemented) << value;
    EXPECT_EQ(api.status().field(), "best_of");
    EXPECT_EQ(api.status().message(), "'best_of' must equal 'n'.");
  }
}

TEST(CompletionRequest, MessagesShowWhatIsExpectedAndWhatWasSent) {
  const auto message = [](const char* field, const std::string& value) {
    return std::string(CompletionWith(field, value).status().message());
  };
  EXPECT_EQ(message("priority", "\"urgent\""),
            "'priority' must be \"high\", \"medium\" or \"low\", or 0, 1 or 2 (0 is the "
            "highest), but is \"urgent\".");
  // Bounded, and whole characters: a cut one is replaced.
  EXPECT_EQ(message("max_tokens", '"' + std::string(65, 'x') + '"'),
            "'max_tokens' must be an integer from 0 to 2147483647, but is \"" +
                std::string(64, 'x') + "\"....");
  EXPECT_EQ(message("max_tokens", '"' + std::string(63, 'x') + "\xC3\xA9\""),
            "'max_tokens' must be an integer from 0 to 2147483647, but is \"" +
                std::string(63, 'x') + "\xEF\xBF\xBD\"....");
  EXPECT_EQ(message("use_beam_search", "true"), "'use_beam_search' supports only false.");
}

// What evaluation harnesses send to score a text.
TEST(CompletionRequest, EchoScoresThePrompt) {
  StatusOr<OpenAiBody> api = Completion(
      R"({"prompt":[[1,2,3]],"echo":true,"logprobs":1,"max_tokens":1,"temperature":0,"seed":1234})");
  ASSERT_TRUE(api.ok()) << api.status().message();
  EXPECT_TRUE(api->shows_prompts);
  EXPECT_FALSE(api->prompt_logprobs);
  EXPECT_EQ(api->request.prompt_logprobs, 1);
  EXPECT_FALSE(CompletionWith("echo", "true")->request.prompt_logprobs.has_value());
  EXPECT_EQ(
      CompletionWith("echo", "true,\"logprobs\":2,\"prompt_logprobs\":2")->request.prompt_logprobs,
      2);
  EXPECT_EQ(CompletionWith("echo", "true,\"logprobs\":2,\"prompt_logprobs\":3").status().field(),
            "prompt_logprobs");
}

TEST(CompletionRequest, ZeroTokensNeedAnotherOutput) {
  StatusOr<OpenAiBody> api = CompletionWith("max_tokens", "0,\"echo\":true");
  ASSERT_TRUE(api.ok());
  EXPECT_EQ(api->request.max_tokens, 0);
  EXPECT_EQ(api->request.prompt_logprobs, 0);  // There is nothing else to compute.
  EXPECT_EQ(CompletionWith("max_tokens", "0,\"echo\":true,\"logprobs\":4")->request.prompt_logprobs,
            4);
  EXPECT_EQ(CompletionWith("max_tokens", "0,\"prompt_logprobs\":2")->request.prompt_logprobs, 2);
  EXPECT_EQ(CompletionWith("max_tokens", "0").status().field(), "max_tokens");
  EXPECT_EQ(CompletionWith("max_tokens", "0,\"echo\":false").status().field(), "max_tokens");
}

TEST(CompletionRequest, MinTokensFitMaxTokens) {
  EXPECT_TRUE(CompletionWith("min_tokens", "16").ok());
  EXPECT_EQ(CompletionWith("min_tokens", "17").status().field(), "min_tokens");
  EXPECT_TRUE(CompletionWith("min_tokens", "17,\"max_tokens\":17").ok());
  EXPECT_TRUE(ChatWith("min_tokens", "17").ok());  // The engine knows what is left.
}

TEST(CompletionRequest, TimeoutsAreRoundedUp) {
  const auto timeout = [](const char* value) {
    return CompletionWith("timeout", value)->request.timeout->count();
  };
  EXPECT_EQ(timeout("1"), 1000);
  EXPECT_EQ(timeout("0.25"), 250);
  EXPECT_EQ(timeout("0.0001"), 1);
  EXPECT_EQ(timeout("1e-300"), 1);
  EXPECT_EQ(timeout("86400"), 86'400'000);
}

TEST(CompletionRequest, Seeds) {
  auto seed = [](const std::string& value) {
    return CompletionWith("seed", value)->request.sampling.seed;
  };
  EXPECT_EQ(seed("0"), 0U);
  EXPECT_EQ(seed("18446744073709551615"), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(seed("-1"), std::numeric_limits<uint64_t>::max());
}

TEST(CompletionRequest, EdgesOfRanges) {
  for (auto [field, value] :
       std::vector<std::pair<std::string, std::string>>{{"temperature", "0"},
                                                        {"temperature", "2"},
                                                        {"top_p", "1"},
                                                        {"top_p", "1e-6"},
                                                        {"top_k", "-1"},
                                                        {"top_k", "0"},
                                                        {"min_p", "0"},
                                                        {"min_p", "1"},
                                                        {"logprobs", "0"},
                                                        {"logprobs", "20"},
                                                        {"max_tokens", "1"},
                                                        {"max_tokens", "2147483647"},
                                                        {"stop", "[]"},
                                                        {"stop", "\"x\""},
                                                        {"n", "1"},
                                                        {"typical_p", "1"},
                                                        {"typical_p", "0.001"},
                                                        {"presence_penalty", "-2"},
                                                        {"frequency_penalty", "2"},
                                                        {"repetition_penalty", "10"},
                                                        {"repetition_penalty", "0.01"},
                                                        {"min_tokens", "0"},
                                                        {"stop_token_ids", "[]"},
                                                        {"logit_bias", "{}"},
                                                        {"logit_bias", "{\"0\":100}"},
                                                        {"logit_bias", "{\"2147483647\":-1e-9}"},
                                                        {"prompt_logprobs", "0"},
                                                        {"prompt_logprobs", "20"},
                                                        {"response_format", "{\"type\":\"text\"}"},
                                                        {"bad_words", "[]"},
                                                        {"use_beam_search", "false"},
                                                        {"length_penalty", "1.0"},
                                                        {"skip_special_tokens", "true"},
                                                        {"add_special_tokens", "true"},
                                                        {"metadata", "{\"a\":\"b\"}"},
                                                        {"service_tier", "\"auto\""},
                                                        {"priority", "2"},
                                                        {"request_id", "\"r\""},
                                                        {"store", "true"},
                                                        {"background", "true"}}) {
    StatusOr<OpenAiBody> api = CompletionWith(field, value);
    EXPECT_TRUE(api.ok()) << field << "=" << value << ": " << api.status().message();
  }
}

TEST(CompletionRequest, PriorityAndServiceTierNameAClass) {
  for (const auto& [field, value, priority] : {std::tuple("priority", "\"high\"", Priority::kHigh),
                                               {"priority", "\"medium\"", Priority::kMedium},
                                               {"priority", "\"low\"", Priority::kLow},
                                               {"priority", "0", Priority::kHigh},
                                               {"priority", "1", Priority::kMedium},
                                               {"priority", "2", Priority::kLow},
                                               {"service_tier", "\"priority\"", Priority::kHigh},
                                               {"service_tier", "\"scale\"", Priority::kHigh},
                                               {"service_tier", "\"default\"", Priority::kMedium},
                                               {"service_tier", "\"flex\"", Priority::kLow}}) {
    for (const bool chat : {false, true}) {
      const StatusOr<OpenAiBody> api = chat ? ChatWith(field, value) : CompletionWith(field, value);
      ASSERT_TRUE(api.ok()) << api.status().message();
      EXPECT_EQ(api->priority, priority) << field << "=" << value;
      EXPECT_EQ(std::string(api->priority_field), field);
      EXPECT_EQ(api->service_tier, std::string(field) == "service_tier");
    }
  }
  for (const char* value : {"null", "\"auto\""}) {
    EXPECT_FALSE(CompletionWith("service_tier", value)->priority.has_value());
  }
  EXPECT_TRUE(CompletionWith("service_tier", "\"auto\"")->service_tier);
  EXPECT_FALSE(CompletionWith("priority", "null")->priority.has_value());
}

TEST(CompletionRequest, PriorityAndServiceTierMustNotDiffer) {
  EXPECT_EQ(Completion(R"({"prompt":"p","priority":0,"service_tier":"priority"})")->priority,
            Priority::kHigh);
  EXPECT_EQ(Completion(R"({"prompt":"p","priority":"low","service_tier":"auto"})")->priority,
            Priority::kLow);
  const StatusOr<OpenAiBody> api =
      Completion(R"({"prompt":"p","priority":"high","service_tier":"flex"})");
  ASSERT_FALSE(api.ok());
  EXPECT_EQ(api.status().field(), "priority");
  EXPECT_EQ(api.status().message(),
            "'priority' is high, but 'service_tier' means low; give one of them.");
}

TEST(CompletionRequest, RejectsByName) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> bad = {
      {"model", {"1", "[]", "{}"}},
      {"max_tokens",
       {"0", "-2", "1.5", "1e3", "\"7\"", "2147483648", "1e300", "true",
        "99999999999999999999999"}},
      {"temperature", {"-0.1", "2.1", "\"0\"", "true", "1e308", "[]"}},
      {"top_p", {"0", "-1", "1.01", "\"1\"", "1e-60"}},
      {"top_k", {"-2", "0.5", "\"1\"", "2147483648"}},
      {"min_p", {"-0.1", "1.1", "{}"}},
      {"seed", {"1.5", "\"1\"", "18446744073709551616", "-9223372036854775809", "[]"}},
      {"stop",
       {"1", "[1]", "{}", "[\"a\",null]",
        R"(["1","2","3","4","5","6","7","8","9","a","b","c","d","e","f","g","h"])",
        "\"" + std::string(2000, 'x') + "\""}},
      {"ignore_eos", {"1", "\"true\""}},
      {"stream", {"1", "\"true\"", "{}"}},
      {"stream_options", {"true", "{}"}},  // Without "stream".
      {"logprobs", {"-1", "21", "true", "1.0"}},
      {"n", {"0", "129", "\"1\"", "1.5", "-1", "99999999999999999999"}},
      {"best_of", {"2", "0", "true"}},
      {"echo", {"1", "\"true\""}},
      {"suffix", {"\"x\""}},
      {"presence_penalty", {"2.1", "-2.1", "\"0\"", "1e308", "true"}},
      {"frequency_penalty", {"2.5", "-3", "[]"}},
      {"repetition_penalty", {"0", "-1", "10.5", "1e-60", "\"1\""}},
      {"typical_p", {"0", "1.5", "-1", "1e-60", "{}"}},
      {"min_tokens", {"-1", "1.5", "17", "2147483648", "\"1\""}},
      {"stop_token_ids",
       {"1", "[\"1\"]", "[-1]", "[1.5]", "[2147483648]", "{}", "[null]", "[" + Ones(129) + "]"}},
      {"logit_bias",
       {"1", "[]", "{\"a\":1}", "{\"\":1}", "{\"-1\":1}", "{\"01\":1}", "{\"1.0\":1}", "{\"+1\":1}",
        "{\" 1\":1}", "{\"2147483648\":1}", "{\"1\":101}", "{\"1\":-100.5}", "{\"1\":null}",
        "{\"1\":\"1\"}", "{\"1\":true}", "{\"1\":1e308}", Biases(1025)}},
      {"timeout", {"0", "-1", "\"1\"", "86401", "1e308", "true", "[]"}},
      {"prompt_logprobs", {"-1", "21", "true", "1.5"}},
      {"bad_words", {"[\"a\"]", "\"a\""}},
      {"allowed_token_ids", {"[1]", "[]"}},
      {"use_beam_search", {"true", "1"}},
      {"length_penalty", {"0.5", "\"1\""}},
      {"early_stopping", {"true"}},
      {"logits_processors", {"[\"x\"]"}},
      {"truncate_prompt_tokens", {"5", "-1"}},
      {"include_stop_str_in_output", {"true"}},
      {"skip_special_tokens", {"false", "1"}},
      {"spaces_between_special_tokens", {"false"}},
      {"guided_grammar", {"\"a\""}},
      {"add_special_tokens", {"false"}},
      {"prompt_embeds", {"\"a\""}},
      {"return_token_ids", {"true"}},
      {"user", {"1", "[]"}},
      {"safety_identifier", {"1"}},
      {"metadata", {"1", "[]", "{\"a\":1}", "{\"a\":{}}"}},
      {"service_tier", {"1", "\"\"", "\"high\"", "\"Flex\"", "[]"}},
      {"priority",
       {"1.5", "1.0", "\"1\"", "1e300", "-1", "3", "18446744073709551615", "\"urgent\"", "\"\"",
        "\"HIGH\"", "true", "[0]", "{}"}},
      {"cache_salt", {"1", "\"\"", "\"" + std::string(257, 's') + "\"", "[\"s\"]"}},
      {"prompt_cache_key", {"{}"}},
      {"prompt_cache_retention", {"\"1h\"", "\"\"", "24", "\"IN_MEMORY\"", "{}"}},
      {"store", {"\"true\"", "1"}},
      {"background", {"\"true\"", "1"}},
      {"cache_scope", {"\"s\""}},
      {"promt", {"1", "[]"}},
      {"repeat_penalty", {"0", "11"}},
      {"n_predict", {"0", "-2"}},
      {"mirostat", {"1", "2", "\"0\""}},
  };
  for (const auto& [field, values] : bad) {
    for (const std::string& value : values) {
      StatusOr<OpenAiBody> api = CompletionWith(field, value);
      ASSERT_FALSE(api.ok()) << field << "=" << value;
      EXPECT_EQ(api.status().field(), field) << value;
      EXPECT_THAT(api.status().message(), HasSubstr(field));
      EXPECT_LT(api.status().message().size(), 300U);
    }
  }
}

TEST(CompletionRequest, CacheFields) {
  const std::string longest(256, 's');
  StatusOr<OpenAiBody> api = CompletionWith("cache_salt", "\"" + longest + "\"");
  ASSERT_TRUE(api.ok()) << api.status().message();
  EXPECT_EQ(api->request.cache_salt, longest);
  EXPECT_EQ(api->request.cache_retention, CacheRetention::kNormal);
  for (const char* none : {"null", "\"in_memory\"", "\"in-memory\""}) {
    api = CompletionWith("prompt_cache_retention", none);
    ASSERT_TRUE(api.ok()) << none;
    EXPECT_EQ(api->request.cache_retention, CacheRetention::kNormal) << none;
    EXPECT_EQ(api->request.cache_salt, "");
  }
  EXPECT_THAT(CompletionWith("prompt_cache_retention", "\"1h\"").status().message(),
              HasSubstr("must be \"in_memory\" or \"24h\""));
}

TEST(CompletionRequest, OtherFieldsOfOpenAiAreUnsupported) {
  for (auto [field, value] :
       std::vector<std::pair<std::string, std::string>>{{"suffix", "\"x\""},
                                                        {"best_of", "3"},
                                                        {"bad_words", "[\"x\"]"},
                                                        {"use_beam_search", "true"},
                                                        {"prompt_logprobs", "1,\"stream\":true"}}) {
    EXPECT_EQ(CompletionWith(field, value).status().code(), StatusCode::kUnimplemented) << field;
  }
}

TEST(CompletionRequest, NamesAreShownBoundedAndAsUtf8) {
  const std::string name = std::string(63, 'x') + "\xc3\xa9" + "tail";
  StatusOr<OpenAiBody> api =
      Completion(R"({"prompt":"p",")" + name + R"(":1})", {.reject_unknown = true});
  EXPECT_EQ(api.status().field(), std::string(63, 'x') + "\xef\xbf\xbd");
  EXPECT_EQ(CompletionWith(name, "1")->ignored,
            std::vector<std::string>{std::string(63, 'x') + "\xef\xbf\xbd"});
}

TEST(CompletionRequest, StreamOptions) {
  auto with = [](const std::string& options) {
    return Completion(R"({"prompt":"p","stream":true,"stream_options":)" + options + "}");
  };
  EXPECT_FALSE(with("{}")->include_usage);
  EXPECT_TRUE(with(R"({"include_usage":true})")->include_usage);
  EXPECT_EQ(with(R"({"include_usage":1})").status().field(), "stream_options.include_usage");
  EXPECT_TRUE(with(R"({"continuous_usage_stats":false,"include_obfuscation":true})").ok());
  EXPECT_EQ(with(R"({"continuous_usage_stats":true})").status().field(),
            "stream_options.continuous_usage_stats");
  EXPECT_EQ(with(R"({"include_obfuscation":1})").status().field(),
            "stream_options.include_obfuscation");
  EXPECT_EQ(with(R"({"x":1})")->ignored, std::vector<std::string>{"stream_options.x"});
  EXPECT_EQ(with(R"({"include_usages":true})").status().field(), "stream_options.include_usages");
  EXPECT_EQ(with("1").status().field(), "stream_options");
}

TEST(CompletionRequest, AliasesTakeEffect) {
  EXPECT_EQ(CompletionWith("repeat_penalty", "1.5")->request.sampling.repetition_penalty, 1.5F);
  EXPECT_EQ(CompletionWith("typ_p", "0.5")->request.sampling.typical_p, 0.5F);
  for (const char* name : {"n_predict", "num_predict", "max_completion_tokens"}) {
    EXPECT_EQ(CompletionWith(name, "7")->request.max_tokens, 7) << name;
    EXPECT_EQ(ChatWith(name, "7")->request.max_tokens, 7) << name;
  }
  EXPECT_TRUE(CompletionWith("typ_p", "0.5,\"typical_p\":0.5").ok());
  const Status differ = CompletionWith("typ_p", "0.5,\"typical_p\":0.25").status();
  EXPECT_EQ(differ.message(), "'typical_p' and 'typ_p' differ; give one of them.");
  EXPECT_EQ(CompletionWith("n_predict", "3,\"min_tokens\":5").status().message(),
            "'min_tokens' must be at most 'n_predict', which is 3, but is 5.");
}

TEST(CompletionRequest, MinusOneIsUntilTheContextEnds) {
  EXPECT_FALSE(CompletionWith("max_tokens", "-1")->request.max_tokens.has_value());
  EXPECT_FALSE(CompletionWith("num_predict", "-1")->request.max_tokens.has_value());
  EXPECT_FALSE(ChatWith("max_tokens", "-1")->request.max_tokens.has_value());
  EXPECT_EQ(CompletionWith("max_tokens", "null")->request.max_tokens, 16);
}

TEST(CompletionRequest, AnEmptyStopIsNone) {
  EXPECT_TRUE(CompletionWith("stop", "\"\"")->request.stop.empty());
  EXPECT_EQ(CompletionWith("stop", R"(["","a"])")->request.stop, std::vector<std::string>{"a"});
}

TEST(CompletionRequest, OneMessageNamesAllFieldsAtFault) {
  const Status two = CompletionWith("temperature", "3,\"top_p\":0,\"suffix\":1").status();
  EXPECT_EQ(
      two.message(),
      "'suffix' is not supported. 'temperature' must be a number of at least 0 and at most 2, "
      "but is 3. 'top_p' must be a number above 0 and at most 1, but is 0.");
  EXPECT_EQ(two.field(), "suffix");
  std::string body = R"({"prompt":"p")";
  for (const char* name : {"temperature", "top_p", "top_k", "min_p", "typical_p", "seed", "n",
                           "min_tokens", "timeout", "stream"}) {
    body += fmt::format(R"(,"{}":"{}")", name, std::string(100, 'x'));
  }
  const Status many = Completion(body + "}").status();
  EXPECT_THAT(many.message(), HasSubstr(" More fields are wrong."));
  EXPECT_LT(many.message().size(), 2000U);
}

TEST(CompletionRequest, BodyMustBeAnObject) {
  for (const char* body :
       {"", "null", "[]", "\"a\"", "1", "{\"prompt\":\"p\"", "{\"prompt\":\"\xff\"}",
        R"({"prompt":"p","prompt":"q"})", R"({"prompt":"p","temperature":1e400})"}) {
    EXPECT_EQ(Completion(body).status().code(), StatusCode::kInvalidArgument) << body;
  }
}

TEST(CompletionRequest, AnyValueAnywhereIsAnswered) {
  const json good = json::parse(
      R"({"model":"m","prompt":[[1,2],[3]],"max_tokens":3,"n":2,"best_of":2,"echo":true,"logprobs":1,
          "prompt_logprobs":1,"frequency_penalty":1,"logit_bias":{"3":1},"seed":-1,"stop":"x",
          "min_tokens":2,"timeout":0.5,"ignore_eos":true,"store":false,"cache_salt":"s"})");
  ASSERT_TRUE(Completion(good.dump()).ok());
  EXPECT_GT(RejectedWithAnythingAnywhere(good, MakeOpenAiCompletions), 150);
}

}  // namespace
}  // namespace ropeway::api
