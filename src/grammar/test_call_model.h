// A model that writes calls in one form, for tests: random answers by a grammar, read by the
// parser.
#ifndef ROPEWAY_GRAMMAR_TEST_CALL_MODEL_H_
#define ROPEWAY_GRAMMAR_TEST_CALL_MODEL_H_

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "answer/test_answer.h"
#include "base/random.h"
#include "grammar/test_vocabularies.h"
#include "grammar/tool_ebnf.h"
#include "tokenizer/test_whole_tokenizer.h"
#include "tokenizer/tokenizer.h"

namespace ropeway::grammar {

inline constexpr TokenId kEnd = 256;
inline constexpr TokenId kOther = 257;  // A control token that no form names.
inline constexpr TokenId kFirstControl = 258;

// Bytes, an end, control tokens and a few longer texts.
class FormTokenizer final : public tokenizer::WholeTokenizer {
 public:
  explicit FormTokenizer(std::vector<std::string> controls) : controls_(std::move(controls)) {
    for (int i = 0; i < 256; ++i) texts_.emplace_back(1, static_cast<char>(i));
    texts_.insert(texts_.end(), {"<end>", "<other>"});
    texts_.insert(texts_.end(), controls_.begin(), controls_.end());
    for (const char* text :
         {"\"}", "}\n", "{\"name\": \"", "\": ", "<tool", "call", "éa", " to=", "=\"", "\")]",
          "[add(a=", ", b", "True", "<|", "<|\"", "|>", "<|\"|>"}) {
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
    closing_ = {'"', '}', ']', ')'};
    if (const auto quote = tokenizer_->Find("<|\"|>")) closing_.push_back(*quote);
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
        text.insert(at, 1, answer::kControl);
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
        if (text[0] != answer::kControl || !text.substr(1).starts_with(control)) continue;
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
      if (tokenizer_->IsSpecial(id)) text += answer::kControl;
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
      for (const TokenId closing : closing_) {
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
    return answer::ReadPieces(format_, {.tools = {"add", "now", "set", "f"}, .calls_alone = alone},
                              {text});
  }

 private:
  answer::AnswerFormat format_;
  ControlTokens controls_;
  std::unique_ptr<FormTokenizer> tokenizer_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  std::vector<TokenId> closing_;  // Tokens that end strings, lists and what else would go on.
};

// JSON as the form's models write it; `arguments`: all of a call's.
inline std::string Spelled(const std::string& form, const nlohmann::ordered_json& json,
                           bool arguments = false) {
  const bool python = form == "pythonic" || form == "lfm2";
  const bool gemma = form == "gemma";
  if (python && json.is_boolean()) return json.get<bool>() ? "True" : "False";
  if (python && json.is_null()) return "None";
  if (gemma && json.is_string()) return "<|\"|>" + json.get<std::string>() + "<|\"|>";
  if (json.is_primitive() || (!python && !gemma)) return json.dump();
  const bool call = python && arguments;
  std::string text;
  for (const auto& [key, value] : json.items()) {
    text += text.empty() ? "" : ",";
    if (json.is_object()) text += call ? key + "=" : (gemma ? key : Spelled(form, key)) + ":";
    text += Spelled(form, value);
  }
  if (call) return "(" + text + ")";
  return json.is_object() ? "{" + text + "}" : "[" + text + "]";
}

inline Chat Tools(ToolChoice choice) {
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
inline bool IsValid(const ToolCall& call) {
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

// What a call of f with {..} is: @ the name, $ the arguments as the form spells them.
inline constexpr FormCase kForms[] = {
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
    {"pythonic", "", "[%]", "[%, %]", "@$"},
    {"lfm2", "<|tool_call_start|>", "<|tool_call_start|>[%]<|tool_call_end|>",
     "<|tool_call_start|>[%, %]<|tool_call_end|>", "@$"},
    {"gemma", "<|tool_call>", "%", "%%", "<|tool_call>call:@$<tool_call|>"},
};

inline std::string Fill(std::string text, char hole, const std::string& with) {
  for (size_t at = text.find(hole); at != text.npos; at = text.find(hole, at + with.size())) {
    text.replace(at, 1, with);
  }
  return text;
}

inline std::string Answer(const FormCase& of, const char* shape, const std::string& name,
                          const std::string& arguments) {
  const auto json = nlohmann::ordered_json::parse(arguments);
  const std::string form = of.form;
  const bool own = form == "pythonic" || form == "lfm2" || form == "gemma";
  const std::string spelled = own ? Spelled(form, json, /*arguments=*/true) : arguments;
  return Fill(shape, '%', Fill(Fill(of.call, '@', name), '$', spelled));
}

// Whether the form is written so where its marks are tokens, or are not.
inline bool HasForm(const FormCase& of, bool tokens) {
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

// --- Forms of an answer that calls nothing.

inline OutputFormat FormOf(OutputFormat::Kind kind, const char* text = "",
                           std::vector<std::string> choices = {}) {
  OutputFormat form;
  form.kind = kind;
  (kind == OutputFormat::Kind::kRegex ? form.regex : form.schema) = text;
  form.choices = std::move(choices);
  form.field = "response_format";
  return form;
}
inline OutputFormat SchemaForm(const char* schema) {
  return FormOf(OutputFormat::Kind::kJsonSchema, schema);
}
inline OutputFormat RegexForm(const char* regex) {
  return FormOf(OutputFormat::Kind::kRegex, regex);
}
inline OutputFormat AnyJsonObject() { return FormOf(OutputFormat::Kind::kJsonObject); }
inline OutputFormat ChoiceForm(std::vector<std::string> choices) {
  return FormOf(OutputFormat::Kind::kChoice, "", std::move(choices));
}

// Texts of it begin much as bare calls do.
inline constexpr const char* kPerson = R"({"type":"object","properties":{"name":{"type":"string"},
    "arguments":{"type":"object"},"age":{"type":"integer"}},"required":["name"]})";

}  // namespace ropeway::grammar

#endif  // ROPEWAY_GRAMMAR_TEST_CALL_MODEL_H_
