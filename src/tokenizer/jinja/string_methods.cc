#include "tokenizer/jinja/string_methods.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <vector>

#include "base/utf8.h"
#include "tokenizer/jinja/builtins.h"
#include "tokenizer/jinja/characters.h"
#include "tokenizer/jinja/format_string.h"
#include "tokenizer/jinja/letter_case.h"
#include "tokenizer/jinja/operators.h"
#include "tokenizer/jinja/text.h"

namespace ropeway::jinja {
namespace {

constexpr size_t kMaxCaseGrowth = 3;  // Of the bytes of one letter.
constexpr int64_t kMaxWidth = 1'000'000;

bool IsSpaceAt(std::string_view text, size_t at) {
  const Utf8Step step = StepUtf8(text, at);
  return step.kind == Utf8Kind::kValid && IsSpace(step.code_point);
}

template <bool kLeft, bool kRight>
Value Strip(Context& context, const Value& operand, const Arguments& arguments) {
  std::string_view text = operand.string();
  if (arguments.Has(0)) {
    return context.Copy(StripSet(text, arguments.Text(0, "strip"), kLeft, kRight, context));
  }
  context.Charge(text.size());
  if (kLeft) text = StripLeft(text);
  if (kRight) text = StripRight(text);
  return context.Copy(text);
}

// The words of `text`; after `limit` of them what is left is one, as it stands.
std::vector<std::string_view> SplitSpace(std::string_view text, int64_t limit) {
  std::vector<std::string_view> words;
  text = StripLeft(text);
  while (!text.empty()) {
    if (limit >= 0 && static_cast<int64_t>(words.size()) == limit) {
      words.push_back(text);
      break;
    }
    size_t bytes = 0;
    while (bytes < text.size() && !IsSpaceAt(text, bytes)) bytes += StepUtf8(text, bytes).length;
    words.push_back(text.substr(0, bytes));
    text = StripLeft(text.substr(bytes));
  }
  return words;
}

// From the right.
std::vector<std::string_view> SplitSpaceFromRight(std::string_view text, int64_t limit) {
  std::vector<std::string_view> words;
  text = StripRight(text);
  const std::vector<std::string_view> characters = Characters(text);
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

std::vector<std::string_view> SplitAt(std::string_view text, std::string_view separator,
                                      int64_t limit) {
  std::vector<std::string_view> pieces;
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

// From the right: with a limit, and with separators that overlap, that is not
// the same.
std::vector<std::string_view> SplitAtFromRight(std::string_view text, std::string_view separator,
                                               int64_t limit) {
  const std::string reversed(text.rbegin(), text.rend());
  const std::string mark(separator.rbegin(), separator.rend());
  std::vector<std::string_view> pieces;
  size_t end = text.size();
  for (const std::string_view piece : SplitAt(reversed, mark, limit)) {
    pieces.push_back(text.substr(end - piece.size(), piece.size()));
    end -= std::min(end, piece.size() + mark.size());
  }
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

Value ListOf(const std::vector<std::string_view>& pieces, Context& context) {
  List items;
  for (const std::string_view piece : pieces) items.push_back(context.Copy(piece));
  return Value::Of(std::move(items));
}

template <bool kFromRight>
Value Split(Context& context, const Value& operand, const Arguments& arguments) {
  const std::string& text = operand.string();
  const int64_t limit = arguments.Integer(1, -1, "split");
  context.Charge(2 * text.size());
  if (!arguments.Has(0)) {
    return ListOf(kFromRight ? SplitSpaceFromRight(text, limit) : SplitSpace(text, limit), context);
  }
  const std::string& separator = arguments.Text(0, "split");
  if (separator.empty()) throw std::invalid_argument("split needs a separator that is not empty");
  return ListOf(
      kFromRight ? SplitAtFromRight(text, separator, limit) : SplitAt(text, separator, limit),
      context);
}

Value SplitLines(Context& context, const Value& operand, const Arguments& arguments) {
  const bool keep_ends = arguments.Flag(0, false);
  constexpr std::array<std::string_view, 11> kEnds = {
      "\r\n", "\n",   "\r",       "\v",           "\f",          "\x1c",
      "\x1d", "\x1e", "\xC2\x85", "\xE2\x80\xA8", "\xE2\x80\xA9"};
  const std::string_view text = operand.string();
  List lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const auto end = std::find_if(kEnds.begin(), kEnds.end(), [&](std::string_view mark) {
      return text.substr(at, mark.size()) == mark;
    });
    if (end == kEnds.end()) {
      ++at;
      continue;
    }
    lines.push_back(context.Copy(text.substr(begin, at - begin + (keep_ends ? end->size() : 0))));
    at += end->size();
    begin = at;
  }
  if (begin < text.size()) lines.push_back(context.Copy(text.substr(begin)));
  return Value::Of(std::move(lines));
}

template <bool kFromRight>
Value Partition(Context& context, const Value& operand, const Arguments& arguments) {
  const std::string_view text = operand.string();
  const std::string& mark = arguments.Text(0, "partition");
  if (mark.empty()) throw std::invalid_argument("partition needs a separator that is not empty");
  context.Charge(text.size());
  const size_t found = kFromRight ? FindLastText(text, mark) : FindText(text, mark);
  if (found == text.npos) {
    const Value empty = Value::Of("");
    return kFromRight ? Value::Tuple({empty, empty, operand})
                      : Value::Tuple({operand, empty, empty});
  }
  return Value::Tuple({context.Copy(text.substr(0, found)), Value::Of(mark),
                       context.Copy(text.substr(found + mark.size()))});
}

// startswith and endswith: of a text, or of any of a tuple.
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
  const std::string& part = StringOf("removeprefix", arguments[0]);
  context.Charge(std::min(part.size(), text.size()));
  if (kStart && text.starts_with(part)) text.remove_prefix(part.size());
  if (!kStart && text.ends_with(part)) text.remove_suffix(part.size());
  return context.Copy(text);
}

Value Replace(Context& context, const Value& operand, const Arguments& arguments) {
  return Value::Of(ReplaceText(operand.string(), StringOf("replace", arguments[0]),
                               StringOf("replace", arguments[1]),
                               arguments.Integer(2, -1, "replace"), context));
}

template <std::string (*kRecase)(std::string_view)>
Value Recase(Context& context, const Value& operand, const Arguments&) {
  context.Charge(kMaxCaseGrowth * operand.string().size());
  return Value::Of(kRecase(operand.string()));
}

// find, rfind, index and rindex: the place in characters, -1 or a complaint
// where it is nowhere.
template <bool kLast, bool kMustExist>
Value Find(Context& context, const Value& operand, const Arguments& arguments) {
  const Value whole =
      arguments.Given(1) ? SliceOf(operand, arguments.Integer(1, 0, "find"),
                                   arguments.Has(2) ? std::optional(arguments.Integer(2, 0, "find"))
                                                    : std::nullopt,
                                   1, context)
                         : operand;
  const std::string_view text = whole.string();
  const std::string& part = StringOf("find", arguments[0]);
  context.Charge(2 * text.size());
  const size_t found = kLast ? FindLastText(text, part) : FindText(text, part);
  if (found == text.npos) {
    if (kMustExist) throw std::invalid_argument("the text is not found");
    return Value::Of(int64_t{-1});
  }
  const auto count = static_cast<int64_t>(CountCharacters(operand.string()));
  int64_t start = arguments.Integer(1, 0, "find");
  start = std::clamp(start < 0 ? start + count : start, int64_t{0}, count);
  return Value::Of(start + static_cast<int64_t>(CountCharacters(text.substr(0, found))));
}

Value Count(Context& context, const Value& operand, const Arguments& arguments) {
  const std::string& part = StringOf("count", arguments[0]);
  context.Charge(operand.string().size());
  if (part.empty()) {
    return Value::Of(static_cast<int64_t>(CountCharacters(operand.string())) + 1);
  }
  const size_t pieces = SplitAt(operand.string(), part, -1).size();
  return Value::Of(static_cast<int64_t>(pieces) - 1);
}

Value JoinAll(Context& context, const Value& operand, const Arguments& arguments) {
  std::string text;
  bool first = true;
  for (const Value& item : ToList(arguments[0], context)) {
    const std::string& part = StringOf("join", item);
    context.Charge(part.size() + operand.string().size());
    if (!first) text += operand.string();
    first = false;
    text += part;
  }
  return Value::Of(std::move(text));
}

Value Format(Context& context, const Value& operand, const Arguments& arguments) {
  return Value::Of(FormatBraces(operand.string(), arguments, context));
}

// isdigit and its like, of ASCII: what else is a digit or letter is a long
// table's matter.
template <bool (*kHolds)(char)>
Value AllAre(Context& context, const Value& operand, const Arguments&) {
  const std::string& text = operand.string();
  context.Charge(text.size());
  for (const char c : text) {
    if (static_cast<uint8_t>(c) >= 0x80) {
      throw std::invalid_argument("this method of text beyond ASCII is not supported");
    }
  }
  return Value::Of(!text.empty() && std::all_of(text.begin(), text.end(), kHolds));
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsAlpha(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool IsAlnum(char c) { return IsDigit(c) || IsAlpha(c); }

Value IsBlank(Context& context, const Value& operand, const Arguments&) {
  context.Charge(operand.string().size());
  return Value::Of(!operand.string().empty() && StripLeft(operand.string()).empty());
}

template <bool (*kHolds)(std::string_view)>
Value HasCase(Context& context, const Value& operand, const Arguments&) {
  context.Charge(operand.string().size());
  return Value::Of(kHolds(operand.string()));
}

// ljust and rjust.
template <bool kLeft>
Value Justify(Context& context, const Value& operand, const Arguments& arguments) {
  const int64_t width = arguments.Integer(0, 0, "ljust");
  const std::string fill = arguments.Has(1) ? arguments.Text(1, "ljust") : " ";
  if (width > kMaxWidth) throw std::invalid_argument("a width is too large");
  if (CountCharacters(fill) != 1) throw std::invalid_argument("ljust fills with one character");
  context.Charge(operand.string().size());
  const auto size = static_cast<int64_t>(CountCharacters(operand.string()));
  std::string padding;
  context.Charge(static_cast<size_t>(std::max(width - size, int64_t{0})) * fill.size());
  for (int64_t i = size; i < width; ++i) padding += fill;
  return context.Copy(kLeft ? operand.string() + padding : padding + operand.string());
}

constexpr std::array kMethods = {
    Builtin{"strip", "chars", 0, Strip<true, true>},
    Builtin{"lstrip", "chars", 0, Strip<true, false>},
    Builtin{"rstrip", "chars", 0, Strip<false, true>},
    Builtin{"split", "sep maxsplit", 0, Split<false>},
    Builtin{"rsplit", "sep maxsplit", 0, Split<true>},
    Builtin{"splitlines", "keepends", 0, SplitLines},
    Builtin{"partition", "sep", 1, Partition<false>},
    Builtin{"rpartition", "sep", 1, Partition<true>},
    Builtin{"startswith", "prefix", 1, HasEnd<true>},
    Builtin{"endswith", "suffix", 1, HasEnd<false>},
    Builtin{"removeprefix", "prefix", 1, RemoveEnd<true>},
    Builtin{"removesuffix", "suffix", 1, RemoveEnd<false>},
    Builtin{"replace", "old new count", 2, Replace},
    Builtin{"upper", "", 0, Recase<Uppercase>},
    Builtin{"lower", "", 0, Recase<Lowercase>},
    Builtin{"capitalize", "", 0, Recase<Capitalized>},
    Builtin{"title", "", 0, Recase<TitleCase>},
    Builtin{"find", "sub start end", 1, Find<false, false>},
    Builtin{"rfind", "sub start end", 1, Find<true, false>},
    Builtin{"index", "sub start end", 1, Find<false, true>},
    Builtin{"rindex", "sub start end", 1, Find<true, true>},
    Builtin{"count", "sub", 1, Count},
    Builtin{"join", "iterable", 1, JoinAll},
    Builtin{"format", "... **", 0, Format},
    Builtin{"isdigit", "", 0, AllAre<IsDigit>},
    Builtin{"isdecimal", "", 0, AllAre<IsDigit>},
    Builtin{"isnumeric", "", 0, AllAre<IsDigit>},
    Builtin{"isalpha", "", 0, AllAre<IsAlpha>},
    Builtin{"isalnum", "", 0, AllAre<IsAlnum>},
    Builtin{"isspace", "", 0, IsBlank},
    Builtin{"isupper", "", 0, HasCase<IsUppercase>},
    Builtin{"islower", "", 0, HasCase<IsLowercase>},
    Builtin{"ljust", "width fillchar", 1, Justify<true>},
    Builtin{"rjust", "width fillchar", 1, Justify<false>},
};

}  // namespace

std::span<const Builtin> StringMethods() { return kMethods; }

std::string_view StripSet(std::string_view text, std::string_view set, bool left, bool right,
                          Context& context) {
  context.Charge(text.size() + set.size());
  std::vector<std::string_view> unwanted = Characters(set);
  std::sort(unwanted.begin(), unwanted.end());
  const auto is_unwanted = [&](std::string_view character) {
    return std::binary_search(unwanted.begin(), unwanted.end(), character);
  };
  const std::vector<std::string_view> characters = Characters(text);
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

std::string ReplaceText(std::string_view text, std::string_view from, std::string_view to,
                        int64_t count, Context& context) {
  std::string result;
  const auto add = [&](std::string_view part) {
    context.Charge(part.size());
    result += part;
  };
  // Without `from`, `to` goes before each character and to the end.
  const std::vector<std::string_view> pieces =
      from.empty() ? Characters(text) : SplitAt(text, from, count);
  context.Charge(text.size());
  if (!from.empty()) {
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (i > 0) add(to);
      add(pieces[i]);
    }
    return result;
  }
  int64_t left = count < 0 ? static_cast<int64_t>(pieces.size()) + 1 : count;
  for (const std::string_view piece : pieces) {
    if (left-- > 0) add(to);
    add(piece);
  }
  if (left > 0) add(to);
  return result;
}

}  // namespace ropeway::jinja
