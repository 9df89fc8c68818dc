#include "engine/work_window.h"

#include <gtest/gtest.h>

namespace ropeway::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(WorkWindowTest, RatesAreOverTheTimeSinceTheStartAtFirst) {
  WorkWindow window(seconds(100));
  EXPECT_EQ(window.At(seconds(100)).utilization, 0);
  window.Add(seconds(101), milliseconds(500), 64, 10);
  window.Add(seconds(102), milliseconds(500), 0, 10);
  const WorkWindow::Rates rates = window.At(seconds(104));
  EXPECT_DOUBLE_EQ(rates.utilization, 0.25);
  EXPECT_DOUBLE_EQ(rates.prompt_tokens_per_second, 16);
  EXPECT_DOUBLE_EQ(rates.generation_tokens_per_second, 5);
}

TEST(WorkWindowTest, TheFirstMomentCountsAsASecond) {
  WorkWindow window(seconds(5));
  window.Add(seconds(5) + milliseconds(10), milliseconds(10), 0, 3);
  EXPECT_DOUBLE_EQ(window.At(seconds(5) + milliseconds(10)).generation_tokens_per_second, 3);
  EXPECT_DOUBLE_EQ(window.At(seconds(5) + milliseconds(10)).utilization, 0.01);
}

TEST(WorkWindowTest, WorkOlderThanTheWindowIsForgotten) {
  WorkWindow window(seconds(0));
  window.Add(milliseconds(500), milliseconds(500), 0, 1000);
  for (int i = 0; i < 30; ++i) {
    window.Add(seconds(i) + milliseconds(900), milliseconds(300), 1, 10);
  }
  // The nine whole seconds before the one that is under way, and this one.
  EXPECT_NEAR(window.At(seconds(29) + milliseconds(999)).generation_tokens_per_second, 10, 0.01);
  EXPECT_NEAR(window.At(seconds(29) + milliseconds(999)).utilization, 0.3, 0.001);
  EXPECT_EQ(window.At(seconds(60)).generation_tokens_per_second, 0);
  EXPECT_EQ(window.At(seconds(60)).utilization, 0);
}

TEST(WorkWindowTest, UtilizationIsAtMostOneWhereAStepTookLongerThanTheWindow) {
  WorkWindow window(seconds(0));
  window.Add(seconds(50), seconds(50), 0, 1);
  EXPECT_EQ(window.At(seconds(50)).utilization, 1.0);
}

}  // namespace
}  // namespace ropeway::engine
