// Finds tokens that are written out in a text, such as "<|im_end|>".
#ifndef ROPEWAY_TOKENIZER_SPECIAL_TOKENS_H_
#define ROPEWAY_TOKENIZER_SPECIAL_TOKENS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "ropeway/request.h"

namespace ropeway {

// A set of token texts. Const and thread-safe once filled.
class SpecialTokens {
 public:
  struct Found {
    size_t begin = 0;
    size_t length = 0;
    TokenId id = 0;
  };

  SpecialTokens();

  // REQUIRES: `text` is not empty. Of equal texts the first one added counts.
  void Add(std::string_view text, TokenId id);

  // The first token in `text` at or after `from`; of several that begin there, the longest.
  std::optional<Found> FindFirst(std::string_view text, size_t from) const;

 private:
  struct Node {
    TokenId id = -1;           // The token whose text ends here; -1: none.
    uint32_t first_child = 0;  // 0: none (the root is nobody's child).
    uint32_t next_sibling = 0;
    uint8_t byte = 0;
  };

  uint32_t Child(uint32_t node, uint8_t byte) const;

  std::array<uint32_t, 256> roots_{};  // By the text's first byte; 0: no token begins so.
  std::vector<Node> nodes_;
};

}  // namespace ropeway

#endif  // ROPEWAY_TOKENIZER_SPECIAL_TOKENS_H_
