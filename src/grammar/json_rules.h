// The rules of JSON's values.
#ifndef ROPEWAY_GRAMMAR_JSON_RULES_H_
#define ROPEWAY_GRAMMAR_JSON_RULES_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "grammar/ebnf.h"

namespace ropeway::grammar {

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

  explicit JsonRules(Ebnf* ebnf, Spaces spaces = Spaces::kAny) : ebnf_(ebnf), spaces_(spaces) {}

  Ebnf::Node Space();
  // Behind a colon or a comma.
  Ebnf::Node Gap();
  // What follows a string's opening quotation mark, with the closing one: `least` characters or
  // more.
  Ebnf::Node StringRest(int least = 0);
  // The same, for strings that are none of `words` as they are spelled here. REQUIRES: letters
  // alone.
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
  Ebnf::Node Any();
  // An object whose keys are `key`s and whose values are `value`s; `least` to `most` members.
  Ebnf::Node Object(Ebnf::Node key, Ebnf::Node value, int least, int most);
  // An array whose first items are `first`, each of which may be the last from `least` on. Behind
  // them come `rest`s.
  Ebnf::Node Array(const std::vector<Ebnf::Node>& first, std::optional<Ebnf::Node> rest, int least,
                   int most);

  struct Member {
    Ebnf::Node text;
    bool required;
  };
  // An object or an array, by its brackets: `least` to `most` of the members, in their order.
  // Nullopt: the required ones are too many, or all of them too few.
  std::optional<Ebnf::Node> Members(std::string_view brackets, const std::vector<Member>& members,
                                    int least, int most);

 private:
  Ebnf::Node Escape();
  // As Character, but for these letters.
  Ebnf::Node CharacterBut(const std::set<char>& letters, Ebnf::Node next);

  Ebnf* const ebnf_;
  const Spaces spaces_;
  std::optional<Ebnf::Node> rest_;       // StringRest(0).
  std::optional<Ebnf::Node> unlimited_;  // Characters, for LimitedString.
  std::optional<Ebnf::Node> any_;
};

}  // namespace ropeway::grammar

#endif  // ROPEWAY_GRAMMAR_JSON_RULES_H_
