#include "server/openai_response.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "server/errors.h"
#include "server/logprobs_json.h"
#include "server/test_answer.h"

namespace ropeway {
namespace {

using nlohmann::json;

AnswerHead ResponseHead(bool chat) { return HeadOf(chat, "served"); }

Finish EndedChoice(FinishReason reason) {
  return EndedWith(reason, std::numeric_limits<uint64_t>::max());
}

// The answer with one choice.
json Answer(const AnswerHead& head, ChoiceOutput choice) {
  return json::parse(AnswerJson(head, {std::move(choice)}));
}

ChoiceOutput Choice(const std::string& text, std::vector<OutputToken> tokens = {}) {
  return {text, std::move(tokens), {}, EndedChoice(FinishReason::kStop)};
}

TEST(AnswerJson, TheTierIsShownWhereItWasAskedFor) {
  EXPECT_FALSE(Answer(ResponseHead(true), Choice("a")).contains("service_tier"));
  AnswerHead head = ResponseHead(true);
  head.service_tier = ServiceTierName(Priority::kLow);
  EXPECT_EQ(Answer(head, Choice("a"))["service_tier"], "flex");
  EXPECT_STREQ(ServiceTierName(Priority::kHigh), "priority");
  EXPECT_STREQ(ServiceTierName(Priority::kMedium), "default");
}

TEST(AnswerJson, Completion) {
  json expected = json::parse(
      R"({"id":"id-1","object":"text_completion","created":1700000000,"model":"served",
          "choices":[{"index":0,"text":"hello","logprobs":null,"finish_reason":"stop"}],
          "usage":{"prompt_tokens":10,"completion_tokens":4,"total_tokens":14,
                   "prompt_tokens_details":{"cached_tokens":2}},
          "ropeway":{"batch_num":9,"seed":18446744073709551615,"batch":3,"batch_size":2}})");
  EXPECT_EQ(Answer(ResponseHead(false), Choice("hello")), expected);
}

TEST(AnswerJson, Chat) {
  ChoiceOutput choice = Choice("hello");
  choice.finish.reason = FinishReason::kLength;
  json answer = Answer(ResponseHead(true), choice);
  EXPECT_EQ(answer["object"], "chat.completion");
  EXPECT_EQ(answer["choices"][0]["message"],
            json::parse(R"({"role":"assistant","content":"hello","refusal":null})"));
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
}

TEST(AnswerJson, ManyChoicesAndTheirUsage) {
  AnswerHead head = ResponseHead(false);
  head.n = 2;
  std::vector<ChoiceOutput> choices = {Choice("a"), Choice("b"), Choice("c"), Choice("d")};
  choices[2].finish.usage.prompt_tokens = 100;
  choices[2].finish.usage.cached_tokens = 50;
  choices[3].finish.reason = FinishReason::kLength;
  choices[3].finish.first_token_step = 1;
  const json answer = json::parse(AnswerJson(head, choices));
  ASSERT_EQ(answer["choices"].size(), 4U);
  EXPECT_EQ(answer["choices"][2]["index"], 2);
  EXPECT_EQ(answer["choices"][2]["text"], "c");
  EXPECT_EQ(answer["choices"][3]["finish_reason"], "length");
  EXPECT_EQ(answer["usage"], json::parse(R"({"prompt_tokens":110,"completion_tokens":16,
      "total_tokens":126,"prompt_tokens_details":{"cached_tokens":52}})"));
  EXPECT_EQ(answer["ropeway"]["batch_num"], 9);
}

TEST(AnswerJson, NoTokenHasNoBatch) {
  ChoiceOutput choice = Choice("");
  choice.finish.usage.completion_tokens = 0;
  EXPECT_EQ(Answer(ResponseHead(false), choice)["ropeway"]["batch_num"], nullptr);
  EXPECT_EQ(Answer(ResponseHead(false), choice)["ropeway"]["batch"], 3);  // It started.
  choice.finish.batch_num = 0;
  EXPECT_EQ(Answer(ResponseHead(false), choice)["ropeway"]["batch"], nullptr);
  EXPECT_EQ(Answer(ResponseHead(false), choice)["ropeway"]["batch_size"], nullptr);
}

TEST(AnswerJson, TextIsEscaped) {
  std::string text =
      "quote \" slash \\ newline \n \x01 \x7f caf\xc3\xa9 \xf0\x9f\x98\x80 \xe2\x80\xa8";
  text.push_back('\0');
  EXPECT_EQ(Answer(ResponseHead(false), Choice(text))["choices"][0]["text"], text);
}

TEST(AnswerJson, CompletionLogprobs) {
  AnswerHead head = ResponseHead(false);
  head.logprobs = true;
  // "é" in two tokens, then "x" which begins at byte 2, the character 1.
  OutputToken first = Token("\xc3", 0, -0.25F);
  first.top_logprobs = {{5, -0.125F}, {6, -0.25F}};
  first.top_bytes = {"a", "\xc3"};
  json answer = Answer(head, Choice("\xc3\xa9x", {first, Token("\xa9", 1), Token("x", 2)}));
  json logprobs = answer["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["tokens"], (json{"bytes:\\xc3", "bytes:\\xa9", "x"}));
  EXPECT_EQ(logprobs["text_offset"], (json{0, 1, 1}));
  EXPECT_EQ(logprobs["token_logprobs"], (json{-0.25, -1.0, -1.0}));
  EXPECT_EQ(logprobs["top_logprobs"][0], (json{{"a", -0.125}, {"bytes:\\xc3", -0.25}}));
  EXPECT_EQ(logprobs["top_logprobs"][2], (json{{"x", -1.0}}));
}

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// The prompt "é!" behind what the vocabulary begins every text with, and "x" generated.
ChoiceOutput Echoed() {
  ChoiceOutput choice = Choice("x", {Token("x", 0, -0.5F)});
  OutputToken last = Token("!", 5, -2.0F);
  last.top_logprobs = {{7, -0.25F}};
  last.top_bytes = {"?"};
  choice.prompt_tokens = {Token("<s>", 0, kNaN), Token("\xc3\xa9", 3, -1.5F), last};
  return choice;
}

TEST(AnswerJson, EchoComesFirst) {
  AnswerHead head = ResponseHead(false);
  head.echo = {"\xc3\xa9!"};
  EXPECT_EQ(Answer(head, Choice("x"))["choices"][0]["text"], "\xc3\xa9!x");
  EXPECT_EQ(Answer(head, Choice("x"))["choices"][0]["logprobs"], nullptr);
  head.logprobs = true;
  const json choice = Answer(head, Echoed())["choices"][0];
  EXPECT_EQ(choice["text"], "\xc3\xa9!x");
  EXPECT_EQ(choice["logprobs"]["tokens"], (json{"<s>", "\xc3\xa9", "!", "x"}));
  EXPECT_EQ(choice["logprobs"]["token_logprobs"], (json{nullptr, -1.5, -2.0, -0.5}));
  EXPECT_EQ(choice["logprobs"]["text_offset"], (json{0, 0, 1, 2}));
  EXPECT_EQ(choice["logprobs"]["top_logprobs"],
            (json{nullptr, {{"\xc3\xa9", -1.5}}, {{"?", -0.25}, {"!", -2.0}}, {{"x", -0.5}}}));
  EXPECT_FALSE(choice.contains("prompt_logprobs"));
}

TEST(AnswerJson, EachPromptsChoicesShowItsText) {
  AnswerHead head = ResponseHead(false);
  head.n = 2;
  head.echo = {"p", "q"};
  const json answer =
      json::parse(AnswerJson(head, {Choice("1"), Choice("2"), Choice("3"), Choice("4")}));
  std::string all;
  for (const json& choice : answer["choices"]) all += choice["text"].get<std::string>();
  EXPECT_EQ(all, "p1p2q3q4");
}

TEST(AnswerJson, PromptLogprobsAsInVllm) {
  const json expected = json::parse(
      R"([null, {"4": {"logprob": -1.5, "rank": null, "decoded_token": "é"}},
          {"7": {"logprob": -0.25, "rank": 1, "decoded_token": "?"},
           "5": {"logprob": -2.0, "rank": null, "decoded_token": "!"}}])");
  ChoiceOutput choice = Echoed();
  choice.prompt_tokens[1].id = 4;
  choice.prompt_tokens[2].id = 5;
  AnswerHead head = ResponseHead(false);
  head.prompt_logprobs = true;
  EXPECT_EQ(Answer(head, choice)["choices"][0]["prompt_logprobs"], expected);
  head.chat = true;
  EXPECT_EQ(Answer(head, choice)["prompt_logprobs"], expected);
  // The token's own entry where it is among the best.
  choice.prompt_tokens[2].id = 7;
  EXPECT_EQ(Answer(head, choice)["prompt_logprobs"][2].size(), 1U);
}

TEST(PromptTextBegin, IsAfterWhatTheVocabularyAdds) {
  const std::vector<OutputToken> tokens = {Token("<s>", 0), Token("ab", 3), Token("c", 5)};
  EXPECT_EQ(PromptTextBegin(tokens, "abc"), 3U);
  EXPECT_EQ(PromptTextBegin(tokens, "<s>abc"), 0U);
  EXPECT_EQ(PromptTextBegin(tokens, "xyz"), 0U);
  EXPECT_EQ(PromptTextBegin({}, "abc"), 0U);
}

TEST(AnswerJson, ChatLogprobs) {
  AnswerHead head = ResponseHead(true);
  head.logprobs = true;
  OutputToken token = Token("\xe2\x96", 0, -std::numeric_limits<float>::infinity());
  token.top_logprobs = {{1, -0.5F}};
  token.top_bytes = {"ok"};
  json entry = Answer(head, Choice("", {token}))["choices"][0]["logprobs"]["content"][0];
  EXPECT_EQ(entry["token"], "\xef\xbf\xbd");
  EXPECT_EQ(entry["bytes"], (json{0xe2, 0x96}));
  EXPECT_EQ(entry["logprob"], -9999.0);
  EXPECT_EQ(entry["top_logprobs"][0],
            (json{{"token", "ok"}, {"logprob", -0.5}, {"bytes", {'o', 'k'}}}));
}

TEST(AnswerJson, LogprobBitsSurvive) {
  AnswerHead head = ResponseHead(false);
  head.logprobs = true;
  for (float logprob : {-0.1F, -1.1754944e-38F, -13.7000017F, -0.0F, -3.4e38F}) {
    json answer = Answer(head, Choice("a", {Token("a", 0, logprob)}));
    const float read = answer["choices"][0]["logprobs"]["token_logprobs"][0].get<float>();
    EXPECT_EQ(read, logprob < -9999.0F ? -9999.0F : logprob);
  }
}

TEST(TokenKey, IsTextOrBytes) {
  EXPECT_EQ(TokenKey("plain"), "plain");
  EXPECT_EQ(TokenKey("a\xff"), "bytes:\\x61\\xff");
}

TEST(TextOffsets, CountsCharactersAcrossAppends) {
  TextOffsets offsets;
  offsets.Append("a\xc3\xa9");
  EXPECT_EQ(offsets.Characters(0), 0);
  EXPECT_EQ(offsets.Characters(1), 1);
  EXPECT_EQ(offsets.Characters(3), 2);
  offsets.Append("b");
  EXPECT_EQ(offsets.Characters(4), 3);
  EXPECT_EQ(offsets.Characters(6), 5);  // Held back: by bytes.
}

TEST(Errors, EveryCodeHasAStatus) {
  const std::vector<std::pair<StatusCode, int>> expected = {
      {StatusCode::kInvalidArgument, 400},  {StatusCode::kUnimplemented, 400},
      {StatusCode::kNotFound, 404},         {StatusCode::kResourceExhausted, 429},
      {StatusCode::kUnavailable, 503},      {StatusCode::kCancelled, 503},
      {StatusCode::kDeadlineExceeded, 408}, {StatusCode::kInternal, 500},
      {StatusCode::kDataLoss, 500}};
  for (auto [code, http] : expected) {
    ApiError error = ToApiError({code, "why"});
    EXPECT_EQ(error.http_status, http);
    EXPECT_FALSE(error.type.empty());
  }
  EXPECT_EQ(json::parse(ErrorJson(ToApiError(InvalidArgument("why"))))["error"]["param"], nullptr);
  EXPECT_TRUE(json::accept(ErrorJson(ToApiError(InvalidArgument("bad \xff byte")))));
}

}  // namespace
}  // namespace ropeway
