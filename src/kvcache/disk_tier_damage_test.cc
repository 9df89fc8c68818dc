// Damaged files: whatever happens to any of them, the tier opens, returns right bytes or none, and
// keeps working.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "kvcache/test_disk_tier.h"

namespace ropeway::kvcache {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kBlocks = 12;
constexpr size_t kBytes = 3000;

// The files of a tier with kBlocks blocks in several flushes, with a compaction among them.
void MakeTier(const std::string& path) {
  const auto tier = OpenTier(TestOptions(path));
  for (uint64_t i = 0; i < kBlocks; ++i) {
    PutAll(tier.get(), i, i + 1, kBytes);
    FlushAll(tier.get());
  }
}

// Of each kind the first and the last. Not FORMAT: if it is damaged, the tier does not open
// (disk_directory_test.cc).
std::vector<fs::path> FilesBelow(const std::string& path) {
  std::map<std::string, std::vector<fs::path>> by_kind;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path)) {
    if (!entry.is_regular_file()) continue;
    const std::string name = entry.path().filename().string();
    if (name == "FORMAT") continue;
    const std::string kind = name.substr(0, name.find('-')) + entry.path().extension().string();
    by_kind[isdigit(name[0]) != 0 ? entry.path().extension().string() : kind].push_back(
        fs::relative(entry.path(), path));
  }
  std::vector<fs::path> files;
  for (auto& [kind, paths] : by_kind) {
    std::sort(paths.begin(), paths.end());
    files.push_back(paths.front());
    if (paths.size() > 1) files.push_back(paths.back());
  }
  return files;
}

void Flip(const fs::path& file, uint64_t offset) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(offset));
  const int byte = stream.get();
  stream.seekp(static_cast<std::streamoff>(offset));
  stream.put(static_cast<char>(byte ^ 0x10));
}

// Opens what is left, and checks it.
void CheckDamaged(const std::string& path, const std::string& what) {
  SCOPED_TRACE(what);
  {
    const auto tier = OpenTier(TestOptions(path));
    ASSERT_NE(tier, nullptr);
    CountRight(tier.get(), 0, kBlocks, kBytes);  // Fails for wrong bytes.
    ASSERT_TRUE(tier->Usage().on);
    PutAll(tier.get(), 0, kBlocks, kBytes);
    PutAll(tier.get(), 100, 103, kBytes);
    FlushAll(tier.get());
    ASSERT_TRUE(tier->Usage().on);
    EXPECT_EQ(CountRight(tier.get(), 0, kBlocks, kBytes), static_cast<int>(kBlocks));
  }
  const auto tier = OpenTier(TestOptions(path));
  ASSERT_NE(tier, nullptr);
  EXPECT_EQ(CountRight(tier.get(), 100, 103, kBytes), 3);
}

void Copy(const std::string& from, const std::string& to) {
  fs::remove_all(to);
  fs::copy(from, to, fs::copy_options::recursive);
}

TEST(DiskTierDamage, FlippedBitsInAnyFile) {
  const TestFolder folder;
  MakeTier(folder.In("good"));
  for (const fs::path& file : FilesBelow(folder.In("good"))) {
    const uint64_t size = fs::file_size(fs::path(folder.In("good")) / file);
    const bool table = file.extension() == ".sst";
    for (uint64_t i = 0; size > 0 && i < (table ? 25U : 6U); ++i) {
      const uint64_t offset = i * (size - 1) / (table ? 24 : 5);
      Copy(folder.In("good"), folder.In("bad"));
      Flip(fs::path(folder.In("bad")) / file, offset);
      CheckDamaged(folder.In("bad"), file.string() + " flipped at " + std::to_string(offset));
    }
  }
}

TEST(DiskTierDamage, TornOrMissingFiles) {
  const TestFolder folder;
  MakeTier(folder.In("good"));
  for (const fs::path& file : FilesBelow(folder.In("good"))) {
    const uint64_t size = fs::file_size(fs::path(folder.In("good")) / file);
    Copy(folder.In("good"), folder.In("bad"));
    fs::remove(fs::path(folder.In("bad")) / file);
    CheckDamaged(folder.In("bad"), file.string() + " removed");
    for (uint64_t i = 0; size > 0 && i < 4; ++i) {
      Copy(folder.In("good"), folder.In("bad"));
      fs::resize_file(fs::path(folder.In("bad")) / file, i * (size - 1) / 3);
      CheckDamaged(folder.In("bad"), file.string() + " cut to " + std::to_string(i) + "/3");
    }
  }
}

TEST(DiskTierDamage, ABlockUnderAnothersNameIsNotServed) {
  const TestFolder folder;
  {
    // As after a bug: valid bytes under another block's name.
    const auto tier = OpenTier(TestOptions(folder.path()));
    PutAll(tier.get(), 0, 2, kBytes);
    FlushAll(tier.get());
  }
  // Both blocks lie in one blob file, in some order: exchange their names' bytes in it.
  for (const fs::path& file : FilesBelow(folder.path())) {
    if (file.extension() != ".blob") continue;
    const fs::path path = fs::path(folder.path()) / file;
    std::ifstream in(path, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(in), {}};
    const auto name = [](uint64_t i) {
      const core::BlockName n = TestName(i);
      return std::string(reinterpret_cast<const char*>(n.bytes.data()), n.bytes.size());
    };
    const auto exchange = [&](size_t from) {
      const size_t a = text.find(name(0), from);
      const size_t b = text.find(name(1), from);
      if (a == std::string::npos || b == std::string::npos) return;
      text.replace(a, 32, name(1));
      text.replace(b, 32, name(0));
    };
    exchange(0);
    std::ofstream(path, std::ios::binary) << text;
  }
  const auto tier = OpenTier(TestOptions(folder.path()));
  CountRight(tier.get(), 0, 2, kBytes);  // Fails for wrong bytes.
}

}  // namespace
}  // namespace ropeway::kvcache
