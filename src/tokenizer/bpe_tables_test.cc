#include "tokenizer/bpe_tables.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace ropeway::tokenizer {
namespace {

using MergedIds = std::vector<TokenId>;

// The definition: always the lowest rank, the leftmost of equals.
void MergeNaively(const std::vector<Merge>& merges, MergedIds& ids) {
  while (true) {
    size_t best_rank = merges.size();
    size_t best_at = 0;
    for (size_t at = 0; at + 1 < ids.size(); ++at) {
      for (size_t rank = 0; rank < best_rank; ++rank) {
        if (merges[rank].left == ids[at] && merges[rank].right == ids[at + 1]) {
          best_rank = rank;
          best_at = at;
        }
      }
    }
    if (best_rank == merges.size()) return;
    ids[best_at] = merges[best_rank].merged;
    ids.erase(ids.begin() + static_cast<ptrdiff_t>(best_at) + 1);
  }
}

TEST(MergeTableTest, AgreesWithTheDefinitionAtAnyLength) {
  std::mt19937 random(1);
  for (int round = 0; round < 400; ++round) {
    std::vector<Merge> merges;
    TokenId next = 3;
    while (next < 20) {
      const Merge merge = {static_cast<TokenId>(random() % static_cast<unsigned>(next)),
                           static_cast<TokenId>(random() % static_cast<unsigned>(next)), next};
      bool known = false;
      for (const Merge& other : merges) {
        known |= other.left == merge.left && other.right == merge.right;
      }
      if (!known) merges.push_back(merge), ++next;
    }
    const MergeTable table(merges);
    MergedIds ids(random() % 120);
    for (TokenId& id : ids) id = static_cast<TokenId>(random() % 3);
    MergedIds expected = ids;
    MergeNaively(merges, expected);
    table.Apply(ids);
    ASSERT_EQ(ids, expected);
  }
}

TEST(MergeTableTest, AnEmptyTableMergesNothing) {
  MergedIds ids(100, 0);
  MergeTable({}).Apply(ids);
  EXPECT_EQ(ids, MergedIds(100, 0));
  MergedIds none;
  MergeTable({}).Apply(none);
  EXPECT_TRUE(none.empty());
}

}  // namespace

}  // namespace ropeway::tokenizer
