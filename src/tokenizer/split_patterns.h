// The split patterns of families of models, by the names in tokenizer.ggml.pre.
#ifndef ROPEWAY_TOKENIZER_SPLIT_PATTERNS_H_
#define ROPEWAY_TOKENIZER_SPLIT_PATTERNS_H_

#include <string>
#include <string_view>
#include <vector>

namespace ropeway::tokenizer {

// What a split pattern's "." stands for.
enum class SplitUnit {
  kCharacters,
  kBytes,  // Where a family splits what byte-level BPE has made of a text.
};

struct SplitExpression {
  std::string_view text;  // As in Hugging Face's tokenizer files.
  SplitUnit unit = SplitUnit::kCharacters;
};

struct SplitFamily {
  std::string_view name;
  std::vector<SplitExpression> expressions;  // Each splits the pieces of the one before.
  bool ignore_merges = false;                // Whether a piece that is a token becomes that token.
  bool adds_bos = false;  // Whether texts begin with the bos token if the file does not say.
};

// The family that converters have called so; nullptr: an unknown name. Files without a name are
// older than the names, when there were GPT-2's patterns alone.
const SplitFamily* FindSplitFamily(std::string_view name);

// Whether a family splits characters by `expression`; none of those looks at a text over and over.
bool IsFamilyExpression(std::string_view expression);

// Whether `expression` matches all of any text. The expressions of families without another do.
bool MatchesAllText(std::string_view expression);

// The names of all families.
std::string SplitFamilyNames();

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_SPLIT_PATTERNS_H_
