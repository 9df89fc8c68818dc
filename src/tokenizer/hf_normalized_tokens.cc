#include "tokenizer/hf_normalized_tokens.h"

#include <string>
#include <string_view>

#include "base/utf8.h"
#include "tokenizer/characters.h"
#include "tokenizer/hf_fields.h"
#include "tokenizer/special_tokens.h"
#include "tokenizer/unicode_form.h"

namespace ropeway::tokenizer {
namespace {

Status NormalizedLacks(const AddedToken& token, const std::string& what) {
  return {StatusCode::kUnimplemented, token.field + ": normalized is not supported " + what,
          token.field};
}

// Whether the composed form of a text has `text` only where the text has it: none of its characters
// is a composed one or joins the one before it. (What may join its last one is not known here.)
bool IsKeptByNfc(std::string_view text) {
  std::u32string decomposed;
  for (size_t at = 0; at < text.size();) {
    const base::Utf8Step step = base::StepUtf8(text, at);
    if (step.kind != base::Utf8Kind::kValid) return false;
    const char32_t c = step.code_point;
    const CharacterKind kind = KindOf(c);
    const bool jamo = c >= 0x1100 && c <= 0x11FF;  // Hangul's letters, which join.
    if (jamo || kind == CharacterKind::kNonspacingMark || kind == CharacterKind::kMark)
      return false;
    decomposed.clear();
    AppendDecomposed(c, &decomposed);
    if (decomposed != std::u32string(1, c)) return false;
    at += step.length;
  }
  return true;
}

// Whether the normalizer changes where the token is found, but for a space in front.
Status CheckNormalizedToken(const AddedToken& token, const TextSteps& steps) {
  if (steps.form != TextForm::kAsIs && !IsKeptByNfc(token.text)) {
    return NormalizedLacks(
        token, "beside the normalizer NFC where it composes a character of the content");
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
