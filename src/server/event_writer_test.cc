#include "server/event_writer.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "server/test_answer.h"
#include "server/test_client.h"

namespace ropeway {
namespace {

using nlohmann::json;

AnswerHead Head(bool chat) { return HeadOf(chat, "ser\"ved"); }

Delta TextDelta(const std::string& text) {
  Delta delta;
  delta.text = text;
  return delta;
}

Delta TokenDelta(const std::string& text, uint64_t offset) {
  Delta delta = TextDelta(text);
  delta.tokens = {Token(text, offset)};
  return delta;
}

Finish Ended(FinishReason reason) { return EndedWith(reason, 5); }

// The one event in `bytes`.
json Event(const std::string& bytes) {
  const std::vector<std::string> events = Events(bytes);
  EXPECT_EQ(events.size(), 1U) << bytes;
  return events.empty() ? json() : json::parse(events[0]);
}

TEST(EventWriter, EveryChunkShowsTheTierThatWasAskedFor) {
  AnswerHead head = Head(true);
  head.include_usage = true;
  head.service_tier = "default";
  EventWriter events(head, 1);
  EXPECT_EQ(Event(events.Begin())["service_tier"], "default");
  EXPECT_EQ(Event(events.Delta(0, TextDelta("a")))["service_tier"], "default");
  EXPECT_EQ(Event(events.End(0, Ended(FinishReason::kStop)))["service_tier"], "default");
  EXPECT_EQ(json::parse(Events(events.Done())[0])["service_tier"], "default");
  EXPECT_FALSE(Event(EventWriter(Head(true), 1).Begin()).contains("service_tier"));
}

TEST(EventWriter, CompletionChunk) {
  EventWriter events(Head(false), 1);
  EXPECT_EQ(events.Begin(), "");
  EXPECT_EQ(Event(events.Delta(0, TextDelta("hi"))),
            json::parse(
                R"({"id":"id-1","object":"text_completion","created":1700000000,"model":"ser\"ved",
          "choices":[{"index":0,"text":"hi","logprobs":null,"finish_reason":null}]})"));
  EXPECT_EQ(Event(events.End(0, Ended(FinishReason::kStop))),
            json::parse(
                R"({"id":"id-1","object":"text_completion","created":1700000000,"model":"ser\"ved",
          "choices":[{"index":0,"text":"","logprobs":null,"finish_reason":"stop"}],
          "ropeway":{"batch_num":9,"seed":5,"batch":3,"batch_size":2}})"));
  EXPECT_EQ(events.Done(), "data: [DONE]\n\n");
}

TEST(EventWriter, ChatChunk) {
  AnswerHead head = Head(true);
  head.include_usage = true;
  EventWriter events(head, 1);
  const json begin = Event(events.Begin());
  EXPECT_EQ(begin["object"], "chat.completion.chunk");
  EXPECT_EQ(begin["choices"][0]["delta"], json::parse(R"({"role":"assistant","content":""})"));
  EXPECT_EQ(
      Event(events.Delta(0, TextDelta("hi"))),
      json::parse(
          R"({"id":"id-1","object":"chat.completion.chunk","created":1700000000,"model":"ser\"ved",
          "choices":[{"index":0,"delta":{"content":"hi"},"logprobs":null,"finish_reason":null}],
          "usage":null})"));
  const json end = Event(events.End(0, Ended(FinishReason::kLength)));
  EXPECT_EQ(end["choices"][0]["delta"], json::object());
  EXPECT_EQ(end["choices"][0]["finish_reason"], "length");
  const std::vector<std::string> done = Events(events.Done());
  ASSERT_EQ(done.size(), 2U);
  EXPECT_EQ(
      json::parse(done[0]),
      json::parse(
          R"({"id":"id-1","object":"chat.completion.chunk","created":1700000000,"model":"ser\"ved",
          "choices":[],"usage":{"prompt_tokens":10,"completion_tokens":4,"total_tokens":14,
          "prompt_tokens_details":{"cached_tokens":2}},"ropeway":{"batch_num":9,"seed":5,"batch":3,"batch_size":2}})"));
  EXPECT_EQ(done[1], "[DONE]");
}

TEST(EventWriter, ChoicesKeepTheirIndexAndAddUp) {
  AnswerHead head = Head(true);
  head.include_usage = true;
  head.n = 3;
  EventWriter events(head, 3);
  EXPECT_EQ(Events(events.Begin()).size(), 3U);
  EXPECT_EQ(Event(events.Delta(2, TextDelta("c")))["choices"][0]["index"], 2);
  EXPECT_EQ(Event(events.Delta(0, TextDelta("a")))["choices"][0]["index"], 0);
  Finish other = Ended(FinishReason::kStop);
  other.first_token_step = 50;
  for (size_t i : {1, 2}) {
    const json end = Event(events.End(i, other));
    EXPECT_EQ(end["choices"][0]["index"], i);
    EXPECT_EQ(end["ropeway"]["batch_num"], 50);
  }
  events.End(0, Ended(FinishReason::kStop));
  const json usage = json::parse(Events(events.Done())[0]);
  EXPECT_EQ(usage["usage"]["prompt_tokens"], 10);
  EXPECT_EQ(usage["usage"]["completion_tokens"], 12);
  EXPECT_EQ(usage["ropeway"]["batch_num"], 9);
}

TEST(EventWriter, DeltaWithNothingToSayIsEmpty) {
  EventWriter plain(Head(false), 1);
  EXPECT_EQ(plain.Delta(0, TokenDelta("", 0)), "");
  AnswerHead head = Head(false);
  head.logprobs = true;
  EventWriter with_logprobs(head, 1);
  EXPECT_EQ(with_logprobs.Delta(0, TextDelta("")), "");
  EXPECT_NE(with_logprobs.Delta(0, TokenDelta("", 0)), "");
}

TEST(EventWriter, LogprobsOfBothEndpoints) {
  AnswerHead head = Head(false);
  head.logprobs = true;
  EventWriter completion(head, 2);
  completion.Delta(0, TokenDelta("\xc3\xa9", 0));
  completion.Delta(1, TokenDelta("a", 0));
  const json lists = Event(completion.Delta(0, TokenDelta("x", 2)))["choices"][0]["logprobs"];
  EXPECT_EQ(lists["text_offset"], json{1});
  EXPECT_EQ(lists["tokens"], json{"x"});
  head.chat = true;
  EventWriter chat(head, 1);
  const json content =
      Event(chat.Delta(0, TokenDelta("x", 0)))["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), 1U);
  EXPECT_EQ(content[0]["token"], "x");
}

TEST(EventWriter, EchoWithoutLogprobsBegins) {
  AnswerHead head = Head(false);
  head.n = 2;
  head.echo = {"p", "", "q"};
  EventWriter events(head, 6);
  std::string texts;
  for (const std::string& event : Events(events.Begin())) {
    const json choice = json::parse(event)["choices"][0];
    texts += std::to_string(choice["index"].get<int>()) + choice["text"].get<std::string>();
  }
  EXPECT_EQ(texts, "0p1p4q5q");
}

TEST(EventWriter, EchoWithLogprobsComesOnceAndWhole) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  AnswerHead head = Head(false);
  head.logprobs = true;
  head.echo = {"ab"};
  for (bool generates : {true, false}) {
    EventWriter events(head, 1);
    EXPECT_EQ(events.Begin(), "");
    Delta prompt;
    prompt.prompt_tokens = {Token("<s>", 0, kNaN), Token("a", 3)};
    EXPECT_EQ(events.Delta(0, prompt), "");
    prompt.prompt_tokens = {Token("b", 4)};
    EXPECT_EQ(events.Delta(0, prompt), "");
    const std::string bytes = generates ? events.Delta(0, TokenDelta("x", 0))
                                        : events.End(0, Ended(FinishReason::kLength));
    const std::vector<std::string> two = Events(bytes);
    ASSERT_EQ(two.size(), 2U);
    const json echo = json::parse(two[0])["choices"][0];
    EXPECT_EQ(echo["text"], "ab");
    EXPECT_EQ(echo["logprobs"]["tokens"], (json{"<s>", "a", "b"}));
    EXPECT_EQ(echo["logprobs"]["token_logprobs"], (json{nullptr, -1.0, -1.0}));
    EXPECT_EQ(echo["logprobs"]["text_offset"], (json{0, 0, 1}));
    EXPECT_EQ(echo["finish_reason"], nullptr);
    const json next = json::parse(two[1])["choices"][0];
    if (generates) {
      EXPECT_EQ(next["logprobs"]["text_offset"], json{2});
      EXPECT_EQ(Events(events.End(0, Ended(FinishReason::kStop))).size(), 1U);
    } else {
      EXPECT_EQ(next["finish_reason"], "length");
    }
  }
}

TEST(EventWriter, ErrorHasOpenAisShapeAndNoDone) {
  std::string event = EventWriter::Error({StatusCode::kInternal, "It broke.", "f"});
  ASSERT_TRUE(event.starts_with("data: ") && event.ends_with("\n\n"));
  EXPECT_EQ(json::parse(event.substr(6)),
            json::parse(R"({"error":{"message":"It broke.","type":"server_error","param":"f",
                                     "code":"internal_error"}})"));
}

TEST(EventWriter, KeepAliveIsACommentLine) {
  EXPECT_TRUE(EventWriter::KeepAlive().starts_with(":"));
  EXPECT_EQ(EventWriter::KeepAlive().find('\n'), EventWriter::KeepAlive().size() - 2);
  EXPECT_TRUE(EventWriter::KeepAlive().ends_with("\n\n"));
}

// Whatever bytes a text has, an event is one line of JSON that reads back as the library's would.
TEST(AppendJsonString, EqualsTheLibraryOnAnyBytes) {
  std::mt19937 random(7);
  const std::vector<std::string> parts = {"a",
                                          "\"",
                                          "\\",
                                          "\n",
                                          "\r",
                                          "\t",
                                          "\x7f",
                                          "\xc3\xa9",
                                          "\xf0\x9f\x98\x80",
                                          "\xe2\x80\xa8",
                                          "\xc3",
                                          "\xff",
                                          "\xed\xa0\x80",
                                          std::string(1, '\0'),
                                          "\x1f",
                                          "</s>"};
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (size_t n = random() % 8; n > 0; --n) text += parts[random() % parts.size()];
    std::string out;
    AppendJsonString(text, &out);
    EXPECT_EQ(out.find('\n'), std::string::npos);
    const std::string expected = json(text).dump(-1, ' ', false, json::error_handler_t::replace);
    EXPECT_EQ(json::parse(out), json::parse(expected)) << out;
  }
}

}  // namespace
}  // namespace ropeway
