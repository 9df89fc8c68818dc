#include "tokenizer/detokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/utf8.h"

namespace ropeway::tokenizer {
namespace {

TEST(DetokenizerTest, HoldsBackAnIncompleteCharacter) {
  Detokenizer detokenizer;
  EXPECT_EQ(detokenizer.Append("a\xF0"), "a");
  EXPECT_EQ(detokenizer.Append("\x9F\x98"), "");
  EXPECT_EQ(detokenizer.Append("\x80!"), "\xF0\x9F\x98\x80!");
  EXPECT_EQ(detokenizer.Finish(), "");
}

TEST(DetokenizerTest, EndsAnIncompleteCharacterWithOneReplacement) {
  Detokenizer detokenizer;
  EXPECT_EQ(detokenizer.Append("x\xF0\x9F\x98"), "x");
  EXPECT_EQ(detokenizer.Finish(), "\xEF\xBF\xBD");
  EXPECT_EQ(detokenizer.Append("again"), "again");
}

TEST(DetokenizerTest, DoesNotWaitForBytesThatCannotHelp) {
  Detokenizer detokenizer;
  EXPECT_EQ(detokenizer.Append("\xED"), "");
  EXPECT_EQ(detokenizer.Append("\xA0"), "\xEF\xBF\xBD\xEF\xBF\xBD");  // A surrogate's beginning.
  EXPECT_EQ(detokenizer.Append("\xFF"), "\xEF\xBF\xBD");
}

TEST(DetokenizerTest, AnyCutGivesTheTextOfTheWhole) {
  std::mt19937 random(5);
  const std::string favourites =
      "a\x80\xBF\xC3\xE0\xA0\xE2\x82\xAC\xED\x9F\xF0\x90\x9F\xF4\x8F\xFF";
  for (int round = 0; round < 3000; ++round) {
    std::string bytes;
    for (size_t i = random() % 24; i > 0; --i) {
      bytes.push_back(random() % 8 == 0 ? static_cast<char>(random())
                                        : favourites[random() % favourites.size()]);
    }
    Detokenizer detokenizer;
    std::string text;
    for (size_t at = 0; at < bytes.size();) {
      const size_t length = 1 + random() % 4;
      const std::string part = detokenizer.Append(std::string_view(bytes).substr(at, length));
      EXPECT_EQ(base::ReplaceInvalidUtf8(part), part) << "not valid by itself";
      text += part;
      at += length;
    }
    text += detokenizer.Finish();
    ASSERT_EQ(text, base::ReplaceInvalidUtf8(bytes));
  }
}

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

// The naive search: tests each position for a stop string that ends there.
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

// Whether the last `length` bytes of `text` are the beginning of a stop string.
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

}  // namespace ropeway::tokenizer
