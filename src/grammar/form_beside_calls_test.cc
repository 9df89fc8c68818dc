// Answers that are calls of tools or a text of a form, against the parsers that tell them apart.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/random.h"
#include "grammar/test_call_model.h"
#include "grammar/tool_ebnf.h"

namespace ropeway::grammar {
namespace {

using testing::HasSubstr;

bool IsPerson(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  return json.is_object() && json.contains("name") && json["name"].is_string() &&
         (!json.contains("age") || json["age"].is_number_integer());
}

// An answer that has this text and calls nothing.
std::string TextAnswer(const FormCase& of, const std::string& text) {
  return (std::string(of.form) == "harmony" ? "<|channel|>final<|message|>" : "") + text;
}

TEST(FormBesideCallsTest, BesideAFormAnAnswerIsCallsOrOfTheForm) {
  ForEachForm([](const FormCase& of, const Model& model) {
    Chat chat = Tools(ToolChoice::kAuto);
    chat.tools[0].strict = false;
    const auto grammar = model.MustCompile(chat, SchemaForm(kPerson));
    const auto judge = [&](const char* name, const char* arguments) {
      return model.Judge(grammar, Answer(of, of.one, name, arguments));
    };
    EXPECT_EQ(judge("set", R"({"on": true})"), "accepted");
    EXPECT_EQ(judge("set", R"({"on": 1})"), "rejected");
    EXPECT_EQ(judge("add", R"({"x": [1]})"), "accepted") << "it is not strict";
    EXPECT_EQ(judge("sit", R"({"on": true})"), "rejected");
    const std::string person = R"({"name": "add", "arguments": {"a": 1}, "age": 3})";
    EXPECT_EQ(model.Judge(grammar, TextAnswer(of, person)), "accepted");
    EXPECT_EQ(model.Judge(grammar, TextAnswer(of, R"({"age": 3})")), "rejected");
    EXPECT_EQ(model.Judge(grammar, TextAnswer(of, "Hello")), "rejected");
    EXPECT_EQ(model.Judge(grammar, TextAnswer(of, "")), "prefix");
    EXPECT_EQ(model.Judge(grammar, "Hm. " + Answer(of, of.one, "now", "{}")), "rejected");
    EXPECT_EQ(model.Judge(grammar, Answer(of, of.one, "now", "{}") + person), "rejected");
    const answer::ReadAnswer read = model.Read(model.Marked(TextAnswer(of, person)), true);
    EXPECT_EQ(read.text, person);
    EXPECT_TRUE(read.calls.empty());
    // Where calls are required, no answer is of the form.
    chat.tool_choice = ToolChoice::kRequired;
    EXPECT_EQ(*model.Ebnf(chat, SchemaForm(kPerson)), *model.Ebnf(chat));
  });
}

TEST(FormBesideCallsTest, TheParserTellsCallsFromTheForm) {
  base::SeededRandom random(3);
  const OutputFormat forms[] = {
      SchemaForm(kPerson), AnyJsonObject(), RegexForm("-[a-z ]{0,30}!"),
      ChoiceForm({"yes", "{\"name\": \"add\"", "{", "[set", "[", " no "})};
  ForEachForm([&](const FormCase& of, const Model& model) {
    const std::string begin =
        std::string(of.form) == "harmony" ? model.Marked("<|channel|>final<|message|>") : "";
    for (const OutputFormat& form : forms) {
      SCOPED_TRACE(static_cast<int>(form.kind));
      const auto grammar = model.MustCompile(Tools(ToolChoice::kAuto), form);
      int calls = 0;
      int texts = 0;
      for (int i = 0; i < 60; ++i) {
        const bool python = std::string(of.form) == "pythonic";
        const std::string bare = python ? "[set(on=" : "{\"name\": \"set\", \"parameters\": ";
        const std::string mark = i % 2 == 0 && !begin.empty() ? begin
                                 : *of.mark == '\0'           ? bare
                                                              : model.Marked(of.mark);
        const std::optional<std::string> text = model.Walk(grammar, &random, mark);
        if (!text) continue;
        const answer::ReadAnswer read = model.Read(*text, true);
        if (!read.calls.empty()) {
          ++calls;
          EXPECT_EQ(read.text, "") << *text;
          for (const ToolCall& call : read.calls) EXPECT_TRUE(IsValid(call)) << *text;
          continue;
        }
        ++texts;
        EXPECT_TRUE(!begin.empty() || read.text == *text) << *text;
        if (form.kind == OutputFormat::Kind::kJsonSchema) {
          EXPECT_TRUE(IsPerson(read.text)) << *text;
        } else if (form.kind == OutputFormat::Kind::kJsonObject) {
          EXPECT_TRUE(nlohmann::json::accept(read.text)) << *text;
        } else if (form.kind == OutputFormat::Kind::kRegex) {
          EXPECT_EQ(read.text.find('!'), read.text.size() - 1) << *text;
        } else {
          EXPECT_EQ(std::count(form.choices.begin(), form.choices.end(), read.text), 1) << *text;
        }
      }
      EXPECT_GT(calls, 3);
      EXPECT_GT(texts, 3);
    }
  });
}

TEST(FormBesideCallsTest, AFormWhoseTextsBeginAsCallsDoIsRejected) {
  const Chat chat = Tools(ToolChoice::kAuto);
  const auto fault = [&](const char* form, bool tokens, const OutputFormat& text) {
    return Model(form, tokens).Ebnf(chat, text).status();
  };
  const OutputFormat call_like = SchemaForm(
      R"({"type":"object","properties":{"name":{"type":"string"},"parameters":{"type":"object"}}})");
  const Status status = fault("llama3_json", true, call_like);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.field(), "response_format");
  EXPECT_EQ(status.message(),
            "response_format: its texts may begin with '{\"name\": \"add\", \"parameters\": ', as "
            "calls of this model do, so tool_choice must be none");
  EXPECT_FALSE(fault("llama3_json", true, SchemaForm("{\"type\":\"object\"}")).ok());
  EXPECT_TRUE(fault("hermes", true, call_like).ok());
  EXPECT_TRUE(fault("llama3_json", true,
                    SchemaForm(R"({"type":"object","properties":{"name":{"enum":["adds","ad"]},
                               "parameters":{"type":"object"}}})"))
                  .ok());
  const OutputFormat any = RegexForm(".*");
  EXPECT_FALSE(fault("hermes", false, any).ok());
  EXPECT_TRUE(fault("hermes", true, any).ok()) << "no text has the token";
  const OutputFormat choice = ChoiceForm({"a", "functools["});
  EXPECT_FALSE(fault("functools", false, choice).ok());
  EXPECT_TRUE(fault("nemotron", false, choice).ok());
  const OutputFormat list = ChoiceForm({"[", "[adds(", "[now(1)]"});
  for (const char* form : {"pythonic", "lfm2"}) {
    for (const bool tokens : {false, true}) {
      EXPECT_THAT(fault(form, tokens, list).message(),
                  HasSubstr("response_format: its texts may begin with '[now(', as calls"));
      EXPECT_TRUE(
          fault(form, tokens, ChoiceForm({"[", "[adds(", "now()", "[now", " [now()]"})).ok());
      EXPECT_TRUE(fault(form, tokens, SchemaForm("{\"type\":\"array\"}")).ok());
    }
  }
  EXPECT_TRUE(fault("gemma", true, list).ok());
  EXPECT_FALSE(fault("gemma", false, any).ok());
}

// Any object, where calls are objects, too.
TEST(FormBesideCallsTest, ObjectsBesideBareCallsAreNone) {
  const Model model("llama3_json", true);
  const auto grammar = model.MustCompile(Tools(ToolChoice::kAuto), AnyJsonObject());
  for (const char* text : {R"({"name": "add", "parameters": {"a": 1}})", "{}",
                           R"({"name": "add", "parameter": 1, "argumentss": "", "": 2})",
                           R"({"a": {"parameters": {"arguments": 1}}, "para\"m": 1, "é": 2})"}) {
    EXPECT_EQ(model.Judge(grammar, text), "accepted") << text;
  }
  for (const char* text : {R"({"name": "add", "parameters": {"b": 1}})", R"({"parameters": 1})",
                           R"({"name": "a", "arguments": {}})"}) {
    EXPECT_EQ(model.Judge(grammar, text), "rejected") << text;
  }
}

TEST(FormBesideCallsTest, AFormBesideToolsIsBoundedAsAlone) {
  Chat chat = Tools(ToolChoice::kAuto);
  const Model model("hermes", true);
  OutputFormat large = ChoiceForm({});
  for (int i = 0; i < 700; ++i) large.choices.push_back(fmt::format("{:060}", i));
  EXPECT_TRUE(model.Ebnf(chat, large).ok());
  for (std::string& text : large.choices) text += text;
  const Status status = model.Ebnf(chat, large).status();
  EXPECT_EQ(status.field(), "response_format");
  EXPECT_THAT(status.message(), HasSubstr("response_format: the choices are too long"));
  EXPECT_THAT(model.Ebnf(chat, SchemaForm("{\"not\": {}}")).status().message(),
              HasSubstr("response_format: at '#'"));
}

// JSON's spelling and that of the calls stand in one grammar.
TEST(FormBesideCallsTest, TheFormIsJsonWhateverCallsAre) {
  const OutputFormat any = SchemaForm("{\"type\":[\"object\",\"array\"]}");
  for (const char* form : {"pythonic", "lfm2", "gemma"}) {
    for (const bool tokens : {false, true}) {
      SCOPED_TRACE(fmt::format("{} {}", form, tokens));
      const Model model(form, tokens);
      const auto grammar = model.MustCompile(Tools(ToolChoice::kAuto), any);
      for (const char* text : {R"({"a b": [true, false, null, "x|\\/\u0001"], "": {}})",
                               R"(["[now()]", "call:now{}"])"}) {
        EXPECT_EQ(model.Judge(grammar, text), "accepted") << text;
        EXPECT_EQ(model.Read(text, true).text, text);
      }
      for (const char* text : {"{a:1}", "[True]", "[None]", "{\"a\":<|\"|>x<|\"|>}", "[now(1)]"}) {
        EXPECT_EQ(model.Judge(grammar, text), "rejected") << text;
      }
    }
  }
}

TEST(FormBesideCallsTest, ToolsWithoutANameOfPythonAreNotCalled) {
  const Model model("pythonic", true);
  Chat chat = Tools(ToolChoice::kAuto);
  chat.tools = {{.name = "3d"}, {.name = "-"}};
  const auto grammar = model.MustCompile(chat, SchemaForm(kPerson));
  EXPECT_EQ(model.Judge(grammar, "{\"name\": \"a\"}"), "accepted");
  EXPECT_EQ(model.Judge(grammar, "[3d()]"), "rejected");
  EXPECT_EQ(model.Judge(grammar, "[]"), "rejected");
  chat.tools[1].name = "now";
  EXPECT_EQ(model.Judge(model.MustCompile(chat, SchemaForm(kPerson)), "[now()]"), "accepted");
}

}  // namespace
}  // namespace ropeway::grammar
