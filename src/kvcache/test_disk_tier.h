// Shared by the disk tier's tests: directories, blocks, reading, and a device that fails.
#ifndef ROPEWAY_KVCACHE_TEST_DISK_TIER_H_
#define ROPEWAY_KVCACHE_TEST_DISK_TIER_H_

#include <rocksdb/env.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "kvcache/disk_tier.h"

namespace ropeway::kvcache {

// A new, empty directory, removed with the object.
class TestFolder {
 public:
  TestFolder();
  ~TestFolder();
  std::string path() const { return path_.string(); }
  std::string In(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

// The program's log while it lives.
class LogText {
 public:
  LogText() : before_(spdlog::default_logger()) {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text_)));
  }
  ~LogText() { spdlog::set_default_logger(before_); }
  std::string text() const { return text_.str(); }
  int64_t CountOf(const std::string& word) const {
    const std::string all = text();
    int64_t count = 0;
    for (size_t at = 0; (at = all.find(word, at)) != std::string::npos; ++at) ++count;
    return count;
  }

 private:
  std::shared_ptr<spdlog::logger> before_;
  std::ostringstream text_;
};

inline constexpr size_t kTestBlockBytes = 20'000;

// The name and bytes of the test's block `i`, different for each `i`.
core::BlockName TestName(uint64_t i);
std::vector<std::byte> TestBlock(uint64_t i, size_t bytes = kTestBlockBytes);

DiskTierOptions TestOptions(const std::string& path);
// Fails the test where it does not open.
std::unique_ptr<DiskTier> OpenTier(const DiskTierOptions& options);

// Puts the blocks first .. last-1, waiting while the tier is full.
void PutAll(DiskTier* tier, uint64_t first, uint64_t last, size_t bytes = kTestBlockBytes);
// Flushes, and waits until all that was put is stored (or the tier is off).
void FlushAll(DiskTier* tier);
// One block; nullopt: it cannot be read.
std::optional<std::vector<std::byte>> ReadOne(DiskTier* tier, const core::BlockName& name);
// All parts of a read, waiting for them.
std::vector<KvRead> ReadMany(DiskTier* tier, const std::vector<core::BlockName>& names);
// How many of the blocks first .. last-1 can be read. The test fails for wrong bytes.
int CountRight(DiskTier* tier, uint64_t first, uint64_t last, size_t bytes = kTestBlockBytes);
// A tier that is off takes no block, finds none, and can be called all the same.
void ExpectOff(DiskTier* tier);

// All files below it with their contents, by their paths; of a folder "/".
std::map<std::string, std::string> TreeOf(const std::string& path);
// The disk space of all files below it.
uint64_t DiskUsage(const std::string& path);

// The machine's file system, with injected errors.
class FaultyDisk {
 public:
  FaultyDisk();
  ~FaultyDisk();
  rocksdb::Env* env() { return env_.get(); }

  std::atomic<int64_t> free_bytes{int64_t{1} << 60};  // Writes beyond fail: the disk is full.
  // What takes space (a new file, a folder, a name, bytes) succeeds this many times more: then too.
  std::atomic<int64_t> writes_left{int64_t{1} << 60};
  std::atomic<bool> fail_writes{false};  // Writes fail with an error of the device.
  std::atomic<bool> fail_reads{false};   // Reads of blobs fail so.
  std::atomic<bool> flip_reads{false};   // A bit of each blob is wrong.

 private:
  std::unique_ptr<rocksdb::Env> env_;
};

}  // namespace ropeway::kvcache

#endif  // ROPEWAY_KVCACHE_TEST_DISK_TIER_H_
