#include "cli/terminal.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>

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
  Interrupts interrupts;
  interrupts.Unblock();
  raise(SIGINT);
  const Pipe pipe("one\n");
  LineReader reader(pipe.reader());
  std::string line;
  EXPECT_EQ(reader.Read(&line), Event::kInterrupted);
  EXPECT_EQ(reader.Read(&line), Event::kLine);
  EXPECT_FALSE(Interrupts::Take());
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

}  // namespace
}  // namespace ropeway::cli
