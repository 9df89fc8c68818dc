#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "sampling/sampler.h"
#include "sampling/test_values.h"

namespace ropeway::sampling {
namespace {

std::vector<TokenId> PlainOrder(const std::vector<float>& keys) {
  std::vector<TokenId> ids(keys.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto key = [&](TokenId id) {
    const float k = keys[static_cast<size_t>(id)];
    return k == k ? k : -kInf;
  };
  std::stable_sort(ids.begin(), ids.end(), [&](TokenId a, TokenId b) { return key(a) > key(b); });
  return ids;
}

TEST(TokenOrderTest, AnyBeginningIsThatOfThePlainSort) {
  std::mt19937 random(5);
  TokenOrder order(4000);
  for (const float width : {0.0F, 0.01F, 3.0F, 20.0F, 500.0F}) {
    std::vector<float> keys;
    for (int i = 0; i < 4000; ++i) {
      keys.push_back(width * static_cast<float>(random() % 997) / 997.0F - 7.0F);  // With equals.
      if (random() % 50 == 0) keys.back() = random() % 2 == 0 ? kNan : -kInf;
    }
    const auto plain = PlainOrder(keys);
    order.Begin(keys, -7.0F + width);
    for (const size_t count : {0U, 1U, 2U, 64U, 65U, 1000U, 4000U}) {
      order.Ensure(count);
      ASSERT_GE(order.sorted(), count);
      for (size_t rank = 0; rank < count; ++rank) ASSERT_EQ(order[rank].id, plain[rank]) << rank;
    }
  }
}

// As in a masked row, also where the few others are far apart, or where there is no other.
TEST(TokenOrderTest, KeysOfMinusInfinityAndNanStandLastById) {
  std::mt19937 random(6);
  TokenOrder order(1000);
  for (const int others : {0, 1, 3, 100}) {
    std::vector<float> keys(1000, -kInf);
    for (float& key : keys) key = random() % 3 == 0 ? kNan : key;
    for (int i = 0; i < others; ++i) {
      keys[random() % keys.size()] =
          -static_cast<float>(random() % 500) * (i % 2 == 0 ? 1.0F : 1e35F);
    }
    const auto plain = PlainOrder(keys);
    order.Begin(keys, others == 0 ? -kInf : 0.0F);
    for (const size_t count : {2U, 50U, 51U, 600U, 1000U}) {
      order.Ensure(count);
      ASSERT_GE(order.sorted(), count);
      for (size_t rank = 0; rank < count; ++rank) ASSERT_EQ(order[rank].id, plain[rank]) << rank;
    }
  }
}

TEST(TokenOrderTest, InfiniteAndWrongMaximaSortToo) {
  TokenOrder order(4);
  const std::vector<float> keys = {0.0F, kInf, kNan, kInf};
  for (const float max : {kInf, 0.0F, -5.0F, kNan}) {
    order.Begin(keys, max);
    order.Ensure(4);
    std::vector<TokenId> ids;
    for (size_t rank = 0; rank < 4; ++rank) ids.push_back(order[rank].id);
    EXPECT_EQ(ids, std::vector<TokenId>({1, 3, 0, 2})) << max;
  }
}

TEST(TokenOrderTest, KeepWeightsClearsAllOthers) {
  TokenOrder order(4);
  const std::vector<float> keys = {1.0F, 4.0F, 2.0F, 3.0F};
  std::vector<float> weights = {0.1F, 0.4F, 0.2F, 0.3F};
  std::vector<float> scratch(4);
  order.Begin(keys, 4.0F);
  order.Ensure(2);
  order.KeepWeights(2, scratch, weights);
  EXPECT_EQ(weights, std::vector<float>({0.0F, 0.4F, 0.0F, 0.3F}));
}

}  // namespace
}  // namespace ropeway::sampling
