#include "gateway/replay.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace ropeway::gateway {
namespace {

Delta Output(const std::string& text, size_t tokens) {
  Delta delta;
  delta.text = text;
  delta.tokens.resize(tokens);
  return delta;
}

GivenOutput Given(const std::string& text, uint64_t tokens) {
  GivenOutput given;
  given.Add(text, tokens);
  return given;
}

TEST(Replay, WhatTheClientHasIsPassedOver) {
  Replay replay(Given("one two", 2), true);
  for (const char* again : {"one", " two"}) {
    Delta delta = Output(again, 1);
    EXPECT_FALSE(replay.done());
    EXPECT_TRUE(replay.Skip(&delta));
    EXPECT_TRUE(delta.text.empty() && delta.tokens.empty());
  }
  EXPECT_TRUE(replay.done());
  Delta more = Output(" three", 1);
  EXPECT_TRUE(replay.Skip(&more));
  EXPECT_EQ(more.text, " three");
  EXPECT_EQ(more.tokens.size(), 1U);
}

TEST(Replay, AnotherAnswerIsSeen) {
  for (const char* other : {"One two", "onE two and more", "one twO"}) {
    Replay replay(Given("one two", 2), false);
    Delta delta = Output(other, 1);
    EXPECT_FALSE(replay.Skip(&delta)) << other;
  }
  // In pieces: nothing of it is passed on before it is seen.
  Replay replay(Given("one two", 2), false);
  Delta first = Output("x", 1);
  EXPECT_TRUE(replay.Skip(&first));
  EXPECT_EQ(first.text, "");
  EXPECT_FALSE(replay.done());
  Delta second = Output("ne two", 1);
  EXPECT_FALSE(replay.Skip(&second));
}

TEST(Replay, OfTextAloneTheCutMayBeAnywhere) {
  Replay replay(Given("one t", 20), false);
  Delta delta = Output("one two", 2);
  EXPECT_TRUE(replay.Skip(&delta));
  EXPECT_EQ(delta.text, "wo");
  EXPECT_TRUE(replay.done());
}

TEST(Replay, TokensThatTheClientSeesAreTheSame) {
  Replay fewer(Given("one", 2), true);
  Delta delta = Output("one two", 1);
  EXPECT_FALSE(fewer.Skip(&delta));
  Replay more(Given("one", 1), true);
  delta = Output("one", 2);
  EXPECT_FALSE(more.Skip(&delta));
  // One whose text comes with the next one.
  Replay held(Given("one", 2), true);
  delta = Output("one", 1);
  EXPECT_TRUE(held.Skip(&delta));
  EXPECT_FALSE(held.done());
  delta = Output("", 1);
  EXPECT_TRUE(held.Skip(&delta));
  EXPECT_TRUE(held.done());
}

}  // namespace
}  // namespace ropeway::gateway
