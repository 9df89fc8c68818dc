// Grammars of calls, against the parsers that read the calls.
#include "grammar/tool_ebnf.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "grammar/test_call_model.h"
#include "grammar/test_vocabularies.h"

namespace ropeway::grammar {
namespace {

using testing::HasSubstr;

// Whether a strict tool is not supported where the model decides: see AFormWithoutAGrammarIsNamed.
bool OnlyRequired(const FormCase& of, const Model& model) {
  const std::string form = of.form;
  return (form == "llama3_json" || form == "lfm2") && model.format().controls.empty();
}

TEST(ToolEbnfTest, RequiredCallsAreAllOfTheAnswer) {
  ForEachForm([](const FormCase& of, const Model& model) {
    const auto grammar = model.MustCompile(Tools(ToolChoice::kRequired));
    const auto judge = [&](const char* shape, const char* name, const char* arguments) {
      return model.Judge(grammar, Answer(of, shape, name, arguments));
    };
    EXPECT_EQ(judge(of.one, "add", R"({"a": 1, "b": "x"})"), "accepted");
    EXPECT_EQ(judge(of.one, "now", "{}"), "accepted");
    EXPECT_EQ(judge(of.one, "add", R"({"b": "x"})"), "rejected") << "one is missing";
    EXPECT_EQ(judge(of.one, "add", R"({"a": "1"})"), "rejected");
    EXPECT_EQ(judge(of.one, "set", R"({"a": 1})"), "rejected") << "another tool's";
    EXPECT_EQ(judge(of.one, "adds", R"({"a": 1})"), "rejected");
    EXPECT_EQ(judge(of.one, "now", R"({"a": 1})"), "rejected");
    EXPECT_EQ(model.Judge(grammar, "Hello"), "rejected");
    EXPECT_EQ(model.Judge(grammar, ""), "prefix");
    if (*of.two != '\0') {
      EXPECT_EQ(judge(of.two, "now", "{}"), "accepted");
    }
  });
}

TEST(ToolEbnfTest, ParametersThatListNoneAreNone) {
  const Model model("hermes", true);
  const auto judge = [&](const char* parameters, const char* arguments) {
    Chat chat = Tools(ToolChoice::kRequired);
    chat.tools = {{.name = "f", .parameters = parameters}};
    return model.Judge(model.MustCompile(chat), Answer(kForms[0], kForms[0].one, "f", arguments));
  };
  for (const char* none : {R"({"type":"object","properties":{}})",
                           R"({"type":"object","properties":{},"additionalProperties":false})",
                           R"({"type":"object","additionalProperties":false})"}) {
    EXPECT_EQ(judge(none, "{}"), "accepted") << none;
    EXPECT_EQ(judge(none, R"({"a": 1})"), "rejected") << none;
  }
  for (const char* some :
       {R"({"type":"object"})", R"({"type":"object","properties":{},"minProperties":1})",
        R"({"type":"object","properties":{},"additionalProperties":{"type":"integer"}})"}) {
    EXPECT_EQ(judge(some, R"({"a": 1})"), "accepted") << some;
  }
}

TEST(ToolEbnfTest, OneCallOfOneTool) {
  ForEachForm([](const FormCase& of, const Model& model) {
    Chat chat = Tools(ToolChoice::kRequired);
    chat.tool_name = "now";
    chat.parallel_tool_calls = false;
    const auto grammar = model.MustCompile(chat);
    EXPECT_EQ(model.Judge(grammar, Answer(of, of.one, "now", "{}")), "accepted");
    EXPECT_EQ(model.Judge(grammar, Answer(of, of.one, "add", R"({"a": 1})")), "rejected");
    if (*of.two != '\0') {
      EXPECT_EQ(model.Judge(grammar, Answer(of, of.two, "now", "{}")), "rejected");
    }
  });
}

TEST(ToolEbnfTest, TheParserReadsWhateverIsRequired) {
  base::SeededRandom random(1);
  ForEachForm([&](const FormCase& of, const Model& model) {
    for (const bool many : {false, true}) {
      Chat chat = Tools(ToolChoice::kRequired);
      chat.parallel_tool_calls = many;
      const auto grammar = model.MustCompile(chat);
      int finished = 0;
      for (int i = 0; i < 40; ++i) {
        const std::optional<std::string> text = model.Walk(grammar, &random, "");
        if (!text) continue;
        ++finished;
        const answer::ReadAnswer read = model.Read(*text);
        EXPECT_EQ(read.text, "") << *text;
        EXPECT_GE(read.calls.size(), 1U) << *text;
        EXPECT_TRUE(many || read.calls.size() == 1) << *text;
        for (const ToolCall& call : read.calls) EXPECT_TRUE(IsValid(call)) << *text;
      }
      EXPECT_GT(finished, 20) << of.form;
    }
  });
}

TEST(ToolEbnfTest, InFreeTextEachCallIsValid) {
  base::SeededRandom random(2);
  ForEachForm([&](const FormCase& of, const Model& model) {
    if (OnlyRequired(of, model)) return;
    const auto grammar = model.MustCompile(Tools(ToolChoice::kAuto));
    const bool harmony = std::string(of.form) == "harmony";
    const std::string begin = harmony ? "<|channel|>final<|message|>" : "";
    EXPECT_EQ(model.Judge(grammar, begin + "Hello <b> [1]"), "accepted");
    EXPECT_EQ(model.Judge(grammar, begin), "accepted");
    EXPECT_EQ(model.Judge(grammar, Answer(of, of.one, "set", R"({"on": true})")), "accepted");
    EXPECT_EQ(model.Judge(grammar, Answer(of, of.one, "set", R"({"on": 1})")), "rejected");
    EXPECT_EQ(model.Judge(grammar, Answer(of, of.one, "sit", R"({"on": true})")), "rejected");
    const char* const bare = std::string(of.form) == "pythonic" ? "[" : "{\"name\": \"";
    int calls = 0;
    int finished = 0;
    for (int i = 0; i < 80; ++i) {
      const std::optional<std::string> text =
          model.Walk(grammar, &random, model.Marked(*of.mark != '\0' ? of.mark : bare));
      if (!text) continue;
      ++finished;
      for (const ToolCall& call : model.Read(*text).calls) {
        ++calls;
        EXPECT_TRUE(IsValid(call)) << *text;
      }
    }
    EXPECT_GT(finished, 20);
    EXPECT_GT(calls, 5);
  });
}

TEST(ToolEbnfTest, OnlyStrictToolsAreHeldToTheirSchema) {
  ForEachForm([](const FormCase& of, const Model& model) {
    if (OnlyRequired(of, model)) return;
    Chat chat = Tools(ToolChoice::kAuto);
    chat.tools[0].strict = false;
    chat.tools[0].parameters = R"({"not": {}})";  // Not read.
    const auto grammar = model.MustCompile(chat);
    EXPECT_EQ(model.Judge(grammar, Answer(of, of.one, "add", R"({"x": [1]})")), "accepted");
    EXPECT_EQ(model.Judge(grammar, Answer(of, of.one, "add", "[1]")), "rejected");
    EXPECT_EQ(model.Judge(grammar, Answer(of, of.one, "set", R"({"x": [1]})")), "rejected");
  });
}

TEST(ToolEbnfTest, ControlTokensStandOnlyWhereTheFormHasThem) {
  const Model model("phi4", true);
  const auto grammar = model.MustCompile(Tools(ToolChoice::kRequired));
  Matcher matcher(grammar);
  const std::string text = "<|tool_call|>[{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": \"x";
  for (const TokenId id : model.Ids(model.Marked(text))) ASSERT_TRUE(matcher.Accept(id).ok());
  const std::vector<uint32_t> mask = model.Mask(&matcher);
  EXPECT_TRUE(IsAllowed(mask, '<')) << "in a string they may be spelled";
  EXPECT_TRUE(IsAllowed(mask, '"'));
  for (TokenId id = kEnd; id < kFirstControl + 2; ++id) EXPECT_FALSE(IsAllowed(mask, id)) << id;
  Matcher first(grammar);
  const std::vector<uint32_t> begin = model.Mask(&first);
  int allowed = 0;
  for (const uint32_t word : begin) allowed += __builtin_popcount(word);
  EXPECT_EQ(allowed, 1) << "the mark alone";
  EXPECT_FALSE(first.Accept('<').ok());
}

TEST(ToolEbnfTest, AToolThatIsNotSupportedIsNamed) {
  const Model model("hermes", true);
  const auto status = [&](const std::string& parameters, ToolChoice choice, bool strict) {
    Chat chat = Tools(choice);
    chat.tools[1].parameters = parameters;
    chat.tools[1].strict = strict;
    return model.Ebnf(chat).status();
  };
  const std::string bad = R"({"type":"object","properties":{"a":{"not":{}}}})";
  for (const ToolChoice choice : {ToolChoice::kRequired, ToolChoice::kAuto}) {
    const Status fault = status(bad, choice, true);
    EXPECT_EQ(fault.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(fault.field(), "tools[1].function.parameters");
    EXPECT_THAT(fault.message(), HasSubstr("tools[1].function.parameters: at '#/properties/a'"));
    EXPECT_THAT(fault.message(), HasSubstr("'not'"));
  }
  // Of schemas as frameworks send them.
  for (const auto& [schema, why] : std::vector<std::pair<const char*, const char*>>{
           {R"({"type":"any"})", "the keyword 'type' must be 'null', 'boolean'"},
           {R"s({"type":"string","pattern":"^(?=a)"})s", "the keyword 'pattern': "}}) {
    const std::string parameters =
        fmt::format(R"({{"type":"object","properties":{{"answer":{}}}}})", schema);
    EXPECT_THAT(
        status(parameters, ToolChoice::kRequired, false).message(),
        HasSubstr(fmt::format("tools[1].function.parameters: at '#/properties/answer': {}", why)));
    EXPECT_TRUE(status(parameters, ToolChoice::kAuto, false).ok());
  }
  EXPECT_TRUE(
      status(R"({"type":"object","properties":{"answer":{"type":"string","nullable":true}}})",
             ToolChoice::kRequired, false)
          .ok());
  EXPECT_TRUE(status(bad, ToolChoice::kAuto, false).ok());
  EXPECT_EQ(status(R"({"type":"string"})", ToolChoice::kAuto, true).message(),
            "tools[1].function.parameters: at '#': the keyword 'type' must be \"object\"");
  EXPECT_FALSE(status("{", ToolChoice::kRequired, false).ok());
  // A named tool is the only one that counts.
  Chat chat = Tools(ToolChoice::kRequired);
  chat.tools[1].parameters = bad;
  chat.tool_name = "add";
  EXPECT_TRUE(model.Ebnf(chat).ok());
}

TEST(ToolEbnfTest, AFormWithoutAGrammarIsNamed) {
  for (const char* form : {"qwen3_coder", "seed_oss", "minimax_m2", "glm45", "none"}) {
    const Model model(form, true);
    const Status required = model.Ebnf(Tools(ToolChoice::kRequired)).status();
    EXPECT_EQ(required.code(), StatusCode::kUnimplemented);
    EXPECT_EQ(required.field(), "tool_choice");
    EXPECT_THAT(required.message(), HasSubstr(fmt::format("('{}')", form)));
    EXPECT_EQ(model.Ebnf(Tools(ToolChoice::kAuto)).status().field(), "tools[0].function.strict");
    const Status beside = model.Ebnf(Tools(ToolChoice::kAuto), SchemaForm(kPerson)).status();
    EXPECT_EQ(beside.field(), "tool_choice");
    EXPECT_THAT(beside.message(), HasSubstr("response_format beside tools is not supported for"));
  }
  // Its mark, as text, could stand anywhere in a text.
  for (const char* form : {"llama3_json", "lfm2"}) {
    const Model model(form, false);
    EXPECT_EQ(model.Ebnf(Tools(ToolChoice::kAuto)).status().field(), "tools[0].function.strict");
  }
}

TEST(ToolEbnfTest, WhatIsConstrained) {
  Chat chat = Tools(ToolChoice::kAuto);
  EXPECT_TRUE(ConstrainsCalls(chat));
  chat.tool_choice = ToolChoice::kNone;
  EXPECT_FALSE(ConstrainsCalls(chat));
  for (Tool& tool : chat.tools) tool.strict = false;
  chat.tool_choice = ToolChoice::kAuto;
  EXPECT_FALSE(ConstrainsCalls(chat));
  chat.tool_choice = ToolChoice::kRequired;
  EXPECT_TRUE(ConstrainsCalls(chat));
  chat.tools.clear();
  EXPECT_FALSE(ConstrainsCalls(chat));
}

Chat ManyTools(int count) {
  Chat chat{.messages = {{"user", "a"}}};
  for (int i = 0; i < count; ++i) {
    std::string properties;
    for (int j = 0; j < 8; ++j) {
      properties += fmt::format(
          R"({}"parameter_{}_{}":{{"type":"{}","description":"What it does."}})", j == 0 ? "" : ",",
          i, j, std::array{"string", "integer", "boolean", "number"}[static_cast<size_t>(j % 4)]);
    }
    chat.tools.push_back({.name = fmt::format("tool_number_{}", i),
                          .parameters = R"({"type":"object","properties":{)" + properties +
                                        fmt::format(R"(}},"required":["parameter_{}_0"]}})", i),
                          .strict = true});
  }
  return chat;
}

// As many as a chat may have, with real vocabularies.
TEST(ToolEbnfTest, ManyToolsCompile) {
  Chat chat = ManyTools(128);
  const answer::AnswerFormat format =
      *answer::DetectFormat("", true, {.tool_parser = "hermes", .reasoning = "none"});
  for (const TestVocabulary* const vocabulary : {SmallVocabulary(), LargeVocabulary()}) {
    if (vocabulary == nullptr) GTEST_SKIP() << "no model";
    for (const auto& [choice, text] : {std::pair(ToolChoice::kRequired, OutputFormat()),
                                       std::pair(ToolChoice::kAuto, OutputFormat()),
                                       std::pair(ToolChoice::kAuto, SchemaForm(kPerson))}) {
      chat.tool_choice = choice;
      const StatusOr<std::string> ebnf = ToolEbnf(format, {}, chat, text);
      ASSERT_TRUE(ebnf.ok()) << ebnf.status().message();
      const auto grammar = MustCompile(*vocabulary, *ebnf);
      ASSERT_NE(grammar, nullptr);
      EXPECT_EQ(Judge(*vocabulary, grammar,
                      "<tool_call>\n{\"name\": \"tool_number_127\", \"arguments\": "
                      "{\"parameter_127_0\": \"x\", \"parameter_127_2\": true}}\n</tool_call>"),
                "accepted");
      EXPECT_LT(grammar->work(), kCompileWork / 3 * 2);
      EXPECT_LT(grammar->bytes(), size_t{16} << 20);
    }
  }
}

// The forms do not differ much in what they take.
TEST(ToolEbnfTest, GrammarsAreSmall) {
  const TestVocabulary* const vocabulary = SmallVocabulary();
  if (vocabulary == nullptr) GTEST_SKIP() << "no model";
  for (const ToolChoice choice : {ToolChoice::kRequired, ToolChoice::kAuto}) {
    Chat chat = ManyTools(8);
    chat.tool_choice = choice;
    for (const char* name : {"hermes", "phi4", "llama3_json", "deepseek", "mistral", "harmony",
                             "pythonic", "lfm2", "gemma"}) {
      answer::AnswerFormat format = *answer::DetectFormat("", true, {.tool_parser = name});
      answer::Resolve([](std::string_view) { return true; }, &format);
      ControlTokens controls;
      for (const std::string& text : format.controls) {
        controls[text] = static_cast<TokenId>(1'000 + controls.size());
      }
      for (const OutputFormat& text : {OutputFormat(), SchemaForm(kPerson), AnyJsonObject()}) {
        const StatusOr<std::string> ebnf = ToolEbnf(format, controls, chat, text);
        ASSERT_TRUE(ebnf.ok()) << name << ": " << ebnf.status().message();
        EXPECT_LT(MustCompile(*vocabulary, *ebnf)->bytes(), size_t{3} << 20) << name;
      }
    }
  }
}

TEST(ToolEbnfTest, TheirSizeIsBounded) {
  Chat chat = ManyTools(128);
  const answer::AnswerFormat format =
      *answer::DetectFormat("", true, {.tool_parser = "hermes", .reasoning = "none"});
  for (size_t i = 0; i < 8; ++i) {
    std::string values;
    for (int j = 0; j < 900; ++j) {
      values += fmt::format("{}\"{}-{:060}\"", j == 0 ? "" : ",", i, j);
    }
    chat.tools[i].parameters =
        fmt::format(R"({{"type":"object","properties":{{"a":{{"enum":[{}]}}}}}})", values);
  }
  EXPECT_THAT(ToolEbnf(format, {}, chat).status().message(), HasSubstr("more than 262144 bytes"));
}

// Many tools take no longer than one schema may, however small their grammars are.
TEST(ToolEbnfTest, SchemasAreBoundedTogether) {
  const answer::AnswerFormat format =
      *answer::DetectFormat("", true, {.tool_parser = "hermes", .reasoning = "none"});
  Chat chat{.messages = {{"user", "u"}}};
  chat.tool_choice = ToolChoice::kRequired;
  const std::string described =
      R"({"type":"object","description":")" + std::string(90'000, 'x') + "\"}";
  for (const char* name : {"a", "b", "c"}) {
    chat.tools.push_back({.name = name, .parameters = described});
  }
  EXPECT_THAT(ToolEbnf(format, {}, chat).status().message(), HasSubstr("bytes together"));
  chat.tool_name = "a";
  EXPECT_TRUE(ToolEbnf(format, {}, chat).ok());
}

}  // namespace
}  // namespace ropeway::grammar
