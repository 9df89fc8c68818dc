#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/system.h"

namespace ropeway::base {
namespace {

namespace fs = std::filesystem;

TEST(OwnEntriesTest, FindsTheFirstThatIsNotOwn) {
  const fs::path folder =
      fs::path(testing::TempDir()) / ("own_entries_test." + std::to_string(getpid()));
  fs::remove_all(folder);
  const auto foreign = [&] {
    return FindForeignEntry(folder, [](const fs::directory_entry& entry) {
      return entry.is_regular_file() && entry.path().filename() == "own";
    });
  };
  EXPECT_EQ(foreign().value(), "") << "there is no such folder";
  fs::create_directories(folder / "lost+found");
  std::ofstream(folder / "own") << "x";
  std::ofstream(folder / ".nfs000000000012") << "x";
  EXPECT_EQ(foreign().value(), "");
  std::ofstream(folder / "notes") << "x";
  EXPECT_EQ(foreign().value(), "notes");
  std::ofstream(folder / ".hidden") << "x";
  EXPECT_EQ(foreign().value(), ".hidden");
  // A directory that only has such a name is foreign.
  fs::remove_all(folder);
  fs::create_directories(folder / ".nfs000000000012");
  EXPECT_EQ(foreign().value(), ".nfs000000000012");
  fs::remove_all(folder);
  fs::create_directories(folder / "own");
  fs::create_symlink(folder / "own", folder / "lost+found");
  EXPECT_EQ(foreign().value(), "lost+found");
  fs::remove_all(folder);
  fs::create_directories(folder);
  std::ofstream(folder / "lost+found") << "x";
  EXPECT_EQ(foreign().value(), "lost+found");
  fs::remove_all(folder);
}

// In what cannot be read there may be anything.
TEST(OwnEntriesTest, WhatCannotBeReadIsNotTakenForEmpty) {
  const fs::path path =
      fs::path(testing::TempDir()) / ("own_entries_test_file." + std::to_string(getpid()));
  std::ofstream(path) << "x";
  const StatusOr<std::string> foreign =
      FindForeignEntry(path, [](const fs::directory_entry&) { return true; });
  EXPECT_FALSE(foreign.ok());
  EXPECT_EQ(foreign.status().message(), "cannot be read: Not a directory");
  fs::remove(path);
}

TEST(OwnEntriesTest, KnowsTheNamesOfADatabase) {
  for (const char* name :
       {"CURRENT", "IDENTITY", "LOCK", "LOG", "LOG.old.1", "MANIFEST-000004",
        "OPTIONS-000007.dbtmp", "000001.dbtmp", "000012.sst", "000012.blob", "000012.log"}) {
    EXPECT_TRUE(IsRocksDbName(name)) << name;
  }
  for (const char* name :
       {"", "current", "LOG.txt", "12", ".sst", "a.sst", "12.sst.bak", "notes"}) {
    EXPECT_FALSE(IsRocksDbName(name)) << name;
  }
}

}  // namespace
}  // namespace ropeway::base
