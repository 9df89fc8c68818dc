#include "grammar/json_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace ropeway::grammar {
namespace {

bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// A name of Python, or such a one with hyphens.
bool IsArgumentName(std::string_view name) {
  return !name.empty() && IsLetter(name[0]) && std::all_of(name.begin(), name.end(), [](char c) {
    return IsLetter(c) || IsDigit(c) || c == '-';
  });
}

// A key that needs no quotation marks where the syntax has others than JSON's.
bool IsWord(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return IsLetter(c) || IsDigit(c) || c == '-' || c == '.';
  });
}

}  // namespace

// Where strings have marks of their own, models write no spaces.
Ebnf::Node JsonRules::Space() {
  const bool some = spaces_ == Spaces::kAny && has_escapes();
  return some ? ebnf_->Optional(ebnf_->Literal(" ")) : ebnf_->Literal("");
}

Ebnf::Node JsonRules::Gap() {
  return spaces_ == Spaces::kUsual && has_escapes() ? ebnf_->Literal(" ") : Space();
}

Ebnf::Node JsonRules::Quote() {
  if (syntax_.quote_token) return ebnf_->Token({*syntax_.quote_token});
  return ebnf_->Literal(has_escapes() ? "\"" : syntax_.quote);
}

// Not the escapes of surrogates: a pair would count as two characters, and half of one is no text.
// To Python "\\/" is two characters.
Ebnf::Node JsonRules::Escape() {
  const Ebnf::Node hex = ebnf_->Class("[0-9a-fA-F]");
  return ebnf_->Shared(ebnf_->Choice(
      {ebnf_->Class(syntax_.python ? "[\"\\\\bfnrt]" : "[\"\\\\/bfnrt]"),
       ebnf_->Sequence(
           {ebnf_->Literal("u"),
            ebnf_->Choice(
                {ebnf_->Sequence({ebnf_->Class("[0-9a-ce-fA-CE-F]"), hex, hex, hex}),
                 ebnf_->Sequence({ebnf_->Class("[dD]"), ebnf_->Class("[0-7]"), hex, hex})})})}));
}

// Right-recursive rules of this form: a mask takes microseconds. With a repeated group it takes a
// thousand times that.
Ebnf::Node JsonRules::Character(Ebnf::Node next) {
  if (!has_escapes()) {
    return ebnf_->Sequence({ebnf_->ClassBut(left_out()), next});
  }
  return CharacterBut({}, next);
}

Ebnf::Node JsonRules::CharacterBut(const std::set<char>& letters, Ebnf::Node next) {
  // All of Unicode but for control characters, the quotation mark, the backslash and the
  // surrogates.
  std::string small = "\\x5d-";
  for (const char letter : letters)
    small += fmt::format("\\x{:02x}\\x{:02x}-", letter - 1, letter + 1);
  const Ebnf::Node plain =
      ebnf_->Class("[\\x20-\\x21\\x23-\\x5b" + small + "\\x7f\\u0080-\\ud7ff\\ue000-\\U0010ffff]");
  return ebnf_->Choice(
      {ebnf_->Sequence({plain, next}), ebnf_->Sequence({ebnf_->Literal("\\"), Escape(), next})});
}

Ebnf::Node JsonRules::StringRest(int least) {
  if (!rest_) {
    const Ebnf::Rule rule = ebnf_->Declare();
    rest_ = ebnf_->Call(rule);
    ebnf_->Define(rule, ebnf_->Choice({Quote(), Character(*rest_)}));
  }
  Ebnf::Node node = *rest_;
  for (int i = 0; i < least; ++i) node = ebnf_->Shared(Character(node));
  return node;
}

Ebnf::Node JsonRules::StringRestBut(const std::vector<std::string_view>& words) {
  std::map<char, std::vector<std::string_view>> rests;
  std::set<char> letters;
  std::vector<Ebnf::Node> ways;
  for (const std::string_view word : words) {
    if (word.empty()) continue;
    rests[word.front()].push_back(word.substr(1));
    letters.insert(word.front());
  }
  const bool is_word = std::find(words.begin(), words.end(), "") != words.end();
  if (!is_word) ways.push_back(ebnf_->Literal("\""));
  for (const auto& [letter, rest] : rests) {
    ways.push_back(ebnf_->Sequence({ebnf_->Literal(std::string(1, letter)), StringRestBut(rest)}));
  }
  ways.push_back(CharacterBut(letters, StringRest()));
  return ebnf_->Shared(ebnf_->Choice(ways));
}

Ebnf::Node JsonRules::LimitedString(int least, int most) {
  if (most == 0) return ebnf_->Sequence({Quote(), Quote()});
  if (!unlimited_) {
    const Ebnf::Rule rule = ebnf_->Declare();
    unlimited_ = ebnf_->Call(rule);
    ebnf_->Define(rule, ebnf_->Choice({ebnf_->Literal(""), Character(*unlimited_)}));
  }
  Ebnf::Node body = *unlimited_;
  for (int i = 0; i < least; ++i) body = ebnf_->Shared(Character(body));
  // A rule of its own, also where it is only a call: the limit is the rule's.
  return ebnf_->Sequence({Quote(), ebnf_->Shared(body, most), Quote()});
}

// All to the first mark, which is found as it is read.
Ebnf::Node JsonRules::RestToMark() {
  if (to_mark_) return *to_mark_;
  const std::string_view mark = syntax_.quote;
  std::vector<Ebnf::Rule> behind;  // So many characters of the mark.
  for (size_t i = 0; i < mark.size(); ++i) behind.push_back(ebnf_->Declare());
  for (size_t i = 0; i < mark.size(); ++i) {
    const std::string others = {mark[0], mark[i]};
    const bool last = i + 1 == mark.size();
    std::vector<Ebnf::Node> ways = {
        ebnf_->Sequence({ebnf_->Literal(mark.substr(i, 1)),
                         last ? ebnf_->Literal("") : ebnf_->Call(behind[i + 1])}),
        ebnf_->Sequence({ebnf_->ClassBut(others), ebnf_->Call(behind[0])})};
    if (i > 0) {
      ways.push_back(ebnf_->Sequence({ebnf_->Literal(mark.substr(0, 1)), ebnf_->Call(behind[1])}));
    }
    ebnf_->Define(behind[i], ebnf_->Choice(ways));
  }
  to_mark_ = ebnf_->Call(behind[0]);
  return *to_mark_;
}

Ebnf::Node JsonRules::String() {
  return ebnf_->Sequence({Quote(), left_out().empty() ? StringRest() : RestToMark()});
}

Ebnf::Node JsonRules::Integer() {
  const Ebnf::Node digit = ebnf_->Class("[0-9]");
  return ebnf_->Shared(ebnf_->Sequence(
      {ebnf_->Optional(ebnf_->Literal("-")),
       ebnf_->Choice({ebnf_->Literal("0"),
                      ebnf_->Sequence({ebnf_->Class("[1-9]"), ebnf_->Repeat(digit, 0, 17)})})}));
}

Ebnf::Node JsonRules::Number() {
  const Ebnf::Node digit = ebnf_->Class("[0-9]");
  return ebnf_->Shared(ebnf_->Sequence(
      {Integer(),
       ebnf_->Optional(ebnf_->Sequence({ebnf_->Literal("."), ebnf_->Repeat(digit, 1, 17)})),
       ebnf_->Optional(ebnf_->Sequence({ebnf_->Class("[eE]"), ebnf_->Optional(ebnf_->Class("[+-]")),
                                        ebnf_->Repeat(digit, 1, 2)}))}));
}

Ebnf::Node JsonRules::Word(bool value) {
  if (syntax_.python) return ebnf_->Literal(value ? "True" : "False");
  return ebnf_->Literal(value ? "true" : "false");
}

Ebnf::Node JsonRules::Boolean() { return ebnf_->Shared(ebnf_->Choice({Word(true), Word(false)})); }

Ebnf::Node JsonRules::Null() { return ebnf_->Literal(syntax_.python ? "None" : "null"); }

Ebnf::Node JsonRules::Any() {
  if (!any_) {
    const Ebnf::Rule rule = ebnf_->Declare();
    any_ = ebnf_->Call(rule);
    ebnf_->Define(rule, ebnf_->Choice({String(), Number(), Word(true), Word(false), Null(),
                                       Object(AnyKey(Holder::kObject), *any_, 0, Ebnf::kNoLimit),
                                       Array({}, *any_, 0, Ebnf::kNoLimit)}));
  }
  return *any_;
}

std::optional<Ebnf::Node> JsonRules::Value(const nlohmann::ordered_json& value) {
  if (value.is_null()) return Null();
  if (value.is_boolean()) return Word(value.get<bool>());
  if (value.is_string() && !has_escapes()) {
    const std::string& text = value.get_ref<const std::string&>();
    if (!left_out().empty() && text.find(syntax_.quote) != text.npos) return std::nullopt;
    return ebnf_->Sequence({Quote(), ebnf_->Literal(text), Quote()});
  }
  if (is_json() || value.is_primitive()) return ebnf_->Literal(value.dump());
  const bool object = value.is_object();
  std::vector<Ebnf::Node> parts = {ebnf_->Literal(object ? "{" : "[")};
  for (const auto& [key, each] : value.items()) {
    if (parts.size() > 1) parts.push_back(ebnf_->Literal(","));
    const std::optional<Ebnf::Node> name = object ? Key(key, Holder::kObject) : ebnf_->Literal("");
    const std::optional<Ebnf::Node> written = Value(each);
    if (!name || !written) return std::nullopt;
    parts.insert(parts.end(), {*name, ebnf_->Literal(object ? ":" : ""), *written});
  }
  parts.push_back(ebnf_->Literal(object ? "}" : "]"));
  return ebnf_->Sequence(parts);
}

std::optional<Ebnf::Node> JsonRules::Key(std::string_view name, Holder holder) {
  const bool bare = holder == Holder::kCall ? IsArgumentName(name) : !has_escapes() && IsWord(name);
  if (bare) return ebnf_->Literal(name);
  if (holder == Holder::kCall) return std::nullopt;
  return Value(name);
}

Ebnf::Node JsonRules::AnyKey(Holder holder) {
  if (holder == Holder::kCall) {
    return ebnf_->Shared(
        ebnf_->Sequence({ebnf_->Class("[A-Za-z_]"),
                         ebnf_->Repeat(ebnf_->Class("[A-Za-z0-9_]"), 0, Ebnf::kNoLimit)}));
  }
  if (has_escapes()) return String();
  return ebnf_->Shared(ebnf_->Repeat(ebnf_->Class("[A-Za-z0-9_.\\x2d]"), 1, Ebnf::kNoLimit));
}

Ebnf::Node JsonRules::Pair(Ebnf::Node key, Ebnf::Node value, Holder holder) {
  if (holder == Holder::kCall) return ebnf_->Sequence({key, ebnf_->Literal("="), value});
  return ebnf_->Sequence({key, Space(), ebnf_->Literal(":"), Gap(), value});
}

Ebnf::Node JsonRules::Object(Ebnf::Node key, Ebnf::Node value, int least, int most, Holder holder) {
  const Ebnf::Node space = Space();
  const Ebnf::Node member = ebnf_->Sequence({Pair(key, value, holder), space});
  const Ebnf::Node next = ebnf_->Shared(ebnf_->Sequence({ebnf_->Literal(","), Gap(), member}));
  Ebnf::Node members = ebnf_->Literal("");
  if (most != 0) {
    members = ebnf_->Sequence({member, ebnf_->Repeat(next, std::max(least - 1, 0),
                                                     most == Ebnf::kNoLimit ? most : most - 1)});
    if (least == 0) members = ebnf_->Optional(members);
  }
  const std::string_view brackets = Brackets(holder);
  return ebnf_->Shared(ebnf_->Sequence(
      {ebnf_->Literal(brackets.substr(0, 1)), space, members, ebnf_->Literal(brackets.substr(1))}));
}

Ebnf::Node JsonRules::Array(const std::vector<Ebnf::Node>& first, std::optional<Ebnf::Node> rest,
                            int least, int most) {
  const Ebnf::Node space = Space();
  const int known = static_cast<int>(first.size());
  // From the back: what may follow `i` items.
  Ebnf::Node tail = ebnf_->Literal("");
  if (rest && (most == Ebnf::kNoLimit || most > known)) {
    const Ebnf::Node next =
        ebnf_->Shared(ebnf_->Sequence({ebnf_->Literal(","), Gap(), *rest, space}));
    const int more = most == Ebnf::kNoLimit ? most : most - known;
    if (known > 0) {
      tail = ebnf_->Repeat(next, std::max(least - known, 0), more);
    } else {
      tail = ebnf_->Sequence(
          {*rest, space,
           ebnf_->Repeat(next, std::max(least - 1, 0), more == Ebnf::kNoLimit ? more : more - 1)});
      if (least == 0) tail = ebnf_->Optional(tail);
    }
  }
  for (int i = known; i-- > 0;) {
    if (most != Ebnf::kNoLimit && i >= most) continue;
    tail = ebnf_->Sequence({i > 0 ? ebnf_->Literal(",") : ebnf_->Literal(""),
                            i > 0 ? Gap() : ebnf_->Literal(""), first[static_cast<size_t>(i)],
                            space, tail});
    if (i >= least) tail = ebnf_->Optional(tail);
    tail = ebnf_->Shared(tail);
  }
  return ebnf_->Shared(ebnf_->Sequence({ebnf_->Literal("["), space, tail, ebnf_->Literal("]")}));
}

std::optional<Ebnf::Node> JsonRules::Members(std::string_view brackets,
                                             const std::vector<Member>& members, int least,
                                             int most) {
  const Ebnf::Node space = Space();
  const int size = static_cast<int>(members.size());
  const bool limited = most != Ebnf::kNoLimit && most < size;
  // More written ones than these are as good as these.
  const int counted = std::min(size, std::max({1, least, limited ? most : 0}));
  // What may follow, by how many were written; from the back.
  std::vector<std::optional<Ebnf::Node>> follow(static_cast<size_t>(counted) + 1);
  for (int n = 0; n <= counted; ++n) {
    if (n >= least) follow[static_cast<size_t>(n)] = ebnf_->Literal(brackets.substr(1));
  }
  for (size_t i = members.size(); i-- > 0;) {
    // Upwards, as a member that is written leads to the next count.
    for (int n = 0; n <= counted; ++n) {
      std::optional<Ebnf::Node>& here = follow[static_cast<size_t>(n)];
      const auto next = follow[static_cast<size_t>(std::min(n + 1, counted))];
      std::vector<Ebnf::Node> ways;
      if (next && !(limited && n == most)) {
        const Ebnf::Node written = ebnf_->Sequence({members[i].text, space, *next});
        ways.push_back(n == 0 ? written : ebnf_->Sequence({ebnf_->Literal(","), Gap(), written}));
      }
      if (here && !members[i].required) ways.push_back(*here);
      here = std::nullopt;
      if (!ways.empty()) here = ebnf_->Shared(ebnf_->Choice(ways));
    }
  }
  if (!follow[0]) return std::nullopt;
  return ebnf_->Shared(ebnf_->Sequence({ebnf_->Literal(brackets.substr(0, 1)), space, *follow[0]}));
}

}  // namespace ropeway::grammar
