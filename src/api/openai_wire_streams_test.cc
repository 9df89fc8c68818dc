// Streams that ordinary clients read, and answers that must not pass for empty ones: the table.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "api/test_wire.h"
#include "api/wire_format.h"

namespace ropeway::api::wire {
namespace {

using testing::HasSubstr;

// An event's data with this content, which is JSON, and what else its choice has.
std::string ChunkOf(bool chat, const std::string& content, const std::string& more = "") {
  const std::string said = chat ? "\"delta\":{\"content\":" + content + "}" : "\"text\":" + content;
  return R"({"id":"c","choices":[{"index":0,)" + said + more + "}]}";
}

std::string EndOf(bool chat) { return ChunkOf(chat, "\"\"", R"(,"finish_reason":"stop")"); }

// A body, in which TEXT(x) is an event that says x, END one that ends the answer, and OVER [DONE].
std::string BodyOf(const std::string& script, bool chat) {
  std::string body;
  for (size_t at = 0; at < script.size();) {
    const std::string_view rest = std::string_view(script).substr(at);
    if (rest.starts_with("TEXT(")) {
      const size_t end = script.find(')', at);
      body += "data: " + ChunkOf(chat, script.substr(at + 5, end - at - 5)) + "\n\n";
      at = end + 1;
    } else if (rest.starts_with("END")) {
      body += "data: " + EndOf(chat) + "\n\n";
      at += 3;
    } else if (rest.starts_with("OVER")) {
      body += "data: [DONE]\n\n";
      at += 4;
    } else {
      body += script[at++];
    }
  }
  return body;
}

struct GoodStream {
  const char* name;
  std::string script;
  const char* text = "Hello";
};

std::vector<GoodStream> GoodStreams() {
  const std::string rest = R"(TEXT("Hel")TEXT("lo")ENDOVER)";
  std::string idle;
  for (int i = 0; i < 500; ++i) idle += "data: {\"id\":\"x\",\"choices\":[]}\n\nTEXT(\"\")";
  return {
      {"plain", rest},
      {"a byte order mark", "\xEF\xBB\xBF" + rest},
      {"a byte order mark and a comment", "\xEF\xBB\xBF: hello\n\n" + rest},
      {"an event without text first", "data:\n\n" + rest},
      {"events without text within", R"(TEXT("Hel"))"
                                     "data: \n\ndata\n\ndata:  \t\n\n"
                                     R"(TEXT("lo")ENDOVER)"},
      {"parts", R"(TEXT([{"type":"text","text":"Hel"}])TEXT(["lo"])ENDOVER)"},
      {"one part", R"(TEXT({"type":"text","text":"Hello"})ENDOVER)"},
      {"no content", R"(TEXT(null)TEXT("Hello")ENDOVER)"},
      {"ids that change",
       "data: {\"id\":\"a\",\"choices\":[]}\n\ndata: {\"id\":\"b\"}\n\n"
       "data: {\"id\":7,\"choices\":null}\n\n" +
           rest},
      {"a ping of a type", "event: ping\ndata: ping\n\nevent: ping\ndata: {}\n\n" + rest},
      {"a ping of another type", "event: heartbeat\ndata: 2024-01-01 12:00\n\n" + rest},
      {"pings without a type",
       "data: ping\n\ndata: [PING]\n\ndata: keep-alive\n\ndata: null\n\n" + rest},
      {"types of their own",
       "event: completion\nTEXT(\"Hel\")event: delta\nTEXT(\"lo\")event: end\nEND"
       "event: done\nOVER"},
      {"keep-alive events", idle + rest},
      {"a key twice", "data: {\"choices\":[],\"id\":1,\"choices\":null,\"id\":2}\n\n" + rest},
      {"halves", R"(TEXT("a\ud83d")TEXT("\ude00b")ENDOVER)", "a😀b"},
      {"halves with a keep-alive event between", R"(TEXT("\ud83d")TEXT("")TEXT("\ude00")ENDOVER)",
       "😀"},
      {"half a character", R"(TEXT("a\ud83d")TEXT("b")TEXT("\ud83d")ENDOVER)",
       "a\uFFFD"
       "b\uFFFD"},
      {"spaces around the end", R"(TEXT("Hello")data:  [DONE]  )"
                                "\n\n"},
      {"no line's end at the end", R"(TEXT("Hello")data: [DONE])"},
      {"no error", "data: {\"error\":null,\"choices\":[]}\n\ndata: {\"error\":\"\"}\n\n" + rest},
      {"usage as text",
       "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":\"3\",\"completion_tokens\":2.0}}\n\n" +
           rest},
  };
}

TEST(OpenAiStreams, AreReadAsOrdinaryClientsReadThem) {
  for (const BackendKind kind :
       {BackendKind::kOpenAi, BackendKind::kLlamaCpp, BackendKind::kRopeway}) {
    const auto wire = MakeWireFormat(kind, {});
    for (const GoodStream& one : GoodStreams()) {
      for (const bool chat : {true, false}) {
        for (const size_t cut : {size_t{1}, size_t{7}, size_t{1} << 20U}) {
          SCOPED_TRACE(fmt::format("{} {} {}", one.name, chat ? "chat" : "text", cut));
          const ReadStream read = ReadInPieces(*wire, chat ? ChatRequest() : CompletionRequest(),
                                               BodyOf(one.script, chat), cut);
          ASSERT_FALSE(read.failure) << read.failure->status.message();
          EXPECT_EQ(read.sink.text, one.text);
          EXPECT_EQ(read.end.reason, FinishReason::kStop);
        }
      }
    }
  }
}

TEST(OpenAiStreams, ACompletionMayBeWrittenAsAChatBesideAnEmptyText) {
  const std::string body =
      Events({R"({"choices":[{"text":"","delta":{"reasoning_content":"hm"}}]})",
              R"({"choices":[{"text":"","delta":{"content":[{"type":"text","text":"Hel"}]}}]})",
              R"({"choices":[{"text":"lo","delta":{"content":"lo"}}]})",
              R"({"choices":[{"text":"","delta":{"content":null},"finish_reason":"stop"}]})"});
  for (const Request& request : {CompletionRequest(), ChatRequest()}) {
    const ReadStream read = ReadInPieces(*MakeOpenAi({}), request, body, 9);
    ASSERT_FALSE(read.failure) << read.failure->status.message();
    EXPECT_EQ(read.sink.reasoning, "hm");
    EXPECT_EQ(read.sink.text, "Hello");
  }
}

TEST(OpenAiStreams, AnIndexThatCountsIsThatOfOneChoice) {
  std::string body;
  for (int i = 0; i < 4; ++i) {
    body += fmt::format("data: {{\"choices\":[{{\"index\":{},\"text\":\"{}\"}}]}}\n\n", i, i);
  }
  body += "data: {\"choices\":[{\"index\":null,\"text\":\"\",\"finish_reason\":\"length\"}]}\n\n";
  const ReadStream read = ReadInPieces(*MakeOpenAi({}), CompletionRequest(), body, 9);
  ASSERT_FALSE(read.failure) << read.failure->status.message();
  EXPECT_EQ(read.sink.text, "0123");
  EXPECT_EQ(read.end.reason, FinishReason::kLength);
}

TEST(OpenAiStreams, KeepAliveEventsAreNoTokens) {
  std::string body;
  for (int i = 0; i < 100; ++i) body += "data: {\"id\":\"c\",\"choices\":[]}\n\n: x\n\ndata:\n\n";
  const ReadStream read = ReadInPieces(*MakeOpenAi({}), CompletionRequest(),
                                       body + BodyOf(R"(TEXT("a")ENDOVER)", false), 1 << 20);
  EXPECT_EQ(read.sink.pieces.size(), 1u) << "nothing else is output";
  EXPECT_FALSE(read.end.usage.completion_tokens >= 0);
}

TEST(OpenAiStreams, AWholeAnswerIsOne) {
  const std::string usage = R"(,"usage":{"prompt_tokens":3,"completion_tokens":2})";
  const std::string chat =
      R"({"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Hello"},"finish_reason":"length"}])" +
      usage + "}";
  const std::string text =
      R"({"object":"text_completion","choices":[{"text":"Hello","finish_reason":"length"}])" +
      usage + "}";
  for (const std::string before : {"", "\n  ", "\xEF\xBB\xBF"}) {
    for (const bool is_chat : {true, false}) {
      const Request request = is_chat ? ChatRequest() : CompletionRequest();
      const std::string& whole = is_chat ? chat : text;
      const std::string in_an_event = "data: " + whole + "\n\n";
      for (const std::string& body : {before + whole + "\n", in_an_event}) {
        for (const size_t cut : {size_t{1}, size_t{1} << 20U}) {
          const ReadStream read = ReadInPieces(*MakeOpenAi({}), request, body, cut);
          ASSERT_FALSE(read.failure) << read.failure->status.message();
          EXPECT_EQ(read.sink.text, "Hello");
          EXPECT_EQ(read.end.usage.completion_tokens, 2);
          EXPECT_EQ(read.end.reason, FinishReason::kLength);
        }
      }
    }
  }
  // A message behind the pieces is the same text once more.
  const std::string twice = BodyOf(R"(TEXT("Hello"))", true) + "data: " + chat + "\n\n";
  EXPECT_EQ(ReadInPieces(*MakeOpenAi({}), ChatRequest(), twice, 9).sink.text, "Hello");
  const std::string with_delta =
      "{\"choices\":[{\"delta\":{}," + chat.substr(chat.find("\"message"));
  EXPECT_EQ(ReadInPieces(*MakeOpenAi({}), ChatRequest(), with_delta, 9).sink.text, "Hello");
  // It has its own bound, larger than an event's.
  std::string large = text;
  large.insert(1, "\"x\":\"" + std::string(2 << 20, 'x') + "\",");
  EXPECT_FALSE(ReadInPieces(*MakeOpenAi({}), CompletionRequest(), large, 1 << 16).failure);
  large.insert(1, std::string(4 << 20, ' '));
  EXPECT_TRUE(ReadInPieces(*MakeOpenAi({}), CompletionRequest(), large, 1 << 16).failure);
}

// No field of an unexpected type is as if it were not there.
TEST(OpenAiStreams, AFieldOfAnUnexpectedTypeIsNamed) {
  struct Wrong {
    const char* event;
    const char* words;
  };
  const Wrong of_chats[] = {
      {R"({"choices":"x"})", "'choices' as a string"},
      {R"({"choices":{"0":{}}})", "'choices' as an object"},
      {R"({"choices":["x"]})", "'choices' as a string"},
      {R"({"choices":[{"delta":"Hello"}]})", "'delta' as a string"},
      {R"({"choices":[{"delta":[1]}]})", "'delta' as a list"},
      {R"({"choices":[{"message":"Hello"}]})", "'message' as a string"},
      {R"({"choices":[{"delta":{"content":7}}]})", "'content' as a number"},
      {R"({"choices":[{"delta":{"content":false}}]})", "'content' as a boolean"},
      {R"({"choices":[{"delta":{"content":[{"type":"image_url"}]}}]})", "'image_url'"},
      {R"({"choices":[{"delta":{"reasoning":{"effort":"low"}}}]})", "'reasoning' with a part"},
      {R"({"choices":[{"delta":{"reasoning_content":1}}]})", "'reasoning_content' as a number"},
      {R"({"choices":[{"delta":{"tool_calls":"x"}}]})", "'tool_calls' as a string"},
      {R"({"choices":[{"delta":{"tool_calls":["x"]}}]})", "'tool_calls' as a string"},
      {R"({"choices":[{"delta":{"tool_calls":[{"function":"f"}]}}]})", "'tool_calls.function'"},
      {R"({"choices":[{"delta":{},"finish_reason":1}]})", "'finish_reason' as a number"},
      {R"({"choices":[{"delta":{},"finish_reason":["stop"]}]})", "'finish_reason' as a list"},
      {R"({"choices":[],"usage":[1]})", "'usage' as a list"},
      {R"({"choices":[],"usage":{"prompt_tokens":"three"}})", "'prompt_tokens' as a string"},
      {R"({"choices":[],"usage":{"completion_tokens":{}}})", "'completion_tokens' as an object"},
      {R"({"choices":[],"usage":{"prompt_tokens_details":4}})", "'prompt_tokens_details'"},
      {R"({"choices":[],"timings":"fast"})", "'timings' as a string"},
      {R"({"choices":[{"delta":{"content":"a"},"logprobs":7}]})", "'logprobs' as a number"},
  };
  Request request = ChatRequest();
  request.logprobs = 1;
  for (const Wrong& one : of_chats) {
    const std::string body = Events({one.event, EndOf(true)});
    const ReadStream read = ReadInPieces(*MakeOpenAi({}), request, body, 9);
    ASSERT_TRUE(read.failure.has_value()) << one.event;
    EXPECT_THAT(read.failure->status.message(), HasSubstr(one.words)) << one.event;
    EXPECT_EQ(read.sink.text, "") << one.event;
  }
  for (const char* text : {"7", "true", R"([{"type":"image_url"}])"}) {
    const std::string body = Events({ChunkOf(false, text), EndOf(false)});
    EXPECT_TRUE(ReadInPieces(*MakeOpenAi({}), CompletionRequest(), body, 9).failure) << text;
  }
}

TEST(OpenAiStreams, AnErrorIsToldHoweverItIsWritten) {
  const std::pair<std::string, const char*> cases[] = {
      {"event: error\ndata: boom\n\n", "with an error: boom"},
      {"event: error\ndata: {\"message\":\"boom\"}\n\n", "with an error: boom"},
      {"event: error\ndata: {}\n\n", "does not describe"},
      {"data: {\"error\":[\"boom\"]}\n\n", "boom"},
      {"data: {\"error\":{\"message\":{\"why\":\"boom\"}}}\n\n", "boom"},
      {"data: {\"error\":7}\n\n", "7"},
      {"event: chunk\ndata: {\"choices\":[\n\n", "not valid JSON"},
      {R"({"error":{"message":"boom"}})", "answered with an error: boom"},
      {R"([{"error":{"message":"boom"}}])", "answered with an error: boom"},
      {R"({"detail":"boom"})", "answered with an error: boom"},
      {"{\"choices\":[]", "not valid JSON"},
      {"{}", "does not describe"},
  };
  for (const auto& [body, words] : cases) {
    const ReadStream read = ReadInPieces(*MakeOpenAi({}), ChatRequest(), body, 9);
    ASSERT_TRUE(read.failure.has_value()) << body;
    EXPECT_THAT(read.failure->status.message(), HasSubstr(words)) << body;
  }
}

TEST(OpenAiStreams, AnAnswerThatSaysNothingIsNoEmptyOne) {
  for (const char* body :
       {R"({"choices":[]})", R"({"choices":[{}]})", R"({"choices":[{"index":0}],"usage":{}})",
        "data: [DONE]\n\n", ": ping\n\ndata: {\"choices\":[]}\n\ndata: [DONE]\n\n"}) {
    const ReadStream read = ReadInPieces(*MakeOpenAi({}), CompletionRequest(), body, 5);
    EXPECT_TRUE(read.failure.has_value()) << body;
  }
}

TEST(OpenAiStreams, WhatComesBehindTheEndIsReadByTheSameRules) {
  const std::string answer = "data: " + EndOf(false) + "\n\n";
  const auto behind = [&](const std::string& last) {
    return ReadInPieces(*MakeOpenAi({}), CompletionRequest(), answer + last, 7);
  };
  const std::string usage = R"(data: {"choices":[],"usage":{"completion_tokens":3}})";
  // Its last event may lack the empty line.
  for (const char* end : {"", "\n", "\n\n"}) {
    const ReadStream read = behind(usage + end);
    EXPECT_FALSE(read.failure.has_value());
    EXPECT_EQ(read.end.usage.completion_tokens, 3);
  }
  const ReadStream odd = behind("data: {\"choices\":[],\"usage\":\"x\"}\n\n");
  ASSERT_TRUE(odd.failure.has_value());
  EXPECT_THAT(odd.failure->status.message(), HasSubstr("usage"));
}

// Quadratic work would take minutes.
TEST(OpenAiStreams, SpaceBeforeAnAnswerIsLookedAtOnce) {
  const std::string body = std::string(1'000'000, ' ') + "\ndata: " + EndOf(false) + "\n\n";
  EXPECT_FALSE(ReadInPieces(*MakeOpenAi({}), CompletionRequest(), body, 1).failure.has_value());
}

TEST(OpenAiStreams, BytesThatAreNoTextAreReplaced) {
  const std::string cut = "data: " + ChunkOf(true, "\"a\xF0\x9F\"") + "\n\ndata: " +
                          ChunkOf(true,
                                  "\"\xFF"
                                  "b\"") +
                          "\n\ndata: " + EndOf(true) + "\n\n";
  const ReadStream read = ReadInPieces(*MakeOpenAi({}), ChatRequest(), cut, 3);
  EXPECT_FALSE(read.failure.has_value());
  EXPECT_EQ(read.sink.text,
            "a\xEF\xBF\xBD\xEF\xBF\xBD"
            "b");
}

TEST(OpenAiStreams, AnErrorWithACodeThatClientsKnowIsTheRequests) {
  const std::string event =
      R"({"error":{"message":"b","code":"context_length_exceeded","param":"messages"}})";
  const ReadStream read = ReadInPieces(*MakeOpenAi({}), ChatRequest(), Events({event}), 9);
  ASSERT_TRUE(read.failure.has_value());
  EXPECT_EQ(read.failure->kind, FailureKind::kRejected);
  EXPECT_STREQ(read.failure->status.api_code(), "context_length_exceeded");
  EXPECT_EQ(read.failure->status.field(), "messages");
}

}  // namespace
}  // namespace ropeway::api::wire
