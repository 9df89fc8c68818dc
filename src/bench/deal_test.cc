#include "bench/deal.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ropeway {
namespace {

TEST(DealKinds, GivesEachItsPartInAnyOrder) {
  const std::vector<int> kinds = DealKinds(3, 500, {20, 15, 0});
  ASSERT_EQ(kinds.size(), 500U);
  EXPECT_EQ(std::count(kinds.begin(), kinds.end(), 0), 286);
  EXPECT_EQ(std::count(kinds.begin(), kinds.end(), 1), 214);
  EXPECT_FALSE(std::is_sorted(kinds.begin(), kinds.end()));
  EXPECT_EQ(kinds, DealKinds(3, 500, {20, 15, 0}));
  EXPECT_NE(kinds, DealKinds(4, 500, {20, 15, 0}));
  const std::vector<int> thirds = DealKinds(3, 600, {1, 1, 1});
  for (const int kind : {0, 1, 2}) EXPECT_EQ(std::count(thirds.begin(), thirds.end(), kind), 200);
  EXPECT_EQ(DealKinds(3, 7, {1}), std::vector<int>(7, 0));
}

}  // namespace
}  // namespace ropeway
