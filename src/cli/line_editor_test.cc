#include "cli/line_editor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace ropeway::cli {
namespace {

using testing::ElementsAre;
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

}  // namespace
}  // namespace ropeway::cli
