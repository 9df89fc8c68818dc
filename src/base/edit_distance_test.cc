#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/words.h"

namespace ropeway::base {
namespace {

TEST(EditDistanceTest, CountsEdits) {
  struct Case {
    const char* a;
    const char* b;
    size_t distance;
  };
  for (const Case& c : {Case{"", "", 0}, Case{"", "ab", 2}, Case{"port", "port", 0},
                        Case{"port", "prot", 1}, Case{"port", "ports", 1}, Case{"port", "pot", 1},
                        Case{"port", "fort", 1}, Case{"ab", "ba", 1}, Case{"abcd", "badc", 2},
                        Case{"kitten", "sitting", 3}, Case{"abc", "xyz", 3}}) {
    EXPECT_EQ(EditDistance(c.a, c.b, 9), c.distance) << c.a << " " << c.b;
    EXPECT_EQ(EditDistance(c.b, c.a, 9), c.distance) << c.a << " " << c.b;
    EXPECT_EQ(EditDistance(c.a, c.b, 1), std::min<size_t>(c.distance, 2)) << c.a << " " << c.b;
  }
}

// What the band leaves out changes no result: compared with a band that holds all.
TEST(EditDistanceTest, TheBoundChangesNoDistanceBelowIt) {
  std::vector<std::string> texts = {""};
  for (size_t from = 0; texts.size() < 120; ++from) {
    for (const char letter : {'a', 'b', 'c'}) texts.push_back(texts[from] + letter);
  }
  for (const std::string& a : texts) {
    for (const std::string& b : texts) {
      const size_t exact = EditDistance(a, b, 20);
      for (size_t most = 0; most < 5; ++most) {
        ASSERT_EQ(EditDistance(a, b, most), std::min(exact, most + 1)) << a << " " << b << most;
      }
    }
  }
}

TEST(EditDistanceTest, ALongTextIsRejectedByItsSize) {
  const std::string long_text(size_t{1} << 24, 'a');
  EXPECT_EQ(EditDistance(long_text, "aaa", 2), 3U);
}

TEST(NearestTest, FindsTheNearestName) {
  const std::vector<std::string> names = {"temperature", "top_p", "top_k", "n", "seed"};
  ASSERT_NE(Nearest("temprature", names, 2), nullptr);
  EXPECT_EQ(*Nearest("temprature", names, 2), "temperature");
  EXPECT_EQ(*Nearest("topp", names, 2), "top_p");
  EXPECT_EQ(*Nearest("top_x", names, 2), "top_p") << "of equally near ones the first";
  EXPECT_EQ(Nearest("k", names, 2), nullptr) << "a name of one letter resembles no other";
  EXPECT_EQ(Nearest("id", names, 2), nullptr);
  EXPECT_EQ(Nearest("tmprtre", names, 2), nullptr) << "four letters are missing";
  EXPECT_EQ(Nearest("", names, 2), nullptr);
}

TEST(NearestTest, TakesANameOfEachElement) {
  struct Row {
    std::string name;
    int id;
  };
  const Row rows[] = {{"serve", 1}, {"models", 2}};
  const Row* row = Nearest("model", rows, 2, &Row::name);
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(row->id, 2);
}

}  // namespace
}  // namespace ropeway::base
