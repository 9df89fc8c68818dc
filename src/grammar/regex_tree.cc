#include "grammar/regex_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/utf8.h"
#include "grammar/schema_tree.h"

namespace ropeway::grammar {

CharacterSet::CharacterSet(std::vector<Range> ranges) {
  std::sort(ranges.begin(), ranges.end());
  for (const Range& range : ranges) {
    if (!ranges_.empty() && range.first <= ranges_.back().second + 1) {
      ranges_.back().second = std::max(ranges_.back().second, range.second);
    } else {
      ranges_.push_back(range);
    }
  }
}

bool CharacterSet::Has(char32_t c) const {
  return std::any_of(ranges_.begin(), ranges_.end(),
                     [c](const Range& range) { return range.first <= c && c <= range.second; });
}

CharacterSet CharacterSet::Or(const CharacterSet& other) const {
  std::vector<Range> all = ranges_;
  all.insert(all.end(), other.ranges_.begin(), other.ranges_.end());
  return CharacterSet(std::move(all));
}

CharacterSet CharacterSet::And(const CharacterSet& other) const {
  return Not().Or(other.Not()).Not();
}

CharacterSet CharacterSet::Not() const {
  constexpr char32_t kEnd = 0x110000;
  std::vector<Range> taken = ranges_;
  taken.emplace_back(0xd800, 0xdfff);
  CharacterSet others;
  char32_t next = 0;
  for (const Range& range : CharacterSet(std::move(taken)).ranges_) {
    if (next < range.first) others.ranges_.emplace_back(next, range.first - 1);
    next = range.second + 1;
  }
  if (next < kEnd) others.ranges_.emplace_back(next, kEnd - 1);
  return others;
}

namespace {

// What a class matches by both readings, and what it matches by one of them or more: to negate a
// class swaps them.
struct Reading {
  CharacterSet sure;
  CharacterSet possible;

  Reading Not() const { return {possible.Not(), sure.Not()}; }
  void Add(const Reading& other) {
    sure = sure.Or(other.sure);
    possible = possible.Or(other.possible);
  }
};

Reading One(char32_t c) {
  const CharacterSet set({{c, c}});
  return {set, set};
}

// \d, \w and \s. Python's have more characters than ASCII's.
Reading Shorthand(char32_t name) {
  const CharacterSet beyond_ascii = CharacterSet({{0, 0x7f}}).Not();
  CharacterSet sure;
  CharacterSet possible = beyond_ascii;
  if (name == 'd') {
    sure = CharacterSet({{'0', '9'}});
  } else if (name == 'w') {
    sure = CharacterSet({{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}});
  } else {
    sure = CharacterSet({{'\t', '\r'}, {' ', ' '}});
    possible = CharacterSet({{0x1c, 0x1f},
                             {0x85, 0x85},
                             {0xa0, 0xa0},
                             {0x1680, 0x1680},
                             {0x180e, 0x180e},
                             {0x2000, 0x200a},
                             {0x2028, 0x2029},
                             {0x202f, 0x202f},
                             {0x205f, 0x205f},
                             {0x3000, 0x3000},
                             {0xfeff, 0xfeff}});
  }
  return {sure, sure.Or(possible)};
}

// `.`: all but the ends of lines. Python's has only one of them.
CharacterSet AnyButLineEnds() {
  return CharacterSet({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}).Not();
}

bool IsDigit(char32_t c) { return c >= '0' && c <= '9'; }
bool IsLetter(char32_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool IsQuantifier(char32_t c) { return c == '*' || c == '+' || c == '?' || c == '{'; }

class Reader {
 public:
  explicit Reader(std::u32string text) : text_(std::move(text)) {}

  std::vector<RegexWay> Read() {
    std::vector<RegexWay> ways;
    do {
      RegexWay way;
      way.from_start = Skip('^');
      way.body = Sequence();
      way.to_end = Skip('$');
      if (!AtEnd() && Peek() == ')') Fail("a ')' without its '('");
      if (!AtEnd() && Peek() != '|') Fail(kAnchors);
      ways.push_back(std::move(way));
    } while (Skip('|'));
    return ways;
  }

 private:
  static constexpr std::string_view kAnchors =
      "an anchor that is not at an end of the expression, or of an alternative outside of groups";

  bool AtEnd() const { return at_ >= text_.size(); }
  char32_t Peek() const { return text_[at_]; }
  bool Skip(char32_t c) {
    if (AtEnd() || Peek() != c) return false;
    ++at_;
    return true;
  }
  [[noreturn]] void Fail(std::string_view what) const { FailAt(at_, what); }
  [[noreturn]] static void FailAt(size_t at, std::string_view what) {
    throw Rejected{fmt::format(
        "the regular expression has, at character {}, {}: that is not supported", at, what)};
  }

  Regex Choice() {
    Regex choice{.kind = Regex::Kind::kChoice};
    do {
      choice.parts.push_back(Sequence());
    } while (Skip('|'));
    if (choice.parts.size() == 1) return std::move(choice.parts[0]);
    choice.shortest = choice.parts[0].shortest;
    for (const Regex& part : choice.parts) {
      choice.shortest = std::min(choice.shortest, part.shortest);
      const bool any = choice.longest == Regex::kNoLimit || part.longest == Regex::kNoLimit;
      choice.longest = any ? Regex::kNoLimit : std::max(choice.longest, part.longest);
    }
    return choice;
  }

  Regex Sequence() {
    Regex sequence;
    while (!AtEnd() && Peek() != '|' && Peek() != ')') {
      if (Peek() == '^' || Peek() == '$') {
        if (nesting_ == 0) break;
        Fail(kAnchors);
      }
      Regex part = Quantified();
      sequence.shortest = std::min(sequence.shortest + part.shortest, kLongLength);
      const bool any = sequence.longest == Regex::kNoLimit || part.longest == Regex::kNoLimit;
      sequence.longest =
          any ? Regex::kNoLimit : std::min(sequence.longest + part.longest, kLongLength);
      sequence.parts.push_back(std::move(part));
    }
    return sequence;
  }

  Regex Quantified() {
    Regex part = Atom();
    if (AtEnd() || !IsQuantifier(Peek())) return part;
    const size_t start = at_;
    Regex repeat{.kind = Regex::Kind::kRepeat};
    if (Skip('+')) {
      repeat.least = 1;
    } else if (Skip('?')) {
      repeat.most = 1;
    } else if (!Skip('*')) {
      ReadCounts(&repeat);
    }
    const int limit = part.kind == Regex::Kind::kSet ? kMaxRegexSetRepeats : kMaxRegexRepeats;
    if (repeat.least > limit || repeat.most > limit) {
      FailAt(start, fmt::format("a quantifier with a count above {}{}", limit,
                                part.kind == Regex::Kind::kSet ? "" : ", for a group"));
    }
    Skip('?');  // A lazy one matches the same texts.
    if (!AtEnd() && IsQuantifier(Peek())) Fail("a quantifier behind another one");
    repeat.shortest = std::min(repeat.least * part.shortest, kLongLength);
    if (part.longest == 0 || repeat.most == 0) {
      repeat.longest = 0;
    } else if (part.longest == Regex::kNoLimit || repeat.most == Regex::kNoLimit) {
      repeat.longest = Regex::kNoLimit;
    } else {
      repeat.longest = std::min(repeat.most * part.longest, kLongLength);
    }
    repeat.parts.push_back(std::move(part));
    return repeat;
  }

  // {m}, {m,} and {m,n}.
  void ReadCounts(Regex* repeat) {
    const size_t start = at_++;
    const auto number = [&]() -> std::optional<int> {
      int value = 0;
      const size_t first = at_;
      for (; !AtEnd() && IsDigit(Peek()); ++at_)
        value = std::min(10 * value + static_cast<int>(Peek() - '0'), kLongLength);
      if (at_ == first) return std::nullopt;
      return value;
    };
    const std::optional<int> least = number();
    std::optional<int> most = least;
    if (Skip(',')) {
      most = number();
      if (!most) most = Regex::kNoLimit;
    }
    if (!least || !Skip('}')) FailAt(start, "a '{' without counts and without a '\\' before it");
    if (*most != Regex::kNoLimit && *most < *least) FailAt(start, "counts in the wrong order");
    repeat->least = *least;
    repeat->most = *most;
  }

  Regex Atom() {
    const size_t start = at_;
    const char32_t c = text_[at_++];
    switch (c) {
      case '(':
        return Group();
      case '[':
        return Set(Class(), start);
      case '.':
        return Set({AnyButLineEnds(), {}}, start);
      case '\\':
        return Set(Escape(), start);
      case '{':
        FailAt(start, "a '{' without counts and without a '\\' before it");
      case '*':
      case '+':
      case '?':
        FailAt(start, "a quantifier with nothing before it");
      default:
        return Set(One(c), start);
    }
  }

  static Regex Set(const Reading& reading, size_t start) {
    if (reading.sure.empty()) FailAt(start, "a class that no character matches");
    return {.kind = Regex::Kind::kSet, .set = reading.sure, .shortest = 1, .longest = 1};
  }

  Regex Group() {
    const size_t start = at_ - 1;
    if (Skip('?') && !Skip(':')) {
      const char32_t kind = AtEnd() ? 0 : Peek();
      const char32_t next = at_ + 1 < text_.size() ? text_[at_ + 1] : 0;
      if (kind == '=' || kind == '!') FailAt(start, "a lookahead");
      if (kind == '<' && (next == '=' || next == '!')) FailAt(start, "a lookbehind");
      if (kind == '<' || kind == 'P') FailAt(start, "a named group");
      FailAt(start, "a group with flags or of an unknown kind");
    }
    if (++nesting_ > kMaxRegexNesting)
      FailAt(start, fmt::format("groups nested deeper than {}", kMaxRegexNesting));
    Regex group = Choice();
    if (!Skip(')')) FailAt(start, "a '(' without its ')'");
    --nesting_;
    return group;
  }

  // Behind the backslash.
  Reading Escape() {
    const size_t start = at_ - 1;
    if (AtEnd()) FailAt(start, "a '\\' with nothing behind it");
    const char32_t c = text_[at_++];
    switch (c) {
      case 'd':
      case 'w':
      case 's':
        return Shorthand(c);
      case 'D':
      case 'W':
      case 'S':
        return Shorthand(c - 'A' + 'a').Not();
      case 't':
        return One('\t');
      case 'n':
        return One('\n');
      case 'v':
        return One('\v');
      case 'f':
        return One('\f');
      case 'r':
        return One('\r');
      case 'x':
        return One(Hex(2, start));
      case 'u':
        return One(Hex(4, start));
      case 'b':
      case 'B':
        FailAt(start, "a word boundary");
      case 'p':
      case 'P':
        FailAt(start, "a class of Unicode properties");
      default:
        if (IsDigit(c)) FailAt(start, "a backreference");
        if (IsLetter(c) || c > 0x7f) FailAt(start, "an escape of an unknown kind");
        return One(c);
    }
  }

  char32_t Hex(int digits, size_t start) {
    char32_t value = 0;
    for (int i = 0; i < digits; ++i) {
      const char32_t c = AtEnd() ? 0 : text_[at_++];
      const char32_t low = c | 0x20;
      if (!IsDigit(c) && !(low >= 'a' && low <= 'f'))
        FailAt(start, fmt::format("an escape without its {} hexadecimal digits", digits));
      value = 16 * value + (IsDigit(c) ? c - '0' : low - 'a' + 10);
    }
    if (value >= 0xd800 && value <= 0xdfff) FailAt(start, "a surrogate");
    return value;
  }

  // Behind the bracket.
  Reading Class() {
    const size_t start = at_ - 1;
    const bool negated = Skip('^');
    if (!AtEnd() && Peek() == ']') FailAt(start, "a class that is empty or begins with ']'");
    Reading all;
    while (!Skip(']')) {
      if (AtEnd()) FailAt(start, "a '[' without its ']'");
      const size_t first_at = at_;
      const Reading first = ClassCharacter(start);
      if (at_ + 1 >= text_.size() || Peek() != '-' || text_[at_ + 1] == ']') {
        all.Add(first);
        continue;
      }
      ++at_;
      const Reading last = ClassCharacter(start);
      const auto single = [](const Reading& reading) {
        return reading.sure == reading.possible && reading.sure.ranges().size() == 1 &&
               reading.sure.ranges()[0].first == reading.sure.ranges()[0].second;
      };
      if (!single(first) || !single(last)) FailAt(first_at, "a range that ends in a class");
      const char32_t from = first.sure.ranges()[0].first;
      const char32_t to = last.sure.ranges()[0].first;
      if (from > to) FailAt(first_at, "a range in the wrong order");
      // Without the surrogates inside it.
      const CharacterSet range = CharacterSet({{from, to}}).Not().Not();
      all.Add({range, range});
    }
    return negated ? all.Not() : all;
  }

  Reading ClassCharacter(size_t start) {
    if (AtEnd()) FailAt(start, "a '[' without its ']'");
    const char32_t c = text_[at_++];
    return c == '\\' ? Escape() : One(c);
  }

  // Lengths above it are all alike: no schema asks for them.
  static constexpr int kLongLength = 1'000'000;

  const std::u32string text_;
  size_t at_ = 0;
  int nesting_ = 0;
};

}  // namespace

std::vector<RegexWay> ReadRegex(std::string_view text) {
  std::u32string characters;
  for (size_t at = 0; at < text.size();) {
    const base::Utf8Step step = base::StepUtf8(text, at);
    if (step.kind != base::Utf8Kind::kValid)
      throw Rejected{"the regular expression is not valid UTF-8"};
    characters.push_back(step.code_point);
    at += step.length;
    if (characters.size() > kMaxRegexCharacters) {
      throw Rejected{
          fmt::format("the regular expression has more than {} characters", kMaxRegexCharacters)};
    }
  }
  return Reader(std::move(characters)).Read();
}

}  // namespace ropeway::grammar
