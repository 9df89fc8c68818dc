// From regular expressions (regex_tree.h has the supported part) to grammars.
#ifndef ROPEWAY_GRAMMAR_PATTERN_EBNF_H_
#define ROPEWAY_GRAMMAR_PATTERN_EBNF_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "grammar/ebnf.h"
#include "grammar/json_rules.h"
#include "grammar/regex_tree.h"
#include "grammar/schema_tree.h"
#include "ropeway/status.h"

namespace ropeway::grammar {

// The grammar of the texts that match `regex` as a whole, with or without anchors. They are written
// as they are, and not as JSON strings. kInvalidArgument: `regex` is not supported, is too large or
// matches the empty text alone.
StatusOr<std::string> PatternEbnf(std::string_view regex);
// The same as a part of a larger grammar. Its size is for the caller to bound.
StatusOr<Ebnf::Node> PatternText(std::string_view regex, Ebnf* ebnf);

// Writes expressions into one grammar. Not thread-safe.
class PatternWriter {
 public:
  // How a character is written: in a string of `json` or as it is. `ebnf` must outlive it; `json`
  // may be null where no strings are asked for.
  PatternWriter(Ebnf* ebnf, JsonRules* json)
      : ebnf_(ebnf), json_(json), bytes_before_(ebnf->bytes()) {}

  // The strings in which the keyword `pattern` of `place` finds a match. Each matched
  // character has one spelling. Throws Rejected, also where the length of the match may break
  // minLength or maxLength.
  Ebnf::Node String(const Place& place);
  // The strings that match as a whole: what the keyword `format` of `place` asks for. Throws
  // Rejected where their length may break minLength or maxLength. REQUIRES: `regex` is supported.
  Ebnf::Node WholeString(const Place& place, std::string_view regex);
  // The texts that match as a whole. Throws Rejected.
  Ebnf::Node WholeText(std::string_view regex);

 private:
  // Some 20 states of the parser's automaton for each.
  static constexpr int kMaxSteps = 10'000;
  // Counts above it are held by a limit and not by a rule for each character: that compiles in a
  // hundredth of the time, but the masks of the last tokens take 2 to 20 ms.
  static constexpr int kLongRun = 64;
  static constexpr int kLongWideRun = 8;

  Ebnf::Node OneOf(const std::vector<RegexWay>& ways, Ebnf::Node next);
  // What matches before `next`; without matches of the empty text, if `filled`. nullopt: nothing.
  std::optional<Ebnf::Node> Write(const Regex& regex, Ebnf::Node next, bool filled);
  std::optional<Ebnf::Node> WriteSequence(const Regex& regex, Ebnf::Node next, bool filled);
  std::optional<Ebnf::Node> WriteChoice(const Regex& regex, Ebnf::Node next, bool filled);
  std::optional<Ebnf::Node> WriteRepeat(const Regex& regex, Ebnf::Node next, bool filled);
  std::optional<Ebnf::Node> WriteRun(const CharacterSet& set, int least, int most, Ebnf::Node next);
  // One character of the set, as it is written, before `next`.
  Ebnf::Node Character(const CharacterSet& set, Ebnf::Node next);
  // JsonRules::left_out().
  CharacterSet LeftOut() const;
  // The part of the set that is written raw.
  CharacterSet Raw(const CharacterSet& set) const;
  void Spend(int steps);

  Ebnf* const ebnf_;
  JsonRules* const json_;
  const size_t bytes_before_;
  bool escapes_ = true;  // As JSON does.
  int steps_ = 0;
  // By the node's address, while its tree lives.
  std::map<std::tuple<const Regex*, Ebnf::Node, bool>, std::optional<Ebnf::Node>> written_;
};

}  // namespace ropeway::grammar

#endif  // ROPEWAY_GRAMMAR_PATTERN_EBNF_H_
