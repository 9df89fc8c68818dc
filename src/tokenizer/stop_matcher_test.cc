#include "tokenizer/stop_matcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace ropeway {
namespace {

TEST(StopMatcherTest, WithoutStopsTextPassesThrough) {
  StopMatcher matcher({});
  EXPECT_EQ(matcher.Append("abc").text, "abc");
  EXPECT_EQ(matcher.Finish(), "");
}

TEST(StopMatcherTest, HoldsBackOnlyWhatMayBeginAStop) {
  StopMatcher matcher({"\n\nUser:"});
  EXPECT_EQ(matcher.Append("Hi\n").text, "Hi");
  EXPECT_EQ(matcher.Append("there\n\nUs").text, "\nthere");
  EXPECT_EQ(matcher.Append("ually").text, "\n\nUsually");
  EXPECT_EQ(matcher.Append("\n\n\n").text, "\n");
  const StopMatcher::Step last = matcher.Append("User: x");
  EXPECT_EQ(last.text, "");
  EXPECT_EQ(last.stop, 0U);
}

TEST(StopMatcherTest, FinishReturnsWhatWasHeldBack) {
  StopMatcher matcher({"stop"});
  EXPECT_EQ(matcher.Append("a sto").text, "a ");
  EXPECT_EQ(matcher.Finish(), "sto");
}

TEST(StopMatcherTest, TheFirstToBeCompleteCounts) {
  StopMatcher matcher({"abcdef", "cd"});
  const StopMatcher::Step step = matcher.Append("xabcdefg");
  EXPECT_EQ(step.text, "xab");
  EXPECT_EQ(step.stop, 1U);
}

TEST(StopMatcherTest, OfEquallyEarlyOnesTheLongestCounts) {
  StopMatcher matcher({"c", "bc", "abc"});
  const StopMatcher::Step step = matcher.Append("zabc");
  EXPECT_EQ(step.text, "z");
  EXPECT_EQ(step.stop, 2U);
}

TEST(StopMatcherTest, FindsAStopThatOverlapsAFailedOne) {
  StopMatcher matcher({"aab"});
  EXPECT_EQ(matcher.Append("a").text, "");
  EXPECT_EQ(matcher.Append("aa").text, "a");
  EXPECT_EQ(matcher.Append("b").stop, 0U);
}

TEST(StopMatcherTest, TimeIsLinearWhereNaiveSearchIsQuadratic) {
  const std::string stop = std::string(20'000, 'a') + "b";
  StopMatcher matcher({stop});
  size_t emitted = 0;
  for (int i = 0; i < 100; ++i) emitted += matcher.Append(std::string(10'000, 'a')).text.size();
  EXPECT_EQ(emitted, 1'000'000U - 20'000U);
}

struct Expected {
  std::string text;
  std::optional<size_t> stop;
};

// Looks at every end in turn for a stop string that ends there.
Expected NaiveSearch(const std::string& text, const std::vector<std::string>& stops) {
  for (size_t end = 1; end <= text.size(); ++end) {
    std::optional<size_t> best;
    for (size_t i = 0; i < stops.size(); ++i) {
      if (end < stops[i].size() || text.compare(end - stops[i].size(), stops[i].size(), stops[i])) {
        continue;
      }
      if (!best || stops[i].size() > stops[*best].size()) best = i;
    }
    if (best) return {text.substr(0, end - stops[*best].size()), best};
  }
  return {text, std::nullopt};
}

// Whether some end of `text` is the beginning of a stop string, as long as `length`.
bool MayBegin(const std::string& text, size_t length, const std::vector<std::string>& stops) {
  return std::any_of(stops.begin(), stops.end(), [&](const std::string& stop) {
    return stop.size() > length && stop.compare(0, length, text, text.size() - length, length) == 0;
  });
}

TEST(StopMatcherTest, AgreesWithNaiveSearchHoweverTheTextIsCut) {
  std::mt19937 random(11);
  const auto word = [&](size_t longest) {
    std::string text;
    for (size_t i = 1 + random() % longest; i > 0; --i) text.push_back("ab\n"[random() % 3]);
    return text;
  };
  int stopped = 0;
  for (int round = 0; round < 5000; ++round) {
    std::vector<std::string> stops;
    for (size_t i = 1 + random() % 4; i > 0; --i) stops.push_back(word(6));
    const std::string text = word(40);
    const Expected expected = NaiveSearch(text, stops);

    StopMatcher matcher(stops);
    std::string emitted;
    std::string read;
    std::optional<size_t> stop;
    for (size_t at = 0; at < text.size() && !stop;) {
      const std::string part = text.substr(at, 1 + random() % 5);
      const StopMatcher::Step step = matcher.Append(part);
      at += part.size();
      read += part;
      emitted += step.text;
      stop = step.stop;
      if (!stop) {
        const size_t held = read.size() - emitted.size();
        ASSERT_TRUE(held == 0 || MayBegin(read, held, stops)) << "held back for nothing";
      }
    }
    if (!stop) emitted += matcher.Finish();
    ASSERT_EQ(stop, expected.stop);
    ASSERT_EQ(emitted, expected.text);
    stopped += stop.has_value() ? 1 : 0;
  }
  EXPECT_GT(stopped, 1000);
  EXPECT_LT(stopped, 4990);
}

}  // namespace
}  // namespace ropeway
