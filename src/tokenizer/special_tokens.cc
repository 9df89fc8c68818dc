#include "tokenizer/special_tokens.h"

namespace ropeway {

SpecialTokens::SpecialTokens() : nodes_(1) {}

uint32_t SpecialTokens::Child(uint32_t node, uint8_t byte) const {
  uint32_t child = nodes_[node].first_child;
  while (child != 0 && nodes_[child].byte != byte) child = nodes_[child].next_sibling;
  return child;
}

void SpecialTokens::Add(std::string_view text, TokenId id) {
  uint32_t node = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    uint32_t child = i == 0 ? roots_[byte] : Child(node, byte);
    if (child == 0) {
      child = static_cast<uint32_t>(nodes_.size());
      nodes_.push_back({.byte = byte});
      if (i == 0) {
        roots_[byte] = child;
      } else {
        nodes_[child].next_sibling = nodes_[node].first_child;
        nodes_[node].first_child = child;
      }
    }
    node = child;
  }
  if (nodes_[node].id < 0) nodes_[node].id = id;
}

std::optional<SpecialTokens::Found> SpecialTokens::FindFirst(std::string_view text,
                                                             size_t from) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    uint32_t node = roots_[static_cast<uint8_t>(text[begin])];
    std::optional<Found> longest;
    for (size_t end = begin + 1; node != 0; ++end) {
      if (nodes_[node].id >= 0) longest = Found{begin, end - begin, nodes_[node].id};
      if (end == text.size()) break;
      node = Child(node, static_cast<uint8_t>(text[end]));
    }
    if (longest.has_value()) return longest;
  }
  return std::nullopt;
}

}  // namespace ropeway
