// Regular expressions, read into a tree: the part of ECMA 262's and Python's `re` that both read
// alike.
//
// Supported are characters, `.`, classes with ranges and negation, the escapes \d \D \w \W \s \S \t
// \n \v \f \r \xHH \uHHHH and those of punctuation, groups `(...)` and `(?:...)`, alternatives, the
// quantifiers * + ? {m} {m,} {m,n}, also lazy ones, and the anchors ^ and $ at the ends of the
// expression or of its alternatives.
//
// Where the two readings differ, a set holds only the characters that both of them match.
#ifndef ROPEWAY_GRAMMAR_REGEX_TREE_H_
#define ROPEWAY_GRAMMAR_REGEX_TREE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ropeway::grammar {

inline constexpr size_t kMaxRegexCharacters = 1'024;
inline constexpr int kMaxRegexNesting = 16;      // Groups in groups.
inline constexpr int kMaxRegexRepeats = 100;     // Counts of groups.
inline constexpr int kMaxRegexSetRepeats = 256;  // Counts of single characters and classes.

// Ranges of Unicode characters, in order, apart from each other and without surrogates.
class CharacterSet {
 public:
  using Range = std::pair<char32_t, char32_t>;  // First and last.

  CharacterSet() = default;
  explicit CharacterSet(std::vector<Range> ranges);

  const std::vector<Range>& ranges() const { return ranges_; }
  bool empty() const { return ranges_.empty(); }
  bool Has(char32_t c) const;
  bool operator==(const CharacterSet& other) const = default;

  CharacterSet Or(const CharacterSet& other) const;
  CharacterSet And(const CharacterSet& other) const;
  // All other characters.
  CharacterSet Not() const;

 private:
  std::vector<Range> ranges_;
};

struct Regex {
  enum class Kind : uint8_t { kSet, kSequence, kChoice, kRepeat };
  static constexpr int kNoLimit = -1;

  Kind kind = Kind::kSequence;
  CharacterSet set = {};          // kSet: not empty.
  std::vector<Regex> parts = {};  // kSequence, kChoice; one: kRepeat.
  int least = 0;                  // kRepeat.
  int most = kNoLimit;            // kRepeat.
  // The lengths of the texts that match, in characters. kNoLimit: any.
  int shortest = 0;
  int longest = 0;
};

// An alternative of an expression.
struct RegexWay {
  bool from_start = false;  // It began with ^.
  bool to_end = false;      // It ended with $.
  Regex body;
};

// Throws Rejected for what is not supported; the message has the position, in characters from 0.
std::vector<RegexWay> ReadRegex(std::string_view text);

}  // namespace ropeway::grammar

#endif  // ROPEWAY_GRAMMAR_REGEX_TREE_H_
