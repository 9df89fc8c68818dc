#include "gpu/program_cache.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace ropeway::gpu {
namespace {

namespace fs = std::filesystem;
using std::chrono::hours;

class ProgramCacheTest : public ::testing::Test {
 protected:
  ProgramCacheTest() { fs::create_directories(folder_); }
  ~ProgramCacheTest() override { fs::remove_all(folder_.parent_path()); }

  std::vector<fs::path> Files() const {
    const fs::directory_iterator entries(folder_);
    return {begin(entries), end(entries)};
  }
  // Keeps a program, last used so long ago. The result is its file.
  fs::path KeepOld(const ProgramCache& cache, const std::string& key, hours age,
                   const std::string& program = "program") {
    const std::vector<fs::path> before = Files();
    cache.Keep(key, program);
    fs::path made;
    for (const fs::path& file : Files()) {
      if (std::find(before.begin(), before.end(), file) == before.end()) made = file;
    }
    EXPECT_FALSE(made.empty()) << key;
    Age(made, age);
    return made;
  }
  static void Age(const fs::path& file, hours age) {
    fs::last_write_time(file, fs::file_time_type::clock::now() - age);
  }
  static void Write(const fs::path& file, const std::string& text) { std::ofstream(file) << text; }

  const fs::path folder_ = fs::path(::testing::TempDir()) /
                           fmt::format("program_cache.{}", getpid()) / "ropeway" / "kernels";
};

TEST_F(ProgramCacheTest, WhatWasUsedLastIsKept) {
  const ProgramCache cache(folder_, {.files = 3});
  KeepOld(cache, "a", hours(30));
  KeepOld(cache, "b", hours(20));
  KeepOld(cache, "c", hours(10));
  EXPECT_EQ(cache.Find("a"), "program");  // Used again.
  cache.Keep("d", "program");
  EXPECT_EQ(cache.Find("b"), std::nullopt);
  for (const char* const kept : {"a", "c", "d"}) EXPECT_EQ(cache.Find(kept), "program") << kept;
  EXPECT_EQ(Files().size(), 3U);
}

TEST_F(ProgramCacheTest, BytesAreBoundedToo) {
  const ProgramCache cache(folder_, {.files = 100, .bytes = 1000});
  const std::string third(300, 'x');
  KeepOld(cache, "a", hours(3), third);
  KeepOld(cache, "b", hours(2), third);
  cache.Keep("c", third);
  EXPECT_EQ(cache.Find("a"), std::nullopt);
  EXPECT_EQ(cache.Find("b"), third);
  EXPECT_EQ(cache.Find("c"), third);
  // The newest alone may have them all.
  cache.Keep("d", std::string(900, 'x'));
  EXPECT_EQ(Files().size(), 1U);
  EXPECT_EQ(cache.Find("d"), std::string(900, 'x'));
}

TEST_F(ProgramCacheTest, OnlyItsOwnFilesAreRemoved) {
  const ProgramCache cache(folder_, {.files = 1});
  const std::string digest(64, 'a');
  const fs::path elsewhere = folder_.parent_path() / "elsewhere";
  Write(elsewhere, "not ours");
  for (const std::string& name :
       {std::string("notes.txt"), std::string(64, 'A'), digest + "a", digest.substr(1),
        digest + ".txt", std::string("part"), std::string("1.0.part")}) {
    Write(folder_ / name, "not ours");
    Age(folder_ / name, hours(1000));
  }
  fs::create_directory(folder_ / std::string(64, 'b'));
  fs::create_symlink(elsewhere, folder_ / std::string(64, 'c'));
  const size_t others = Files().size();
  const fs::path old = KeepOld(cache, "a", hours(2000));
  cache.Keep("b", "program");
  EXPECT_FALSE(fs::exists(old));
  EXPECT_EQ(Files().size(), others + 1);
  EXPECT_TRUE(fs::exists(elsewhere));
}

TEST_F(ProgramCacheTest, WhatAKilledProcessLeftIsRemoved) {
  const ProgramCache cache(folder_);
  const fs::path old = folder_ / (std::string(64, 'a') + ".1.0.part");
  const fs::path fresh = folder_ / (std::string(64, 'a') + ".2.0.part");
  Write(old, "half");
  Write(fresh, "half of another process");
  Age(old, hours(25));
  cache.Keep("a", "program");
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(fresh));
}

// Anything may lie where a program is expected. None of it is a program, is waited for, or is read
// without end.
TEST_F(ProgramCacheTest, WhatIsNoProgramIsNotFound) {
  const ProgramCache cache(folder_, {.files = 100, .bytes = 1000});
  const fs::path path = KeepOld(cache, "a", hours(1));
  const std::vector<std::function<void()>> things = {
      [&] { ASSERT_EQ(mkfifo(path.c_str(), 0600), 0); },
      [&] { fs::create_directory(path); },
      [&] { fs::create_symlink("/dev/zero", path); },
      [&] { fs::create_symlink(path, path); },
      [&] {
        Write(path, "large");
        fs::resize_file(path, uintmax_t{1} << 30);  // A sparse one.
      },
  };
  for (const auto& put : things) {
    fs::remove(path);
    put();
    EXPECT_EQ(cache.Find("a"), std::nullopt);
  }
}

TEST_F(ProgramCacheTest, AFolderThatItMakesIsItsUsersAlone) {
  const ProgramCache cache(folder_ / "new" / "folder");
  cache.Keep("a", "program");
  EXPECT_EQ(cache.Find("a"), "program");
  struct stat made {};
  ASSERT_EQ(stat((folder_ / "new").c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 0777, 0700U);
}

// Two processes that have more programs than may be kept remove each other's, but never find half
// of one.
TEST_F(ProgramCacheTest, SeveralMayHaveOneFolder) {
  const auto work = [this](int start) {
    const ProgramCache cache(folder_, {.files = 4});
    for (int i = 0; i < 300; ++i) {
      const std::string key(1, static_cast<char>('a' + (start + i) % 8));
      const std::string program(20000, key[0]);
      cache.Keep(key, program);
      for (char other = 'a'; other < 'i'; ++other) {
        const auto found = cache.Find(std::string(1, other));
        EXPECT_EQ(found.value_or(std::string(20000, other)), std::string(20000, other));
      }
    }
  };
  std::vector<std::thread> threads;
  for (int start : {0, 3, 6}) threads.emplace_back(work, start);
  for (std::thread& thread : threads) thread.join();
  ProgramCache(folder_, {.files = 4}).Keep("z", "program");
  EXPECT_LE(Files().size(), 4U);  // Fewer, where two made room at once.
}

}  // namespace
}  // namespace ropeway::gpu
