#include "grammar/pattern_ebnf.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "base/utf8.h"
#include "grammar/schema_limits.h"

namespace ropeway::grammar {

namespace {

using Node = Ebnf::Node;

// A character in the brackets of EBNF.
std::string InBrackets(char32_t c) {
  const bool is_plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  if (is_plain) return std::string(1, static_cast<char>(c));
  const auto value = static_cast<uint32_t>(c);
  return c < 0x10000 ? fmt::format("\\u{:04x}", value) : fmt::format("\\U{:08x}", value);
}

bool IsOne(const CharacterSet& set) {
  return set.ranges().size() == 1 && set.ranges()[0].first == set.ranges()[0].second;
}

Node WriteSet(Ebnf* ebnf, const CharacterSet& set) {
  std::string brackets = "[";
  for (const auto& [first, last] : set.ranges()) {
    brackets += InBrackets(first);
    if (first != last) brackets += "-" + InBrackets(last);
  }
  return ebnf->Class(brackets + "]");
}

// Characters that JSON escapes with a letter or with themselves.
struct ShortEscape {
  char32_t c;
  char written;
};
constexpr ShortEscape kShortEscapes[] = {{'"', '"'},  {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'},
                                         {'\n', 'n'}, {'\r', 'r'},  {'\t', 't'}};

// What follows the backslash for the characters of the set that JSON must escape.
std::vector<Node> WriteEscapes(Ebnf* ebnf, const CharacterSet& set) {
  std::vector<Node> ways;
  std::vector<CharacterSet::Range> letters;
  CharacterSet is_short;
  for (const ShortEscape& escape : kShortEscapes) {
    is_short = is_short.Or(CharacterSet({{escape.c, escape.c}}));
    const auto written = static_cast<char32_t>(escape.written);
    if (set.Has(escape.c)) letters.emplace_back(written, written);
  }
  if (!letters.empty()) ways.push_back(WriteSet(ebnf, CharacterSet(std::move(letters))));
  for (const char32_t high : {0u, 1u}) {
    std::vector<CharacterSet::Range> digits;
    for (char32_t low = 0; low < 16; ++low) {
      const char32_t c = 16 * high + low;
      const char32_t digit = low < 10 ? '0' + low : 'a' + low - 10;
      if (set.Has(c) && !is_short.Has(c)) digits.emplace_back(digit, digit);
    }
    if (digits.empty()) continue;
    ways.push_back(ebnf->Sequence({ebnf->Literal(high == 0 ? "u000" : "u001"),
                                   WriteSet(ebnf, CharacterSet(std::move(digits)))}));
  }
  return ways;
}

}  // namespace

void PatternWriter::Spend(int steps) {
  steps_ += steps;
  if (steps_ > kMaxSteps || ebnf_->bytes() - bytes_before_ > 4 * kMaxEbnfBytes)
    throw Rejected{"the regular expression is too large once its counts are written out"};
}

CharacterSet PatternWriter::LeftOut() const {
  std::vector<CharacterSet::Range> ranges;
  if (json_ != nullptr) {
    for (const char c : json_->left_out()) ranges.emplace_back(c, c);
  }
  return CharacterSet(std::move(ranges));
}

CharacterSet PatternWriter::Raw(const CharacterSet& set) const {
  // NUL ends the texts of many programs, so it is never written raw.
  if (!escapes_) return set.And(CharacterSet({{1, 0x10ffff}})).And(LeftOut().Not());
  return set.And(CharacterSet({{0x20, 0x21}, {0x23, 0x5b}, {0x5d, 0x10ffff}}));
}

Node PatternWriter::Character(const CharacterSet& set, Node next) {
  const CharacterSet raw = Raw(set);
  const std::vector<Node> escapes = escapes_ ? WriteEscapes(ebnf_, set) : std::vector<Node>();
  if (raw.empty() && escapes.empty()) {
    throw Rejected{set.And(LeftOut()).empty()
                       ? "the regular expression has a NUL character"
                       : fmt::format("the regular expression has a character that strings in this "
                                     "model's calls are written without: '{}'",
                                     json_->left_out())};
  }
  if (!raw.empty() && !escapes.empty()) next = ebnf_->Shared(next);
  std::vector<Node> ways;
  if (IsOne(raw)) {
    std::string text;
    base::AppendUtf8(raw.ranges()[0].first, text);
    ways.push_back(ebnf_->Sequence({ebnf_->Literal(text), next}));
  } else if (!raw.empty()) {
    ways.push_back(ebnf_->Sequence({WriteSet(ebnf_, raw), next}));
  }
  if (!escapes.empty()) {
    ways.push_back(
        ebnf_->Sequence({ebnf_->Literal("\\"), ebnf_->Shared(ebnf_->Choice(escapes)), next}));
  }
  return ebnf_->Choice(ways);
}

// Each part is written before what follows it, so that all rules recur at their right ends: masks
// of groups that are repeated in place take a thousand times as long.
std::optional<Node> PatternWriter::Write(const Regex& regex, Node next, bool filled) {
  const std::tuple key(&regex, next, filled);
  if (const auto known = written_.find(key); known != written_.end()) return known->second;
  Spend(1);
  std::optional<Node> node;
  switch (regex.kind) {
    case Regex::Kind::kSet:
      node = Character(regex.set, next);
      break;
    case Regex::Kind::kSequence:
      node = WriteSequence(regex, next, filled);
      break;
    case Regex::Kind::kChoice:
      node = WriteChoice(regex, next, filled);
      break;
    case Regex::Kind::kRepeat:
      node = WriteRepeat(regex, next, filled);
      break;
  }
  written_[key] = node;
  return node;
}

std::optional<Node> PatternWriter::WriteSequence(const Regex& regex, Node next, bool filled) {
  std::optional<Node> some;  // What is behind here, without matches of the empty text.
  for (size_t i = regex.parts.size(); i-- > 0;) {
    const Regex& part = regex.parts[i];
    if (part.kind != Regex::Kind::kSet) next = ebnf_->Shared(next);
    if (filled) {
      std::vector<Node> ways;
      if (const std::optional<Node> here = Write(part, next, true)) ways.push_back(*here);
      if (some && part.shortest == 0) ways.push_back(*some);
      some.reset();
      if (!ways.empty()) some = ebnf_->Shared(ebnf_->Choice(ways));
    }
    next = Write(part, next, false).value();
  }
  if (filled) return some;
  return next;
}

std::optional<Node> PatternWriter::WriteChoice(const Regex& regex, Node next, bool filled) {
  next = ebnf_->Shared(next);
  std::vector<Node> ways;
  for (const Regex& part : regex.parts) {
    if (const std::optional<Node> way = Write(part, next, filled)) ways.push_back(*way);
  }
  if (ways.empty()) return std::nullopt;
  return ebnf_->Shared(ebnf_->Choice(ways));
}

std::optional<Node> PatternWriter::WriteRepeat(const Regex& regex, Node next, bool filled) {
  const Regex& part = regex.parts[0];
  // Empty matches of the part add nothing but to its count.
  const int least = part.shortest == 0 ? 0 : regex.least;
  if (regex.most == 0 || part.longest == 0) {
    if (filled) return std::nullopt;
    return next;
  }
  if (part.kind == Regex::Kind::kSet) {
    if (const std::optional<Node> run =
            WriteRun(part.set, filled ? std::max(least, 1) : least, regex.most, next))
      return run;
  }
  next = ebnf_->Shared(next);
  if (regex.most == Regex::kNoLimit) {
    if (filled && least == 0) {
      return Write(part, Write(regex, next, false).value(), true);
    }
    const Ebnf::Rule more = ebnf_->Declare();
    Node node = ebnf_->Call(more);
    ebnf_->Define(more, ebnf_->Choice({Write(part, node, true).value(), next}));
    for (int i = 0; i < least; ++i) node = ebnf_->Shared(Write(part, node, true).value());
    return node;
  }
  Node node = next;
  for (int i = regex.most; i-- > 0;) {
    const Node here = Write(part, node, true).value();
    if (i < least || (i == 0 && filled)) {
      node = ebnf_->Shared(here);
    } else {
      node = ebnf_->Shared(ebnf_->Choice({here, next}));
    }
  }
  return node;
}

// Characters of one set, in forms that cost less than a rule for each of them. nullopt: there is no
// such form.
std::optional<Node> PatternWriter::WriteRun(const CharacterSet& set, int least, int most,
                                            Node next) {
  const bool is_raw = Raw(set) == set;
  const bool is_wide = set.Has(0x4e00);  // So it has most characters, or many.
  if (most != Regex::kNoLimit && most - least > (is_wide ? kLongWideRun : kLongRun)) {
    // A limit on the characters as they are written: an escape counts as two or more.
    const Ebnf::Rule rule = ebnf_->Declare();
    const Node more = ebnf_->Call(rule);
    ebnf_->Define(rule, ebnf_->Choice({ebnf_->Literal(""), Character(set, more)}));
    const Node body = is_raw ? ebnf_->Repeat(WriteSet(ebnf_, set), 0, Ebnf::kNoLimit) : more;
    Node node = ebnf_->Sequence({ebnf_->Shared(body, most - least), next});
    if (is_raw && least > 0) {
      Spend(least);
      return ebnf_->Sequence({ebnf_->Repeat(WriteSet(ebnf_, set), least, least), node});
    }
    for (int i = 0; i < least; ++i) {
      Spend(1);
      node = ebnf_->Shared(Character(set, ebnf_->Shared(node)));
    }
    return node;
  }
  if (!is_raw) return std::nullopt;
  Spend(std::max(least, most));
  return ebnf_->Sequence({ebnf_->Repeat(WriteSet(ebnf_, set), least, most), next});
}

Node PatternWriter::OneOf(const std::vector<RegexWay>& ways, Node next) {
  std::vector<Node> nodes;
  for (const RegexWay& way : ways) nodes.push_back(Write(way.body, next, false).value());
  written_.clear();
  return ebnf_->Shared(ebnf_->Choice(nodes));
}

Node PatternWriter::WholeText(std::string_view regex) {
  escapes_ = false;
  const std::vector<RegexWay> ways = ReadRegex(regex);
  if (std::all_of(ways.begin(), ways.end(),
                  [](const RegexWay& way) { return way.body.longest == 0; }))
    throw Rejected{"the regular expression matches the empty text alone"};
  return OneOf(ways, ebnf_->Literal(""));
}

namespace {

// Lengths are held only where the pattern, or the format, already holds them.
void CheckLengths(const Place& place, const std::vector<RegexWay>& ways, std::string_view keyword) {
  const int least = Count(place, "minLength", kMaxMaxLength).value_or(0);
  const std::optional<int> most = Count(place, "maxLength", kMaxMaxLength);
  for (const RegexWay& way : ways) {
    if (way.body.shortest < least) {
      Reject(place.path, fmt::format("the keyword 'minLength' is supported beside '{0}' only where "
                                     "the {0} cannot match shorter texts",
                                     keyword));
    }
    const bool is_open = !way.from_start || !way.to_end || way.body.longest == Regex::kNoLimit;
    if (most && (is_open || way.body.longest > *most)) {
      Reject(place.path,
             fmt::format("the keyword 'maxLength' is supported beside '{0}' only where "
                         "the {0}{1} cannot match longer texts",
                         keyword, keyword == "pattern" ? ", with its anchors ^ and $," : ""));
    }
  }
}

}  // namespace

Node PatternWriter::WholeString(const Place& place, std::string_view regex) {
  escapes_ = json_->has_escapes();
  std::vector<RegexWay> ways = ReadRegex(regex);
  for (RegexWay& way : ways) way.from_start = way.to_end = true;
  CheckLengths(place, ways, "format");
  return ebnf_->Shared(ebnf_->Sequence({json_->Quote(), OneOf(ways, json_->Quote())}));
}

Node PatternWriter::String(const Place& place) {
  const nlohmann::ordered_json& pattern = *Find(*place.schema, "pattern");
  if (!pattern.is_string()) Reject(place.path, "the keyword 'pattern' must be a text");
  escapes_ = json_->has_escapes();
  try {
    const std::vector<RegexWay> ways = ReadRegex(pattern.get_ref<const std::string&>());
    CheckLengths(place, ways, "pattern");
    std::vector<Node> nodes;
    for (const RegexWay& way : ways) {
      const Node next = way.to_end ? json_->Quote() : json_->StringRest();
      const Node match = Write(way.body, next, false).value();
      written_.clear();
      if (way.from_start) {
        nodes.push_back(match);
        continue;
      }
      const Ebnf::Rule prefix = ebnf_->Declare();
      const Node any = json_->Character(ebnf_->Call(prefix));
      ebnf_->Define(prefix, ebnf_->Choice({match, any}));
      nodes.push_back(ebnf_->Call(prefix));
    }
    return ebnf_->Shared(ebnf_->Sequence({json_->Quote(), ebnf_->Shared(ebnf_->Choice(nodes))}));
  } catch (const Rejected& rejected) {
    if (rejected.message.starts_with("at '")) throw;
    Reject(place.path, fmt::format("the keyword 'pattern': {}", rejected.message));
  }
}

StatusOr<std::string> PatternEbnf(std::string_view regex) try {
  Ebnf ebnf;
  const StatusOr<Ebnf::Node> node = PatternText(regex, &ebnf);
  if (!node.ok()) return node.status();
  const Ebnf::Rule root = ebnf.Declare();
  ebnf.Define(root, *node);
  std::string text = ebnf.Print(root);
  if (text.size() > kMaxEbnfBytes) {
    return InvalidArgument(fmt::format(
        "the regular expression is too large: its grammar has more than {} bytes", kMaxEbnfBytes));
  }
  return text;
} catch (...) {
  return base::CurrentFailure("reading the regular expression");
}

StatusOr<Node> PatternText(std::string_view regex, Ebnf* ebnf) try {
  return PatternWriter(ebnf, nullptr).WholeText(regex);
} catch (const Rejected& rejected) {
  return InvalidArgument(rejected.message);
} catch (...) {
  return base::CurrentFailure("reading the regular expression");
}

}  // namespace ropeway::grammar
