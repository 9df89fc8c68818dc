#include "api/wire_answer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "api/test_wire.h"
#include "api/wire_format.h"

namespace ropeway::api::wire {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr BackendKind kKindsOfOpenAi[] = {BackendKind::kOpenAi, BackendKind::kLlamaCpp,
                                          BackendKind::kRopeway};
constexpr size_t kAnswerCuts[] = {1, 7, 1 << 20};

std::string Saying(const std::string& delta) {
  return R"({"choices":[{"index":0,"delta":{)" + delta + "}}]}";
}
// An event with these entries of tool_calls.
std::string Calling(const std::string& entries) {
  return Saying(R"("tool_calls":[)" + entries + "]");
}
const char kCalledEnd[] = R"({"choices":[{"delta":{},"finish_reason":"tool_calls"}]})";

ReadStream ReadCalls(std::vector<std::string> events, const Request& request = ChatRequest()) {
  events.emplace_back(kCalledEnd);
  return ReadInPieces(*MakeOpenAi({}), request, Events(events), 1 << 10);
}

Request Unbounded() {
  Request request = ChatRequest();
  request.max_tokens.reset();
  return request;
}

TEST(WireAnswer, AStreamHasThoughtsTextAndCalls) {
  const std::string stream = Events(
      {Saying(R"("role":"assistant","content":null)"), Saying(R"("reasoning_content":"Which ")"),
       Saying(R"("reasoning":"city?")"), Saying(R"("content":"Let me see.")"),
       Calling(
           R"({"index":0,"id":"c1","type":"function","function":{"name":"get","arguments":""}})"),
       Calling(R"({"index":0,"function":{"arguments":"{\"city\":"}})"),
       Calling(R"({"index":0,"function":{"arguments":"\"Bozen\"}"}})"),
       Calling(
           R"({"index":1,"id":"c2","type":"function","function":{"name":"now","arguments":"{}"}})"),
       kCalledEnd,
       R"({"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":8,"completion_tokens_details":{"reasoning_tokens":3}}})"});
  for (const BackendKind kind : kKindsOfOpenAi) {
    for (const size_t cut : kAnswerCuts) {
      const ReadStream read = ReadInPieces(*MakeWireFormat(kind, {}), ChatRequest(), stream, cut);
      ASSERT_FALSE(read.failure) << read.failure->status.message();
      EXPECT_EQ(read.sink.reasoning, "Which city?");
      EXPECT_EQ(read.sink.text, "Let me see.");
      EXPECT_EQ(Shown(read.sink.calls), R"(c1 get({"city":"Bozen"}) c2 now({}) )");
      EXPECT_EQ(read.end.reason, FinishReason::kStop);
      EXPECT_EQ(read.end.usage.reasoning_tokens, 3);
    }
  }
}

// Here only a call that was cut is without.
TEST(WireAnswer, AWholeCallHasArguments) {
  const std::string begun = Calling(R"({"index":0,"id":"c1","function":{"name":"now"}})");
  EXPECT_EQ(Shown(ReadCalls({begun}).sink.calls), "c1 now({}) ");
  const std::string cut = R"({"choices":[{"delta":{},"finish_reason":"length"}]})";
  const ReadStream read = ReadInPieces(*MakeOpenAi({}), ChatRequest(), Events({begun, cut}), 99);
  EXPECT_EQ(Shown(read.sink.calls), "c1 now() ");
}

TEST(WireAnswer, SoHasAWholeDocument) {
  const std::string body =
      R"({"choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant",
          "content":null,"reasoning_content":"Hm.","tool_calls":[
          {"id":"c1","type":"function","function":{"name":"get","arguments":"{\"a\":1}"}},
          {"type":"function","function":{"name":"get","arguments":{"a":2}}},
          {"type":"function","function":{"name":"get"}}]}}]})";
  for (const BackendKind kind : kKindsOfOpenAi) {
    for (const size_t cut : kAnswerCuts) {
      const ReadStream read = ReadInPieces(*MakeWireFormat(kind, {}), ChatRequest(), body, cut);
      ASSERT_FALSE(read.failure) << read.failure->status.message();
      EXPECT_EQ(read.sink.reasoning, "Hm.");
      EXPECT_EQ(read.sink.text, "");
      EXPECT_EQ(Shown(read.sink.calls),
                R"(c1 get({"a":1}) call_2_1 get({"a":2}) call_2_2 get({}) )");
      EXPECT_EQ(read.end.reason, FinishReason::kStop);
    }
  }
}

TEST(WireAnswer, PiecesAreJoinedHoweverTheyAreNumbered) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      // None are numbered.
      {{Calling(R"({"id":"a","function":{"name":"f","arguments":"{"}})"),
        Calling(R"({"function":{"arguments":"}"}})"),
        Calling(R"({"id":"b","function":{"name":"f","arguments":"{"}})"),
        Calling(R"({"id":"b","function":{"name":"f","arguments":"}"}})")},
       "a f({}) b f({}) "},
      // From 1, and with a gap.
      {{Calling(R"({"index":1,"id":"a","function":{"name":"f","arguments":"{"}})"),
        Calling(R"({"index":7,"id":"b","function":{"name":"g","arguments":"{}"}})"),
        Calling(R"({"index":1,"function":{"arguments":"}"}})")},
       "a f({}) b g({}) "},
      // All are 0.
      {{Calling(R"({"index":0,"id":"a","function":{"name":"f","arguments":"{}"}},)"
                R"({"index":0,"id":"b","function":{"name":"f","arguments":"{"}})"),
        Calling(R"({"index":0,"function":{"arguments":"}"}})")},
       "a f({}) b f({}) "},
      // The name comes with each piece, and nulls stand for what is absent.
      {{Calling(R"({"index":0,"id":"a","function":{"name":"f","arguments":null}})"),
        Calling(R"({"index":0,"id":null,"function":{"name":"f","arguments":"{"}})"),
        Calling(R"({"index":0,"id":"a","function":{"name":"","arguments":"}"}},null)")},
       "a f({}) "},
      // Without an id, one is made.
      {{Calling(R"({"index":0,"function":{"name":"f","arguments":"{}"}})"),
        Calling(R"({"index":1,"id":"","function":{"name":"f","arguments":"{}"}})")},
       "call_2_0 f({}) call_2_1 f({}) "},
      {{Saying(R"("tool_calls":null)"), Saying(R"("tool_calls":[])")}, ""},
  };
  for (const auto& [events, shown] : cases) {
    const ReadStream read = ReadCalls(events);
    ASSERT_FALSE(read.failure) << shown << read.failure->status.message();
    EXPECT_EQ(Shown(read.sink.calls), shown);
  }
}

TEST(WireAnswer, HalvesOfCharactersAreJoinedWithinTheirText) {
  const ReadStream read = ReadCalls(
      {Saying(R"("reasoning_content":"a\ud83d")"), Saying(R"("reasoning_content":"\ude00\ud83d")"),
       Saying(R"("content":"b\ud83d")"), Saying(R"("content":"\ude01\ud83d")"),
       Calling(R"({"index":0,"id":"\ud83d","function":{"name":"f\ude00","arguments":"{\ud83d"}})"),
       Calling(R"({"index":1,"id":"x","function":{"name":"g","arguments":"\ud83d"}})"),
       Calling(R"({"index":0,"function":{"arguments":"\ude00}"}})"),
       Calling(R"({"index":1,"function":{"arguments":"\ude01\ud83d"}})")});
  ASSERT_FALSE(read.failure) << read.failure->status.message();
  EXPECT_EQ(read.sink.reasoning, "a😀\uFFFD");
  EXPECT_EQ(read.sink.text, "b😁\uFFFD");
  EXPECT_EQ(Shown(read.sink.calls), "\uFFFD f\uFFFD({😀}) x g(😁\uFFFD) ");
  // What is left of a thought comes before the text that follows it.
  AnswerReader reader(ChatRequest());
  Delta delta;
  const std::string half = *MarkHalves(R"(\ud83d)");
  reader.Add(half, "", true, &delta);
  EXPECT_FALSE(delta.says());
  reader.Add("", "text", false, &delta);
  EXPECT_EQ(delta.reasoning, "\uFFFD");
}

TEST(WireAnswer, ABrokenCallIsNamed) {
  const std::string long_text(300, 'x');
  const std::pair<std::string, const char*> cases[] = {
      {R"({"index":-1,"id":"a","function":{"name":"f"}})", "'tool_calls.index' as a number"},
      {R"({"index":0.5,"id":"a","function":{"name":"f"}})", "'tool_calls.index' as a number"},
      {R"({"index":"0","id":"a","function":{"name":"f"}})", "'tool_calls.index' as a string"},
      {R"({"index":0,"id":7,"function":{"name":"f"}})", "'tool_calls.id' as a number"},
      {R"({"index":0,"id":"a","function":{"name":["f"]}})", "'tool_calls.function.name' as a list"},
      {R"({"index":0,"id":"a","function":{"name":"f","arguments":[1]}})",
       "'tool_calls.function.arguments' as a list"},
      {R"({"index":0,"id":"a","function":{"name":"f","arguments":true}})",
       "'tool_calls.function.arguments' as a boolean"},
      {R"({"index":0,"id":"a","function":{"arguments":"{}"}})",
       "'tool_calls' with a call that has"},
      {R"({"index":0,"id":"a","function":{"name":"","arguments":"{}"}})", "has no name"},
      {R"({"index":0,"id":"a"})", "has no name"},
      {"{}", "has no name"},
      {R"({"index":0,"id":")" + long_text + R"(","function":{"name":"f"}})",
       "'tool_calls.id' with more than 256 bytes"},
      {R"({"index":0,"id":"a","function":{"name":")" + long_text + R"("}})",
       "'tool_calls.function.name' with more than 256 bytes"},
  };
  for (const auto& [entry, words] : cases) {
    const ReadStream read = ReadCalls({Calling(entry)});
    ASSERT_TRUE(read.failure.has_value()) << entry;
    EXPECT_EQ(read.failure->kind, FailureKind::kBroken);
    EXPECT_THAT(read.failure->status.message(), HasSubstr(words)) << entry;
    EXPECT_EQ(Shown(read.sink.calls), "") << entry;
  }
}

TEST(WireAnswer, CallsHaveABound) {
  const auto call = [](uint64_t index) {
    return fmt::format(R"({{"index":{},"id":"c{}","function":{{"name":"f","arguments":"{{}}"}}}})",
                       index, index);
  };
  std::vector<std::string> events;
  for (uint64_t i = 0; i < AnswerReader::kMostCalls; ++i) events.push_back(Calling(call(i)));
  ReadStream read = ReadCalls(events, Unbounded());
  EXPECT_FALSE(read.failure);
  EXPECT_EQ(read.sink.calls.size(), AnswerReader::kMostCalls);
  // Whatever the numbers are, and within one event too.
  events.push_back(Calling(call(UINT64_MAX)));
  read = ReadCalls(events, Unbounded());
  ASSERT_TRUE(read.failure.has_value());
  EXPECT_THAT(read.failure->status.message(), HasSubstr("with more than 128 calls"));
  std::string many = call(0);
  for (uint64_t i = 1; i < 10'000; ++i) many += "," + call(i * 1'000'003);
  read = ReadCalls({Calling(many)}, Unbounded());
  ASSERT_TRUE(read.failure.has_value());
  EXPECT_THAT(read.failure->status.message(), HasSubstr("with more than 128 calls"));
  const std::string whole = R"({"choices":[{"message":{"tool_calls":[)" + many + "]}}]}";
  read = ReadInPieces(*MakeOpenAi({}), Unbounded(), whole, 1 << 16);
  ASSERT_TRUE(read.failure.has_value());
  EXPECT_THAT(read.failure->status.message(), HasSubstr("with more than 128 calls"));
}

TEST(WireAnswer, ThoughtsAndArgumentsWithoutAnEndAreCut) {
  const std::string kilobyte(1000, 'x');
  const std::string pieces[] = {
      Saying(R"("reasoning_content":")" + kilobyte + '"'),
      Calling(R"({"index":0,"id":"a","function":{"name":"f","arguments":")" + kilobyte + R"("}})"),
  };
  for (const std::string& piece : pieces) {
    const ReadStream read = ReadCalls(std::vector<std::string>(1000, piece));
    ASSERT_TRUE(read.failure.has_value());
    EXPECT_THAT(read.failure->status.message(), HasSubstr("more than the 8 tokens"));
  }
}

// Its numbers are those of the calls that the client has.
TEST(WireAnswer, AnAnswerThatAnotherServerBeganGoesOnWithinACall) {
  Request request = ChatRequest();
  request.resume_ids = {5, 6};
  const auto read = [&](const std::vector<std::string>& events) {
    std::vector<ToolCallDelta> calls;
    const auto reply = MakeRopeway({})->MakeReply(request);
    const auto failure = reply->Feed(Events(events), [&](const Delta& delta) {
      calls.insert(calls.end(), delta.tool_calls.begin(), delta.tool_calls.end());
    });
    EXPECT_FALSE(failure) << failure->status.message();
    std::string shown;
    for (const ToolCallDelta& call : calls) {
      shown += fmt::format("{} {} {}({}) ", call.index, call.id, call.name, call.arguments);
    }
    return shown;
  };
  EXPECT_EQ(read({Calling(R"({"index":1,"function":{"arguments":"\"b\"}"}})"),
                  Calling(R"({"index":2,"id":"z","function":{"name":"g","arguments":"{"}})"),
                  Calling(R"({"index":2,"function":{"arguments":"}"}})"), kCalledEnd}),
            "1  (\"b\"}) 2 z g({) 2  (}) ");
  EXPECT_EQ(read({Calling(R"({"index":3,"id":"z","function":{"name":"g","arguments":"{}"}})"),
                  kCalledEnd}),
            "3 z g({}) ");
}

}  // namespace
}  // namespace ropeway::api::wire
