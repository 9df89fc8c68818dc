#include "base/random_access_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <span>
#include <string>
#include <utility>

namespace ropeway::base {
namespace {

using ::testing::HasSubstr;

class RandomAccessFileTest : public testing::Test {
 protected:
  ~RandomAccessFileTest() override { unlink(path_.c_str()); }

  void Write(const std::string& text) { std::ofstream(path_, std::ios::binary) << text; }

  const std::string path_ =
      testing::TempDir() + "random_access_file_test_" + std::to_string(getpid());
};

std::string TextAt(const RandomAccessFile& file, uint64_t begin, size_t bytes) {
  std::string text(bytes, '\0');
  const Status status = file.Read(begin, std::as_writable_bytes(std::span(text)));
  return status.ok() ? text : status.message();
}

TEST_F(RandomAccessFileTest, ReadsAnyPart) {
  Write("0123456789");
  StatusOr<RandomAccessFile> opened = RandomAccessFile::Open(path_);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const RandomAccessFile file = *std::move(opened);
  EXPECT_EQ(file.bytes(), 10U);
  EXPECT_EQ(file.path(), path_);
  EXPECT_EQ(TextAt(file, 0, 10), "0123456789");
  EXPECT_EQ(TextAt(file, 3, 2), "34");
  EXPECT_EQ(TextAt(file, 99, 0), "");
  EXPECT_THAT(TextAt(file, 8, 3), HasSubstr("it had 10 bytes and now ends at byte 10"));
}

TEST_F(RandomAccessFileTest, TellsThatAFileWasChanged) {
  Write("0123456789");
  const StatusOr<RandomAccessFile> file = RandomAccessFile::Open(path_);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->CheckUnchanged().ok());
  ASSERT_EQ(truncate(path_.c_str(), 5), 0);
  EXPECT_EQ(file->CheckUnchanged().code(), StatusCode::kDataLoss);
  EXPECT_THAT(TextAt(*file, 4, 2), HasSubstr("the file was changed while it was read"));
}

TEST_F(RandomAccessFileTest, ReadsAllOfAFileUpToABound) {
  Write("0123456789");
  EXPECT_EQ(*ReadWholeFile(path_, 10), "0123456789");
  EXPECT_THAT(ReadWholeFile(path_, 9).status().message(),
              HasSubstr("has 10 bytes, more than the limit of 9"));
  EXPECT_EQ(ReadWholeFile(path_ + ".none", 9).status().code(), StatusCode::kNotFound);
}

TEST_F(RandomAccessFileTest, RejectsWhatIsNoFile) {
  const auto error = [](const std::string& path) {
    return RandomAccessFile::Open(path).status().message();
  };
  EXPECT_THAT(error("/nonexistent/x"), HasSubstr("cannot be opened: No such file"));
  EXPECT_THAT(error("/"), HasSubstr("is a directory"));
  EXPECT_THAT(error("/dev/null"), HasSubstr("is not a regular file"));
  Write("");
  EXPECT_THAT(error(path_), HasSubstr("the file is empty"));
  unlink(path_.c_str());
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(error(path_), HasSubstr("is not a regular file"));
}

}  // namespace
}  // namespace ropeway::base
