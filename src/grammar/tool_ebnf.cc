#include "grammar/tool_ebnf.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "base/json.h"
#include "core/output_bounds.h"
#include "grammar/ebnf.h"
#include "grammar/json_rules.h"
#include "grammar/output_ebnf.h"
#include "grammar/schema_ebnf.h"
#include "grammar/schema_limits.h"

namespace ropeway::grammar {
namespace {

using answer::CallSyntax;
using Json = nlohmann::ordered_json;
using Node = Ebnf::Node;
using Nodes = std::vector<Node>;

bool IsStrict(const Tool& tool) { return tool.strict; }

class ToolWriter {
 public:
  ToolWriter(const answer::AnswerFormat& format, const ControlTokens& controls, const Chat& chat,
             const OutputFormat& text, JsonRules::Spaces spaces)
      : form_(format.calls),
        controls_(controls),
        chat_(chat),
        text_(text),
        required_(chat.tool_choice == ToolChoice::kRequired),
        alone_(required_ || text.kind != OutputFormat::Kind::kText),
        many_(chat.parallel_tool_calls),
        spaces_(spaces),
        json_(&ebnf_, spaces,
              {.python = form_.syntax == CallSyntax::kPythonic,
               .quote = form_.quote.substr(form_.quote.starts_with(answer::kControl) ? 1 : 0),
               .quote_token = TokenOf(form_.quote)}) {}

  StatusOr<std::string> Write() {
    for (size_t i = 0; i < chat_.tools.size(); ++i) {
      if (Status status = AddTool(i); !status.ok()) return status;
      if (ebnf_.bytes() > 4 * kMaxToolsEbnfBytes) return TooLarge();
    }
    if (alone_ && !required_) {
      if (Status status = AddShape(); !status.ok()) return OfField(text_, status);
    }
    const StatusOr<Node> answer = Answer();
    if (!answer.ok()) return answer.status();
    const Ebnf::Rule root = ebnf_.Declare();
    ebnf_.Define(root, *answer);
    std::string text = ebnf_.Print(root);
    if (text.size() > kMaxToolsEbnfBytes + (shape_ ? kMaxEbnfBytes : 0)) return TooLarge();
    return text;
  }

 private:
  struct Callee {
    std::string_view name;
    Node arguments;
  };

  static Status TooLarge() {
    return InvalidArgument(
        fmt::format("tools: their grammar has more than {} bytes", kMaxToolsEbnfBytes), "tools");
  }

  Status AddTool(size_t index) {
    const Tool& tool = chat_.tools[index];
    if (!chat_.tool_name.empty() && tool.name != chat_.tool_name) return {};
    const bool enforced = required_ || tool.strict;
    // Python has no such names, and answer::PythonicReader reads no call of one.
    if (form_.syntax == CallSyntax::kPythonic && tool.name.find_first_of("0123456789-") == 0) {
      if (!enforced) return {};
      const std::string field = fmt::format("tools[{}].function.name", index);
      return InvalidArgument(
          fmt::format("{} must not begin with '{}', as this model writes calls in Python's syntax",
                      field, tool.name[0]),
          field);
    }
    if (!enforced) {
      callees_.push_back({tool.name, AnyArguments(&ebnf_, &json_)});
      return {};
    }
    // Together, so that many tools take no longer than one schema may.
    schema_bytes_ += tool.parameters.size();
    if (schema_bytes_ > core::kMaxSchemaBytes) {
      return InvalidArgument(
          fmt::format(
              "tools: the parameters of the tools that are to be enforced have more than {} "
              "bytes together",
              core::kMaxSchemaBytes),
          "tools");
    }
    const StatusOr<Node> arguments = Arguments(tool);
    if (!arguments.ok()) {
      const std::string field = fmt::format("tools[{}].function.parameters", index);
      return {arguments.status().code(), field + ": " + arguments.status().message(), field};
    }
    callees_.push_back({tool.name, *arguments});
    return {};
  }

  // Of an answer that calls nothing. None may begin as calls do, which the parser would read.
  Status AddShape() {
    StatusOr<Node> shape = ebnf_.Literal("");
    if (text_.kind == OutputFormat::Kind::kJsonObject && form_.syntax == CallSyntax::kBare) {
      const Node key =
          ebnf_.Sequence({ebnf_.Literal("\""), json_.StringRestBut({"arguments", "parameters"})});
      shape = json_.Object(key, json_.Any(), 0, Ebnf::kNoLimit);
    } else {
      JsonRules json(&ebnf_, spaces_);  // Calls may spell values in another way.
      shape = OutputText(text_, &ebnf_, json_.is_json() ? &json_ : &json);
    }
    if (!shape.ok()) return shape.status();
    shape_ = *shape;
    std::vector<std::string> names;
    for (const Callee& callee : callees_) names.emplace_back(callee.name);
    std::vector<std::string> starts = answer::BareStarts(form_, names);
    if (!form_.begin.empty() && form_.begin.front() != answer::kControl) {
      starts.push_back(form_.begin);
    }
    for (const std::string& start : starts) {
      if (!ebnf_.MayBegin(*shape_, start)) continue;
      return InvalidArgument(fmt::format(
          "its texts may begin with '{}', as calls of this model do, so tool_choice must be none",
          start));
    }
    return {};
  }

  StatusOr<Node> Arguments(const Tool& tool) {
    const Node none = ebnf_.Literal(JsonRules::Brackets(json_.arguments()));
    if (tool.parameters.empty() || tool.parameters == "{}") return none;
    const StatusOr<Json> schema =
        base::ReadOrderedJson(tool.parameters, core::kSchemaBounds, "the schema");
    if (!schema.ok()) return schema.status();
    StatusOr<Node> arguments = ArgumentsEbnf(*schema, &ebnf_, &json_);
    // As of any `properties` that are listed, there are no others.
    if (arguments.ok() && HasNoArguments(*schema)) return none;
    return arguments;
  }

  // Of a schema that is supported.
  static bool HasNoArguments(const Json& schema) {
    const auto properties = schema.find("properties");
    const auto others = schema.find("additionalProperties");
    return properties != schema.end() && properties->empty() && !schema.contains("minProperties") &&
           !schema.contains("propertyNames") && (others == schema.end() || *others == false);
  }

  // What the form has no grammar for.
  Status NotSupported(std::string_view why) const {
    const auto strict = std::find_if(chat_.tools.begin(), chat_.tools.end(), IsStrict);
    std::string field = "tool_choice";
    std::string what = "a required call";
    if (alone_ && !required_) {
      what = fmt::format("{} beside tools", text_.field.empty() ? "format" : text_.field);
    } else if (!required_) {
      what = field = fmt::format("tools[{}].function.strict", strict - chat_.tools.begin());
    }
    return {StatusCode::kUnimplemented,
            fmt::format("{} is not supported for this model: {} ('{}')", what, why, form_.name),
            field};
  }

  // --- Parts.

  // The token of a mark that is one; nullopt: the mark is a text. REQUIRES: !IsEnd(mark).
  std::optional<TokenId> TokenOf(std::string_view mark) const {
    if (mark.empty() || mark.front() != answer::kControl) return std::nullopt;
    const auto found = controls_.find(mark.substr(1));
    return found == controls_.end() ? std::nullopt : std::optional(found->second);
  }
  // A control token at which generation ends: where it would follow, the output may end.
  bool IsEnd(std::string_view mark) const {
    return !mark.empty() && mark.front() == answer::kControl && !TokenOf(mark);
  }
  Node Mark(std::string_view mark) {
    if (IsEnd(mark)) return ebnf_.Literal("");
    const std::optional<TokenId> token = TokenOf(mark);
    return token ? ebnf_.Token({*token}) : ebnf_.Literal(mark);
  }

  // One call of any tool, by what stands before its name, between the name and the arguments, and
  // behind these.
  Node Call(const Nodes& before, const Nodes& between, const Nodes& behind) {
    Nodes ways;
    for (const Callee& callee : callees_) {
      Nodes way = {ebnf_.Literal(callee.name)};
      way.insert(way.end(), between.begin(), between.end());
      way.push_back(callee.arguments);
      ways.push_back(ebnf_.Sequence(way));
    }
    Nodes all = before;
    all.push_back(ebnf_.Shared(ebnf_.Choice(ways)));
    all.insert(all.end(), behind.begin(), behind.end());
    return ebnf_.Shared(ebnf_.Sequence(all));
  }

  Node Object(const char* arguments) {
    return Call({ebnf_.Literal("{\"name\": \"")},
                {ebnf_.Literal(fmt::format("\", \"{}\": ", arguments))}, {ebnf_.Literal("}")});
  }

  // `one`, and where several calls are allowed more of them.
  Node Several(Node one, std::string_view separator) {
    if (!many_) return one;
    const Node more = ebnf_.Shared(ebnf_.Sequence({ebnf_.Literal(separator), one}));
    return ebnf_.Sequence({one, ebnf_.Repeat(more, 0, Ebnf::kNoLimit)});
  }

  Node List() {
    return ebnf_.Sequence(
        {ebnf_.Literal("["), Several(Object("arguments"), ", "), ebnf_.Literal("]")});
  }

  // --- Forms.

  StatusOr<Node> Answer() {
    if (shape_ && callees_.empty()) return *shape_;  // No tool has a name that can be called.
    StatusOr<Node> calls = Calls();
    if (!calls.ok() || !shape_ || form_.syntax == CallSyntax::kHarmony) return calls;
    return ebnf_.Choice({*calls, *shape_});
  }

  StatusOr<Node> Calls() {
    switch (form_.syntax) {
      case CallSyntax::kNone:
        return NotSupported("its template shows no known form of calls");
      case CallSyntax::kXml:
        return NotSupported("its calls are of a form that is not JSON");
      case CallSyntax::kBare:
        return Bare();
      case CallSyntax::kPythonic:
        return Pythonic();
      case CallSyntax::kGemma:
        if (IsEnd(form_.quote)) return NotSupported("the mark of its strings ends the answer");
        return Blocks(Call({ebnf_.Literal("call:")}, {}, {Mark(form_.end)}), "", many_);
      case CallSyntax::kHarmony:
        return Harmony();
      case CallSyntax::kTagged:
        return Blocks(ebnf_.Sequence({ebnf_.Literal("\n"), Object("arguments"), ebnf_.Literal("\n"),
                                      Mark(form_.end)}),
                      "\n", many_);
      case CallSyntax::kList:
        return Blocks(ebnf_.Sequence({List(), Mark(form_.end)}), "", false);
      case CallSyntax::kMistral:
        // Models of the later form have its mark as a token.
        if (TokenOf(form_.args)) return Blocks(Call({}, {Mark(form_.args)}, {}), "", many_);
        return Blocks(List(), "", false);
      case CallSyntax::kDeepSeek:
        return Blocks(DeepSeekCalls(), "", false);
    }
    return NotSupported("its calls are of an unknown form");
  }

  // `block` behind the form's first mark. `many`: several of them with `separator` between are the
  // answer where nothing else may be.
  StatusOr<Node> Blocks(Node block, std::string_view separator, bool many) {
    if (IsEnd(form_.begin))
      return NotSupported("its calls begin with a token that ends the answer");
    if (alone_) {
      const Node one = ebnf_.Sequence({Mark(form_.begin), block});
      return many ? Several(one, separator) : one;
    }
    const Ebnf::Rule rule = ebnf_.Declare();
    ebnf_.Define(rule, block);
    const std::optional<TokenId> token = TokenOf(form_.begin);
    return ebnf_.Shared(token ? ebnf_.Behind(*token, rule, many_)
                              : ebnf_.Behind(form_.begin, rule, many_));
  }

  // Both of DeepSeek's forms: the model takes the one that it knows. Or Kimi's, which is numbered.
  Node DeepSeekCalls() {
    const Node call = Mark(form_.call);
    const Node args = Mark(form_.args);
    const Node call_end = Mark(form_.call_end);
    if (form_.numbered) {
      const Node number = ebnf_.Repeat(ebnf_.Class("[0-9]"), 1, 9);
      const Node one =
          Call({call, ebnf_.Literal("functions.")}, {ebnf_.Literal(":"), number, args}, {call_end});
      return ebnf_.Sequence({Several(one, ""), Mark(form_.end)});
    }
    const Node fenced = Call({call, ebnf_.Literal("function"), args},
                             {ebnf_.Literal("\n```json\n")}, {ebnf_.Literal("\n```"), call_end});
    const Node plain = Call({call}, {args}, {call_end});
    return ebnf_.Sequence(
        {ebnf_.Choice({Several(fenced, "\n"), Several(plain, "")}), Mark(form_.end)});
  }

  // The calls are all of the answer, or it is a text that does not begin as one.
  StatusOr<Node> Bare() {
    const Node calls = Several(Object("parameters"), "; ");
    if (alone_) return calls;
    if (!form_.begin.empty() && !TokenOf(form_.begin)) {
      return NotSupported("the mark of its calls is no token");
    }
    return ebnf_.Choice({calls, TextBut('{', AnyText())});
  }

  // One list of calls, alone or in marks. The parser takes a list without marks, too, if it begins
  // the answer.
  StatusOr<Node> Pythonic() {
    const Node list =
        ebnf_.Sequence({ebnf_.Literal("["), Several(Call({}, {}, {}), ", "), ebnf_.Literal("]")});
    if (form_.begin.empty()) {
      return alone_ ? list : ebnf_.Choice({list, TextBut('[', AnyText())});
    }
    const Node block = ebnf_.Sequence({list, Mark(form_.end)});
    if (alone_) return Blocks(block, "", false);
    if (!TokenOf(form_.begin)) return NotSupported("the mark of its calls is no token");
    StatusOr<Node> text = Blocks(block, "", many_);
    if (!text.ok()) return text;
    const Node calls = ebnf_.Sequence({Mark(form_.begin), block});
    return ebnf_.Choice({many_ ? ebnf_.Sequence({calls, *text}) : calls, TextBut('[', *text)});
  }

  Node AnyText() {
    const Node any = ebnf_.ClassBut("");
    return ebnf_.Shared(ebnf_.Repeat(any, 0, Ebnf::kNoLimit));
  }
  // Nothing, or a first character, which is neither white space nor `c`, and `rest`.
  Node TextBut(char c, Node rest) {
    const Node first = ebnf_.ClassBut(std::string("\t\n\r ") + c);
    return ebnf_.Optional(ebnf_.Shared(ebnf_.Sequence({first, rest})));
  }

  // Messages. The one with a call ends the answer: so does its end mark.
  StatusOr<Node> Harmony() {
    std::vector<TokenId> all;
    for (const auto& [text, id] : controls_) all.push_back(id);
    const auto token = [&](const char* text) -> std::optional<Node> {
      const auto found = controls_.find(std::string_view(text));
      if (found == controls_.end()) return std::nullopt;
      return ebnf_.Token({found->second});
    };
    const std::optional<Node> start = token("<|start|>");
    const std::optional<Node> channel = token("<|channel|>");
    const std::optional<Node> constrain = token("<|constrain|>");
    const std::optional<Node> message = token("<|message|>");
    const std::optional<Node> end = token("<|end|>");
    if (!start || !channel || !constrain || !message || !end) {
      return NotSupported("its vocabulary lacks marks of messages");
    }
    const Node free = ebnf_.Shared(ebnf_.Repeat(ebnf_.TokenBut(all), 0, Ebnf::kNoLimit));
    const Node json = ebnf_.Sequence({*constrain, ebnf_.Literal("json"), *message});
    const Node call = ebnf_.Choice({Call({*channel, ebnf_.Literal("commentary to=functions.")},
                                         {ebnf_.Literal(" "), json}, {}),
                                    Call({ebnf_.Literal(" to=functions.")},
                                         {*channel, ebnf_.Literal("commentary "), json}, {})});
    // What the model says before: its thoughts, and where calls need not be alone what it is about
    // to do.
    Nodes before = {ebnf_.Literal("analysis")};
    if (!alone_) before.push_back(ebnf_.Literal("commentary"));
    const Node spoken = ebnf_.Shared(ebnf_.Sequence({*channel, ebnf_.Choice(before), *message, free,
                                                     *end, *start, ebnf_.Literal("assistant")}));
    Nodes last = {call};
    if (shape_) {
      const Node typed = ebnf_.Sequence({ebnf_.Literal(" "), json});
      last.push_back(ebnf_.Sequence(
          {*channel, ebnf_.Literal("final"), ebnf_.Choice({*message, typed}), *shape_}));
    } else if (!alone_) {
      last.push_back(ebnf_.Sequence({*channel, ebnf_.Literal("final"), *message, free}));
    }
    return ebnf_.Sequence({ebnf_.Repeat(spoken, 0, Ebnf::kNoLimit), ebnf_.Choice(last)});
  }

  const answer::CallForm& form_;
  const ControlTokens& controls_;
  const Chat& chat_;
  const OutputFormat& text_;
  const bool required_;
  const bool alone_;  // No text stands beside calls.
  const bool many_;
  const JsonRules::Spaces spaces_;
  size_t schema_bytes_ = 0;  // Of the schemas so far that are enforced.
  Ebnf ebnf_;
  JsonRules json_;
  std::vector<Callee> callees_;
  std::optional<Node> shape_;  // Of an answer without calls, if it has a form.
};

}  // namespace

bool ConstrainsCalls(const Chat& chat) {
  if (chat.tools.empty()) return false;
  if (chat.tool_choice == ToolChoice::kRequired) return true;
  return chat.tool_choice == ToolChoice::kAuto &&
         std::any_of(chat.tools.begin(), chat.tools.end(), IsStrict);
}

StatusOr<std::string> ToolEbnf(const answer::AnswerFormat& format, const ControlTokens& controls,
                               const Chat& chat, const OutputFormat& text) try {
  const auto write = [&](JsonRules::Spaces spaces) {
    return ToolWriter(format, controls, chat, text, spaces).Write();
  };
  StatusOr<std::string> ebnf = write(JsonRules::Spaces::kAny);
  const bool large =
      ebnf.ok() ? ebnf->size() > kMaxSpacedToolsEbnfBytes : ebnf.status().field() == "tools";
  return large ? write(JsonRules::Spaces::kUsual) : std::move(ebnf);
} catch (...) {
  return base::CurrentFailure("writing the grammar of calls");
}

}  // namespace ropeway::grammar
