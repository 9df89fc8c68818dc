#include "base/own_entries.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

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
  EXPECT_EQ(foreign(), "") << "there is no such folder";
  fs::create_directories(folder / "lost+found");
  std::ofstream(folder / "own") << "x";
  std::ofstream(folder / ".nfs000000000012") << "x";
  EXPECT_EQ(foreign(), "");
  std::ofstream(folder / "notes") << "x";
  EXPECT_EQ(foreign(), "notes");
  std::ofstream(folder / ".hidden") << "x";
  EXPECT_EQ(foreign(), ".hidden");
  fs::remove_all(folder);
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
