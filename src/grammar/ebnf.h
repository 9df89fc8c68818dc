// A grammar while it is being written: rules whose parts can be asked about before they become EBNF
// text.
#ifndef ROPEWAY_GRAMMAR_EBNF_H_
#define ROPEWAY_GRAMMAR_EBNF_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ropeway/request.h"

namespace ropeway::grammar {

// Equal parts are one node, and equal rules are one rule, so that the masks of both are computed
// once. Not thread-safe.
class Ebnf {
 public:
  using Node = int32_t;
  using Rule = int32_t;
  static constexpr int kNoLimit = -1;

  Ebnf();

  // These bytes, in UTF-8; none: the empty text.
  Node Literal(std::string_view text);
  // One character of a class in brackets, such as "[0-9a-f]".
  Node Class(std::string_view brackets);
  // One character of all but NUL and these, which are ASCII.
  Node ClassBut(std::string_view excluded);
  Node Sequence(const std::vector<Node>& parts);
  // REQUIRES: `ways` is not empty.
  Node Choice(const std::vector<Node>& ways);
  Node Optional(Node part) { return Choice({part, empty_}); }
  // `part`, `least` to `most` times in a row.
  Node Repeat(Node part, int least, int most);
  Node Call(Rule rule);
  // One of these tokens, whatever its text.
  Node Token(const std::vector<TokenId>& ids);
  // Any token that has a text but for these.
  Node TokenBut(const std::vector<TokenId>& ids);
  // Any text, in which each `mark` is followed by `then`; not `again`: the first mark, and with
  // `then` the text ends. Part of a mark is text. It must be all of a rule's body, but not of the
  // root's: xgrammar would take fifty times the memory.
  Node Behind(std::string_view mark, Rule then, bool again);
  // The same for a token.
  Node Behind(TokenId mark, Rule then, bool again);

  // A new rule, to be defined later: for rules that call themselves.
  Rule Declare();
  void Define(Rule rule, Node body) { rules_[static_cast<size_t>(rule)].body = body; }
  // A call of the rule that has this body and is at most `max_characters` long. The limit cuts the
  // rule off wherever it is, so the body must be able to end behind each character.
  Node Shared(Node body, int max_characters = kNoLimit);

  // The size of the text so far, about.
  size_t bytes() const { return bytes_; }

  // Rules that call each other in a circle, without a character between; none: there are no such
  // rules.
  std::vector<Rule> FindLeftRecursion(Rule root) const;
  // Whether a text of the node may begin with `text`, which is not empty; true also where that
  // would take long to find out. REQUIRES: all rules are defined, recur only behind a character,
  // and have no tokens.
  bool MayBegin(Node node, std::string_view text) const;
  // Rules that no finite text matches.
  std::vector<Rule> FindEndless(Rule root) const;

  // The text of the rules that `root` needs; it is called "root" there, the others "r1" and so on.
  // REQUIRES: all of them are defined.
  std::string Print(Rule root) const;

 private:
  enum class Kind : uint8_t {
    kLiteral,
    kClass,
    kSequence,
    kChoice,
    kRepeat,
    kCall,
    kToken,
    kBehind
  };
  struct Part {
    Kind kind = Kind::kLiteral;
    std::string text = {};         // kLiteral, kClass; of kToken and kBehind the beginning.
    std::vector<Node> parts = {};  // kSequence, kChoice; one: kRepeat.
    int least = 0;                 // kRepeat.
    int most = kNoLimit;           // kRepeat.
    bool again = false;            // kBehind.
    Rule rule = -1;                // kCall, kBehind.
    bool operator<(const Part& other) const;
  };
  struct RuleBody {
    std::optional<Node> body;
    int max_characters = kNoLimit;
  };

  class Beginning;

  const Part& At(Node node) const { return *parts_[static_cast<size_t>(node)]; }
  Node Intern(Part part);
  Node Tokens(std::string_view macro, const std::vector<TokenId>& ids);
  std::vector<Rule> Reachable(Rule root) const;
  template <typename Fn>
  void ForEachCall(Node node, Fn&& fn) const;
  // Which texts are asked about.
  enum class Texts : uint8_t { kAny, kEmpty };
  // Whether the node has a finite text of these, by the rules that are known to have one.
  bool HasText(Node node, Texts texts, const std::vector<bool>& rules) const;
  // By rule: asked until nothing changes.
  std::vector<bool> RulesWithText(const std::vector<Rule>& rules, Texts texts) const;
  void LeftCalls(Node node, const std::vector<bool>& nullable, std::vector<Rule>* calls) const;
  bool IsOptional(const Part& part) const {
    return part.kind == Kind::kChoice && part.parts.size() == 2 && part.parts[1] == empty_;
  }
  void PrintElement(Node node, const std::vector<int>& names, std::string* text) const;
  void PrintNode(Node node, const std::vector<int>& names, bool nested, std::string* text) const;

  std::map<Part, Node> index_;
  std::vector<const Part*> parts_;  // By node; keys of index_.
  std::vector<RuleBody> rules_;
  std::map<std::pair<Node, int>, Rule> shared_;
  size_t bytes_ = 0;
  const Node empty_;  // After the members that making it needs.
};

}  // namespace ropeway::grammar

#endif  // ROPEWAY_GRAMMAR_EBNF_H_
