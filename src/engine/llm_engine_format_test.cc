// Requests whose output must have a form (Request::format), through the whole engine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/llm_engine.h"
#include "engine/test_fakes.h"

namespace ropeway::engine {
namespace {

using testing::HasSubstr;

OutputFormat JsonOf(const std::string& schema) {
  OutputFormat format;
  format.kind = OutputFormat::Kind::kJsonSchema;
  format.schema = schema;
  return format;
}

OutputFormat ChoiceOf(std::vector<std::string> choices) {
  OutputFormat format;
  format.kind = OutputFormat::Kind::kChoice;
  format.choices = std::move(choices);
  return format;
}

// The fake model would repeat its prompt; where that is not allowed it takes the next byte that is.
class LlmEngineFormatTest : public testing::Test {
 protected:
  TestSink::Seen Run(const Request& request) {
    auto sink = NewSink();
    const StatusOr<RequestId> id = test_.engine->Submit(request, sink);
    EXPECT_TRUE(id.ok()) << id.status().message();
    return id.ok() ? sink->WaitEnd() : TestSink::Seen();
  }

  TestEngine test_;
};

TEST_F(LlmEngineFormatTest, TheOutputHasItsForm) {
  test_.Start();
  Request request = TextRequest("never ");
  request.format = ChoiceOf({"no", "yes"});
  TestSink::Seen seen = Run(request);
  EXPECT_EQ(seen.text, "no");
  EXPECT_EQ(seen.finish->reason, FinishReason::kStop);
  EXPECT_EQ(seen.finish->usage.completion_tokens, 3);

  request.format = JsonOf(
      R"({"properties": {"ok": {"type": "boolean"}, "n": {"const": 3}}, "required": ["ok"]})");
  seen = Run(request);
  EXPECT_EQ(seen.text, R"({ "ok" :false})");
  EXPECT_EQ(seen.finish->reason, FinishReason::kStop);

  request.format.kind = OutputFormat::Kind::kJsonObject;
  request.max_tokens = 40;
  seen = Run(request);
  EXPECT_TRUE(seen.text.starts_with("{")) << seen.text;
}

TEST_F(LlmEngineFormatTest, AFormatThatIsNotSupportedIsRejectedAtOnce) {
  test_.Start();
  Request request = TextRequest("text");
  for (const auto& [format, message] : std::vector<std::pair<OutputFormat, std::string>>{
           {JsonOf(R"({"properties": {"a": {"not": {}}}})"),
            "at '#/properties/a': the keyword 'not' is not supported"},
           {JsonOf("{"), "the schema is not valid JSON at byte 2"},
           {JsonOf(R"({"type": "null", "type": "null"})"), "is given twice in one object"},
           {JsonOf("[]"), "a schema must be an object, true or false"},
           {JsonOf(R"({"const": 1e999})"), "the schema is not valid JSON"},
           {JsonOf("\"" + std::string(300'000, 'x') + "\""),
            "the schema has 300002 bytes; at most 262144"},
           {ChoiceOf({}), "expected 1 to 1000 choices, got 0"},
           {{.kind = OutputFormat::Kind::kRegex,
           .schema = {},
           .choices = {},
           .regex = "(?=a)",
           .field = {}},
            "a lookahead"}}) {
    request.format = format;
    const StatusOr<RequestId> id = test_.engine->Submit(request, NewSink());
    ASSERT_FALSE(id.ok());
    EXPECT_EQ(id.status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(id.status().field(), "format");
    EXPECT_THAT(id.status().message(), HasSubstr(message));
  }
}

TEST_F(LlmEngineFormatTest, ChoicesOfOneRequestShareAGrammar) {
  test_.Start();
  std::vector<SinkRequest> all;
  std::vector<std::shared_ptr<TestSink>> sinks;
  for (uint32_t i = 0; i < 4; ++i) {
    Request request = TextRequest("yes");
    request.choice = i;
    request.format = ChoiceOf({"no", "yes"});
    sinks.push_back(NewSink());
    all.push_back({std::move(request), sinks.back()});
  }
  ASSERT_TRUE(test_.engine->SubmitAll(std::move(all)).ok());
  for (const auto& sink : sinks) EXPECT_EQ(sink->WaitEnd().text, "yes");
  EXPECT_THAT(test_.engine->MetricsText(), HasSubstr("ropeway_grammar_cache_misses_total 1"));
}

// Text, log-probs and usage behind each token are those of the whole.
TEST_F(LlmEngineFormatTest, AnotherEngineGoesOnInTheMiddle) {
  test_.Start();
  Request request = TextRequest("never ");
  request.sampling.seed = 1;
  request.max_tokens = 100;
  request.format = {};
  request.format.kind = OutputFormat::Kind::kRegex;
  request.format.regex = "[a-m]{3}[0-9]";
  EXPECT_THAT(Run(request).text, testing::MatchesRegex("[a-m][a-m][a-m][0-9]"));

  request.format = JsonOf(R"({"properties": {"ok": {"type": "boolean"}}, "required": ["ok"]})");
  const TestSink::Seen whole = Run(request);
  ASSERT_EQ(whole.text, R"({ "ok" :false})");
  for (size_t done = 1; done < whole.tokens.size(); ++done) {
    Request rest = request;
    for (size_t i = 0; i < done; ++i) rest.resume_ids.push_back(whole.tokens[i].id);
    const TestSink::Seen seen = Run(rest);
    EXPECT_EQ(seen.text, whole.text.substr(done)) << done;
    EXPECT_EQ(seen.finish->usage.completion_tokens, whole.finish->usage.completion_tokens);
  }
}

TEST_F(LlmEngineFormatTest, IdsThatTheFormDoesNotAllowFailTheirRequest) {
  test_.Start();
  Request request = TextRequest("never ");
  request.sampling.seed = 1;
  request.max_tokens = 100;
  request.format = ChoiceOf({"no", "yes"});
  request.resume_ids = {'x', 'y'};
  auto sink = NewSink();
  ASSERT_TRUE(test_.engine->Submit(request, sink).ok());
  EXPECT_EQ(sink->WaitEnd().error.code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ropeway::engine
