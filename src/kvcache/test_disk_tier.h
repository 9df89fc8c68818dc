// Shared by the disk tier's tests: directories, blocks, reading, and a device that fails.
#ifndef ROPEWAY_KVCACHE_TEST_DISK_TIER_H_
#define ROPEWAY_KVCACHE_TEST_DISK_TIER_H_

#include <rocksdb/env.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
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

// The disk space of all files below it.
uint64_t DiskUsage(const std::string& path);

// The machine's file system, with injected errors.
class FaultyDisk {
 public:
  FaultyDisk();
  ~FaultyDisk();
  rocksdb::Env* env() { return env_.get(); }

  std::atomic<int64_t> free_bytes{int64_t{1} << 60};  // Writes beyond fail: the disk is full.
  std::atomic<bool> fail_writes{false};               // With an error of the device.
  std::atomic<bool> fail_reads{false};                // Of blobs, likewise.
  std::atomic<bool> flip_reads{false};                // A bit of each blob is wrong.

 private:
  std::unique_ptr<rocksdb::Env> env_;
};

}  // namespace ropeway::kvcache

#endif  // ROPEWAY_KVCACHE_TEST_DISK_TIER_H_
