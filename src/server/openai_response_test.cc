#include "server/openai_response.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "server/errors.h"
#include "server/logprobs_json.h"

namespace ropeway {
namespace {

using nlohmann::json;

AnswerHead Head(bool chat) {
  AnswerHead head;
  head.id = "id-1";
  head.created = 1700000000;
  head.model = "served";
  head.chat = chat;
  return head;
}

OutputToken Token(const std::string& bytes, uint64_t offset, float logprob = -1.0F) {
  OutputToken token;
  token.bytes = bytes;
  token.text_offset = offset;
  token.logprob = logprob;
  return token;
}

Finish Ended(FinishReason reason) {
  Finish finish;
  finish.reason = reason;
  finish.usage = {.prompt_tokens = 10, .completion_tokens = 4, .cached_tokens = 2};
  return finish;
}

TEST(AnswerJson, Completion) {
  json expected = json::parse(
      R"({"id":"id-1","object":"text_completion","created":1700000000,"model":"served",
          "choices":[{"index":0,"text":"hello","logprobs":null,"finish_reason":"stop"}],
          "usage":{"prompt_tokens":10,"completion_tokens":4,"total_tokens":14,
                   "prompt_tokens_details":{"cached_tokens":2}}})");
  EXPECT_EQ(json::parse(AnswerJson(Head(false), "hello", {}, Ended(FinishReason::kStop))),
            expected);
}

TEST(AnswerJson, Chat) {
  json answer = json::parse(AnswerJson(Head(true), "hello", {}, Ended(FinishReason::kLength)));
  EXPECT_EQ(answer["object"], "chat.completion");
  EXPECT_EQ(answer["choices"][0]["message"],
            json::parse(R"({"role":"assistant","content":"hello","refusal":null})"));
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
}

TEST(AnswerJson, TextIsEscaped) {
  std::string text =
      "quote \" slash \\ newline \n \x01 \x7f caf\xc3\xa9 \xf0\x9f\x98\x80 \xe2\x80\xa8";
  text.push_back('\0');
  std::string answer = AnswerJson(Head(false), text, {}, Ended(FinishReason::kStop));
  EXPECT_EQ(json::parse(answer)["choices"][0]["text"], text);
  // An event is one line: nothing in it may end it early.
  EventWriter events(Head(false));
  std::string event = events.Delta({.text = text, .tokens = {}});
  EXPECT_EQ(event.find('\n'), event.size() - 2);
}

TEST(AnswerJson, CompletionLogprobs) {
  AnswerHead head = Head(false);
  head.logprobs = true;
  // "é" in two tokens, then "x" which begins at byte 2, the character 1.
  OutputToken first = Token("\xc3", 0, -0.25F);
  first.top_logprobs = {{5, -0.125F}, {6, -0.25F}};
  first.top_bytes = {"a", "\xc3"};
  json answer = json::parse(AnswerJson(head, "\xc3\xa9x", {first, Token("\xa9", 1), Token("x", 2)},
                                       Ended(FinishReason::kStop)));
  json logprobs = answer["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["tokens"], (json{"bytes:\\xc3", "bytes:\\xa9", "x"}));
  EXPECT_EQ(logprobs["text_offset"], (json{0, 1, 1}));
  EXPECT_EQ(logprobs["token_logprobs"], (json{-0.25, -1.0, -1.0}));
  EXPECT_EQ(logprobs["top_logprobs"][0], (json{{"a", -0.125}, {"bytes:\\xc3", -0.25}}));
  EXPECT_EQ(logprobs["top_logprobs"][2], (json{{"x", -1.0}}));
}

TEST(AnswerJson, ChatLogprobs) {
  AnswerHead head = Head(true);
  head.logprobs = true;
  OutputToken token = Token("\xe2\x96", 0, -std::numeric_limits<float>::infinity());
  token.top_logprobs = {{1, -0.5F}};
  token.top_bytes = {"ok"};
  json answer = json::parse(AnswerJson(head, "", {token}, Ended(FinishReason::kStop)));
  json entry = answer["choices"][0]["logprobs"]["content"][0];
  EXPECT_EQ(entry["token"], "\xef\xbf\xbd");
  EXPECT_EQ(entry["bytes"], (json{0xe2, 0x96}));
  EXPECT_EQ(entry["logprob"], -9999.0);
  EXPECT_EQ(entry["top_logprobs"][0],
            (json{{"token", "ok"}, {"logprob", -0.5}, {"bytes", {'o', 'k'}}}));
}

TEST(AnswerJson, LogprobBitsSurvive) {
  AnswerHead head = Head(false);
  head.logprobs = true;
  for (float logprob : {-0.1F, -1.1754944e-38F, -13.7000017F, -0.0F, -3.4e38F}) {
    json answer =
        json::parse(AnswerJson(head, "a", {Token("a", 0, logprob)}, Ended(FinishReason::kStop)));
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

TEST(EventWriter, DeltaWithNothingToSayIsEmpty) {
  EventWriter plain(Head(false));
  EXPECT_EQ(plain.Delta({.text = "", .tokens = {Token("a", 0)}}), "");
  AnswerHead head = Head(false);
  head.logprobs = true;
  EventWriter with_logprobs(head);
  EXPECT_EQ(with_logprobs.Delta({.text = "", .tokens = {}}), "");
  EXPECT_NE(with_logprobs.Delta({.text = "", .tokens = {Token("a", 0)}}), "");
}

TEST(EventWriter, ErrorHasOpenAisShapeAndNoDone) {
  std::string event = EventWriter::Error({StatusCode::kInternal, "It broke.", "f"});
  ASSERT_TRUE(event.starts_with("data: ") && event.ends_with("\n\n"));
  EXPECT_EQ(json::parse(event.substr(6)),
            json::parse(R"({"error":{"message":"It broke.","type":"server_error","param":"f",
                                     "code":"internal_error"}})"));
}

TEST(Errors, EveryCodeHasAStatus) {
  const std::vector<std::pair<StatusCode, int>> expected = {
      {StatusCode::kInvalidArgument, 400},  {StatusCode::kUnimplemented, 400},
      {StatusCode::kNotFound, 404},         {StatusCode::kResourceExhausted, 429},
      {StatusCode::kUnavailable, 503},      {StatusCode::kCancelled, 503},
      {StatusCode::kDeadlineExceeded, 504}, {StatusCode::kInternal, 500},
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
