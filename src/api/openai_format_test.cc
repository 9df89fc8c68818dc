// The answers of the two OpenAI dialects, whole and as streams.
#include "api/openai_format.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/dialects.h"
#include "api/test_events.h"

namespace ropeway::api {
namespace {

using nlohmann::json;
using std::chrono::microseconds;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr const char* kMessages = R"("messages":[{"role":"user","content":"u"}])";

using Format = std::unique_ptr<ApiFormat>;

// A format that has parsed `body`, and was started.
Format StartedFormat(ApiFormatMaker make, const std::string& body,
                     std::vector<std::string> prompt_texts) {
  Format format = make();
  const Status status = format->Parse(body, {});
  EXPECT_TRUE(status.ok()) << status.message();
  AnswerHead head;
  head.id = "1";
  head.created = 1700000000;
  head.model = "ser\"ved";
  head.priority = format->request()->priority.value_or(Priority::kMedium);
  head.prompt_texts = std::move(prompt_texts);
  format->Start(std::move(head));
  return format;
}

// `fields` follow the prompt.
Format StartCompletion(const std::string& fields, std::vector<std::string> prompt_texts = {},
                       const std::string& prompt = R"("p")") {
  return StartedFormat(MakeOpenAiCompletions, "{\"prompt\":" + prompt + fields + "}",
                       std::move(prompt_texts));
}

Format StartChat(const std::string& fields) {
  return StartedFormat(MakeOpenAiChat, "{" + std::string(kMessages) + fields + "}", {});
}

OutputToken Token(const std::string& bytes, uint64_t offset, float logprob = -1.0F) {
  OutputToken token;
  token.bytes = bytes;
  token.text_offset = offset;
  token.logprob = logprob;
  return token;
}

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

Finish Ended(FinishReason reason, uint64_t batch_num = 3) {
  Finish finish;
  finish.reason = reason;
  finish.usage = {.prompt_tokens = 10, .completion_tokens = 4, .cached_tokens = 2};
  finish.first_token_step = 9;
  finish.seed = std::numeric_limits<uint64_t>::max();
  finish.batch_num = batch_num;
  finish.batch_size = 2;
  finish.times = {.queue = microseconds(1500),
                  .formation = microseconds(250),
                  .prefill = microseconds(20'000),
                  .decode = microseconds(100'125),
                  .output = microseconds(1)};
  return finish;
}

const json kRopeway = json::parse(
    R"({"batch_num":3,"seed":18446744073709551615,"batch":3,"batch_size":2,"queue_ms":1.5,
        "formation_ms":0.25,"prefill_ms":20.0,"decode_ms":100.125,"output_ms":0.001})");

ChoiceOutput Choice(const std::string& text, std::vector<OutputToken> tokens = {}) {
  return {text, std::move(tokens), {}, Ended(FinishReason::kStop)};
}

// The answer with one choice.
json Answer(const Format& format, ChoiceOutput choice) {
  return json::parse(format->Whole({std::move(choice)}));
}

// The one event in `bytes`.
json Event(const std::string& bytes) {
  const std::vector<std::string> events = Events(bytes);
  EXPECT_EQ(events.size(), 1U) << bytes;
  return events.empty() ? json() : json::parse(events[0]);
}

// --- Whole answers.

TEST(OpenAiWhole, TheTierIsShownWhereItWasAskedFor) {
  EXPECT_FALSE(Answer(StartChat(""), Choice("a")).contains("service_tier"));
  for (const auto& [asked, shown] :
       {std::pair("flex", "flex"), std::pair("auto", "default"), std::pair("scale", "priority")}) {
    const std::string field = R"(,"service_tier":")" + std::string(asked) + "\"";
    EXPECT_EQ(Answer(StartChat(field), Choice("a"))["service_tier"], shown);
  }
}

TEST(OpenAiWhole, Completion) {
  json expected = json::parse(
      R"({"id":"cmpl-1","object":"text_completion","created":1700000000,"model":"ser\"ved",
          "choices":[{"index":0,"text":"hello","logprobs":null,"finish_reason":"stop"}],
          "usage":{"prompt_tokens":10,"completion_tokens":4,"total_tokens":14,
                   "prompt_tokens_details":{"cached_tokens":2,"cache_write_tokens":8}}})");
  expected["ropeway"] = kRopeway;
  EXPECT_EQ(Answer(StartCompletion(""), Choice("hello")), expected);
}

TEST(OpenAiWhole, Chat) {
  ChoiceOutput choice = Choice("hello");
  choice.finish.reason = FinishReason::kLength;
  const json answer = Answer(StartChat(""), choice);
  EXPECT_EQ(answer["id"], "chatcmpl-1");
  EXPECT_EQ(answer["object"], "chat.completion");
  EXPECT_EQ(answer["choices"][0]["message"],
            json::parse(R"({"role":"assistant","content":"hello","refusal":null})"));
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
}

TEST(OpenAi, TheStopStringThatEndedAChoiceIsNamed) {
  const std::string stops = R"(,"stop":["a\"","\n"])";
  ChoiceOutput choice = Choice("hello");
  EXPECT_FALSE(Answer(StartChat(stops), choice)["choices"][0].contains("stop_reason"));
  choice.finish.stop = 0;
  EXPECT_EQ(Answer(StartChat(stops), choice)["choices"][0]["stop_reason"], "a\"");
  Finish finish = Ended(FinishReason::kStop);
  const Format events = StartCompletion(stops + R"(,"stream":true)");
  EXPECT_FALSE(Event(events->OnEnd(0, finish))["choices"][0].contains("stop_reason"));
  finish.stop = 1;
  const json end = Event(events->OnEnd(0, finish))["choices"][0];
  EXPECT_EQ(end["stop_reason"], "\n");
  EXPECT_EQ(end["finish_reason"], "stop");
}

TEST(OpenAiWhole, ManyChoicesAndTheirUsage) {
  const Format format = StartCompletion(",\"n\":2", {}, R"(["p","q"])");
  std::vector<ChoiceOutput> choices = {Choice("a"), Choice("b"), Choice("c"), Choice("d")};
  choices[2].finish.usage.prompt_tokens = 100;
  choices[2].finish.usage.cached_tokens = 50;
  choices[3].finish.reason = FinishReason::kLength;
  choices[3].finish.batch_num = 1;
  const json answer = json::parse(format->Whole(choices));
  ASSERT_EQ(answer["choices"].size(), 4U);
  EXPECT_EQ(answer["choices"][2]["index"], 2);
  EXPECT_EQ(answer["choices"][2]["text"], "c");
  EXPECT_EQ(answer["choices"][3]["finish_reason"], "length");
  EXPECT_EQ(answer["usage"], json::parse(R"({"prompt_tokens":110,"completion_tokens":16,
      "total_tokens":126,"prompt_tokens_details":{"cached_tokens":52,"cache_write_tokens":58}})"));
  EXPECT_EQ(answer["ropeway"]["batch_num"], 3);
}

TEST(OpenAiWhole, SumsOfUsageDoNotOverflow) {
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
  const Format format = StartCompletion(",\"n\":2", {}, R"(["p","q"])");
  std::vector<ChoiceOutput> choices = {Choice("a"), Choice("b"), Choice("c"), Choice("d")};
  for (ChoiceOutput& choice : choices) {
    choice.finish.usage = {
        .prompt_tokens = kMost, .completion_tokens = kMost, .cached_tokens = kMost};
  }
  EXPECT_EQ(json::parse(format->Whole(choices))["usage"],
            json::parse(R"({"prompt_tokens":4294967294,"completion_tokens":8589934588,
      "total_tokens":12884901882,
      "prompt_tokens_details":{"cached_tokens":4294967294,"cache_write_tokens":0}})"));
}

TEST(OpenAiWhole, NoMoreIsCachedThanThePromptHas) {
  const Format format = StartCompletion("", {}, R"("p")");
  ChoiceOutput choice = Choice("a");
  choice.finish.usage.cached_tokens = std::numeric_limits<int32_t>::max();
  const json usage = json::parse(format->Whole({choice}))["usage"];
  EXPECT_EQ(usage["prompt_tokens_details"]["cached_tokens"], 10);
}

TEST(OpenAiWhole, UsageThatWasEstimatedSaysSo) {
  const Format format = StartCompletion(",\"n\":2", {}, R"("p")");
  std::vector<ChoiceOutput> choices = {Choice("a"), Choice("b")};
  EXPECT_FALSE(json::parse(format->Whole(choices))["usage"].contains("estimated"));
  choices[1].finish.usage.estimated = true;
  EXPECT_EQ(json::parse(format->Whole(choices))["usage"]["estimated"], true);
}

TEST(OpenAiWhole, ARequestThatNeverStartedHasNoBatch) {
  ChoiceOutput choice = Choice("");
  choice.finish.usage.completion_tokens = 0;
  EXPECT_EQ(Answer(StartCompletion(""), choice)["ropeway"]["batch_num"], 3);  // It started.
  choice.finish.batch_num = 0;
  for (const char* name : {"batch_num", "batch", "batch_size"}) {
    EXPECT_EQ(Answer(StartCompletion(""), choice)["ropeway"][name], nullptr) << name;
  }
}

TEST(OpenAiWhole, TextIsEscaped) {
  std::string text =
      "quote \" slash \\ newline \n \x01 \x7f caf\xc3\xa9 \xf0\x9f\x98\x80 \xe2\x80\xa8";
  text.push_back('\0');
  EXPECT_EQ(Answer(StartCompletion(""), Choice(text))["choices"][0]["text"], text);
}

TEST(OpenAiWhole, CompletionLogprobs) {
  // "é" in two tokens, then "x" which begins at byte 2, the character 1.
  OutputToken first = Token("\xc3", 0, -0.25F);
  first.top_logprobs = {{5, -0.125F}, {6, -0.25F}};
  first.top_bytes = {"a", "\xc3"};
  const json answer = Answer(StartCompletion(",\"logprobs\":2"),
                             Choice("\xc3\xa9x", {first, Token("\xa9", 1), Token("x", 2)}));
  const json logprobs = answer["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["tokens"], (json{"bytes:\\xc3", "bytes:\\xa9", "x"}));
  EXPECT_EQ(logprobs["text_offset"], (json{0, 1, 1}));
  EXPECT_EQ(logprobs["token_logprobs"], (json{-0.25, -1.0, -1.0}));
  EXPECT_EQ(logprobs["top_logprobs"][0], (json{{"a", -0.125}, {"bytes:\\xc3", -0.25}}));
  EXPECT_EQ(logprobs["top_logprobs"][2], (json{{"x", -1.0}}));
}

// The prompt "é!" after what the vocabulary begins every text with, and "x" generated.
ChoiceOutput Echoed() {
  ChoiceOutput choice = Choice("x", {Token("x", 0, -0.5F)});
  OutputToken last = Token("!", 5, -2.0F);
  last.top_logprobs = {{7, -0.25F}};
  last.top_bytes = {"?"};
  choice.prompt_tokens = {Token("<s>", 0, kNaN), Token("\xc3\xa9", 3, -1.5F), last};
  return choice;
}

TEST(OpenAiWhole, EchoComesFirst) {
  const std::vector<std::string> texts = {"\xc3\xa9!"};
  const json plain = Answer(StartCompletion(",\"echo\":true", texts), Choice("x"))["choices"][0];
  EXPECT_EQ(plain["text"], "\xc3\xa9!x");
  EXPECT_EQ(plain["logprobs"], nullptr);
  const json choice =
      Answer(StartCompletion(",\"echo\":true,\"logprobs\":1", texts), Echoed())["choices"][0];
  EXPECT_EQ(choice["text"], "\xc3\xa9!x");
  EXPECT_EQ(choice["logprobs"]["tokens"], (json{"<s>", "\xc3\xa9", "!", "x"}));
  EXPECT_EQ(choice["logprobs"]["token_logprobs"], (json{nullptr, -1.5, -2.0, -0.5}));
  EXPECT_EQ(choice["logprobs"]["text_offset"], (json{0, 0, 1, 2}));
  EXPECT_EQ(choice["logprobs"]["top_logprobs"],
            (json{nullptr, {{"\xc3\xa9", -1.5}}, {{"?", -0.25}, {"!", -2.0}}, {{"x", -0.5}}}));
  EXPECT_FALSE(choice.contains("prompt_logprobs"));
}

TEST(OpenAiWhole, EachPromptsChoicesShowItsText) {
  const Format format = StartCompletion(",\"echo\":true,\"n\":2", {"p", "q"}, R"(["p","q"])");
  const json answer =
      json::parse(format->Whole({Choice("1"), Choice("2"), Choice("3"), Choice("4")}));
  std::string all;
  for (const json& choice : answer["choices"]) all += choice["text"].get<std::string>();
  EXPECT_EQ(all, "p1p2q3q4");
}

TEST(OpenAiWhole, PromptLogprobsAsInVllm) {
  const json expected = json::parse(
      R"([null, {"4": {"logprob": -1.5, "rank": null, "decoded_token": "é"}},
          {"7": {"logprob": -0.25, "rank": 1, "decoded_token": "?"},
           "5": {"logprob": -2.0, "rank": null, "decoded_token": "!"}}])");
  ChoiceOutput choice = Echoed();
  choice.prompt_tokens[1].id = 4;
  choice.prompt_tokens[2].id = 5;
  const std::string field = ",\"prompt_logprobs\":1";
  EXPECT_EQ(Answer(StartCompletion(field), choice)["choices"][0]["prompt_logprobs"], expected);
  EXPECT_EQ(Answer(StartChat(field), choice)["prompt_logprobs"], expected);
  // The token's own entry where it is among the best.
  choice.prompt_tokens[2].id = 7;
  EXPECT_EQ(Answer(StartChat(field), choice)["prompt_logprobs"][2].size(), 1U);
}

// `text_offset` counts from the text of the prompt, after what the vocabulary puts before it, if
// that can be told.
TEST(OpenAiWhole, OffsetsBeginWithThePromptsText) {
  const auto offsets = [](const std::string& text, std::vector<OutputToken> prompt_tokens) {
    ChoiceOutput choice = Choice("");
    choice.prompt_tokens = std::move(prompt_tokens);
    const Format format = StartCompletion(",\"echo\":true,\"logprobs\":0", {text});
    return Answer(format, choice)["choices"][0]["logprobs"]["text_offset"];
  };
  const std::vector<OutputToken> tokens = {Token("<s>", 0), Token("ab", 3), Token("c", 5)};
  EXPECT_EQ(offsets("abc", tokens), (json{0, 0, 2}));
  EXPECT_EQ(offsets("<s>abc", tokens), (json{0, 3, 5}));
  EXPECT_EQ(offsets("xyz", tokens), (json{0, 3, 3}));
  EXPECT_EQ(offsets("abc", {}), json::array());
}

TEST(OpenAiWhole, ChatLogprobs) {
  OutputToken token = Token("\xe2\x96", 0, -std::numeric_limits<float>::infinity());
  token.top_logprobs = {{1, -0.5F}};
  token.top_bytes = {"ok"};
  const Format format = StartChat(",\"logprobs\":true,\"top_logprobs\":1");
  const json entry = Answer(format, Choice("", {token}))["choices"][0]["logprobs"]["content"][0];
  EXPECT_EQ(entry["token"], "\xef\xbf\xbd");
  EXPECT_EQ(entry["bytes"], (json{0xe2, 0x96}));
  EXPECT_EQ(entry["logprob"], -9999.0);
  EXPECT_EQ(entry["top_logprobs"][0],
            (json{{"token", "ok"}, {"logprob", -0.5}, {"bytes", {'o', 'k'}}}));
}

TEST(OpenAiWhole, LogprobBitsSurvive) {
  const Format format = StartCompletion(",\"logprobs\":0");
  for (float logprob : {-0.1F, -1.1754944e-38F, -13.7000017F, -0.0F, -3.4e38F}) {
    json answer = Answer(format, Choice("a", {Token("a", 0, logprob)}));
    const float read = answer["choices"][0]["logprobs"]["token_logprobs"][0].get<float>();
    EXPECT_EQ(read, logprob < -9999.0F ? -9999.0F : logprob);
  }
}

// --- Streams.

const char* const kStream = R"(,"stream":true)";
const char* const kStreamWithUsage = R"(,"stream":true,"stream_options":{"include_usage":true})";

TEST(OpenAiStream, EveryAnswerAndChunkHasTheFingerprint) {
  for (const ApiFormatMaker make : {MakeOpenAiCompletions, MakeOpenAiChat}) {
    for (const std::string stream : {"", kStreamWithUsage}) {
      const Format format = make();
      const std::string body = R"("prompt":"p")" + stream;
      const bool chat = make == MakeOpenAiChat;
      ASSERT_TRUE(format->Parse("{" + (chat ? kMessages + stream : body) + "}", {}).ok());
      AnswerHead head;
      head.fingerprint = "fp_0123456789ab";
      format->Start(std::move(head));
      std::vector<std::string> answers;
      if (stream.empty()) {
        answers = {format->Whole({Choice("a")})};
      } else {
        answers = Events(format->Begin() + format->OnDelta(0, TextDelta("a")) +
                         format->OnEnd(0, Ended(FinishReason::kStop)) + format->Done());
        answers.pop_back();  // "[DONE]"
      }
      EXPECT_GE(answers.size(), stream.empty() ? 1U : 3U);
      for (const std::string& answer : answers) {
        EXPECT_EQ(json::parse(answer)["system_fingerprint"], "fp_0123456789ab") << answer;
      }
    }
  }
}

TEST(OpenAiStream, EveryChunkShowsTheTierThatWasAskedFor) {
  const Format events = StartChat(std::string(kStreamWithUsage) + R"(,"service_tier":"default")");
  EXPECT_EQ(Event(events->Begin())["service_tier"], "default");
  EXPECT_EQ(Event(events->OnDelta(0, TextDelta("a")))["service_tier"], "default");
  EXPECT_EQ(Event(events->OnEnd(0, Ended(FinishReason::kStop)))["service_tier"], "default");
  EXPECT_EQ(json::parse(Events(events->Done())[0])["service_tier"], "default");
  EXPECT_FALSE(Event(StartChat(kStream)->Begin()).contains("service_tier"));
}

TEST(OpenAiStream, CompletionChunk) {
  const Format events = StartCompletion(kStream);
  EXPECT_EQ(events->Begin(), "");
  json expected = json::parse(
      R"({"id":"cmpl-1","object":"text_completion","created":1700000000,"model":"ser\"ved",
          "choices":[{"index":0,"text":"hi","logprobs":null,"finish_reason":null}]})");
  EXPECT_EQ(Event(events->OnDelta(0, TextDelta("hi"))), expected);
  expected["choices"][0]["text"] = "";
  expected["choices"][0]["finish_reason"] = "stop";
  expected["ropeway"] = kRopeway;
  EXPECT_EQ(Event(events->OnEnd(0, Ended(FinishReason::kStop))), expected);
  EXPECT_EQ(events->Done(), "data: [DONE]\n\n");
}

TEST(OpenAiStream, ChatChunk) {
  const Format events = StartChat(kStreamWithUsage);
  const json begin = Event(events->Begin());
  EXPECT_EQ(begin["object"], "chat.completion.chunk");
  EXPECT_EQ(begin["choices"][0]["delta"], json::parse(R"({"role":"assistant","content":""})"));
  json expected = json::parse(
      R"({"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,
          "model":"ser\"ved","usage":null,
          "choices":[{"index":0,"delta":{"content":"hi"},"logprobs":null,"finish_reason":null}]})");
  EXPECT_EQ(Event(events->OnDelta(0, TextDelta("hi"))), expected);
  const json end = Event(events->OnEnd(0, Ended(FinishReason::kLength)));
  EXPECT_EQ(end["choices"][0]["delta"], json::object());
  EXPECT_EQ(end["choices"][0]["finish_reason"], "length");
  const std::vector<std::string> done = Events(events->Done());
  ASSERT_EQ(done.size(), 2U);
  expected["choices"] = json::array();
  expected["usage"] = json::parse(R"({"prompt_tokens":10,"completion_tokens":4,"total_tokens":14,
                                      "prompt_tokens_details":{"cached_tokens":2,"cache_write_tokens":8}})");
  expected["ropeway"] = kRopeway;
  EXPECT_EQ(json::parse(done[0]), expected);
  EXPECT_EQ(done[1], "[DONE]");
}

TEST(OpenAiStream, ChoicesKeepTheirIndexAndAddUp) {
  const Format events = StartChat(std::string(kStreamWithUsage) + ",\"n\":3");
  EXPECT_EQ(Events(events->Begin()).size(), 3U);
  EXPECT_EQ(Event(events->OnDelta(2, TextDelta("c")))["choices"][0]["index"], 2);
  EXPECT_EQ(Event(events->OnDelta(0, TextDelta("a")))["choices"][0]["index"], 0);
  for (size_t i : {1, 2}) {
    const json end = Event(events->OnEnd(i, Ended(FinishReason::kStop, 50)));
    EXPECT_EQ(end["choices"][0]["index"], i);
    EXPECT_EQ(end["ropeway"]["batch_num"], 50);
  }
  events->OnEnd(0, Ended(FinishReason::kStop));
  const json usage = json::parse(Events(events->Done())[0]);
  EXPECT_EQ(usage["usage"]["prompt_tokens"], 10);
  EXPECT_EQ(usage["usage"]["completion_tokens"], 12);
  EXPECT_EQ(usage["ropeway"]["batch_num"], 3);
}

TEST(OpenAiStream, AnEmptyDeltaIsNotSent) {
  EXPECT_EQ(StartCompletion(kStream)->OnDelta(0, TokenDelta("", 0)), "");
  EXPECT_EQ(StartChat(kStream)->OnDelta(0, TokenDelta("", 0)), "");
  for (const Format& with_logprobs : {StartCompletion(std::string(kStream) + ",\"logprobs\":0"),
                                      StartChat(std::string(kStream) + ",\"logprobs\":true")}) {
    EXPECT_EQ(with_logprobs->OnDelta(0, TextDelta("")), "");
    EXPECT_NE(with_logprobs->OnDelta(0, TokenDelta("", 0)), "");
  }
}

TEST(OpenAiStream, LogprobsOfBothDialects) {
  const Format completion = StartCompletion(std::string(kStream) + ",\"logprobs\":0,\"n\":2");
  completion->OnDelta(0, TokenDelta("\xc3\xa9", 0));
  completion->OnDelta(1, TokenDelta("a", 0));
  const json lists = Event(completion->OnDelta(0, TokenDelta("x", 2)))["choices"][0]["logprobs"];
  EXPECT_EQ(lists["text_offset"], json{1});
  EXPECT_EQ(lists["tokens"], json{"x"});
  const Format chat = StartChat(std::string(kStream) + ",\"logprobs\":true");
  const json content =
      Event(chat->OnDelta(0, TokenDelta("x", 0)))["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), 1U);
  EXPECT_EQ(content[0]["token"], "x");
}

TEST(OpenAiStream, EchoWithoutLogprobsBegins) {
  const Format events = StartCompletion(std::string(kStream) + ",\"echo\":true,\"n\":2",
                                        {"p", "", "q"}, R"(["p","","q"])");
  std::string texts;
  for (const std::string& event : Events(events->Begin())) {
    const json choice = json::parse(event)["choices"][0];
    texts += std::to_string(choice["index"].get<int>()) + choice["text"].get<std::string>();
  }
  EXPECT_EQ(texts, "0p1p4q5q");
}

TEST(OpenAiStream, EchoWithLogprobsComesOnceAndWhole) {
  for (bool generates : {true, false}) {
    const Format events =
        StartCompletion(std::string(kStream) + ",\"echo\":true,\"logprobs\":0", {"ab"});
    EXPECT_EQ(events->Begin(), "");
    Delta prompt;
    prompt.prompt_tokens = {Token("<s>", 0, kNaN), Token("a", 3)};
    EXPECT_EQ(events->OnDelta(0, prompt), "");
    prompt.prompt_tokens = {Token("b", 4)};
    EXPECT_EQ(events->OnDelta(0, prompt), "");
    const std::string bytes = generates ? events->OnDelta(0, TokenDelta("x", 0))
                                        : events->OnEnd(0, Ended(FinishReason::kLength));
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
      EXPECT_EQ(Events(events->OnEnd(0, Ended(FinishReason::kStop))).size(), 1U);
    } else {
      EXPECT_EQ(next["finish_reason"], "length");
    }
  }
}

TEST(OpenAiStream, ErrorHasOpenAisShapeAndNoDone) {
  const std::string event =
      MakeOpenAiChat()->StreamError(ToApiError({StatusCode::kInternal, "It broke.", "f"}));
  ASSERT_TRUE(event.starts_with("data: ") && event.ends_with("\n\n"));
  EXPECT_EQ(json::parse(event.substr(6)),
            json::parse(R"({"error":{"message":"It broke.","type":"server_error","param":"f",
                                     "code":"internal_error"}})"));
}

TEST(OpenAiStream, KeepAliveIsACommentLine) {
  const std::string line(MakeOpenAiChat()->KeepAlive());
  EXPECT_TRUE(line.starts_with(":"));
  EXPECT_EQ(line.find('\n'), line.size() - 2);
  EXPECT_TRUE(line.ends_with("\n\n"));
}

// --- Parts.

TEST(TokenKey, IsTextOrBytes) {
  EXPECT_EQ(TokenKey("plain"), "plain");
  EXPECT_EQ(TokenKey("a\xff"), "bytes:\\x61\\xff");
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

TEST(Errors, WhatIsNotThereIsAModelOrWhatItsFieldSays) {
  const auto told = [](const Status& status) {
    const ApiError error = ToApiError(status);
    return std::to_string(error.http_status) + " " + error.param + " " + error.code;
  };
  EXPECT_EQ(told({StatusCode::kNotFound, "why"}), "404 model model_not_found");
  EXPECT_EQ(told({StatusCode::kNotFound, "why", "model"}), "404 model model_not_found");
  EXPECT_EQ(told({StatusCode::kNotFound, "why", "conversation"}), "404 conversation not_found");
}

TEST(Errors, ABusyConversationIsAConflict) {
  Status busy = InvalidArgument("why", "conversation");
  busy.set_api_code(kConversationBusy);
  const ApiError error = ToApiError(busy);
  EXPECT_EQ(error.http_status, 409);
  EXPECT_EQ(json::parse(ErrorJson(error)), json::parse(R"({"error":{"message":"why",
      "type":"invalid_request_error","param":"conversation","code":"conversation_busy"}})"));
}

TEST(OpenAiFormat, AStoredAnswerHasAStatus) {
  Format format = MakeOpenAiChat();
  ASSERT_TRUE(format->Parse("{" + std::string(kMessages) + "}", {}).ok());
  AnswerHead head{.id = "1", .created = 1700000000, .model = "m", .prompt_texts = {}};
  head.stored = true;
  format->Start(head);
  EXPECT_EQ(format->id_prefix(), "chatcmpl-");
  EXPECT_EQ(json::parse(format->Pending(AnswerState::kQueued, nullptr)),
            (json{{"id", "chatcmpl-1"},
                  {"object", "chat.completion"},
                  {"created", 1700000000},
                  {"model", "m"},
                  {"status", "queued"},
                  {"choices", json::array()}}));
  const ApiError error{503, "the device was lost", "service_unavailable_error", "", "unavailable"};
  const json failed = json::parse(format->Pending(AnswerState::kFailed, &error));
  EXPECT_EQ(failed["status"], "failed");
  EXPECT_EQ(failed["error"]["message"], "the device was lost");
  const ChoiceOutput whole;
  ChoiceOutput cut;
  cut.finish.reason = FinishReason::kLength;
  EXPECT_EQ(json::parse(format->Whole({whole, whole}))["status"], "completed");
  EXPECT_EQ(json::parse(format->Whole({whole, cut}))["status"], "incomplete");
  EXPECT_EQ(json::parse(format->Whole({whole, cut}))["choices"][1]["finish_reason"], "length");
  EXPECT_FALSE(json::parse(StartChat("")->Whole({ChoiceOutput()})).contains("status"));
}

TEST(AnswerState, HasANameOfItsOwn) {
  std::set<std::string> names;
  for (const AnswerState state :
       {AnswerState::kQueued, AnswerState::kInProgress, AnswerState::kCompleted,
        AnswerState::kIncomplete, AnswerState::kFailed, AnswerState::kCancelled}) {
    names.insert(AnswerStateName(state));
  }
  EXPECT_EQ(names, (std::set<std::string>{"queued", "in_progress", "completed", "incomplete",
                                          "failed", "cancelled"}));
}

}  // namespace
}  // namespace ropeway::api
