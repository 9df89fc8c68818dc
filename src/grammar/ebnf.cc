#include "grammar/ebnf.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

namespace ropeway::grammar {

namespace {

// As EBNF's notation has it. Valid UTF-8 stands for itself.
std::string Quote(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      quoted += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

}  // namespace

bool Ebnf::Part::operator<(const Part& other) const {
  return std::tie(kind, text, parts, least, most, rule, again) <
         std::tie(other.kind, other.text, other.parts, other.least, other.most, other.rule,
                  other.again);
}

Ebnf::Node Ebnf::Intern(Part part) {
  const size_t bytes = part.text.size() + 4 * part.parts.size() + 8;
  const auto [entry, added] = index_.emplace(std::move(part), static_cast<Node>(parts_.size()));
  if (added) {
    parts_.push_back(&entry->first);
    bytes_ += bytes;
  }
  return entry->second;
}

Ebnf::Node Ebnf::Literal(std::string_view text) {
  return Intern({.kind = Kind::kLiteral, .text = std::string(text)});
}

Ebnf::Node Ebnf::Class(std::string_view brackets) {
  return Intern({.kind = Kind::kClass, .text = std::string(brackets)});
}

Ebnf::Node Ebnf::ClassBut(std::string_view excluded) {
  const std::set<char> sorted(excluded.begin(), excluded.end());
  std::string brackets = "[";
  int first = 1;
  for (const char c : sorted) {
    if (c > first) brackets += fmt::format("\\x{:02x}-\\x{:02x}", first, c - 1);
    first = c + 1;
  }
  return Class(brackets + fmt::format("\\x{:02x}-\\ud7ff\\ue000-\\U0010ffff]", first));
}

Ebnf::Node Ebnf::Sequence(const std::vector<Node>& parts) {
  std::vector<Node> joined;  // Literals side by side become one, and empty ones go.
  for (const Node part : parts) {
    if (At(part).kind == Kind::kLiteral) {
      if (At(part).text.empty()) continue;
      if (!joined.empty() && At(joined.back()).kind == Kind::kLiteral) {
        joined.back() = Literal(At(joined.back()).text + At(part).text);
        continue;
      }
    }
    joined.push_back(part);
  }
  if (joined.empty()) return Literal("");
  if (joined.size() == 1) return joined[0];
  return Intern({.kind = Kind::kSequence, .parts = std::move(joined)});
}

Ebnf::Ebnf() : empty_(Literal("")) {}

Ebnf::Node Ebnf::Choice(const std::vector<Node>& ways) {
  std::vector<Node> distinct;
  for (const Node way : ways) {
    if (std::find(distinct.begin(), distinct.end(), way) == distinct.end()) distinct.push_back(way);
  }
  if (distinct.size() == 1) return distinct[0];
  return Intern({.kind = Kind::kChoice, .parts = std::move(distinct)});
}

Ebnf::Node Ebnf::Repeat(Node part, int least, int most) {
  if (most == 0) return Literal("");
  if (least == 1 && most == 1) return part;
  return Intern({.kind = Kind::kRepeat, .parts = {part}, .least = least, .most = most});
}

Ebnf::Node Ebnf::Call(Rule rule) { return Intern({.kind = Kind::kCall, .rule = rule}); }

Ebnf::Node Ebnf::Tokens(std::string_view macro, const std::vector<TokenId>& ids) {
  return Intern({.kind = Kind::kToken, .text = fmt::format("{}({})", macro, fmt::join(ids, ", "))});
}

Ebnf::Node Ebnf::Token(const std::vector<TokenId>& ids) { return Tokens("Token", ids); }

Ebnf::Node Ebnf::TokenBut(const std::vector<TokenId>& ids) { return Tokens("ExcludeToken", ids); }

Ebnf::Node Ebnf::Behind(std::string_view mark, Rule then, bool again) {
  return Intern(
      {.kind = Kind::kBehind, .text = "TagDispatch((" + Quote(mark), .again = again, .rule = then});
}

Ebnf::Node Ebnf::Behind(TokenId mark, Rule then, bool again) {
  return Intern({.kind = Kind::kBehind,
                 .text = fmt::format("TokenTagDispatch(({}", mark),
                 .again = again,
                 .rule = then});
}

Ebnf::Rule Ebnf::Declare() {
  rules_.emplace_back();
  bytes_ += 12;
  return static_cast<Rule>(rules_.size() - 1);
}

Ebnf::Node Ebnf::Shared(Node body, int max_characters) {
  const bool is_call = At(body).kind == Kind::kCall || At(body).kind == Kind::kLiteral;
  if (is_call && max_characters == kNoLimit) return body;
  const auto [entry, added] = shared_.emplace(std::pair(body, max_characters), -1);
  if (added) {
    entry->second = Declare();
    rules_.back() = {.body = body, .max_characters = max_characters};
  }
  return Call(entry->second);
}

template <typename Fn>
void Ebnf::ForEachCall(Node node, Fn&& fn) const {
  const Part& part = At(node);
  if (part.kind == Kind::kCall || part.kind == Kind::kBehind) fn(part.rule);
  for (const Node each : part.parts) ForEachCall(each, fn);
}

std::vector<Ebnf::Rule> Ebnf::Reachable(Rule root) const {
  std::vector<Rule> found = {root};
  std::vector<bool> seen(rules_.size());
  seen[static_cast<size_t>(root)] = true;
  for (size_t i = 0; i < found.size(); ++i) {
    ForEachCall(*rules_[static_cast<size_t>(found[i])].body, [&](Rule rule) {
      if (seen[static_cast<size_t>(rule)]) return;
      seen[static_cast<size_t>(rule)] = true;
      found.push_back(rule);
    });
  }
  return found;
}

bool Ebnf::HasText(Node node, Texts texts, const std::vector<bool>& rules) const {
  const Part& part = At(node);
  const auto has = [&](Node each) { return HasText(each, texts, rules); };
  switch (part.kind) {
    case Kind::kLiteral:
      return texts == Texts::kAny || part.text.empty();
    case Kind::kClass:
    case Kind::kToken:
      return texts == Texts::kAny;
    case Kind::kBehind:
      return true;
    case Kind::kSequence:
      return std::all_of(part.parts.begin(), part.parts.end(), has);
    case Kind::kChoice:
      return std::any_of(part.parts.begin(), part.parts.end(), has);
    case Kind::kRepeat:
      return part.least == 0 || has(part.parts[0]);
    case Kind::kCall:
      return rules[static_cast<size_t>(part.rule)];
  }
  return false;
}

void Ebnf::LeftCalls(Node node, const std::vector<bool>& nullable, std::vector<Rule>* calls) const {
  const Part& part = At(node);
  if (part.kind == Kind::kCall) calls->push_back(part.rule);
  for (const Node each : part.parts) {
    LeftCalls(each, nullable, calls);
    if (part.kind == Kind::kSequence && !HasText(each, Texts::kEmpty, nullable)) return;
  }
}

std::vector<bool> Ebnf::RulesWithText(const std::vector<Rule>& rules, Texts texts) const {
  std::vector<bool> known(rules_.size());
  for (bool changed = true; changed;) {
    changed = false;
    // Backwards: rules mostly call rules that were found after them.
    for (auto rule = rules.rbegin(); rule != rules.rend(); ++rule) {
      const auto at = static_cast<size_t>(*rule);
      if (known[at] || !HasText(*rules_[at].body, texts, known)) continue;
      known[at] = true;
      changed = true;
    }
  }
  return known;
}

std::vector<Ebnf::Rule> Ebnf::FindEndless(Rule root) const {
  const std::vector<Rule> rules = Reachable(root);
  const std::vector<bool> ends = RulesWithText(rules, Texts::kAny);
  std::vector<Rule> endless;
  for (const Rule rule : rules) {
    if (!ends[static_cast<size_t>(rule)]) endless.push_back(rule);
  }
  return endless;
}

std::vector<Ebnf::Rule> Ebnf::FindLeftRecursion(Rule root) const {
  const std::vector<Rule> rules = Reachable(root);
  const std::vector<bool> nullable = RulesWithText(rules, Texts::kEmpty);
  std::vector<std::vector<Rule>> calls(rules_.size());
  std::vector<std::vector<Rule>> callers(rules_.size());
  std::vector<size_t> open(rules_.size());  // Calls of rules that may be on a circle.
  std::vector<Rule> done;
  for (const Rule rule : rules) {
    std::vector<Rule>& own = calls[static_cast<size_t>(rule)];
    LeftCalls(*rules_[static_cast<size_t>(rule)].body, nullable, &own);
    open[static_cast<size_t>(rule)] = own.size();
    for (const Rule called : own) callers[static_cast<size_t>(called)].push_back(rule);
    if (own.empty()) done.push_back(rule);
  }
  // Rules without open calls are taken away, again and again. What is left leads into a circle.
  for (size_t i = 0; i < done.size(); ++i) {
    for (const Rule caller : callers[static_cast<size_t>(done[i])]) {
      if (--open[static_cast<size_t>(caller)] == 0) done.push_back(caller);
    }
  }
  const auto is_open = [&](Rule rule) { return open[static_cast<size_t>(rule)] > 0; };
  const auto first = std::find_if(rules.begin(), rules.end(), is_open);
  if (first == rules.end()) return {};
  std::vector<Rule> way;
  std::vector<bool> seen(rules_.size());
  for (Rule rule = *first; !seen[static_cast<size_t>(rule)];) {
    seen[static_cast<size_t>(rule)] = true;
    way.push_back(rule);
    const std::vector<Rule>& next = calls[static_cast<size_t>(rule)];
    rule = *std::find_if(next.begin(), next.end(), is_open);
    if (seen[static_cast<size_t>(rule)]) {
      way.erase(way.begin(), std::find(way.begin(), way.end(), rule));
    }
  }
  return way;
}

// The notation has no two marks of repetition in a row.
void Ebnf::PrintElement(Node node, const std::vector<int>& names, std::string* text) const {
  const bool is_marked = At(node).kind == Kind::kRepeat || IsOptional(At(node));
  if (is_marked) *text += '(';
  PrintNode(node, names, true, text);
  if (is_marked) *text += ')';
}

void Ebnf::PrintNode(Node node, const std::vector<int>& names, bool nested,
                     std::string* text) const {
  const Part& part = At(node);
  switch (part.kind) {
    case Kind::kLiteral:
      *text += Quote(part.text);
      return;
    case Kind::kClass:
    case Kind::kToken:
      *text += part.text;
      return;
    case Kind::kBehind:
      *text += fmt::format("{}, r{}), loop_after_dispatch={})", part.text,
                           names[static_cast<size_t>(part.rule)], part.again);
      return;
    case Kind::kCall: {
      const int name = names[static_cast<size_t>(part.rule)];
      *text += name == 0 ? "root" : fmt::format("r{}", name);
      return;
    }
    case Kind::kRepeat:
      PrintElement(part.parts[0], names, text);
      if (part.most == kNoLimit && part.least <= 1) {
        *text += part.least == 0 ? "*" : "+";
      } else if (part.most == kNoLimit) {
        *text += fmt::format("{{{},}}", part.least);
      } else {
        *text += fmt::format("{{{},{}}}", part.least, part.most);
      }
      return;
    case Kind::kSequence:
    case Kind::kChoice:
      if (IsOptional(part)) {
        PrintElement(part.parts[0], names, text);
        *text += '?';
        return;
      }
      if (nested) *text += '(';
      for (size_t i = 0; i < part.parts.size(); ++i) {
        if (i > 0) *text += part.kind == Kind::kSequence ? " " : " | ";
        PrintNode(part.parts[i], names, true, text);
      }
      if (nested) *text += ')';
      return;
  }
}

std::string Ebnf::Print(Rule root) const {
  const std::vector<Rule> rules = Reachable(root);
  std::vector<int> names(rules_.size());
  for (size_t i = 0; i < rules.size(); ++i)
    names[static_cast<size_t>(rules[i])] = static_cast<int>(i);
  std::string text;
  for (size_t i = 0; i < rules.size(); ++i) {
    const RuleBody& rule = rules_[static_cast<size_t>(rules[i])];
    text += i == 0 ? "root" : fmt::format("r{}", i);
    if (rule.max_characters != kNoLimit) text += fmt::format("[max_chars={}]", rule.max_characters);
    text += " ::= ";
    PrintNode(*rule.body, names, false, &text);
    text += '\n';
  }
  return text;
}

}  // namespace ropeway::grammar
