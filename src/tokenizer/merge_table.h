// The merges of a BPE vocabulary, and how a piece of text is merged.
#ifndef ROPEWAY_TOKENIZER_MERGE_TABLE_H_
#define ROPEWAY_TOKENIZER_MERGE_TABLE_H_

#include <cstdint>
#include <vector>

#include "ropeway/request.h"

namespace ropeway {

// A merge: two tokens that lie side by side become one. The lowest rank goes first.
struct Merge {
  TokenId left = 0;
  TokenId right = 0;
  TokenId merged = 0;
};

// Const and thread-safe after construction.
class MergeTable {
 public:
  // `merges` in order of rank; of two equal pairs the later one counts, as where it is written into
  // a map. REQUIRES: ids >= 0; fewer than 2^31 merges.
  explicit MergeTable(const std::vector<Merge>& merges);

  // Merges `ids` (a piece, one token per byte) in place until no pair of neighbours is in the
  // table: always the pair of lowest rank, the leftmost of equals. O(n log n). REQUIRES: fewer than
  // 2^31 ids.
  void Apply(std::vector<TokenId>& ids) const;

 private:
  struct Slot {
    uint64_t pair = kEmpty;  // left << 32 | right
    uint32_t rank = 0;
    TokenId merged = 0;
  };
  static constexpr uint64_t kEmpty = ~uint64_t{0};

  const Slot* Find(TokenId left, TokenId right) const;
  size_t SlotOf(uint64_t pair) const;
  void ApplyShort(std::vector<TokenId>& ids) const;
  void ApplyLong(std::vector<TokenId>& ids) const;

  std::vector<Slot> slots_;  // Open addressing, at most half full, a power of two of slots.
  unsigned shift_ = 0;
};

}  // namespace ropeway

#endif  // ROPEWAY_TOKENIZER_MERGE_TABLE_H_
