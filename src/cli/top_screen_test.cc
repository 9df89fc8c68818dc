#include "cli/top_screen.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ropeway::cli {
namespace {

using Keys = std::vector<TopKey>;

Keys KeysOf(std::string typed, const std::string& left = "") {
  Keys keys = TakeKeys(&typed);
  EXPECT_EQ(typed, left);
  return keys;
}

TEST(TopKeys, LettersAndSequences) {
  EXPECT_EQ(KeysOf("qmhp"), (Keys{TopKey::kQuit, TopKey::kMinute, TopKey::kHour, TopKey::kPause}));
  EXPECT_EQ(KeysOf("\033[A\033OBjk"),
            (Keys{TopKey::kUp, TopKey::kDown, TopKey::kDown, TopKey::kUp}));
  EXPECT_EQ(KeysOf("\033[5~\033[6~\033[H\033[F"),
            (Keys{TopKey::kPageUp, TopKey::kPageDown, TopKey::kHome, TopKey::kEnd}));
}

TEST(TopKeys, OthersAreSkipped) {
  EXPECT_EQ(KeysOf("x\n\xC3\xA9"), Keys{});
  // Letters in what a function key or a mouse sends are no keys.
  EXPECT_EQ(KeysOf("\033[1;5q\033[200~\033Oq"), Keys{});
  EXPECT_EQ(KeysOf("\033\033[A"), Keys{TopKey::kUp});
}

TEST(TopKeys, TheBeginningOfASequenceWaitsForItsRest) {
  EXPECT_EQ(KeysOf("m\033", "\033"), Keys{TopKey::kMinute});
  EXPECT_EQ(KeysOf("\033[", "\033["), Keys{});
  EXPECT_EQ(KeysOf("\033[5", "\033[5"), Keys{});
  EXPECT_EQ(KeysOf("\033[" + std::string(40, '1')), Keys{});  // It has no end.
}

}  // namespace
}  // namespace ropeway::cli
