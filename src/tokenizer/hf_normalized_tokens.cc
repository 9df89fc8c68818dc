#include "tokenizer/hf_normalized_tokens.h"

#include <string>
#include <string_view>

#include "tokenizer/characters.h"
#include "tokenizer/hf_fields.h"
#include "tokenizer/special_tokens.h"

namespace ropeway::tokenizer {
namespace {

Status NormalizedLacks(const AddedToken& token, const std::string& what) {
  return {StatusCode::kUnimplemented, token.field + ": normalized is not supported " + what,
          token.field};
}

// Whether the normalizer changes where the token is found, but for a space in front.
Status CheckNormalizedToken(const AddedToken& token, const TextSteps& steps) {
  if (steps.form != TextForm::kAsIs) {
    return NormalizedLacks(token, "beside the normalizer NFC");
  }
  if (steps.normalizes_prefix && !steps.normalizes_spaces) {
    return NormalizedLacks(token, "beside a normalizer that prepends U+2581 and replaces no space");
  }
  if (!steps.normalizes_spaces) return {};
  if (token.strips_left || token.strips_right) {
    return NormalizedLacks(token, "with lstrip or rstrip where the normalizer replaces spaces");
  }
  if (token.text.find(' ') != std::string::npos ||
      token.text.find(kSpaceSymbol) != std::string::npos) {
    return NormalizedLacks(token,
                           "with a space in its content where the normalizer replaces spaces");
  }
  return {};
}

// The tokens that are not normalized are looked for first. So none may lie in, or reach into, a
// normalized one that begins before it or is longer: the texts decide.
class FirstTokens {
 public:
  explicit FirstTokens(const std::map<TokenId, AddedToken>& tokens) {
    for (const auto& [id, token] : tokens) {
      if (token.normalized || token.text.empty()) continue;
      const uint32_t node = trie_.Add(token.text);
      ends_.resize(trie_.nodes());
      ends_[node] = true;
    }
  }

  bool Disturb(std::string_view text) const {
    for (size_t begin = 0; begin < text.size(); ++begin) {
      uint32_t node = ByteTrie::kRoot;
      size_t end = begin;
      for (; end < text.size(); ++end) {
        node = trie_.Child(node, static_cast<uint8_t>(text[end]));
        if (node == ByteTrie::kNone) break;
        const bool whole = begin == 0 && end + 1 == text.size();
        if (ends_[node] && !whole) return true;
      }
      if (end == text.size() && begin > 0) return true;
    }
    return false;
  }

 private:
  ByteTrie trie_;
  std::vector<bool> ends_ = {false};  // Whether a token ends, by the trie's node.
};

}  // namespace

StatusOr<std::vector<TokenId>> TokensBehindSpace(const std::map<TokenId, AddedToken>& tokens,
                                                 const TextSteps& steps) {
  const FirstTokens first(tokens);
  std::vector<TokenId> behind_space;
  for (const auto& [id, token] : tokens) {
    if (!token.normalized || token.text.empty()) continue;
    if (Status status = CheckNormalizedToken(token, steps); !status.ok()) return status;
    if (first.Disturb(token.text)) {
      return NormalizedLacks(token, "where a token that is not normalized overlaps its content");
    }
    if (steps.normalizes_prefix) behind_space.push_back(id);
  }
  return behind_space;
}

}  // namespace ropeway::tokenizer
