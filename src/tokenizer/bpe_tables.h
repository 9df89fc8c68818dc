// The parts of BPE: the alphabet of byte-level BPE, and the table of merges.
#ifndef ROPEWAY_TOKENIZER_BPE_TABLES_H_
#define ROPEWAY_TOKENIZER_BPE_TABLES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ropeway/request.h"
#include "tokenizer/work.h"

namespace ropeway::tokenizer {

// The alphabet of byte-level BPE (from GPT-2) writes each byte as one printable character, so that
// tokens are text in a file. Bytes that are printable in Latin-1 are themselves; the other 68 are
// U+0100, U+0101, ... in order of the byte.

// The character (UTF-8) for `byte`.
std::string_view ByteToLetter(uint8_t byte);

// The characters for `bytes`.
std::string ToByteLetters(std::string_view bytes);

// The bytes of `letters`; nullopt if a character of it is not in the alphabet.
std::optional<std::string> FromByteLetters(std::string_view letters);

// A merge: two adjacent tokens become one. The lowest rank is applied first.
struct Merge {
  TokenId left = 0;
  TokenId right = 0;
  TokenId merged = 0;
};

// The merges of a vocabulary. Const and thread-safe after construction.
class MergeTable {
 public:
  // `merges` in order of rank; of two equal pairs the later one counts. REQUIRES: ids >= 0; fewer
  // than 2^31 merges.
  explicit MergeTable(const std::vector<Merge>& merges);
  // With a rank below 2^31 for each of them; several may have the same.
  MergeTable(const std::vector<Merge>& merges, const std::vector<uint32_t>& ranks);

  // Merges `ids` (a piece, one token per byte or character) until no adjacent pair is in the table:
  // always the pair of lowest rank, the leftmost of equals. O(n log n). REQUIRES: fewer than 2^31
  // ids.
  void Apply(std::vector<TokenId>& ids) const;

  // The merging of one long piece, in parts: Add its ids, Run until it returns true, then Take
  // until that does. Takes 20 bytes of memory per id.
  class LongMerge {
   public:
    // `table` must outlive it. `most`: ids that will be added; fewer than 2^31.
    LongMerge(const MergeTable* table, size_t most);

    void Add(TokenId id);
    // Whether nothing is left to merge.
    bool Run(Work* work);
    // Moves the merged ids to the end of `ids`. Whether all are there.
    bool Take(Work* work, std::vector<TokenId>* ids);
    // The memory that it takes.
    size_t bytes() const;

   private:
    // A token in a doubly linked list; a merge keeps the left one and unlinks the right one.
    struct Node {
      TokenId id;
      uint32_t previous;
      uint32_t next;
    };

    // Notes that the pair at `at` may merge.
    void Offer(uint32_t at);

    const MergeTable* const table_;
    std::vector<Node> nodes_;
    // Adjacent pairs that may merge, each as one number: its rank, then the position of its left
    // token. The lowest, which is on top, is merged first. It is stale once one of the two has
    // merged with another token: then the pair at this position has another rank, or one of the
    // same rank that may merge as well.
    std::vector<uint64_t> heap_;
    uint32_t taken_ = 0;  // The next one to Take.
  };

 private:
  struct Slot {
    uint64_t pair = kEmpty;  // left << 32 | right
    uint32_t rank = 0;
    TokenId merged = 0;
  };
  static constexpr uint64_t kEmpty = ~uint64_t{0};

  void MakeRoom(size_t merges);
  void Add(const Merge& merge, uint32_t rank);
  const Slot* Find(TokenId left, TokenId right) const;
  size_t SlotOf(uint64_t pair) const;
  void ApplyShort(std::vector<TokenId>& ids) const;

  std::vector<Slot> slots_;  // Open addressing, at most half full, a power of two of slots.
  unsigned shift_ = 0;
};

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_BPE_TABLES_H_
