// Arguments of calls that are no JSON: what the grammars allow is what the parsers read.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "grammar/test_call_model.h"
#include "grammar/tool_ebnf.h"

namespace ropeway::grammar {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

Chat OneTool(const Json& parameters) {
  return {.messages = {{"user", "a"}},
          .tools = {{.name = "f", .parameters = parameters.dump()}},
          .tool_choice = ToolChoice::kRequired,
          .parallel_tool_calls = false};
}

// An answer with a call of f, by the form.
std::string CallOfF(const std::string& form, const std::string& arguments) {
  if (form == "gemma") return "<|tool_call>call:f" + arguments + "<tool_call|>";
  const std::string list = "[f" + arguments + "]";
  return form == "lfm2" ? "<|tool_call_start|>" + list + "<|tool_call_end|>" : list;
}

Json Properties(Json properties) { return {{"type", "object"}, {"properties", properties}}; }

template <typename Fn>
void ForEachModel(Fn&& fn) {
  for (const char* form : {"pythonic", "lfm2", "gemma"}) {
    for (const bool tokens : {false, true}) {
      SCOPED_TRACE(fmt::format("{}, marks are {}", form, tokens ? "tokens" : "texts"));
      fn(std::string(form), Model(form, tokens));
    }
  }
}

// Expects that the arguments may be written so, and are read as they were meant.
void ExpectRead(const std::string& form, const Model& model, const Json& schema,
                const Json& arguments) {
  SCOPED_TRACE(arguments.dump());
  const std::string text = CallOfF(form, Spelled(form, arguments, /*arguments=*/true));
  EXPECT_EQ(model.Judge(model.MustCompile(OneTool(schema)), text), "accepted") << text;
  const answer::ReadAnswer read = model.Read(model.Marked(text));
  ASSERT_EQ(read.calls.size(), 1U) << text;
  EXPECT_EQ(Json::parse(read.calls[0].arguments, nullptr, false), arguments) << text;
  EXPECT_EQ(read.text, "");
}

TEST(CallSyntaxTest, ValuesAreReadAsTheyWereMeant) {
  const Json any = Properties({{"a", true}});
  const Json values = {nullptr,
                       true,
                       false,
                       0,
                       -17,
                       1.5,
                       -2.5e-7,
                       123456789012345678,
                       "",
                       "x",
                       "it's \"so\"",
                       "a\\b",
                       "a\\/b",

                       "1\n2\t\r\b\f\x01\x1f",
                       "None",
                       "東京 😀",
                       "f(a=1)], [",
                       "{x: 1}, ",
                       Json::array(),
                       Json::object(),
                       {1, {2, {Json::object(), ""}}, "b"},
                       {{"a", {{"b", {1, nullptr}}, {"c_d-e.f", ""}}}, {"z", "y"}}};
  ForEachModel([&](const std::string& form, const Model& model) {
    for (const Json& value : values) {
      ExpectRead(form, model, any, {{"a", value}});
      ExpectRead(form, model, Properties({{"a", {{"const", value}}}}), {{"a", value}});
    }
    const std::string nul("a\0b", 3);  // In strings of Gemma it stands only where it must.
    ExpectRead(form, model, Properties({{"a", {{"const", nul}}}}), {{"a", nul}});
    ExpectRead(form, model, {{"type", "object"}}, Json::object());
    ExpectRead(form, model, {{"type", "object"}}, {{"city", "x"}, {"_n2", {1}}});
    ExpectRead(form, model, Properties({{"a", true}, {"b", true}, {"straße-1", true}}),
               {{"a", 1}, {"straße-1", ""}});
  });
}

// The keywords of a schema whose parts are written by the syntax.
TEST(CallSyntaxTest, RandomArgumentsAreValid) {
  const Json schema = Json::parse(R"({"type": "object", "$defs": {
      "tree": {"type": "object", "properties": {"leaf mark": {"type": "boolean"},
               "next": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]}},
               "required": ["leaf mark"]}},
    "properties": {
      "word": {"type": "string", "maxLength": 3},
      "code": {"type": "string", "pattern": "^[\"\\\\/a\n]{2}$"},
      "day": {"type": "string", "format": "date"},
      "one": {"enum": ["a\"b", null, true, 1.5, [1, "x"], {"k e": false}]},
      "size": {"type": "number", "minimum": -2, "maximum": 2},
      "set": {"type": "array", "uniqueItems": true, "items": {"enum": ["p", false, 3]}},
      "map": {"type": "object", "additionalProperties": {"type": "integer"}},
      "tree": {"$ref": "#/$defs/tree"},
      "self": {"type": "array", "items": {"$ref": "#"}, "maxItems": 1}},
    "required": ["word", "code", "one", "tree"]})");
  const auto is_one = [&](const Json& value) {
    const Json& all = schema["properties"]["one"]["enum"];
    return std::find(all.begin(), all.end(), value) != all.end();
  };
  const auto is_tree = [](const Json& tree) {
    for (const Json* at = &tree; !at->is_null(); at = &at->at("next")) {
      if (!at->is_object() || !at->at("leaf mark").is_boolean() || at->size() > 2) return false;
      if (at->size() == 1) return true;
      if (!at->contains("next")) return false;
    }
    return true;
  };
  const auto check = [&](const Json& json, auto& self) -> void {
    for (const auto& [key, value] : json.items()) {
      EXPECT_TRUE(schema["properties"].contains(key)) << key;
    }
    const std::string word = json.at("word");
    EXPECT_LE(std::count_if(word.begin(), word.end(),
                            [](char c) { return (static_cast<uint8_t>(c) & 0xC0U) != 0x80; }),
              3);
    const std::string code = json.at("code");
    EXPECT_EQ(code.size(), 2U);
    EXPECT_EQ(code.find_first_not_of("\"\\/a\n"), code.npos);
    EXPECT_TRUE(is_one(json.at("one"))) << json;
    EXPECT_TRUE(is_tree(json.at("tree"))) << json;
    if (json.contains("day")) {
      EXPECT_EQ(json["day"].get<std::string>().size(), 10U);
    }
    if (json.contains("size")) {
      EXPECT_LE(std::abs(json["size"].get<double>()), 2);
    }
    if (json.contains("set")) {
      EXPECT_LE(json["set"].size(), 3U);
    }
    if (json.contains("map")) {
      for (const auto& [key, value] : json["map"].items()) EXPECT_TRUE(value.is_number_integer());
    }
    if (json.contains("self")) {
      for (const Json& each : json["self"]) self(each, self);
    }
  };
  base::SeededRandom random(3);
  ForEachModel([&](const std::string& form, const Model& model) {
    const auto grammar = model.MustCompile(OneTool(schema));
    int finished = 0;
    for (int i = 0; i < 60; ++i) {
      const std::optional<std::string> text = model.Walk(grammar, &random, "");
      if (!text) continue;
      ++finished;
      const answer::ReadAnswer read = model.Read(*text);
      ASSERT_EQ(read.calls.size(), 1U) << *text;
      EXPECT_EQ(read.text, "") << *text;
      const Json json = Json::parse(read.calls[0].arguments, nullptr, false);
      ASSERT_TRUE(json.is_object()) << *text;
      SCOPED_TRACE(*text);
      check(json, check);
    }
    EXPECT_GT(finished, 30) << form;
  });
}

TEST(CallSyntaxTest, OtherSpellingsAreNotWritten) {
  const auto judge = [](const std::string& form, const std::string& arguments) {
    const Model model(form, true);
    const Json any = Properties({{"a", true}, {"b", {{"type", "string"}}}});
    return model.Judge(model.MustCompile(OneTool(any)), CallOfF(form, arguments));
  };
  EXPECT_EQ(judge("pythonic", "(a={\"a\": [1, True]}, b=\"x\")"), "accepted");
  EXPECT_EQ(judge("pythonic", "(a=\"\\u00e9\\n\")"), "accepted");
  for (const char* arguments :
       {"(a=\"\\/\")", "(a=true)", "(a=null)", "(a='x')", "(a={b:1})", "(\"a\"=1)", "(a:1)", "{}",
        "(b=\"x\", a=1)", "(a=1,)", "(a=\"\n\")", "(a=\"\\ud83d\")"}) {
    EXPECT_EQ(judge("pythonic", arguments), "rejected") << arguments;
  }
  EXPECT_EQ(judge("gemma", "{a:{a-b.c:<|\"|>\\/'\n<|\"|>},b:<|\"|><|\"|>}"), "accepted");
  EXPECT_EQ(judge("gemma", "{a:{a b:1}}"), "rejected");
  for (const char* arguments : {"{a:True}", "{a:\"x\"}", "{\"a\":1}", "{a=1}", "(a=1)", "{a:x}"}) {
    EXPECT_EQ(judge("gemma", arguments), "rejected") << arguments;
  }
}

// Where the mark of strings is no token, it may be spelled in a string, and ends it.
TEST(CallSyntaxTest, StringsEndAtTheirMark) {
  const Json free = Properties({{"a", {{"type", "string"}}}});
  const Json limited = Properties({{"a", {{"type", "string"}, {"minLength", 2}}}});
  const Json few = Properties({{"a", {{"type", "string"}, {"maxLength", 9}}}});
  const Json fits = Properties({{"a", {{"type", "string"}, {"pattern", "<"}}}});
  const Model texts("gemma", false);
  const Model tokens("gemma", true);
  const auto judge = [](const Model& model, const Json& schema, const std::string& text) {
    return model.Judge(model.MustCompile(OneTool(schema)), CallOfF("gemma", "{a:" + text + "}"));
  };
  for (const char* text :
       {"<", "<|", "<|\"", "<|\"|", "<<|\"<|\"|\"|>", "|\"|>", "a < b | c\n\"|>"}) {
    ExpectRead("gemma", texts, free, {{"a", text}});
    ExpectRead("gemma", tokens, free, {{"a", text}});
  }
  for (const Json& schema : {limited, few, fits}) {
    ExpectRead("gemma", texts, schema, {{"a", "<<\">"}});
    EXPECT_EQ(judge(texts, schema, "<|\"|><<|<|\"|>"), "rejected") << "without the character";
    ExpectRead("gemma", tokens, schema, {{"a", "<<|\"<"}});
  }
  // The token's text is no mark.
  const std::string quoted = "\xFF<|\"|>a<|\"|>b\xFF<|\"|>";
  const std::string call = "\xFF<|tool_call>call:f{a:" + quoted + "}\xFF<tool_call|>";
  Matcher matcher(tokens.MustCompile(OneTool(free)));
  for (const TokenId id : tokens.Ids(call)) ASSERT_TRUE(matcher.Accept(id).ok());
  EXPECT_TRUE(matcher.complete());
  EXPECT_EQ(tokens.Read(call).Calls(), "f {\"a\":\"a<|\\\"|>b\"}\n");

  const auto rejection = [](const Model& model, const Json& schema) {
    return model.Ebnf(OneTool(schema)).status().message();
  };
  const Json constant = Json::parse(
      R"s({"type": "object", "properties": {"a": {"enum": [1, {"x": ["y<|\"|>"]}]}}})s");
  EXPECT_THAT(rejection(texts, constant), HasSubstr("at '#/properties/a': a value of the keyword"));
  EXPECT_EQ(rejection(tokens, constant), "");
  const Json name = Properties({{"<|\"|>", true}});
  EXPECT_THAT(rejection(texts, name), HasSubstr("the name '<|\"|>' of a property has the mark"));
  EXPECT_EQ(rejection(tokens, name), "");
  const Json pattern = Properties({{"a", {{"type", "string"}, {"pattern", "a\\|b"}}}});
  EXPECT_THAT(rejection(texts, pattern), HasSubstr("written without: '|'"));
  EXPECT_EQ(rejection(tokens, pattern), "");
}

TEST(CallSyntaxTest, ArgumentsHaveTheNamesOfTheRootAlone) {
  // A reference to the root is a value in it.
  const Json list = Properties({{"v", {{"type", "integer"}}}, {"next", {{"$ref", "#"}}}});
  for (const Json& schema :
       {list,
        Json{{"$ref", "#/$defs/l"},
             {"$defs", {{"l", Properties({{"v", true}, {"next", {{"$ref", "#/$defs/l"}}}})}}}},
        Json{{"allOf", {list}}}}) {
    ExpectRead("pythonic", Model("pythonic", true), schema,
               {{"v", 1}, {"next", {{"v", 2}, {"next", Json::object()}}}});
    ExpectRead("gemma", Model("gemma", true), schema, {{"v", 1}, {"next", {{"v", 2}}}});
  }
}

TEST(CallSyntaxTest, NamesThatPythonCannotHaveAreNamed) {
  const Model model("pythonic", true);
  const auto rejection = [&](const Json& schema) {
    return model.Ebnf(OneTool(schema)).status().message();
  };
  EXPECT_THAT(rejection(Properties({{"a", true}, {"b c", true}})),
              HasSubstr("tools[0].function.parameters: at '#': the name 'b c' of a property"));
  EXPECT_THAT(rejection(Properties({{"1a", true}})), HasSubstr("'1a'"));
  EXPECT_THAT(rejection(Properties({{"", true}})), HasSubstr("''"));
  EXPECT_THAT(rejection({{"type", "object"}, {"propertyNames", {{"pattern", "^a"}}}}),
              HasSubstr("'propertyNames'"));
  EXPECT_EQ(rejection({{"type", "object"}, {"propertyNames", {{"enum", {"a", "b"}}}}}), "");
  // In a value it may be any name.
  EXPECT_EQ(rejection(Properties({{"a", Properties({{"b c", true}})}})), "");
  EXPECT_TRUE(Model("gemma", true).Ebnf(OneTool(Properties({{"b c", true}}))).ok());

  Chat chat = OneTool({{"type", "object"}});
  chat.tools.push_back({.name = "2d"});
  const Status status = model.Ebnf(chat).status();
  EXPECT_EQ(status.field(), "tools[1].function.name");
  EXPECT_THAT(status.message(), HasSubstr("must not begin with '2'"));
  // Where the model decides, and the tool is not strict, it just cannot be called.
  chat.tool_choice = ToolChoice::kAuto;
  chat.tools[0].strict = true;
  const auto grammar = model.MustCompile(chat);
  EXPECT_EQ(model.Judge(grammar, "[f(a=1)]"), "accepted");
  EXPECT_EQ(model.Judge(grammar, "[2d()]"), "rejected");
}

// lfm2's parser reads a list that begins the answer without the mark, too.
TEST(CallSyntaxTest, ListsWithoutMarksAreNoWayAround) {
  const Model model("lfm2", true);
  Chat chat = OneTool(Properties({{"a", {{"type", "integer"}}}}));
  chat.tool_choice = ToolChoice::kAuto;
  chat.tools[0].strict = true;
  const auto one = model.MustCompile(chat);
  chat.parallel_tool_calls = true;
  const auto many = model.MustCompile(chat);
  const std::string call = "<|tool_call_start|>[f(a=1)]<|tool_call_end|>";
  for (const auto& grammar : {one, many}) {
    EXPECT_EQ(model.Judge(grammar, ""), "accepted");
    EXPECT_EQ(model.Judge(grammar, "[f(a=\"x\")]"), "rejected");
    EXPECT_EQ(model.Judge(grammar, " [f(a=\"x\")]"), "rejected");
    EXPECT_EQ(model.Judge(grammar, "I see [f(a=\"x\")]. " + call), "accepted");
    EXPECT_EQ(model.Judge(grammar, call), "accepted");
  }
  EXPECT_EQ(model.Judge(one, call + call), "rejected");
  EXPECT_EQ(model.Judge(many, call + call + "Done."), "accepted");
  EXPECT_EQ(model.Judge(many, "Now " + call + "<|tool_call_start|>[f(a=\"x\")]"), "rejected");
}

// Arguments without a schema, for the largest vocabularies.
TEST(CallSyntaxTest, AnyArgumentsCompile) {
  const TestVocabulary* const vocabulary = LargeVocabulary();
  if (vocabulary == nullptr) GTEST_SKIP() << "no vocabulary";
  for (const char* form : {"pythonic", "gemma"}) {
    const answer::AnswerFormat format = *answer::DetectFormat("", true, {.tool_parser = form});
    const StatusOr<std::string> ebnf = ToolEbnf(format, {}, OneTool({{"type", "object"}}));
    ASSERT_TRUE(ebnf.ok()) << ebnf.status().message();
    const auto grammar = MustCompile(*vocabulary, *ebnf);
    ASSERT_NE(grammar, nullptr) << form;
    EXPECT_LT(grammar->work(), kCompileWork / 2) << form;
    RecordProperty(form, std::to_string(grammar->work()));
  }
}

}  // namespace
}  // namespace ropeway::grammar
