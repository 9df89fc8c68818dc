#include "api/output_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "api/dialects.h"

namespace ropeway::api {
namespace {

using Kind = OutputFormat::Kind;

// What a body with these members asks for.
StatusOr<OutputFormat> FormatOf(const std::string& members, BodyLimits limits = {}) {
  const std::unique_ptr<ApiFormat> api = MakeOpenAiCompletions();
  if (Status status = api->Parse(R"({"prompt":"p",)" + members + "}", limits); !status.ok()) {
    return status;
  }
  return api->request()->request.format;
}

OutputFormat MustParse(const std::string& members) {
  const StatusOr<OutputFormat> format = FormatOf(members);
  EXPECT_TRUE(format.ok()) << members << ": " << format.status().message();
  return format.ok() ? *format : OutputFormat();
}

TEST(OutputFormatTest, EachFieldAsksForItsForm) {
  EXPECT_EQ(MustParse(R"("response_format":{"type":"text"})").kind, Kind::kText);
  EXPECT_EQ(MustParse(R"("response_format":null)").kind, Kind::kText);
  EXPECT_EQ(MustParse(R"("response_format":{"type":"json_object"})").kind, Kind::kJsonObject);
  for (
      const auto& [members, field] : std::vector<std::pair<std::string, std::string>>{
          {R"("response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"type":"null"}}})",
           "response_format.json_schema.schema"},
          {R"("response_format":{"type":"json_object","schema":{"type":"null"}})",
           "response_format.schema"},
          {R"("json_schema":{"type":"null"})", "json_schema"},
          {R"("guided_json":{"type":"null"})", "guided_json"},
          {R"("guided_json":"{\"type\":\"null\"}")", "guided_json"},
          {R"("structured_outputs":{"json":{"type":"null"}})", "structured_outputs.json"},
          {R"("structured_outputs":{"json":"{\"type\":\"null\"}","regex":null,"json_object":false})",
           "structured_outputs.json"}}) {
    const OutputFormat format = MustParse(members);
    EXPECT_EQ(format.kind, Kind::kJsonSchema) << members;
    EXPECT_EQ(format.schema, R"({"type":"null"})") << members;
    EXPECT_EQ(format.field, field) << members;
  }
  EXPECT_EQ(MustParse(R"("structured_outputs":{"json_object":true})").kind, Kind::kJsonObject);
  for (const char* members :
       {R"("guided_choice":["a","b"])", R"("structured_outputs":{"choice":["a","b"]})"}) {
    EXPECT_EQ(MustParse(members).kind, Kind::kChoice);
    EXPECT_THAT(MustParse(members).choices, testing::ElementsAre("a", "b"));
  }
  for (const char* members : {R"("guided_regex":"a+")", R"("structured_outputs":{"regex":"a+"})"}) {
    EXPECT_EQ(MustParse(members).kind, Kind::kRegex);
    EXPECT_EQ(MustParse(members).regex, "a+");
  }
  EXPECT_EQ(MustParse(R"("grammar":"","guided_grammar":null)").kind, Kind::kText);
}

// The model writes properties in this order.
TEST(OutputFormatTest, PropertiesKeepTheOrderOfTheBody) {
  const std::string schema =
      R"({"properties":{"z":{"type":"null"},"a":{"type":"null"}},"required":["z"]})";
  EXPECT_EQ(MustParse(R"("metadata":{"schema":"x"},"response_format":{"json_schema":{"schema":)" +
                      schema + R"(,"name":"n"},"type":"json_schema"})")
                .schema,
            schema);
  EXPECT_EQ(MustParse("\"guided_json\":" + schema).schema, schema);
}

TEST(OutputFormatTest, WhatIsWrongIsNamed) {
  for (const auto& [members, field] : std::vector<std::pair<std::string, std::string>>{
           {R"("response_format":1)", "response_format"},
           {R"("response_format":{})", "response_format.type"},
           {R"("response_format":{"type":1})", "response_format.type"},
           {R"("response_format":{"type":"json"})", "response_format.type"},
           {R"("response_format":{"type":"structural_tag"})", "response_format.type"},
           {R"("response_format":{"type":"json_schema"})", "response_format.json_schema"},
           {R"("response_format":{"type":"json_schema","json_schema":[]})",
            "response_format.json_schema"},
           {R"("response_format":{"type":"json_schema","json_schema":{"name":"n"}})",
            "response_format.json_schema.schema"},
           {R"("response_format":{"type":"json_schema","json_schema":{"schema":5}})",
            "response_format.json_schema.schema"},
           {R"("response_format":{"type":"json_schema","json_schema":{"schema":{},"strict":1}})",
            "response_format.json_schema.strict"},
           {R"("guided_json":5)", "guided_json"},
           {R"("guided_json":"{")", "guided_json"},
           {"\"guided_json\":\"" + std::string(100'000, '[') + std::string(100'000, ']') + "\"",
            "guided_json"},
           {R"("guided_choice":[])", "guided_choice"},
           {R"("guided_choice":"a")", "guided_choice"},
           {R"("guided_choice":["a",1])", "guided_choice[1]"},
           {R"("guided_choice":[""])", "guided_choice[0]"},
           {R"("guided_regex":1)", "guided_regex"},
           {R"("guided_grammar":"root ::= \"a\"")", "guided_grammar"},
           {R"("grammar":"root ::= \"a\"")", "grammar"},
           {R"("structured_outputs":[])", "structured_outputs"},
           {R"("structured_outputs":{"grammar":"x"})", "structured_outputs.grammar"},
           {R"("structured_outputs":{"structural_tag":{}})", "structured_outputs.structural_tag"},
           {R"("structured_outputs":{"choice":["a"],"regex":"b"})", "structured_outputs.regex"},
           {R"("guided_json":{},"response_format":{"type":"json_object"})", "response_format"}}) {
    const StatusOr<OutputFormat> format = FormatOf(members);
    ASSERT_FALSE(format.ok()) << members;
    EXPECT_EQ(format.status().field(), field) << members << ": " << format.status().message();
  }
  EXPECT_EQ(FormatOf(R"("guided_grammar":"x")").status().message(),
            "'guided_grammar' is not supported: a grammar can take any amount of work; use a JSON "
            "schema, choices or a "
            "regular expression.");
  EXPECT_EQ(FormatOf(R"("guided_choice":["a"],"guided_regex":"b")").status().message(),
            "'guided_choice' and 'guided_regex' cannot be used together: both ask for a form of "
            "the answer.");
}

std::string Written(const OutputFormat& format, core::ServerKind kind) {
  nlohmann::ordered_json body = nlohmann::ordered_json::object();
  const Status status = wire::WriteOutputFormat(format, kind, &body);
  return status.ok() ? body.dump() : status.message();
}

TEST(OutputFormatTest, ASchemaThatIsNoJsonIsNotSent) {
  OutputFormat schema;
  schema.kind = Kind::kJsonSchema;
  schema.schema = std::string(100'000, '[') + std::string(100'000, ']');
  nlohmann::ordered_json body;
  EXPECT_EQ(wire::WriteOutputFormat(schema, core::kOpenAi, &body).code(),
            StatusCode::kInvalidArgument);
  schema.schema = "{";
  EXPECT_EQ(wire::WriteOutputFormat(schema, core::kOllama, &body).code(),
            StatusCode::kInvalidArgument);
}

TEST(OutputFormatTest, EachKindOfServerIsAskedInItsWords) {
  OutputFormat schema{.kind = Kind::kJsonSchema,
                      .schema = R"({"b":1,"a":2})",
                      .choices = {},
                      .regex = {},
                      .field = {}};
  for (const core::ServerKind kind : {core::kOpenAi, core::kVllm, core::kSglang, core::kLmStudio,
                                      core::kLlamaCpp, core::kRopeway}) {
    EXPECT_EQ(Written({}, kind), "{}");
    EXPECT_EQ(
        Written(schema, kind),
        R"({"response_format":{"type":"json_schema","json_schema":{"name":"answer","schema":{"b":1,"a":2},"strict":true}}})");
  }
  EXPECT_EQ(Written({}, core::kOllama), "{}");
  EXPECT_EQ(Written(schema, core::kOllama), R"({"format":{"b":1,"a":2}})");
  OutputFormat object;
  object.kind = Kind::kJsonObject;
  EXPECT_EQ(Written(object, core::kOllama), R"({"format":"json"})");
  EXPECT_EQ(Written(object, core::kLlamaCpp), R"({"response_format":{"type":"json_object"}})");
  EXPECT_EQ(Written(object, core::kLmStudio),
            "it has no field for answers that are any JSON object");
  OutputFormat choice;
  choice.kind = Kind::kChoice;
  choice.choices = {"a", "b"};
  EXPECT_EQ(Written(choice, core::kRopeway), R"({"guided_choice":["a","b"]})");
  EXPECT_EQ(Written(choice, core::kVllm), R"({"structured_outputs":{"choice":["a","b"]}})");
  EXPECT_EQ(Written(choice, core::kOpenAi),
            "it has no field for answers that are one of some choices");
  OutputFormat regex;
  regex.kind = Kind::kRegex;
  regex.regex = "a+";
  EXPECT_EQ(Written(regex, core::kRopeway), R"({"guided_regex":"a+"})");
  EXPECT_EQ(Written(regex, core::kVllm), R"({"structured_outputs":{"regex":"a+"}})");
  EXPECT_EQ(Written(regex, core::kSglang), R"({"regex":"a+"})");
  EXPECT_EQ(Written(regex, core::kOllama),
            "it has no field for answers that a regular expression matches");
}

}  // namespace
}  // namespace ropeway::api
