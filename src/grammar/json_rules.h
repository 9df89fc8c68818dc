// The rules of JSON's values, spelled as JSON or as models spell them in calls of tools.
#ifndef ROPEWAY_GRAMMAR_JSON_RULES_H_
#define ROPEWAY_GRAMMAR_JSON_RULES_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/ebnf.h"
#include "ropeway/request.h"

namespace ropeway::grammar {

// How values are spelled: as JSON, but for what is set here. answer::LiteralReader reads all of it.
struct Syntax {
  // As Python's True, False and None; the arguments of a call are (key=value, ..).
  bool python = false;
  // Strings stand between two of this mark, without escapes, keys that are words stand alone, and
  // there are no spaces.
  // Its first character is nowhere else in it. "": they are spelled as JSON's.
  std::string quote = {};
  // The mark is this token: strings may have its text.
  std::optional<TokenId> quote_token = std::nullopt;
};

// JSON's values and their parts, made where they are first asked for. Texts are written without
// white space but for single spaces.
class JsonRules {
 public:
  // Where there may be spaces.
  enum class Spaces : uint8_t {
    kAny,    // Behind brackets, keys, colons, commas and values.
    kUsual,  // Behind colons and commas, always. With vocabularies that have many tokens that begin
             // with a space, grammars take a quarter of the work to compile.
  };

  explicit JsonRules(Ebnf* ebnf, Spaces spaces = Spaces::kAny, Syntax syntax = {})
      : ebnf_(ebnf), spaces_(spaces), syntax_(std::move(syntax)) {}

  Ebnf::Node Space();
  // Behind a colon or a comma.
  Ebnf::Node Gap();
  // At both ends of a string.
  Ebnf::Node Quote();
  // Whether values are spelled as JSON.
  bool is_json() const { return !syntax_.python && has_escapes(); }
  // Whether strings have escapes, and JSON's at that.
  bool has_escapes() const { return syntax_.quote.empty(); }
  // A character that strings are written without, so that no mark is in them: those of String()
  // alone may have it. Empty: there is none.
  std::string_view left_out() const {
    const std::string_view quote = syntax_.quote;
    return quote.empty() || syntax_.quote_token ? "" : quote.substr(1, 1);
  }
  // What follows a string's opening quotation mark, with the closing one: `least` characters or
  // more.
  Ebnf::Node StringRest(int least = 0);
  // The same, for strings that are none of `words` as they are spelled here. REQUIRES: letters
  // alone; is_json().
  Ebnf::Node StringRestBut(const std::vector<std::string_view>& words);
  // A string of `least` to `most` characters. An escape counts as the characters that it is written
  // with, up to the last one, which only has to begin within the limit: so a string is never longer
  // than `most`, and may have to be shorter.
  Ebnf::Node LimitedString(int least, int most);
  Ebnf::Node String();
  // A character of a string as it is written, before `next`.
  Ebnf::Node Character(Ebnf::Node next);
  Ebnf::Node Integer();  // At most 18 digits.
  Ebnf::Node
  Number();  // At most 18 digits before the point and 17 behind it; exponents of two digits.
  Ebnf::Node Boolean();
  Ebnf::Node Null();
  Ebnf::Node Any();
  // This value, in one spelling. Nullopt: it has a mark in a string.
  std::optional<Ebnf::Node> Value(const nlohmann::ordered_json& value);

  // What has members.
  enum class Holder : uint8_t { kObject, kCall };
  // The holder of a call's arguments: kCall if the syntax has them as (key=value), or else an
  // object.
  Holder arguments() const { return syntax_.python ? Holder::kCall : Holder::kObject; }
  static std::string_view Brackets(Holder holder) { return holder == Holder::kCall ? "()" : "{}"; }
  // A member's key. Nullopt: there cannot be one of that name.
  std::optional<Ebnf::Node> Key(std::string_view name, Holder holder);
  // Keys of no certain name. The readers do not take those of 64 KiB without quotation marks, but
  // to count characters takes a hundred times the work.
  Ebnf::Node AnyKey(Holder holder);
  Ebnf::Node Pair(Ebnf::Node key, Ebnf::Node value, Holder holder);
  // Members whose keys are `key`s and whose values are `value`s; `least` to `most` of them.
  Ebnf::Node Object(Ebnf::Node key, Ebnf::Node value, int least, int most,
                    Holder holder = Holder::kObject);
  // An array whose first items are `first`, each of which may be the last from `least` on. Behind
  // them come `rest`s.
  Ebnf::Node Array(const std::vector<Ebnf::Node>& first, std::optional<Ebnf::Node> rest, int least,
                   int most);

  struct Member {
    Ebnf::Node text;
    bool required;
  };
  // An object, a call or an array, by its brackets: `least` to `most` of the members, in their
  // order. Nullopt: the required ones are too many, or all of them too few.
  std::optional<Ebnf::Node> Members(std::string_view brackets, const std::vector<Member>& members,
                                    int least, int most);

 private:
  Ebnf::Node Escape();
  // As Character, but for these letters.
  Ebnf::Node CharacterBut(const std::set<char>& letters, Ebnf::Node next);
  Ebnf::Node Word(bool value);
  Ebnf::Node RestToMark();

  Ebnf* const ebnf_;
  const Spaces spaces_;
  const Syntax syntax_;
  std::optional<Ebnf::Node> rest_;       // StringRest(0).
  std::optional<Ebnf::Node> unlimited_;  // Characters, for LimitedString.
  std::optional<Ebnf::Node> to_mark_;    // RestToMark().
  std::optional<Ebnf::Node> any_;
};

}  // namespace ropeway::grammar

#endif  // ROPEWAY_GRAMMAR_JSON_RULES_H_
