#include "tokenizer/special_tokens.h"

#include <algorithm>

#include "tokenizer/characters.h"

namespace ropeway::tokenizer {

ByteTrie::ByteTrie() : nodes_(1) {}

uint32_t ByteTrie::Child(uint32_t node, uint8_t byte) const {
  if (node == kRoot) return roots_[byte];
  uint32_t child = nodes_[node].first_child;
  while (child != kNone && nodes_[child].byte != byte) child = nodes_[child].next_sibling;
  return child;
}

uint32_t ByteTrie::Add(std::string_view text) {
  uint32_t node = kRoot;
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    uint32_t child = Child(node, byte);
    if (child == kNone) {
      child = static_cast<uint32_t>(nodes_.size());
      nodes_.push_back({.byte = byte});
      if (node == kRoot) {
        roots_[byte] = child;
      } else {
        nodes_[child].next_sibling = nodes_[node].first_child;
        nodes_[node].first_child = child;
      }
    }
    node = child;
  }
  return node;
}

void SpecialTokens::Add(std::string_view text, TokenId id, Kind kind) {
  const uint32_t node = trie_.Add(text);
  tokens_.resize(trie_.nodes());
  if (tokens_[node].id < 0) tokens_[node] = {id, kind};
}

std::optional<SpecialTokens::Found> SpecialTokens::FindFirst(std::string_view text, size_t from,
                                                             size_t to,
                                                             const Limits& limits) const {
  const auto may_be = [&](const Kind& kind, size_t begin, size_t end) {
    if (kind.control && end > limits.control_until) return false;
    if (!kind.behind_space) return true;
    return begin <= limits.segment
               ? limits.segment_has_prefix
               : LastSpace(text.substr(limits.segment, begin - limits.segment)) > 0;
  };
  to = std::min(to, text.size());
  for (size_t begin = from; begin < to; ++begin) {
    std::optional<Found> longest;
    uint32_t node = ByteTrie::kRoot;
    for (size_t end = begin; end < text.size(); ++end) {
      node = trie_.Child(node, static_cast<uint8_t>(text[end]));
      if (node == ByteTrie::kNone) break;
      const Token& token = tokens_[node];
      if (token.id >= 0 && may_be(token.kind, begin, end + 1)) {
        longest = Found{begin, end + 1 - begin, token.id};
      }
    }
    if (longest.has_value()) return longest;
  }
  return std::nullopt;
}

}  // namespace ropeway::tokenizer
