// What is not the disk tier's own is never changed; and a disk that is full costs no blocks.
#include "kvcache/disk_directory.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rocksdb/env.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/test_unreadable_directory.h"
#include "kvcache/test_disk_tier.h"

namespace ropeway::kvcache {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr uint64_t kKept = 10;

void WriteFile(const std::string& path, const std::string& text) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

// A tier with kKept blocks on disk.
void FillTier(const std::string& path) {
  const auto tier = OpenTier(TestOptions(path));
  PutAll(tier.get(), 0, kKept);
  FlushAll(tier.get());
}

// The message with which the tier rejects the directory, which stays as it is; "": it does not.
std::string Rejection(const std::string& path) {
  const std::map<std::string, std::string> before = TreeOf(path);
  const StatusOr<std::unique_ptr<DiskTier>> tier = DiskTier::Open(TestOptions(path));
  if (tier.ok()) return "";
  EXPECT_EQ(TreeOf(path), before);
  EXPECT_EQ(tier.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(tier.status().field(), "kv_disk_path");
  EXPECT_THAT(tier.status().message(), HasSubstr("kv_disk_path (--kv-disk-path): '" + path));
  return tier.status().message();
}

TEST(DiskDirectory, AnothersFolderNamedLikeAGenerationIsRejectedUntouched) {
  const TestFolder folder;
  WriteFile(folder.In("generation-00000012/important.txt"), "x");
  WriteFile(folder.In("notes.txt"), "y");
  EXPECT_THAT(Rejection(folder.path()),
              HasSubstr("generation-00000012': was not made by Ropeway (there is no FORMAT"));
}

// Whether the tier was there first or not.
TEST(DiskDirectory, AnyEntryThatIsNotOursIsRejectedUntouched) {
  for (const bool filled : {false, true}) {
    for (const char* name :
         {"notes.txt", ".hidden", "folder/x", "generation-1/x", "generation-000000001/x",
          "generation-00000000/x", "generation-00000012x/x", "generations", "generation-00000012",
          "FORMAT.bak", "format", "LOCK", "LOCK/x", "UNDER_WAY/x"}) {
      SCOPED_TRACE(fmt::format("{} {}", name, filled));
      const TestFolder folder;
      const std::string path = folder.In("tier");
      if (filled) FillTier(path);
      fs::remove(path + "/LOCK");
      WriteFile(path + "/" + name, "a user's");
      const std::string first = std::string(name).substr(0, std::string(name).find('/'));
      EXPECT_THAT(Rejection(path), HasSubstr("/" + first + "': was not made by Ropeway"));
    }
  }
}

// It may hold anything: to be written to, it must be readable too.
TEST(DiskDirectory, ADirectoryThatCannotBeReadIsRejectedUntouched) {
  const TestFolder folder;
  const std::string path = folder.In("tier");
  WriteFile(path + "/notes.txt", "a user's");
  std::string rejection;
  {
    fs::permissions(folder.path(), fs::perms::others_exec, fs::perm_options::add);
    const base::UnreadableDirectory unreadable(path);
    rejection = DiskTier::Open(TestOptions(path)).status().message();
  }
  EXPECT_EQ(rejection,
            "kv_disk_path (--kv-disk-path): '" + path + "': cannot be read: Permission denied");
  EXPECT_EQ(TreeOf(path).size(), 1U);
}

TEST(DiskDirectory, LinksAreNotOurs) {
  for (const char* name : {"LOCK", "FORMAT.partial", "UNDER_WAY", "generation-00000009", "x"}) {
    for (const bool filled : {false, true}) {
      SCOPED_TRACE(fmt::format("{} {}", name, filled));
      const TestFolder folder;
      const std::string path = folder.In("tier");
      if (filled) FillTier(path);
      fs::create_directories(path);
      WriteFile(folder.In("victim"), "");
      fs::remove(path + "/" + name);
      fs::create_symlink(folder.In("victim"), path + "/" + name);
      EXPECT_THAT(Rejection(path), HasSubstr(std::string(name) + "': was not made by Ropeway"));
      EXPECT_EQ(fs::file_size(folder.In("victim")), 0U);
    }
  }
}

// Opening a pipe waits for its writer.
TEST(DiskDirectory, APipeIsNotWaitedFor) {
  for (const char* name : {"LOCK", "FORMAT", "FORMAT.partial", "UNDER_WAY", "generation-00000001",
                           "generation-00000001/MADE_BY_ROPEWAY", "lost+found", "x"}) {
    for (const bool filled : {false, true}) {
      SCOPED_TRACE(fmt::format("{} {}", name, filled));
      const TestFolder folder;
      const std::string path = folder.In("tier");
      if (filled) FillTier(path);
      const fs::path pipe = path + "/" + name;
      fs::create_directories(pipe.parent_path());
      fs::remove_all(pipe);
      ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
      const std::string rejection = DiskTier::Open(TestOptions(path)).status().message();
      // A generation without its marker is left alone, and so is everything of others.
      const bool in_generation = pipe.filename() == "MADE_BY_ROPEWAY";
      if (in_generation && filled) {
        EXPECT_EQ(rejection, "");
      } else {
        const std::string first = std::string(name).substr(0, std::string(name).find('/'));
        EXPECT_THAT(rejection, HasSubstr("/" + first + "': "));
        EXPECT_THAT(rejection, HasSubstr("was not made by Ropeway"));
      }
      EXPECT_TRUE(fs::is_fifo(fs::symlink_status(pipe)));
    }
  }
}

TEST(DiskDirectory, WhatFileSystemsMakeDoesNotMatter) {
  const TestFolder folder;
  fs::create_directory(folder.In("lost+found"));
  FillTier(folder.path());
  const auto tier = OpenTier(TestOptions(folder.path()));
  EXPECT_EQ(CountRight(tier.get(), 0, kKept), static_cast<int>(kKept));
  EXPECT_TRUE(fs::exists(folder.In("lost+found")));
}

TEST(DiskDirectory, BlocksArePrivateInADirectoryThatAllMayRead) {
  const TestFolder folder;
  fs::permissions(folder.path(), fs::perms::others_read | fs::perms::others_exec,
                  fs::perm_options::add);
  FillTier(folder.path());
  int folders = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.path())) {
    if (!entry.is_directory()) continue;
    ++folders;
    EXPECT_EQ(entry.status().permissions(), fs::perms::owner_all) << entry.path();
  }
  EXPECT_GE(folders, 1);
}

// A kill may come between any two steps of the first start.
TEST(DiskDirectory, WhatAKillLeftOfTheFirstStartIsOurs) {
  const TestFolder folder;
  FillTier(folder.In("whole"));
  const std::string format = TreeOf(folder.In("whole")).at("FORMAT");
  for (size_t bytes = 0; bytes <= format.size() + 1; ++bytes) {
    const std::string path = folder.In(std::to_string(bytes));
    WriteFile(path + "/LOCK", "");
    if (bytes <= format.size()) WriteFile(path + "/FORMAT.partial", format.substr(0, bytes));
    FillTier(path);
    EXPECT_EQ(TreeOf(path).at("FORMAT"), format);
  }
}

TEST(DiskDirectory, NamesOfOursWithAnothersContentsAreRejectedUntouched) {
  const TestFolder folder;
  for (const char* name : {"FORMAT", "FORMAT.partial", "UNDER_WAY", "FORMAT/a file"}) {
    const std::string path = folder.In(std::to_string(std::string(name).size()));
    WriteFile(path + "/" + name, "a user's");
    EXPECT_THAT(Rejection(path), HasSubstr(std::string(name).substr(0, 6))) << name;
  }
}

// Anything may have happened to it: the blocks stay until someone has looked.
TEST(DiskDirectory, ADamagedFormatIsRejectedAndTheBlocksAreKept) {
  const TestFolder folder;
  FillTier(folder.path());
  const std::string format = folder.In("FORMAT");
  const std::string good = TreeOf(folder.path()).at("FORMAT");
  for (size_t i = 0; i < good.size(); ++i) {
    for (const int bit : {1, 16}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ bit);
      WriteFile(format, bad);
      EXPECT_THAT(Rejection(folder.path()), HasSubstr("FORMAT': is damaged")) << i;
    }
    WriteFile(format, good.substr(0, i));
    EXPECT_THAT(Rejection(folder.path()), HasSubstr("FORMAT': is damaged")) << i;
  }
  fs::remove(format);
  EXPECT_THAT(Rejection(folder.path()), HasSubstr("generation-00000001': was not made"));
  WriteFile(format, good);
  const auto tier = OpenTier(TestOptions(folder.path()));
  EXPECT_EQ(CountRight(tier.get(), 0, kKept), static_cast<int>(kKept));
}

TEST(DiskDirectory, AGenerationWithoutItsMarkIsLeftAlone) {
  const TestFolder folder;
  FillTier(folder.path());
  WriteFile(folder.In("generation-00000012/important.txt"), "x");
  WriteFile(folder.In("generation-00000013/MADE_BY_ROPEWAY"), "not quite");
  // Of another generation.
  fs::create_directory(folder.In("generation-00000014"));
  fs::copy_file(folder.In("generation-00000001/MADE_BY_ROPEWAY"),
                folder.In("generation-00000014/MADE_BY_ROPEWAY"));
  std::map<std::string, std::string> foreign = TreeOf(folder.path());
  std::erase_if(foreign,
                [](const auto& file) { return !file.first.starts_with("generation-0000001"); });
  ASSERT_EQ(foreign.size(), 6U);
  {
    const auto tier = OpenTier(TestOptions(folder.path()));
    EXPECT_EQ(CountRight(tier.get(), 0, kKept), static_cast<int>(kKept));
  }
  // Nor do they go with the blocks of another size; and the new generation takes none of their
  // names.
  DiskTierOptions options = TestOptions(folder.path());
  options.block_bytes += 16;
  {
    const auto tier = OpenTier(options);
    EXPECT_EQ(tier->Usage().blocks, 0U);
    PutAll(tier.get(), 0, kKept);
    FlushAll(tier.get());
  }
  const std::map<std::string, std::string> tree = TreeOf(folder.path());
  for (const auto& [name, contents] : foreign) {
    ASSERT_TRUE(tree.contains(name)) << name;
    EXPECT_EQ(tree.at(name), contents) << name;
  }
  EXPECT_FALSE(tree.contains("generation-00000001"));
  EXPECT_TRUE(tree.contains("generation-00000015/MADE_BY_ROPEWAY"));
  const auto tier = OpenTier(options);
  EXPECT_EQ(CountRight(tier.get(), 0, kKept), static_cast<int>(kKept));
}

TEST(DiskDirectory, AnothersFilesInAGenerationOutliveIt) {
  const TestFolder folder;
  FillTier(folder.path());
  const std::string generation = folder.In("generation-00000001");
  WriteFile(generation + "/important.txt", "x");
  WriteFile(generation + "/999999.sst/inner", "y");
  DiskTierOptions options = TestOptions(folder.path());
  options.block_bytes += 16;
  EXPECT_EQ(OpenTier(options)->Usage().blocks, 0U);
  EXPECT_THAT(TreeOf(generation), testing::ElementsAre(testing::Pair("999999.sst", "/"),
                                                       testing::Pair("999999.sst/inner", "y"),
                                                       testing::Pair("important.txt", "x")));
  EXPECT_TRUE(OpenTier(options)->Usage().on);
}

TEST(DiskDirectory, BlocksOfTheFirstFormatAreRemovedAndNothingElse) {
  const TestFolder folder;
  FillTier(folder.path());
  fs::remove(folder.In("generation-00000001/MADE_BY_ROPEWAY"));
  WriteFile(folder.In("generation-00000012/important.txt"), "x");
  WriteFile(folder.In("FORMAT"),
            fmt::format("ropeway kv blocks\nformat 1\nblock_bytes {}\nbyte_order little\n",
                        kTestBlockBytes));
  const auto tier = OpenTier(TestOptions(folder.path()));
  EXPECT_EQ(tier->Usage().blocks, 0U);
  EXPECT_FALSE(fs::exists(folder.In("generation-00000001")));
  EXPECT_EQ(TreeOf(folder.In("generation-00000012")).at("important.txt"), "x");
  PutAll(tier.get(), 0, kKept);
  EXPECT_EQ(CountRight(tier.get(), 0, kKept), static_cast<int>(kKept));
}

// A kill can come before the mark of a new generation is written.
TEST(DiskDirectory, WhatAKillLeftOfANewGenerationIsRemoved) {
  const TestFolder folder;
  FillTier(folder.path());
  const std::string mark = TreeOf(folder.path()).at("generation-00000001/MADE_BY_ROPEWAY");
  fs::create_directory(folder.In("generation-00000002"));
  WriteFile(folder.In("generation-00000003/MADE_BY_ROPEWAY.partial"), mark.substr(0, 20));
  WriteFile(folder.In("generation-00000004/MADE_BY_ROPEWAY.partial"), "a user's");
  const auto tier = OpenTier(TestOptions(folder.path()));
  EXPECT_EQ(CountRight(tier.get(), 0, kKept), static_cast<int>(kKept));
  EXPECT_FALSE(fs::exists(folder.In("generation-00000003")));
  EXPECT_TRUE(fs::exists(folder.In("generation-00000004/MADE_BY_ROPEWAY.partial")));
}

// The disk is full from the n-th write of the start on, for each n: the tier is off with one line,
// the start succeeds, and what was flushed earlier is found again by the next one.
class FullDiskAtTheStart : public testing::TestWithParam<bool> {};

TEST_P(FullDiskAtTheStart, TurnsTheTierOffAndCostsNoBlocks) {
  const bool filled = GetParam();
  bool on = false;
  for (int64_t n = 0; !on; ++n) {
    SCOPED_TRACE(n);
    const TestFolder folder;
    const std::string path = folder.In("tier");
    if (filled) FillTier(path);
    FaultyDisk disk;
    disk.writes_left = n;
    DiskTierOptions options = TestOptions(path);
    options.env = disk.env();
    {
      const LogText log;
      const auto tier = OpenTier(options);
      ASSERT_NE(tier, nullptr);
      on = tier->Usage().on;
      EXPECT_EQ(log.CountOf("is off until the next start"), on ? 0 : 1) << log.text();
      if (!on) {
        EXPECT_THAT(log.text(), HasSubstr("is full"));
        EXPECT_EQ(log.CountOf("\n"), 1) << log.text();
        ExpectOff(tier.get());
        tier->Cancel(1);
        EXPECT_TRUE(tier->TakeReads(10).empty());
      }
    }
    const auto tier = OpenTier(TestOptions(path));
    ASSERT_NE(tier, nullptr);
    EXPECT_EQ(CountRight(tier.get(), 0, kKept), filled ? static_cast<int>(kKept) : 0);
    PutAll(tier.get(), 100, 103);
    EXPECT_EQ(CountRight(tier.get(), 100, 103), 3);
    if (on) {
      EXPECT_GT(n, 5);  // Else the test no longer reaches the start's writes.
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, FullDiskAtTheStart, testing::Bool(), [](const auto& test) {
  return std::string(test.param ? "WithBlocks" : "Empty");
});

}  // namespace
}  // namespace ropeway::kvcache
