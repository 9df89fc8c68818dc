// Filters of text.
#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

#include "tokenizer/jinja/attribute_path.h"
#include "tokenizer/jinja/builtins.h"
#include "tokenizer/jinja/characters.h"
#include "tokenizer/jinja/format_string.h"
#include "tokenizer/jinja/json.h"
#include "tokenizer/jinja/letter_case.h"
#include "tokenizer/jinja/operators.h"
#include "tokenizer/jinja/string_methods.h"
#include "tokenizer/jinja/text.h"

namespace ropeway::jinja {
namespace {

// A letter of another case takes up to three times its bytes.
constexpr size_t kMaxCaseGrowth = 3;
constexpr int64_t kMaxIndent = 1000;

Value Trim(Context& context, const Value& operand, const Arguments& arguments) {
  const std::string text = ToText(operand, context);
  if (!arguments.Has(0)) return context.Copy(StripLeft(StripRight(text)));
  return context.Copy(StripSet(text, arguments.Text(0, "trim"), true, true, context));
}

template <std::string (*kRecase)(std::string_view)>
Value Recase(Context& context, const Value& operand, const Arguments&) {
  const std::string text = ToText(operand, context);
  context.Charge(kMaxCaseGrowth * text.size());
  return Value::Of(kRecase(text));
}

// Jinja's own: what follows white space or an opening bracket begins a word.
std::string JinjaTitle(std::string_view text) {
  std::string result;
  size_t begin = 0;
  const auto add_word = [&](size_t end) {
    const std::string_view word = text.substr(begin, end - begin);
    const size_t first = word.empty() ? 0 : Characters(word.substr(0, 4))[0].size();
    result += Uppercase(word.substr(0, first)) + Lowercase(word.substr(first));
  };
  for (size_t at = 0; at < text.size();) {
    const size_t length = Characters(text.substr(at, 4))[0].size();
    const std::string_view character = text.substr(at, length);
    const bool splits =
        StripLeft(character).empty() ||
        (length == 1 && std::string_view("-({[<").find(character[0]) != std::string_view::npos);
    if (splits) {
      add_word(at);
      result += character;
      begin = at + length;
    }
    at += length;
  }
  add_word(text.size());
  return result;
}

Value Replace(Context& context, const Value& operand, const Arguments& arguments) {
  const std::string from = ToText(arguments[0], context);
  const std::string to = ToText(arguments[1], context);
  return Value::Of(ReplaceText(ToText(operand, context), from, to,
                               arguments.Integer(2, -1, "replace"), context));
}

Value String(Context& context, const Value& operand, const Arguments&) {
  return operand.is_string() ? operand : Value::Of(ToText(operand, context));
}

Value Safe(Context& context, const Value& operand, const Arguments&) {
  return Value::Safe(ToText(operand, context));
}

std::string IndentText(const Arguments& arguments, size_t i, int64_t otherwise) {
  if (arguments.Has(i) && arguments[i].is_string()) return arguments[i].string();
  const int64_t width = arguments.Integer(i, otherwise, "indent");
  if (width > kMaxIndent) throw std::invalid_argument("an indentation is too wide");
  return std::string(static_cast<size_t>(std::max(width, int64_t{0})), ' ');
}

Value Indent(Context& context, const Value& operand, const Arguments& arguments) {
  const std::string indentation = IndentText(arguments, 0, 4);
  const bool first = arguments.Flag(1, false);
  const bool blank = arguments.Flag(2, false);
  const std::string text = StringOf("indent", operand) + "\n";
  // Python's splitlines() would cut at these too.
  for (const std::string_view cut :
       {"\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\xC2\x85", "\xE2\x80\xA8", "\xE2\x80\xA9"}) {
    if (FindText(text, cut) != std::string::npos) {
      throw std::invalid_argument("indent of text with unusual line ends is not supported");
    }
  }
  std::string result = first ? indentation : "";
  context.Charge(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    const std::string_view line = std::string_view(text).substr(at, end - at);
    if (at > 0) {
      context.Charge(indentation.size());
      result += '\n';
      if (blank || !line.empty()) result += indentation;
    }
    result += line;
    at = end + 1;
  }
  return context.Copy(result);
}

Value Json(Context& context, const Value& operand, const Arguments& arguments) {
  JsonStyle style;
  style.ensure_ascii = arguments.Flag(0, false);
  if (arguments.Has(1)) {
    style.indent = IndentText(arguments, 1, 0);
    style.item_separator = ",";
  }
  if (arguments.Has(2)) {
    const Value& separators = arguments[2];
    if (!separators.is_list() || separators.list().size() != 2) {
      throw std::invalid_argument("the separators of tojson are not two");
    }
    style.item_separator = StringOf("tojson", separators.list()[0]);
    style.key_separator = StringOf("tojson", separators.list()[1]);
  }
  style.sort_keys = arguments.Flag(3, false);
  return Value::Of(ToJson(operand, style, context));
}

// Not Jinja's own, but templates that use it mean this.
Value ParseJson(Context& context, const Value& operand, const Arguments&) {
  return FromJson(StringOf("from_json", operand), context);
}

Value Format(Context& context, const Value& operand, const Arguments& arguments) {
  const std::string format = ToText(operand, context);
  return Value::Of(FormatPercent(format, Value::Tuple(arguments.rest()), context));
}

Value Join(Context& context, const Value& operand, const Arguments& arguments) {
  const std::string separator = arguments.Given(0) ? ToText(arguments[0], context) : "";
  std::string text;
  bool first = true;
  for (const Value& item : ToList(operand, context)) {
    const Value part = arguments.Has(1) ? AtPath(item, arguments[1], context) : item;
    const std::string added = ToText(part, context);
    context.Charge(added.size() + separator.size());
    if (!first) text += separator;
    first = false;
    text += added;
  }
  return Value::Of(std::move(text));
}

constexpr std::array kFilters = {
    Builtin{"trim", "chars", 0, Trim},
    Builtin{"upper", "", 0, Recase<Uppercase>},
    Builtin{"lower", "", 0, Recase<Lowercase>},
    Builtin{"capitalize", "", 0, Recase<Capitalized>},
    Builtin{"title", "", 0, Recase<JinjaTitle>},
    Builtin{"replace", "old new count", 2, Replace},
    Builtin{"string", "", 0, String},
    Builtin{"safe", "", 0, Safe},
    Builtin{"indent", "width first blank", 0, Indent},
    Builtin{"tojson", "ensure_ascii indent separators sort_keys", 0, Json},
    Builtin{"from_json", "", 0, ParseJson},
    Builtin{"format", "...", 0, Format},
    Builtin{"join", "d attribute", 0, Join},
};

}  // namespace

std::span<const Builtin> TextFilters() { return kFilters; }

}  // namespace ropeway::jinja
