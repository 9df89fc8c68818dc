#include "cli/line_editor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <string_view>
#include <thread>

namespace ropeway::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ChatHistoryTest : public testing::Test {
 protected:
  ~ChatHistoryTest() override { std::filesystem::remove_all(folder_); }

  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("ropeway-history-" + std::to_string(getpid()));
  const std::string path_ = folder_ / "state" / ".history";
  const ChatHistory history_{path_};
};

TEST_F(ChatHistoryTest, KeepsWhatWasSaidForItsOwnerAlone) {
  EXPECT_THAT(history_.Load(), IsEmpty());
  for (const char* text : {"one", "two\nlines \\n\\", "two\nlines \\n\\", "one"})
    history_.Add(text);
  EXPECT_THAT(ChatHistory(path_).Load(), ElementsAre("one", "two\nlines \\n\\", "one"));
  struct stat about {};
  ASSERT_EQ(stat(path_.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777U, 0600U);
  ASSERT_EQ(stat(std::filesystem::path(path_).parent_path().c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777U, 0700U);
}

TEST_F(ChatHistoryTest, IsBounded) {
  history_.Add(std::string((8 << 10) + 1, 'x'));
  EXPECT_THAT(history_.Load(), IsEmpty());
  std::filesystem::create_directories(folder_ / "state");
  {
    std::ofstream file(path_);
    for (int i = 0; i < 1500; ++i) file << "message " << i << "\n";
  }
  history_.Add("last");
  EXPECT_EQ(history_.Load().size(), 1000U);
  EXPECT_EQ(history_.Load().front(), "message 501");
  EXPECT_EQ(history_.Load().back(), "last");
  for (int i = 0; i < 20; ++i) history_.Add(std::string(8 << 10, static_cast<char>('a' + i)));
  EXPECT_LE(std::filesystem::file_size(path_), 128U << 10);
  EXPECT_EQ(history_.Load().size(), 15U);
}

TEST_F(ChatHistoryTest, WhatIsNoFileIsNoHistory) {
  const ChatHistory none("");
  none.Add("x");
  EXPECT_THAT(none.Load(), IsEmpty());
  std::filesystem::create_directories(path_);
  history_.Add("x");
  EXPECT_THAT(history_.Load(), IsEmpty());
  std::filesystem::remove(path_);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(history_.Load(), IsEmpty()) << "and nothing waits for a writer";
}

// A terminal in place of standard input and standard error.
class Typist {
 public:
  Typist() {
    int own = -1;
    EXPECT_EQ(openpty(&keys_, &own, nullptr, nullptr, nullptr), 0);
    for (size_t i = 0; i < kStandard.size(); ++i) {
      kept_[i] = dup(kStandard[i]);
      dup2(own, kStandard[i]);
    }
    close(own);
    setenv("TERM", "xterm", 1);
    SetCharacterLocale();
    shower_ = std::thread([this] {
      std::array<char, 4096> shown;
      ssize_t count = 0;
      while ((count = read(keys_, shown.data(), shown.size())) > 0) {
        shown_.append(shown.data(), static_cast<size_t>(count));
      }
    });
  }
  ~Typist() { End(); }

  // What was shown. No more is then.
  std::string End() {
    if (!shower_.joinable()) return shown_;
    for (size_t i = 0; i < kStandard.size(); ++i) {
      dup2(kept_[i], kStandard[i]);
      close(kept_[i]);
    }
    shower_.join();
    close(keys_);
    return shown_;
  }
  Typist(const Typist&) = delete;
  Typist& operator=(const Typist&) = delete;

  void Type(std::string_view text) const {
    EXPECT_EQ(write(keys_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }

 private:
  static constexpr std::array<int, 2> kStandard = {STDIN_FILENO, STDERR_FILENO};
  int keys_ = -1;
  std::array<int, 2> kept_ = {};
  std::thread shower_;
  std::string shown_;
};

TEST(LineEditor, ASignalThatCameBeforeIsNotMissed) {
  const Typist typist;
  CaughtSignals interrupts({SIGINT});
  LineEditor lines("");
  std::string line;
  raise(SIGINT);
  // With the line's end a reader that waits for input ends too.
  std::promise<void> told;
  std::thread watch([&, future = told.get_future()] {
    if (future.wait_for(std::chrono::seconds(5)) != std::future_status::ready) {
      ADD_FAILURE() << "the reader waits";
      typist.Type("\n");
    }
  });
  EXPECT_EQ(lines.Read("> ", &line), LineReader::Event::kInterrupted);
  told.set_value();
  watch.join();
  typist.Type("next\n");
  EXPECT_EQ(lines.Read("> ", &line), LineReader::Event::kLine);
  EXPECT_EQ(line, "next");
}

TEST(LineEditor, BytesThatAreNoCharacterAreLeftOut) {
  const Typist typist;
  LineEditor lines("");
  std::string line;
  typist.Type(
      "a\xFF\xC3"
      "b\xE4\xBD\xA0\xE4\xBD\x80\n");
  EXPECT_EQ(lines.Read("> ", &line), LineReader::Event::kLine);
  EXPECT_EQ(line, "ab\u4F60\u4F40");
}

TEST(LineEditor, ALongPasteIsCutAtItsBound) {
  Typist typist;
  LineEditor lines("");
  std::string line;
  std::thread typing([&] {
    // A terminal that still makes lines itself would lose what is too long.
    for (termios modes = {}; (modes.c_lflag & ICANON) != 0 || modes.c_cflag == 0;) {
      tcgetattr(STDIN_FILENO, &modes);
    }
    typist.Type("\033[200~" + std::string((1 << 20) + 8, 'x') + "\033[201~y\n");
  });
  EXPECT_EQ(lines.Read("> ", &line), LineReader::Event::kLine);
  typing.join();
  EXPECT_TRUE(line == std::string(1 << 20, 'x') + "y") << line.size();
  EXPECT_THAT(typist.End(), HasSubstr("the paste is cut: it has more than 1048576 characters"));
}

// Though a paste is read in large parts.
TEST(LineEditor, WhatComesBehindAPasteIsNotLost) {
  const Typist typist;
  LineEditor lines("");
  std::string line;
  typist.Type("\033[200~one\ntwo\033[201~, three\nnext\n");
  EXPECT_EQ(lines.Read("> ", &line), LineReader::Event::kLine);
  EXPECT_EQ(line, "one\ntwo, three");
  EXPECT_EQ(lines.Read("> ", &line), LineReader::Event::kLine);
  EXPECT_EQ(line, "next");
}

}  // namespace
}  // namespace ropeway::cli
