// Grammars of calls, against the parsers that read the calls.
#include "grammar/tool_ebnf.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "answer/test_answer.h"
#include "base/random.h"
#include "grammar/test_vocabularies.h"
#include "tokenizer/test_whole_tokenizer.h"
#include "tokenizer/tokenizer.h"

namespace ropeway::grammar {
namespace {

using answer::kControl;
using testing::HasSubstr;

constexpr TokenId kEnd = 256;
constexpr TokenId kOther = 257;  // A control token that no form names.
constexpr TokenId kFirstControl = 258;

// Bytes, an end, control tokens and a few longer texts.
class FormTokenizer final : public tokenizer::WholeTokenizer {
 public:
  explicit FormTokenizer(std::vector<std::string> controls) : controls_(std::move(controls)) {
    for (int i = 0; i < 256; ++i) texts_.emplace_back(1, static_cast<char>(i));
    texts_.insert(texts_.end(), {"<end>", "<other>"});
    texts_.insert(texts_.end(), controls_.begin(), controls_.end());
    for (const char* text :
         {"\"}", "}\n", "{\"name\": \"", "\": ", "<tool", "call", "éa", " to="}) {
      texts_.emplace_back(text);
    }
  }

  std::vector<TokenId> Encode(std::string_view text,
                              const tokenizer::EncodeOptions&) const override {
    std::vector<TokenId> ids;
    for (const char c : text) ids.push_back(static_cast<uint8_t>(c));
    return ids;
  }
  std::string_view Bytes(TokenId id, bool with_special) const override {
    if (IsSpecial(id) && !with_special) return {};
    return texts_[static_cast<size_t>(id)];
  }
  bool IsEnd(TokenId id) const override { return id == kEnd; }
  bool IsSpecial(TokenId id) const override {
    return id >= kEnd && id < kFirstControl + static_cast<TokenId>(controls_.size());
  }
  int32_t vocab_size() const override { return static_cast<int32_t>(texts_.size()); }
  std::optional<TokenId> Find(std::string_view token) const override {
    const auto found = std::find(texts_.begin(), texts_.end(), token);
    if (found == texts_.end()) return std::nullopt;
    return static_cast<TokenId>(found - texts_.begin());
  }
  std::optional<TokenId> bos() const override { return std::nullopt; }
  std::optional<TokenId> eos() const override { return kEnd; }

 private:
  const std::vector<std::string> controls_;
  std::vector<std::string> texts_;
};

// A model of one form. `tokens`: its marks are control tokens.
class Model {
 public:
  Model(const std::string& form, bool tokens) {
    format_ = *answer::DetectFormat("", true, {.tool_parser = form, .reasoning = "auto"});
    answer::Resolve([&](std::string_view) { return tokens; }, &format_);
    tokenizer_ = std::make_unique<FormTokenizer>(format_.controls);
    std::vector<TokenId> named;
    for (const std::string& text : format_.controls) {
      named.push_back(*tokenizer_->Find(text));
      controls_[text] = named.back();
    }
    vocabulary_ = *Vocabulary::Make(*tokenizer_, named);
  }

  const answer::AnswerFormat& format() const { return format_; }
  StatusOr<std::string> Ebnf(const Chat& chat, const OutputFormat& text = {}) const {
    return ToolEbnf(format_, controls_, chat, text);
  }
  std::shared_ptr<const Grammar> MustCompile(const Chat& chat,
                                             const OutputFormat& text = {}) const {
    const StatusOr<std::string> ebnf = Ebnf(chat, text);
    EXPECT_TRUE(ebnf.ok()) << ebnf.status().message();
    if (!ebnf.ok()) return nullptr;
    StatusOr<std::shared_ptr<const Grammar>> grammar = Grammar::Compile(vocabulary_, *ebnf);
    EXPECT_TRUE(grammar.ok()) << grammar.status().message() << "\n" << *ebnf;
    return grammar.ok() ? *grammar : nullptr;
  }

  // Of a text in which the form's marks stand as they are.
  std::string Marked(std::string text) const {
    for (const auto& [control, id] : controls_) {
      for (size_t at = text.find(control); at != text.npos; at = text.find(control, at)) {
        text.insert(at, 1, kControl);
        at += control.size() + 1;
      }
    }
    return text;
  }
  // Of marked text.
  std::vector<TokenId> Ids(std::string_view text) const {
    std::vector<TokenId> ids;
    while (!text.empty()) {
      size_t size = 1;
      ids.push_back(static_cast<uint8_t>(text[0]));
      for (const auto& [control, id] : controls_) {
        if (text[0] != kControl || !text.substr(1).starts_with(control)) continue;
        ids.back() = id;
        size = 1 + control.size();
        break;
      }
      text.remove_prefix(size);
    }
    return ids;
  }
  std::string Text(const std::vector<TokenId>& ids) const {
    std::string text;
    for (const TokenId id : ids) {
      if (id == kEnd) continue;
      if (tokenizer_->IsSpecial(id)) text += kControl;
      text += tokenizer_->Bytes(id, true);
    }
    return text;
  }
  std::vector<uint32_t> Mask(Matcher* matcher) const {
    std::vector<uint32_t> mask(vocabulary_->mask_words());
    const Status status = matcher->Mask(mask);
    EXPECT_TRUE(status.ok()) << status.message();
    return mask;
  }

  // "accepted", "prefix" or "rejected".
  std::string Judge(const std::shared_ptr<const Grammar>& grammar, const std::string& text) const {
    Matcher matcher(grammar);
    for (const TokenId id : Ids(Marked(text))) {
      if (!matcher.Accept(id).ok()) return "rejected";
    }
    return IsAllowed(Mask(&matcher), kEnd) ? "accepted" : "prefix";
  }

  // A random answer; nullopt: it did not end. `mark` is written often.
  std::optional<std::string> Walk(const std::shared_ptr<const Grammar>& grammar,
                                  base::Random* random, std::string_view mark) const {
    const std::vector<TokenId> begin = Ids(mark);
    Matcher matcher(grammar);
    std::vector<TokenId> ids;
    size_t in_mark = 0;
    for (int i = 0; i < 3'000; ++i) {
      const std::vector<uint32_t> mask = Mask(&matcher);
      std::vector<TokenId> allowed;
      for (TokenId id = 0; id < tokenizer_->vocab_size(); ++id) {
        if (IsAllowed(mask, id)) allowed.push_back(id);
        EXPECT_TRUE(id != kOther || !IsAllowed(mask, id));
      }
      if (allowed.empty()) {
        ADD_FAILURE() << "nothing may follow " << Text(ids);
        return std::nullopt;
      }
      TokenId next = allowed[random->Next64() % allowed.size()];
      // Mostly what leads on: strings would be long else.
      for (const TokenId closing : {'"', '}', ']'}) {
        if (IsAllowed(mask, closing) && random->Next64() % 4 == 0) next = closing;
      }
      if (IsAllowed(mask, kEnd) && random->Next64() % 12 == 0) next = kEnd;
      if (in_mark == 0 && random->Next64() % 8 == 0) in_mark = 1;
      if (in_mark > 0 && in_mark <= begin.size() && IsAllowed(mask, begin[in_mark - 1])) {
        next = begin[in_mark - 1];
        in_mark = in_mark == begin.size() ? 0 : in_mark + 1;
      } else {
        in_mark = 0;
      }
      EXPECT_TRUE(matcher.Accept(next).ok()) << next << " behind " << Text(ids);
      if (next == kEnd) return Text(ids);
      ids.push_back(next);
    }
    return std::nullopt;
  }

  answer::ReadAnswer Read(const std::string& text, bool alone = false) const {
    return answer::ReadPieces(format_, {.tools = {"add", "now", "set"}, .calls_alone = alone},
                              {text});
  }

 private:
  answer::AnswerFormat format_;
  ControlTokens controls_;
  std::unique_ptr<FormTokenizer> tokenizer_;
  std::shared_ptr<const Vocabulary> vocabulary_;
};

Chat Tools(ToolChoice choice) {
  return {.messages = {{"user", "a"}},
          .tools = {{.name = "add",
                     .parameters = R"({"type":"object","properties":{"a":{"type":"integer"},
                                       "b":{"type":"string"}},"required":["a"]})",
                     .strict = true},
                    {.name = "now", .strict = true},
                    {.name = "set",
                     .parameters = R"({"type":"object","properties":{"on":{"type":"boolean"}},
                                       "required":["on"]})",
                     .strict = true}},
          .tool_choice = choice};
}

// Whether it is a call of one of Tools, with arguments that are valid.
bool IsValid(const ToolCall& call) {
  const auto json = nlohmann::json::parse(call.arguments, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return false;
  if (call.name == "now") return json.empty();
  if (call.name == "set") return json.size() == 1 && json["on"].is_boolean();
  if (call.name != "add" || !json.contains("a") || !json["a"].is_number_integer()) return false;
  return json.size() == 1 || (json.size() == 2 && json.contains("b") && json["b"].is_string());
}

struct FormCase {
  const char* form;
  const char* mark;  // That begins calls.
  // An answer with the call `%`, and one with two.
  const char* one;
  const char* two;
  const char* call;  // With a name and arguments.
};

// What a call of f with {..} is: @ the name, $ the arguments.
const FormCase kForms[] = {
    {"hermes", "<tool_call>", "<tool_call>%</tool_call>",
     "<tool_call>%</tool_call>\n<tool_call>%</tool_call>",
     "\n{\"name\": \"@\", \"arguments\": $}\n"},
    {"phi4", "<|tool_call|>", "<|tool_call|>[%]<|/tool_call|>", "<|tool_call|>[%, %]<|/tool_call|>",
     "{\"name\": \"@\", \"arguments\": $}"},
    {"granite", "<|tool_call|>", "<|tool_call|>[%]", "<|tool_call|>[%, %]",
     "{\"name\": \"@\", \"arguments\": $}"},
    {"functools", "functools", "functools[%]", "functools[%, %]",
     "{\"name\": \"@\", \"arguments\": $}"},
    {"nemotron", "<TOOLCALL>", "<TOOLCALL>[%]</TOOLCALL>", "<TOOLCALL>[%, %]</TOOLCALL>",
     "{\"name\": \"@\", \"arguments\": $}"},
    {"llama3_json", "", "%", "%; %", "{\"name\": \"@\", \"parameters\": $}"},
    {"deepseek", "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁begin｜>%<｜tool▁calls▁end｜>",
     "<｜tool▁calls▁begin｜>%%<｜tool▁calls▁end｜>",
     "<｜tool▁call▁begin｜>@<｜tool▁sep｜>$<｜tool▁call▁end｜>"},
    {"deepseek", "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁begin｜>%<｜tool▁calls▁end｜>",
     "<｜tool▁calls▁begin｜>%\n%<｜tool▁calls▁end｜>",
     "<｜tool▁call▁begin｜>function<｜tool▁sep｜>@\n```json\n$\n```<｜tool▁call▁end｜>"},
    {"kimi_k2", "<|tool_calls_section_begin|>",
     "<|tool_calls_section_begin|>%<|tool_calls_section_end|>",
     "<|tool_calls_section_begin|>%%<|tool_calls_section_end|>",
     "<|tool_call_begin|>functions.@:12<|tool_call_argument_begin|>$<|tool_call_end|>"},
    {"mistral", "[TOOL_CALLS]", "[TOOL_CALLS][%]", "[TOOL_CALLS][%, %]",
     "{\"name\": \"@\", \"arguments\": $}"},
    {"mistral", "[TOOL_CALLS]", "%", "%%", "[TOOL_CALLS]@[ARGS]$"},
    {"harmony", "<|channel|>", "%", "",
     "<|channel|>commentary to=functions.@ <|constrain|>json<|message|>$"},
    {"harmony", "<|channel|>", "<|channel|>analysis<|message|>I add.<|end|><|start|>assistant%", "",
     " to=functions.@<|channel|>commentary <|constrain|>json<|message|>$"},
};

std::string Fill(std::string text, char hole, const std::string& with) {
  for (size_t at = text.find(hole); at != text.npos; at = text.find(hole, at + with.size())) {
    text.replace(at, 1, with);
  }
  return text;
}

std::string Answer(const FormCase& of, const char* shape, const std::string& name,
                   const std::string& arguments) {
  return Fill(shape, '%', Fill(Fill(of.call, '@', name), '$', arguments));
}

// Whether a strict tool is not supported where the model decides: see AFormWithoutAGrammarIsNamed.
bool OnlyRequired(const FormCase& of, const Model& model) {
  return std::string(of.form) == "llama3_json" && model.format().controls.empty();
}

// Whether the form is written so where its marks are tokens, or are not.
bool HasForm(const FormCase& of, bool tokens) {
  const std::string form = of.form;
  if (form == "harmony") return tokens;
  if (form == "mistral")
    return tokens == (std::string(of.call).find("[ARGS]") != std::string::npos);
  return true;
}

template <typename Fn>
void ForEachForm(Fn&& fn) {
  for (const FormCase& of : kForms) {
    for (const bool tokens : {false, true}) {
      if (!HasForm(of, tokens)) continue;
      SCOPED_TRACE(fmt::format("{} {} {}", of.form, tokens ? "tokens" : "texts", of.call));
      fn(of, Model(of.form, tokens));
    }
  }
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
    int calls = 0;
    int finished = 0;
    for (int i = 0; i < 60; ++i) {
      const std::optional<std::string> text =
          model.Walk(grammar, &random, model.Marked(*of.mark != '\0' ? of.mark : "{\"name\": \""));
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

// --- Beside a form.

OutputFormat Form(OutputFormat::Kind kind, const char* text = "",
                  std::vector<std::string> choices = {}) {
  OutputFormat form;
  form.kind = kind;
  (kind == OutputFormat::Kind::kRegex ? form.regex : form.schema) = text;
  form.choices = std::move(choices);
  form.field = "response_format";
  return form;
}
OutputFormat Schema(const char* schema) { return Form(OutputFormat::Kind::kJsonSchema, schema); }
OutputFormat Regex(const char* regex) { return Form(OutputFormat::Kind::kRegex, regex); }
OutputFormat AnyJsonObject() { return Form(OutputFormat::Kind::kJsonObject); }
OutputFormat Choices(std::vector<std::string> choices) {
  return Form(OutputFormat::Kind::kChoice, "", std::move(choices));
}

// Texts of it begin much as bare calls do.
constexpr const char* kPerson = R"({"type":"object","properties":{"name":{"type":"string"},
    "arguments":{"type":"object"},"age":{"type":"integer"}},"required":["name"]})";

bool IsPerson(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  return json.is_object() && json.contains("name") && json["name"].is_string() &&
         (!json.contains("age") || json["age"].is_number_integer());
}

// An answer that has this text and calls nothing.
std::string TextAnswer(const FormCase& of, const std::string& text) {
  return (std::string(of.form) == "harmony" ? "<|channel|>final<|message|>" : "") + text;
}

TEST(ToolEbnfTest, BesideAFormAnAnswerIsCallsOrOfTheForm) {
  ForEachForm([](const FormCase& of, const Model& model) {
    Chat chat = Tools(ToolChoice::kAuto);
    chat.tools[0].strict = false;
    const auto grammar = model.MustCompile(chat, Schema(kPerson));
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
    EXPECT_EQ(*model.Ebnf(chat, Schema(kPerson)), *model.Ebnf(chat));
  });
}

TEST(ToolEbnfTest, TheParserTellsCallsFromTheForm) {
  base::SeededRandom random(3);
  const OutputFormat forms[] = {Schema(kPerson), AnyJsonObject(), Regex("-[a-z ]{0,30}!"),
                                Choices({"yes", "{\"name\": \"add\"", "{", " no "})};
  ForEachForm([&](const FormCase& of, const Model& model) {
    const std::string begin =
        std::string(of.form) == "harmony" ? model.Marked("<|channel|>final<|message|>") : "";
    for (const OutputFormat& form : forms) {
      SCOPED_TRACE(static_cast<int>(form.kind));
      const auto grammar = model.MustCompile(Tools(ToolChoice::kAuto), form);
      int calls = 0;
      int texts = 0;
      for (int i = 0; i < 60; ++i) {
        const std::string mark = i % 2 == 0 && !begin.empty() ? begin
                                 : *of.mark == '\0' ? "{\"name\": \"set\", \"parameters\": "
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

TEST(ToolEbnfTest, AFormWhoseTextsBeginAsCallsDoIsRejected) {
  const Chat chat = Tools(ToolChoice::kAuto);
  const auto fault = [&](const char* form, bool tokens, const OutputFormat& text) {
    return Model(form, tokens).Ebnf(chat, text).status();
  };
  const OutputFormat call_like = Schema(
      R"({"type":"object","properties":{"name":{"type":"string"},"parameters":{"type":"object"}}})");
  const Status status = fault("llama3_json", true, call_like);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.field(), "response_format");
  EXPECT_EQ(status.message(),
            "response_format: its texts may begin with '{\"name\": \"add\", \"parameters\": ', as "
            "calls of this model do, so tool_choice must be none");
  EXPECT_FALSE(fault("llama3_json", true, Schema("{\"type\":\"object\"}")).ok());
  EXPECT_TRUE(fault("hermes", true, call_like).ok());
  EXPECT_TRUE(fault("llama3_json", true,
                    Schema(R"({"type":"object","properties":{"name":{"enum":["adds","ad"]},
                               "parameters":{"type":"object"}}})"))
                  .ok());
  const OutputFormat any = Regex(".*");
  EXPECT_FALSE(fault("hermes", false, any).ok());
  EXPECT_TRUE(fault("hermes", true, any).ok()) << "no text has the token";
  const OutputFormat choice = Choices({"a", "functools["});
  EXPECT_FALSE(fault("functools", false, choice).ok());
  EXPECT_TRUE(fault("nemotron", false, choice).ok());
}

// Any object, where calls are objects, too.
TEST(ToolEbnfTest, ObjectsBesideBareCallsAreNone) {
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

TEST(ToolEbnfTest, AFormBesideToolsIsBoundedAsAlone) {
  Chat chat = Tools(ToolChoice::kAuto);
  const Model model("hermes", true);
  OutputFormat large = Choices({});
  for (int i = 0; i < 700; ++i) large.choices.push_back(fmt::format("{:060}", i));
  EXPECT_TRUE(model.Ebnf(chat, large).ok());
  for (std::string& text : large.choices) text += text;
  const Status status = model.Ebnf(chat, large).status();
  EXPECT_EQ(status.field(), "response_format");
  EXPECT_THAT(status.message(), HasSubstr("response_format: the choices are too long"));
  EXPECT_THAT(model.Ebnf(chat, Schema("{\"not\": {}}")).status().message(),
              HasSubstr("response_format: at '#'"));
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
  for (const char* form :
       {"gemma", "pythonic", "lfm2", "qwen3_coder", "seed_oss", "minimax_m2", "glm45", "none"}) {
    const Model model(form, true);
    const Status required = model.Ebnf(Tools(ToolChoice::kRequired)).status();
    EXPECT_EQ(required.code(), StatusCode::kUnimplemented);
    EXPECT_EQ(required.field(), "tool_choice");
    EXPECT_THAT(required.message(), HasSubstr(fmt::format("('{}')", form)));
    EXPECT_EQ(model.Ebnf(Tools(ToolChoice::kAuto)).status().field(), "tools[0].function.strict");
    const Status beside = model.Ebnf(Tools(ToolChoice::kAuto), Schema(kPerson)).status();
    EXPECT_EQ(beside.field(), "tool_choice");
    EXPECT_THAT(beside.message(), HasSubstr("response_format beside tools is not supported for"));
  }
  // Its mark, as text, could stand anywhere in a text.
  const Model llama("llama3_json", false);
  EXPECT_EQ(llama.Ebnf(Tools(ToolChoice::kAuto)).status().field(), "tools[0].function.strict");
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
                                       std::pair(ToolChoice::kAuto, Schema(kPerson))}) {
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
    for (const char* name : {"hermes", "phi4", "llama3_json", "deepseek", "mistral", "harmony"}) {
      answer::AnswerFormat format = *answer::DetectFormat("", true, {.tool_parser = name});
      answer::Resolve([](std::string_view) { return true; }, &format);
      ControlTokens controls;
      for (const std::string& text : format.controls) {
        controls[text] = static_cast<TokenId>(1'000 + controls.size());
      }
      for (const OutputFormat& text : {OutputFormat(), Schema(kPerson), AnyJsonObject()}) {
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
