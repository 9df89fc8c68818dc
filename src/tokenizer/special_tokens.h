// The tokens that are written out in a text, such as "<|im_end|>".
#ifndef ROPEWAY_TOKENIZER_SPECIAL_TOKENS_H_
#define ROPEWAY_TOKENIZER_SPECIAL_TOKENS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "ropeway/request.h"

namespace ropeway::tokenizer {

// Texts as paths from a root, byte by byte. Const and thread-safe once filled.
class ByteTrie {
 public:
  static constexpr uint32_t kRoot = 0;
  static constexpr uint32_t kNone = 0;  // The root is no child.

  ByteTrie();

  // The node of `text`, made if there is none.
  uint32_t Add(std::string_view text);
  // The node of the text of `node` with `byte` behind it, or kNone.
  uint32_t Child(uint32_t node, uint8_t byte) const;
  size_t nodes() const { return nodes_.size(); }

 private:
  struct Node {
    uint32_t first_child = kNone;
    uint32_t next_sibling = kNone;
    uint8_t byte = 0;
  };

  std::array<uint32_t, 256> roots_{};  // The root's children by their bytes.
  std::vector<Node> nodes_;
};

// A set of token texts that are recognised in a text. Const and thread-safe once filled.
class SpecialTokens {
 public:
  struct Found {
    size_t begin = 0;
    size_t length = 0;
    TokenId id = 0;
  };

  struct Kind {
    bool control = false;
    bool behind_space = false;
  };
  struct Limits {
    size_t control_until = std::string_view::npos;  // Control tokens end by it.
    // Tokens that stand behind a space do so behind one in text[segment...], or at `segment` itself
    // if a space is written before it.
    size_t segment = 0;
    bool segment_has_prefix = false;
  };

  // REQUIRES: `text` is not empty. If texts are equal, the first one added counts.
  void Add(std::string_view text, TokenId id) { Add(text, id, Kind()); }
  void Add(std::string_view text, TokenId id, Kind kind);

  // The first token in `text` that begins in [from, to), the longest of those at the same position.
  std::optional<Found> FindFirst(std::string_view text, size_t from,
                                 size_t to = std::string_view::npos) const {
    return FindFirst(text, from, to, Limits());
  }
  std::optional<Found> FindFirst(std::string_view text, size_t from, size_t to,
                                 const Limits& limits) const;

 private:
  struct Token {
    TokenId id = -1;  // The id of the node's text; -1: it is not a token.
    Kind kind;
  };

  ByteTrie trie_;
  std::vector<Token> tokens_ = {Token()};  // By the trie's node.
};

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_SPECIAL_TOKENS_H_
