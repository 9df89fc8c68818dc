#include "base/system.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>

namespace ropeway::base {
namespace {

namespace fs = std::filesystem;

class PrivateFilesTest : public testing::Test {
 protected:
  PrivateFilesTest() { fs::remove_all(folder_); }
  ~PrivateFilesTest() override { fs::remove_all(folder_); }

  static unsigned ModeOf(const fs::path& path) {
    struct stat about {};
    EXPECT_EQ(stat(path.c_str(), &about), 0) << path;
    return about.st_mode & 0777U;
  }

  const fs::path folder_ =
      fs::path(testing::TempDir()) / ("private_files_test." + std::to_string(getpid()));
};

TEST_F(PrivateFilesTest, WhatIsMadeIsTheOwnersAlone) {
  ASSERT_FALSE(MakePrivateDirectory(folder_ / "a" / "b"));
  EXPECT_EQ(ModeOf(folder_ / "a"), 0700U);
  EXPECT_EQ(ModeOf(folder_ / "a" / "b"), 0700U);
  std::FILE* file = OpenPrivateFile((folder_ / "a" / "file").string());
  ASSERT_NE(file, nullptr);
  fclose(file);
  EXPECT_EQ(ModeOf(folder_ / "a" / "file"), 0600U);
}

TEST_F(PrivateFilesTest, WhatIsThereKeepsItsPermissions) {
  ASSERT_FALSE(MakePrivateDirectory(folder_));
  fs::permissions(folder_, fs::perms::owner_all | fs::perms::group_read);
  ASSERT_FALSE(MakePrivateDirectory(folder_ / ""));
  EXPECT_EQ(ModeOf(folder_), 0740U);
}

TEST_F(PrivateFilesTest, SaysWhatIsInTheWay) {
  ASSERT_FALSE(MakePrivateDirectory(folder_));
  std::ofstream(folder_ / "file") << "x";
  EXPECT_TRUE(MakePrivateDirectory(folder_ / "file" / "b"));
  EXPECT_EQ(OpenPrivateFile((folder_ / "none" / "file").string()), nullptr);
  EXPECT_EQ(errno, ENOENT);
}

TEST(ReadFileTest, OnlyARegularFileWhereAskedFor) {
  const std::string path = testing::TempDir() + "read_file_test." + std::to_string(getpid());
  std::ofstream(path) << "0123456789";
  EXPECT_EQ(ReadRegularFile(path, 100).value(), "0123456789");
  EXPECT_EQ(ReadRegularFile(path, 3).value(), "0123") << "one more says that it is too large";
  fs::remove(path);
  EXPECT_EQ(ReadRegularFile(path, 100).status().message(), "No such file or directory");
  fs::create_symlink("/dev/null", path);
  EXPECT_EQ(ReadRegularFile(path, 100).status().message(), "it is not a regular file");
  fs::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(ReadRegularFile(path, 100).status().message(), "it is not a regular file");
  fs::remove(path);
  EXPECT_EQ(ReadRegularFile(testing::TempDir(), 100).status().message(),
            "it is not a regular file");
}

TEST_F(PrivateFilesTest, AReplacedLinkLeavesAloneWhatItLeadTo) {
  ASSERT_FALSE(MakePrivateDirectory(folder_));
  std::ofstream(folder_ / "other") << "other";
  fs::create_symlink("other", folder_ / "symbolic");
  fs::create_hard_link(folder_ / "other", folder_ / "hard");
  for (const char* name : {"symbolic", "hard", "new"}) {
    EXPECT_TRUE(ReplaceFile((folder_ / name).string(), "text"));
    EXPECT_EQ(ReadFile((folder_ / name).string(), 100), "text");
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(folder_ / name))) << name;
  }
  EXPECT_EQ(ReadFile((folder_ / "other").string(), 100), "other");
  EXPECT_FALSE(ReplaceFile(folder_.string(), "text"));
  EXPECT_FALSE(ReplaceFile((folder_ / "none" / "file").string(), "text"));
}

TEST(DescriptorLimitTest, RaisesTheSoftLimitToTheHardOne) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit lowered = before;
  lowered.rlim_cur = 100;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &lowered), 0);
  RaiseDescriptorLimit();
  rlimit after{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_EQ(after.rlim_cur, before.rlim_max);
  EXPECT_EQ(after.rlim_max, before.rlim_max);
}

TEST(DescriptorLimitTest, SaysTheSoftLimit) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit lowered = before;
  lowered.rlim_cur = 123;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &lowered), 0);
  EXPECT_EQ(DescriptorLimit(), 123);
  setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace

}  // namespace ropeway::base
