// Filters of text, and the methods of strings.
#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "tokenizer/jinja/builtins.h"
#include "tokenizer/jinja/operators.h"
#include "tokenizer/jinja/text.h"

namespace ropeway::tokenizer::jinja {
namespace {

constexpr int64_t kMaxJustifyWidth = 1'000'000;
constexpr int64_t kMaxIndent = 1000;
// To find and copy one more piece of a text, in bytes.
constexpr size_t kPieceCost = 16;

using Pieces = std::vector<std::string_view>;

// All line ends of Python's splitlines(), longest first.
constexpr std::array<std::string_view, 11> kLineEnds = {
    "\r\n", "\n",   "\r",       "\v",           "\f",          "\x1c",
    "\x1d", "\x1e", "\xC2\x85", "\xE2\x80\xA8", "\xE2\x80\xA9"};

// `text` without the characters of `set` at its ends.
std::string_view StripSet(std::string_view text, std::string_view set, bool left, bool right,
                          Context& context) {
  context.Charge(text.size() + set.size());
  Pieces unwanted = Characters(set);
  std::sort(unwanted.begin(), unwanted.end());
  const auto is_unwanted = [&](std::string_view character) {
    return std::binary_search(unwanted.begin(), unwanted.end(), character);
  };
  const Pieces characters = Characters(text);
  size_t begin = 0;
  size_t end = characters.size();
  while (left && begin < end && is_unwanted(characters[begin])) {
    text.remove_prefix(characters[begin++].size());
  }
  while (right && end > begin && is_unwanted(characters[end - 1])) {
    text.remove_suffix(characters[--end].size());
  }
  return text;
}

template <bool kLeft, bool kRight>
Value Strip(Context& context, const Value& operand, const Arguments& arguments) {
  const Str whole = ToText(operand, context);
  std::string_view text = whole.text;
  if (arguments.Has(0)) {
    text = StripSet(text, arguments.Text(0), kLeft, kRight, context);
  } else {
    if (kLeft) text = StripLeft(text);
    if (kRight) text = StripRight(text);
  }
  return context.Copy(whole, text);
}

template <std::string (*kRecase)(std::string_view)>
Value Recase(Context& context, const Value& operand, const Arguments&) {
  const Str text = ToText(operand, context);
  context.Charge(2 * kMaxCaseGrowth * text.text.size());
  return Value::Of(MadeFrom(kRecase(text.text), text));
}

template <bool (*kHolds)(std::string_view)>
Value HasCase(Context& context, const Value& operand, const Arguments&) {
  return Value::Of(kHolds(ToText(operand, context).text));
}

// The words of `text`; the rest after `limit` of them is one piece.
Pieces SplitSpace(std::string_view text, int64_t limit) {
  Pieces words;
  text = StripLeft(text);
  while (!text.empty()) {
    if (limit >= 0 && static_cast<int64_t>(words.size()) == limit) {
      words.push_back(text);
      break;
    }
    size_t bytes = 0;
    while (bytes < text.size() && !IsSpaceAt(text, bytes))
      bytes += base::StepUtf8(text, bytes).length;
    words.push_back(text.substr(0, bytes));
    text = StripLeft(text.substr(bytes));
  }
  return words;
}

Pieces SplitSpaceFromRight(std::string_view text, int64_t limit) {
  Pieces words;
  text = StripRight(text);
  const Pieces characters = Characters(text);
  size_t left = characters.size();
  while (!text.empty()) {
    if (limit >= 0 && static_cast<int64_t>(words.size()) == limit) {
      words.push_back(text);
      break;
    }
    size_t bytes = 0;
    while (left > 0 && !IsSpaceAt(characters[left - 1], 0)) bytes += characters[--left].size();
    words.push_back(text.substr(text.size() - bytes));
    text.remove_suffix(bytes);
    while (left > 0 && IsSpaceAt(characters[left - 1], 0)) {
      text.remove_suffix(characters[--left].size());
    }
  }
  std::reverse(words.begin(), words.end());
  return words;
}

Pieces SplitAt(std::string_view text, std::string_view separator, int64_t limit) {
  Pieces pieces;
  size_t begin = 0;
  while (limit < 0 || static_cast<int64_t>(pieces.size()) < limit) {
    const size_t found = FindText(text, separator, begin);
    if (found == text.npos) break;
    pieces.push_back(text.substr(begin, found - begin));
    begin = found + separator.size();
  }
  pieces.push_back(text.substr(begin));
  return pieces;
}

// Differs from SplitAt with a limit, and for separators that overlap.
Pieces SplitAtFromRight(std::string_view text, std::string_view separator, int64_t limit) {
  const std::string reversed(text.rbegin(), text.rend());
  const std::string mark(separator.rbegin(), separator.rend());
  Pieces pieces;
  size_t end = text.size();
  for (const std::string_view piece : SplitAt(reversed, mark, limit)) {
    pieces.push_back(text.substr(end - piece.size(), piece.size()));
    end -= std::min(end, piece.size() + mark.size());
  }
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

template <bool kFromRight>
Value Split(Context& context, const Value& operand, const Arguments& arguments) {
  const std::string& text = operand.string();
  const int64_t limit = arguments.Integer(1, -1);
  context.Charge(2 * text.size());
  Pieces pieces;
  if (!arguments.Has(0)) {
    pieces = kFromRight ? SplitSpaceFromRight(text, limit) : SplitSpace(text, limit);
  } else {
    const std::string& separator = arguments.Text(0);
    if (separator.empty()) Reject("split needs a separator that is not empty");
    pieces =
        kFromRight ? SplitAtFromRight(text, separator, limit) : SplitAt(text, separator, limit);
  }
  List items;
  for (const std::string_view piece : pieces) items.push_back(context.Copy(operand.str(), piece));
  return Value::Of(std::move(items));
}

Value SplitLines(Context& context, const Value& operand, const Arguments& arguments) {
  const bool keep_ends = arguments.Flag(0);
  const std::string_view text = operand.string();
  List lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const auto* const end =
        std::find_if(kLineEnds.begin(), kLineEnds.end(),
                     [&](std::string_view mark) { return text.substr(at, mark.size()) == mark; });
    if (end == kLineEnds.end()) {
      ++at;
      continue;
    }
    const size_t size = at - begin + (keep_ends ? end->size() : 0);
    lines.push_back(context.Copy(operand.str(), text.substr(begin, size)));
    at += end->size();
    begin = at;
  }
  if (begin < text.size()) lines.push_back(context.Copy(operand.str(), text.substr(begin)));
  return Value::Of(std::move(lines));
}

template <bool kFromRight>
Value Partition(Context& context, const Value& operand, const Arguments& arguments) {
  const std::string_view text = operand.string();
  const std::string& mark = arguments.Text(0);
  if (mark.empty()) Reject("partition needs a separator that is not empty");
  context.Charge(text.size());
  const size_t found = kFromRight ? FindLastText(text, mark) : FindText(text, mark);
  if (found == text.npos) {
    const Value empty = Value::Of("");
    return kFromRight ? Value::Tuple({empty, empty, operand})
                      : Value::Tuple({operand, empty, empty});
  }
  const auto part = [&](size_t begin, size_t size) {
    return context.Copy(operand.str(), text.substr(begin, size));
  };
  // The mark too is the text's own: what a message said, the template has not written.
  return Value::Tuple(
      {part(0, found), part(found, mark.size()), part(found + mark.size(), text.npos)});
}

// startswith and endswith: of a string, or of any of a tuple.
template <bool kStart>
Value HasEnd(Context& context, const Value& operand, const Arguments& arguments) {
  const auto matches = [&](const Value& part) {
    const std::string& text = StringOf(kStart ? "startswith" : "endswith", part);
    context.Charge(std::min(text.size(), operand.string().size()));
    return kStart ? operand.string().starts_with(text) : operand.string().ends_with(text);
  };
  const Value& wanted = arguments[0];
  if (!wanted.is_tuple()) return Value::Of(matches(wanted));
  context.Charge(wanted.list().size());
  return Value::Of(std::any_of(wanted.list().begin(), wanted.list().end(), matches));
}

template <bool kStart>
Value RemoveEnd(Context& context, const Value& operand, const Arguments& arguments) {
  std::string_view text = operand.string();
  const std::string& part = arguments.String(0);
  context.Charge(std::min(part.size(), text.size()));
  if (kStart && text.starts_with(part)) text.remove_prefix(part.size());
  if (!kStart && text.ends_with(part)) text.remove_suffix(part.size());
  return context.Copy(operand.str(), text);
}

// The filter takes any values, the method strings.
template <bool kIsFilter>
Value Replace(Context& context, const Value& operand, const Arguments& arguments) {
  const auto argument = [&](size_t i) {
    return kIsFilter ? ToText(arguments[i], context) : arguments.StrAt(i);
  };
  const std::string from = argument(0).text;
  const Str to = argument(1);
  const Str text = ToText(operand, context);
  const int64_t count = arguments.Integer(2, -1);
  StrBuilder result(&context);
  const auto add = [&](const Str& whole, std::string_view part) {
    context.Charge(part.size() + kPieceCost);
    result.AddPart(whole, part);
  };
  context.Charge(text.text.size());
  if (!from.empty()) {
    const Pieces pieces = SplitAt(text.text, from, count);
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (i > 0) add(to, to.text);
      add(text, pieces[i]);
    }
    return Value::Of(result.Take());
  }
  // Without `from`, `to` goes before each character and to the end.
  const Pieces pieces = Characters(text.text);
  int64_t left = count < 0 ? static_cast<int64_t>(pieces.size()) + 1 : count;
  for (const std::string_view piece : pieces) {
    if (left-- > 0) add(to, to.text);
    add(text, piece);
  }
  if (left > 0) add(to, to.text);
  return Value::Of(result.Take());
}

// find, rfind, index and rindex: the position in characters; if there is none, -1 or an error.
template <bool kLast, bool kMustExist>
Value Find(Context& context, const Value& operand, const Arguments& arguments) {
  Value whole = operand;
  if (arguments.Given(1)) {
    const std::optional<int64_t> end =
        arguments.Has(2) ? std::optional(arguments.Integer(2, 0)) : std::nullopt;
    whole = SliceOf(operand, arguments.Integer(1, 0), end, 1, context);
  }
  const std::string_view text = whole.string();
  const std::string& part = arguments.String(0);
  context.Charge(2 * text.size());
  const size_t found = kLast ? FindLastText(text, part) : FindText(text, part);
  if (found == text.npos) {
    if (kMustExist) Reject("the substring is not found");
    return Value::Of(int64_t{-1});
  }
  const auto count = static_cast<int64_t>(CountCharacters(operand.string()));
  int64_t start = arguments.Integer(1, 0);
  start = std::clamp(start < 0 ? start + count : start, int64_t{0}, count);
  return Value::Of(start + static_cast<int64_t>(CountCharacters(text.substr(0, found))));
}

Value CountText(Context& context, const Value& operand, const Arguments& arguments) {
  const std::string& part = arguments.String(0);
  context.Charge(operand.string().size());
  if (part.empty()) {
    return Value::Of(static_cast<int64_t>(CountCharacters(operand.string())) + 1);
  }
  return Value::Of(static_cast<int64_t>(SplitAt(operand.string(), part, -1).size()) - 1);
}

// Appends `part`, after `separator` unless it is the first.
void AppendPart(const Str& part, const Str& separator, bool* first, Context& context,
                StrBuilder* text) {
  context.Charge(part.text.size() + separator.text.size());
  if (!std::exchange(*first, false)) text->Add(separator);
  text->Add(part);
}

Value JoinMethod(Context& context, const Value& operand, const Arguments& arguments) {
  StrBuilder text(&context);
  bool first = true;
  for (const Value& item : ToList(arguments[0], context)) {
    AppendPart(StrOf("join", item), operand.str(), &first, context, &text);
  }
  return Value::Of(text.Take());
}

Value JoinFilter(Context& context, const Value& operand, const Arguments& arguments) {
  const Str separator = arguments.Given(0) ? ToText(arguments[0], context) : Str();
  StrBuilder text(&context);
  bool first = true;
  for (const Value& item : ToList(operand, context)) {
    const Value part = arguments.Has(1) ? AtPath(item, arguments[1], context) : item;
    AppendPart(ToText(part, context), separator, &first, context, &text);
  }
  return Value::Of(text.Take());
}

Value FormatMethod(Context& context, const Value& operand, const Arguments& arguments) {
  return Value::Of(FormatBraces(operand.str(), arguments, context));
}

Value FormatFilter(Context& context, const Value& operand, const Arguments& arguments) {
  const Str format = ToText(operand, context);
  return Value::Of(FormatPercent(format, Value::Tuple(arguments.rest()), context));
}

// isdigit and so on, of ASCII: which other characters are digits or letters takes a long table.
template <bool (*kHolds)(char)>
Value AllAre(Context& context, const Value& operand, const Arguments&) {
  const std::string& text = operand.string();
  context.Charge(text.size());
  for (const char c : text) {
    if (static_cast<uint8_t>(c) >= 0x80) {
      Reject("this method supports only ASCII text");
    }
  }
  return Value::Of(!text.empty() && std::all_of(text.begin(), text.end(), kHolds));
}

bool IsAlpha(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool IsAlnum(char c) { return IsDigit(c) || IsAlpha(c); }
bool IsBlank(std::string_view text) { return !text.empty() && StripLeft(text).empty(); }

// ljust and rjust.
template <bool kLeft>
Value Justify(Context& context, const Value& operand, const Arguments& arguments) {
  const int64_t width = arguments.Integer(0, 0);
  const Str fill = arguments.Has(1) ? arguments.StrAt(1) : Str{" "};
  if (width > kMaxJustifyWidth)
    Reject("the width must be at most " + std::to_string(kMaxJustifyWidth));
  if (CountCharacters(fill.text) != 1)
    Reject("the fillchar of ljust and rjust must be one character");
  context.Charge(operand.string().size());
  const auto size = static_cast<int64_t>(CountCharacters(operand.string()));
  context.Charge(static_cast<size_t>(std::max(width - size, int64_t{0})) * fill.text.size());
  StrBuilder text(&context);
  if (kLeft) text.Add(operand.str());
  for (int64_t i = size; i < width; ++i) text.Add(fill);
  if (!kLeft) text.Add(operand.str());
  return context.Copy(text.Take());
}

Value String(Context& context, const Value& operand, const Arguments&) {
  return operand.is_string() ? operand : Value::Of(ToText(operand, context));
}

Value Safe(Context& context, const Value& operand, const Arguments&) {
  return Value::Safe(ToText(operand, context));
}

Str IndentText(const Arguments& arguments, size_t i, int64_t otherwise) {
  if (arguments.Has(i) && arguments[i].is_string()) return arguments[i].str();
  const int64_t width = arguments.Integer(i, otherwise);
  if (width > kMaxIndent)
    Reject("the width of indent must be at most " + std::to_string(kMaxIndent));
  return {std::string(static_cast<size_t>(std::max(width, int64_t{0})), ' ')};
}

Value Indent(Context& context, const Value& operand, const Arguments& arguments) {
  const Str indentation = IndentText(arguments, 0, 4);
  const bool first = arguments.Flag(1);
  const bool blank = arguments.Flag(2);
  const Str& whole = StrOf("indent", operand);
  const std::string_view text = whole.text;
  for (const std::string_view end : kLineEnds) {
    if (end != "\n" && FindText(text, end) != std::string::npos) {
      Reject("indent supports only text with \\n line ends");
    }
  }
  StrBuilder result(&context);
  if (first) result.Add(indentation);
  context.Charge(text.size() + 1);
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    if (at > 0) {
      context.Charge(indentation.text.size());
      result.Add("\n");
      if (blank || !line.empty()) result.Add(indentation);
    }
    result.AddPart(whole, line);
    at = end + 1;
  }
  return context.Copy(result.Take());
}

Value Json(Context& context, const Value& operand, const Arguments& arguments) {
  JsonStyle style;
  style.ensure_ascii = arguments.Flag(0);
  if (arguments.Has(1)) {
    style.indent = IndentText(arguments, 1, 0);
    style.item_separator = {","};
  }
  if (arguments.Has(2)) {
    const Value& separators = arguments[2];
    if (!separators.is_list() || separators.list().size() != 2) {
      Reject("the separators of tojson must be two strings");
    }
    style.item_separator = StrOf("tojson", separators.list()[0]);
    style.key_separator = StrOf("tojson", separators.list()[1]);
  }
  style.sort_keys = arguments.Flag(3);
  return Value::Of(ToJson(operand, style, context));
}

// Jinja has no such filter, but templates that use it expect this one.
Value ParseJson(Context& context, const Value& operand, const Arguments&) {
  return FromJson(StrOf("from_json", operand), context);
}

constexpr Builtin kTextBuiltins[] = {
    {"trim", kFilter, "chars", 0, Strip<true, true>},
    {"strip", kStringMethod, "chars", 0, Strip<true, true>},
    {"lstrip", kStringMethod, "chars", 0, Strip<true, false>},
    {"rstrip", kStringMethod, "chars", 0, Strip<false, true>},
    {"upper", kFilter | kStringMethod, "", 0, Recase<Uppercase>},
    {"lower", kFilter | kStringMethod, "", 0, Recase<Lowercase>},
    {"capitalize", kFilter | kStringMethod, "", 0, Recase<Capitalized>},
    {"title", kFilter, "", 0, Recase<JinjaTitle>},
    {"title", kStringMethod, "", 0, Recase<TitleCase>},
    {"replace", kFilter, "old new count", 2, Replace<true>},
    {"replace", kStringMethod, "old new count", 2, Replace<false>},
    {"join", kFilter, "d attribute", 0, JoinFilter},
    {"join", kStringMethod, "iterable", 1, JoinMethod},
    {"format", kFilter, "...", 0, FormatFilter},
    {"format", kStringMethod, "... **", 0, FormatMethod},
    {"upper", kTest, "", 0, HasCase<IsUppercase>},
    {"lower", kTest, "", 0, HasCase<IsLowercase>},
    {"isupper", kStringMethod, "", 0, HasCase<IsUppercase>},
    {"islower", kStringMethod, "", 0, HasCase<IsLowercase>},
    {"isspace", kStringMethod, "", 0, HasCase<IsBlank>},
    {"isdigit", kStringMethod, "", 0, AllAre<IsDigit>},
    {"isdecimal", kStringMethod, "", 0, AllAre<IsDigit>},
    {"isnumeric", kStringMethod, "", 0, AllAre<IsDigit>},
    {"isalpha", kStringMethod, "", 0, AllAre<IsAlpha>},
    {"isalnum", kStringMethod, "", 0, AllAre<IsAlnum>},
    {"split", kStringMethod, "sep maxsplit", 0, Split<false>},
    {"rsplit", kStringMethod, "sep maxsplit", 0, Split<true>},
    {"splitlines", kStringMethod, "keepends", 0, SplitLines},
    {"partition", kStringMethod, "sep", 1, Partition<false>},
    {"rpartition", kStringMethod, "sep", 1, Partition<true>},
    {"startswith", kStringMethod, "prefix", 1, HasEnd<true>},
    {"endswith", kStringMethod, "suffix", 1, HasEnd<false>},
    {"removeprefix", kStringMethod, "prefix", 1, RemoveEnd<true>},
    {"removesuffix", kStringMethod, "suffix", 1, RemoveEnd<false>},
    {"find", kStringMethod, "sub start end", 1, Find<false, false>},
    {"rfind", kStringMethod, "sub start end", 1, Find<true, false>},
    {"index", kStringMethod, "sub start end", 1, Find<false, true>},
    {"rindex", kStringMethod, "sub start end", 1, Find<true, true>},
    {"count", kStringMethod, "sub", 1, CountText},
    {"ljust", kStringMethod, "width fillchar", 1, Justify<true>},
    {"rjust", kStringMethod, "width fillchar", 1, Justify<false>},
    {"string", kFilter, "", 0, String},
    {"safe", kFilter, "", 0, Safe},
    {"indent", kFilter, "width first blank", 0, Indent},
    {"tojson", kFilter, "ensure_ascii indent separators sort_keys", 0, Json},
    {"from_json", kFilter, "", 0, ParseJson},
};

}  // namespace

std::span<const Builtin> TextBuiltins() { return kTextBuiltins; }

}  // namespace ropeway::tokenizer::jinja
