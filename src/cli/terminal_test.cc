#include "cli/terminal.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <ctime>
#include <future>
#include <string>
#include <string_view>
#include <thread>

namespace ropeway::cli {
namespace {

using Event = LineReader::Event;

// A pipe whose writing end is closed once `text` is in it.
class Pipe {
 public:
  explicit Pipe(std::string_view text) {
    if (pipe(ends_.data()) != 0) ADD_FAILURE() << "no pipe";
    EXPECT_EQ(write(ends_[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
    close(ends_[1]);
  }
  ~Pipe() { close(ends_[0]); }
  int reader() const { return ends_[0]; }

 private:
  std::array<int, 2> ends_ = {};
};

TEST(LineReader, LinesEndAtTheirEndsAndTheLastAtTheFilesEnd) {
  const Pipe pipe("one\n\ntwo\nrest");
  LineReader reader(pipe.reader());
  std::string line;
  for (const char* expected : {"one", "", "two", "rest"}) {
    ASSERT_EQ(reader.Read(&line), Event::kLine);
    EXPECT_EQ(line, expected);
  }
  EXPECT_EQ(reader.Read(&line), Event::kEnd);
  EXPECT_EQ(reader.Read(&line), Event::kEnd);
}

TEST(LineReader, AnInterruptIsTold) {
  CaughtSignals interrupts({SIGINT});
  raise(SIGINT);
  const Pipe pipe("one\n");
  LineReader reader(pipe.reader());
  std::string line;
  EXPECT_EQ(reader.Read(&line), Event::kInterrupted);
  EXPECT_EQ(reader.Read(&line), Event::kLine);
  EXPECT_FALSE(CaughtSignals::Take(SIGINT));
}

TEST(LineReader, NoInterruptIsMissedWheneverItComes) {
  CaughtSignals interrupts({SIGINT});
  std::array<int, 2> ends = {};
  ASSERT_EQ(pipe(ends.data()), 0);
  sigevent interrupt = {};
  interrupt.sigev_notify = SIGEV_SIGNAL;
  interrupt.sigev_signo = SIGINT;
  timer_t timer = {};
  ASSERT_EQ(timer_create(CLOCK_MONOTONIC, &interrupt, &timer), 0);
  std::promise<void> over;
  std::thread watch([&, future = over.get_future()] {
    future.wait_for(std::chrono::seconds(10));
    close(ends[1]);  // A reader that waits ends too.
  });
  LineReader reader(ends[0]);
  std::string line;
  for (int i = 0; i < 30000; ++i) {
    const itimerspec soon = {{}, {0, 1 + i % 20000}};
    timer_settime(timer, 0, &soon, nullptr);
    if (reader.Read(&line) != Event::kInterrupted) {
      ADD_FAILURE() << "missed after " << i;
      break;
    }
  }
  over.set_value();
  watch.join();
  timer_delete(timer);
  close(ends[0]);
}

TEST(CaughtSignals, WhatNobodyTookActsAsBefore) {
  CaughtSignals outer({SIGUSR1});
  {
    CaughtSignals inner({SIGUSR1, SIGUSR2});
    raise(SIGUSR1);
    raise(SIGUSR2);
    EXPECT_TRUE(CaughtSignals::Take(SIGUSR2));
  }
  EXPECT_TRUE(CaughtSignals::Take(SIGUSR1));
  EXPECT_FALSE(CaughtSignals::Take(SIGUSR1));
}

TEST(ReadAll, IsBounded) {
  std::string text;
  EXPECT_TRUE(ReadAll(Pipe("12345").reader(), 5, &text));
  EXPECT_EQ(text, "12345");
  EXPECT_FALSE(ReadAll(Pipe("123456").reader(), 5, &text));
  EXPECT_FALSE(ReadAll(-1, 5, &text));
}

TEST(IsReadableWithin, BytesAndTheEndCount) {
  EXPECT_TRUE(IsReadableWithin(Pipe("x").reader(), std::chrono::milliseconds(0)));
  EXPECT_TRUE(IsReadableWithin(Pipe("").reader(), std::chrono::milliseconds(0)));
  std::array<int, 2> open_ends = {};
  ASSERT_EQ(pipe(open_ends.data()), 0);
  EXPECT_FALSE(IsReadableWithin(open_ends[0], std::chrono::milliseconds(1)));
  close(open_ends[0]);
  close(open_ends[1]);
}

TEST(ForTerminal, WhatActsOnATerminalIsLeftOut) {
  EXPECT_EQ(ForTerminal("a\tb\nc \xC3\xA9 \xE2\x82\xAC"), "a\tb\nc \xC3\xA9 \xE2\x82\xAC");
  EXPECT_EQ(ForTerminal("\x1B[31mred\x07\r\b\x7F"), "[31mred");
  EXPECT_EQ(ForTerminal("a\xC2\x9B"
                        "2Jb\xC2\xA0"),
            "a2Jb\xC2\xA0");
}

// However the text comes in parts.
std::string Wrapped(std::string_view text, int columns) {
  WordWrap whole(columns);
  std::string expected = whole.Take(text);
  expected += whole.End();
  for (size_t size = 1; size < 5; ++size) {
    WordWrap wrap(columns);
    std::string shown;
    for (size_t at = 0; at < text.size(); at += size) shown += wrap.Take(text.substr(at, size));
    shown += wrap.End();
    EXPECT_EQ(shown, expected) << size;
  }
  return expected;
}

TEST(WordWrap, BreaksLinesAtSpaces) {
  EXPECT_EQ(Wrapped("one two three four", 9), "one two \nthree \nfour");
  EXPECT_EQ(Wrapped("123456789 x", 9), "123456789\nx");
  EXPECT_EQ(Wrapped("1234567 8 x", 9), "1234567 8\nx");
  EXPECT_EQ(Wrapped("a\nbb ccc dddd\n", 6), "a\nbb ccc\ndddd\n");
  EXPECT_EQ(Wrapped("a-word-that-is-longer than", 9), "a-word-that-is-longer\nthan");
  EXPECT_EQ(Wrapped("one two three", 0), "one two three");
}

TEST(WordWrap, LeavesCodeAsItIs) {
  const std::string code = "    int main(int argc)\n```\nwhat stands here\n```\n";
  EXPECT_EQ(Wrapped(code + "what stands here", 10), code + "what \nstands \nhere");
}

TEST(WordWrap, WideCharactersAreShownAsTheyCome) {
  SetCharacterLocale();
  WordWrap wrap(6);
  EXPECT_EQ(wrap.Take("\u4F60\u597D"), "\u4F60\u597D");
  EXPECT_EQ(wrap.Take("\u4F60\u597D"), "\u4F60\n\u597D");
}

TEST(WordWrap, ALongWordIsShownBeforeItEnds) {
  WordWrap wrap(10);
  std::string shown = wrap.Take("the " + std::string(100, 'x'));
  EXPECT_GE(shown.size(), 60U);
  shown += wrap.Take("xx yy zzzzzzzz");
  EXPECT_EQ(shown + wrap.End(), "the " + std::string(102, 'x') + "\nyy \nzzzzzzzz");
  WordWrap short_rest(10);
  shown = short_rest.Take("the " + std::string(85, 'x') + " y");
  EXPECT_EQ(shown + short_rest.End(), "the " + std::string(85, 'x') + "\ny");
}

TEST(WordWrap, AWordIsShownWithTheSpaceBehindIt) {
  WordWrap wrap(20);
  EXPECT_EQ(wrap.Take("Hello wor"), "Hello ");
  EXPECT_EQ(wrap.Take("ld, "), "world, ");
  EXPECT_EQ(wrap.End(), "");
}

TEST(WaitForInput, EndsByOneOfItsDescriptorsATimeOrASignal) {
  const CaughtSignals signals({SIGWINCH});
  std::array<int, 2> quiet = {};
  ASSERT_EQ(pipe(quiet.data()), 0);
  const Pipe ready("x");
  EXPECT_TRUE(WaitForInput({quiet[0], ready.reader()}, std::chrono::hours(1)));
  EXPECT_TRUE(WaitForInput({quiet[0], -1}, std::chrono::milliseconds(1)));
  raise(SIGWINCH);
  EXPECT_FALSE(WaitForInput({quiet[0]}, std::chrono::hours(1)));
  EXPECT_TRUE(CaughtSignals::Take(SIGWINCH));
  EXPECT_TRUE(WaitForInput({quiet[0]}, std::chrono::milliseconds(1)));
  close(quiet[0]);
  close(quiet[1]);
}

}  // namespace
}  // namespace ropeway::cli
