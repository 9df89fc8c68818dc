#include "answer/answer_format.h"

#include <algorithm>
#include <optional>

namespace ropeway::answer {
namespace {

constexpr const char* kHarmonyName = "harmony";

const std::vector<std::string>& HarmonyMarks() {
  static const std::vector<std::string> marks = {"<|start|>",   "<|channel|>", "<|constrain|>",
                                                 "<|message|>", "<|end|>",     "<|call|>",
                                                 "<|return|>"};
  return marks;
}

struct ReasoningRow {
  ReasoningForm form;
  // The form is that of templates that have all of these.
  std::vector<std::string_view> signs;
  std::vector<std::string> controls = {};
};

const std::vector<ReasoningRow>& ReasoningRows() {
  static const std::vector<ReasoningRow> rows = {
      {{kHarmonyName, "", ""}, {"<|channel|>", "<|message|>"}, HarmonyMarks()},
      {{"mistral", "[THINK]", "[/THINK]"}, {"[THINK]"}, {"[THINK]", "[/THINK]"}},
      {{"gemma", "<|channel>thought", "<channel|>"},
       {"<|channel>thought"},
       {"<|channel>", "<channel|>"}},
      {{"cohere", "<|START_THINKING|>", "<|END_THINKING|>"},
       {"<|START_THINKING|>"},
       {"<|START_THINKING|>", "<|END_THINKING|>"}},
      {{"seed", "<seed:think>", "</seed:think>"},
       {"</seed:think>"},
       {"<seed:think>", "</seed:think>"}},
      {{"think", "<think>", "</think>"}, {"</think>"}, {"<think>", "</think>"}},
  };
  return rows;
}

struct CallRow {
  CallForm form;
  std::vector<std::string_view> signs;      // As of ReasoningRow.
  std::vector<std::string_view> not_signs;  // A template that has one of these is another form's.
  std::vector<std::string> controls = {};
};

// In the order of detection: what is more particular comes first.
const std::vector<CallRow>& CallRows() {
  static const std::vector<CallRow> rows = {
      {{.name = kHarmonyName, .syntax = CallSyntax::kHarmony},
       {"<|channel|>", "<|message|>"},
       {},
       HarmonyMarks()},
      {{.name = "gemma",
        .syntax = CallSyntax::kGemma,
        .begin = "<|tool_call>",
        .end = "<tool_call|>",
        .quote = "<|\"|>"},
       {"<|tool_call>call:"},
       {},
       {"<|tool_call>", "<tool_call|>", "<|\"|>"}},
      {{.name = "deepseek",
        .syntax = CallSyntax::kDeepSeek,
        .begin = "<｜tool▁calls▁begin｜>",
        .end = "<｜tool▁calls▁end｜>",
        .call = "<｜tool▁call▁begin｜>",
        .call_end = "<｜tool▁call▁end｜>",
        .args = "<｜tool▁sep｜>"},
       {"tool▁calls▁begin"},
       {},
       {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>",
        "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"}},
      {{.name = "mistral",
        .syntax = CallSyntax::kMistral,
        .begin = "[TOOL_CALLS]",
        .call = "[CALL_ID]",
        .args = "[ARGS]",
        .short_ids = true},
       {"[TOOL_CALLS]"},
       {},
       {"[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"}},
      {{.name = "lfm2",
        .syntax = CallSyntax::kPythonic,
        .begin = "<|tool_call_start|>",
        .end = "<|tool_call_end|>"},
       {"<|tool_call_start|>"},
       {},
       {"<|tool_call_start|>", "<|tool_call_end|>"}},
      {{.name = "nemotron",
        .syntax = CallSyntax::kList,
        .begin = "<TOOLCALL>",
        .end = "</TOOLCALL>"},
       {"<TOOLCALL>["},
       {},
       {"<TOOLCALL>", "</TOOLCALL>"}},
      {{.name = "phi4",
        .syntax = CallSyntax::kList,
        .begin = "<|tool_call|>",
        .end = "<|/tool_call|>"},
       {"<|tool_call|>", "<|/tool_call|>"},
       {},
       {"<|tool_call|>", "<|/tool_call|>"}},
      {{.name = "granite", .syntax = CallSyntax::kList, .begin = "<|tool_call|>"},
       {"<|tool_call|>"},
       {},
       {"<|tool_call|>"}},
      {{.name = "functools", .syntax = CallSyntax::kList, .begin = "functools"},
       {"functools["},
       {}},
      {{.name = "hermes",
        .syntax = CallSyntax::kTagged,
        .begin = "<tool_call>",
        .end = "</tool_call>"},
       {"<tool_call>", "arguments"},
       {"<function=", "<arg_key>", "<parameter", "<invoke name="},
       {"<tool_call>", "</tool_call>"}},
      {{.name = "llama3_json", .syntax = CallSyntax::kBare, .begin = "<|python_tag|>"},
       {"\"parameters\": dictionary of argument name and its value"},
       {},
       {"<|python_tag|>"}},
      {{.name = "pythonic", .syntax = CallSyntax::kPythonic},
       {"[func_name1(params_name1=params_value1"},
       {}},
      {{.name = "kimi_k2",
        .syntax = CallSyntax::kDeepSeek,
        .begin = "<|tool_calls_section_begin|>",
        .end = "<|tool_calls_section_end|>",
        .call = "<|tool_call_begin|>",
        .call_end = "<|tool_call_end|>",
        .args = "<|tool_call_argument_begin|>",
        .numbered = true},
       {"<|tool_calls_section_begin|>", "<|tool_call_argument_begin|>"},
       {},
       {"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>",
        "<|tool_call_end|>", "<|tool_call_argument_begin|>"}},
      {{.name = "qwen3_coder",
        .syntax = CallSyntax::kXml,
        .begin = "<tool_call>",
        .end = "</tool_call>",
        .call = "<function=",
        .call_end = "</function>",
        .args = ">",
        .key = "<parameter=",
        .key_end = ">",
        .value_end = "</parameter>",
        .lines = true},
       {"<tool_call>", "<function=", "<parameter="},
       {},
       {"<tool_call>", "</tool_call>"}},
      {{.name = "seed_oss",
        .syntax = CallSyntax::kXml,
        .begin = "<seed:tool_call>",
        .end = "</seed:tool_call>",
        .call = "<function=",
        .call_end = "</function>",
        .args = ">",
        .key = "<parameter=",
        .key_end = ">",
        .value_end = "</parameter>",
        .lines = true},
       {"<seed:tool_call>", "<function=", "<parameter="},
       {},
       {"<seed:tool_call>", "</seed:tool_call>"}},
      {{.name = "minimax_m2",
        .syntax = CallSyntax::kXml,
        .begin = "<minimax:tool_call>",
        .end = "</minimax:tool_call>",
        .call = "<invoke name=\"",
        .call_end = "</invoke>",
        .args = "\">",
        .key = "<parameter name=\"",
        .key_end = "\">",
        .value_end = "</parameter>",
        .lines = true},
       {"<minimax:tool_call>", "<invoke name="},
       {},
       {"<minimax:tool_call>", "</minimax:tool_call>"}},
      {{.name = "glm45",
        .syntax = CallSyntax::kXml,
        .begin = "<tool_call>",
        .end = "</tool_call>",
        .key = "<arg_key>",
        .key_end = "</arg_key>",
        .value = "<arg_value>",
        .value_end = "</arg_value>"},
       {"<tool_call>", "<arg_key>", "<arg_value>"},
       {},
       {"<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"}},
  };
  return rows;
}

// For a template that knows no tools: they are shown to the model as Hermes' are.
constexpr const char* kGeneric = "generic";
constexpr const char* kNone = "none";
constexpr const char* kAuto = "auto";

bool HasAll(std::string_view text, const std::vector<std::string_view>& signs) {
  return std::all_of(signs.begin(), signs.end(), [&](std::string_view sign) {
    return text.find(sign) != std::string_view::npos;
  });
}

bool HasAny(std::string_view text, const std::vector<std::string_view>& signs) {
  return std::any_of(signs.begin(), signs.end(), [&](std::string_view sign) {
    return text.find(sign) != std::string_view::npos;
  });
}

const CallRow* FindCalls(std::string_view name) {
  for (const CallRow& row : CallRows()) {
    if (name == row.form.name) return &row;
  }
  return nullptr;
}

// The name of the template's form.
std::string_view DetectCalls(std::string_view chat_template) {
  for (const CallRow& row : CallRows()) {
    if (HasAll(chat_template, row.signs) && !HasAny(chat_template, row.not_signs)) {
      return row.form.name;
    }
  }
  return kNone;
}

void Replace(std::string_view from, const std::string& to, std::string* text) {
  for (size_t at = text->find(from); at != std::string::npos; at = text->find(from, at)) {
    if (at > 0 && (*text)[at - 1] == kControl) {
      at += from.size();
      continue;
    }
    text->replace(at, from.size(), to);
    at += to.size();
  }
}

}  // namespace

std::vector<std::string_view> CallFormNames() {
  std::vector<std::string_view> names = {kAuto, kNone, kGeneric};
  for (const CallRow& row : CallRows()) names.emplace_back(row.form.name);
  return names;
}

bool HasChannels(const AnswerFormat& format) {
  return format.calls.syntax == CallSyntax::kHarmony ||
         std::string_view(format.reasoning.name) == kHarmonyName;
}

std::vector<std::string> BareStarts(const CallForm& form, const std::vector<std::string>& tools) {
  std::vector<std::string> starts;
  if (form.syntax == CallSyntax::kXml && !form.call.empty()) starts.push_back(form.call);
  for (const std::string& tool : tools) {
    if (form.syntax == CallSyntax::kBare) {
      starts.push_back("{\"name\": \"" + tool + "\", \"parameters\": ");
    } else if (form.syntax == CallSyntax::kPythonic) {
      starts.push_back("[" + tool + "(");
    }
  }
  return starts;
}

StatusOr<AnswerFormat> DetectFormat(std::string_view chat_template, bool reads_tools,
                                    const FormatNames& names) {
  const std::string_view reasoning = names.reasoning;
  AnswerFormat format;
  format.reasoning = {kNone, "", ""};
  if (reasoning != kAuto && reasoning != kNone) {
    return InvalidArgument("reasoning_format (--reasoning-format) must be auto or none, not '" +
                               std::string(reasoning) + "'",
                           "reasoning_format");
  }
  if (reasoning == kAuto) {
    for (const ReasoningRow& row : ReasoningRows()) {
      if (!HasAll(chat_template, row.signs)) continue;
      format.reasoning = row.form;
      format.controls = row.controls;
      break;
    }
  }
  std::string_view name = names.tool_parser;
  if (name == kAuto) name = reads_tools ? DetectCalls(chat_template) : kGeneric;
  // Harmony's channels are read as a whole, or not at all.
  if (name == kHarmonyName && reasoning == kNone) name = kNone;
  format.calls = {.name = kNone};
  if (name == kNone) return format;
  const CallRow* row = FindCalls(name == kGeneric ? "hermes" : name);
  if (row == nullptr) {
    std::string known;
    for (const std::string_view each : CallFormNames()) {
      known += (known.empty() ? "" : ", ") + std::string(each);
    }
    return InvalidArgument(
        "tool_parser (--tool-parser) must be one of " + known + ", not '" + std::string(name) + "'",
        "tool_parser");
  }
  format.calls = row->form;
  if (name == kGeneric) format.calls.name = kGeneric;
  for (const std::string& control : row->controls) {
    if (std::ranges::find(format.controls, control) == format.controls.end()) {
      format.controls.push_back(control);
    }
  }
  return format;
}

void Resolve(const std::function<bool(std::string_view token)>& is_control, AnswerFormat* format) {
  std::erase_if(format->controls, [&](const std::string& token) { return !is_control(token); });
  // Longer ones first: one may be a part of another.
  std::ranges::sort(format->controls,
                    [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
  for (const std::string& token : format->controls) {
    const std::string marked = kControl + token;
    CallForm& calls = format->calls;
    for (std::string* text : {&format->reasoning.open, &format->reasoning.close, &calls.begin,
                              &calls.end, &calls.call, &calls.call_end, &calls.args, &calls.quote,
                              &calls.key, &calls.key_end, &calls.value, &calls.value_end}) {
      Replace(token, marked, text);
    }
  }
}

}  // namespace ropeway::answer
