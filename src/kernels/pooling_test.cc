#include "kernels/pooling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace ropeway::kernels {
namespace {

using ::testing::ElementsAre;

TEST(PoolingTest, TheMeanHasLengthOne) {
  std::vector<float> sum = {6, -8};
  FinishPooling(2, true, sum);
  EXPECT_THAT(sum, ElementsAre(0.6F, -0.8F));
}

TEST(PoolingTest, WithoutNormalizationItIsTheMean) {
  std::vector<float> sum = {6, -9};
  FinishPooling(3, false, sum);
  EXPECT_THAT(sum, ElementsAre(2, -3));
}

TEST(PoolingTest, ZerosStayZeros) {
  std::vector<float> sum = {0, 0};
  FinishPooling(4, true, sum);
  EXPECT_THAT(sum, ElementsAre(0, 0));
}

}  // namespace
}  // namespace ropeway::kernels
