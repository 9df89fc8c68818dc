// One generation of the disk tier: the blocks that were stored at about the same time, in a RocksDB
// database of their own. Dropping a generation frees all its space at once, and damage in one
// affects no other.
//
// Blocks lie in uncompressed blob files; the tables hold their keys only:
//
//   'b' + name (32 bytes)  the block, in a blob file
//   'n' + name             empty: listing the names must not read the blobs
//
// There is no write-ahead log. Writes are in memory until Flush. A block is stored as
//
//   offset  bytes
//        0      4  magic "RKVB"
//        4      4  kDiskFormat
//        8     32  the block's name
//       40      8  number of bytes of the block
//       48      8  XXH3-64 of these bytes
//       56         the bytes
//
// Integers are little-endian. The checksum detects damage and does not authenticate: write access
// to the directory is access to its contents.
#ifndef ROPEWAY_KVCACHE_DISK_GENERATION_H_
#define ROPEWAY_KVCACHE_DISK_GENERATION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/block_name.h"
#include "ropeway/status.h"

namespace rocksdb {
class DB;
class Env;
class EventListener;
class WriteBatch;
}  // namespace rocksdb

namespace ropeway::kvcache {

// The version of the header and of the directory's layout. Goes up with any change of either.
inline constexpr uint32_t kDiskFormat = 2;
inline constexpr size_t kDiskHeaderBytes = 56;
// The disk space of a block besides its bytes, at most: its header, the blob's, two keys and their
// table entries.
inline constexpr size_t kDiskBlockOverhead = 320;
// The disk space of a flush besides its blocks, at most, in whole blocks of the file system.
inline constexpr size_t kDiskFlushOverhead = 64 << 10;

std::array<std::byte, kDiskHeaderBytes> DiskHeader(const core::BlockName& name,
                                                   std::span<const std::byte> bytes);

// The block's bytes within its stored form; nullopt if that is torn, damaged or another block's.
std::optional<std::span<const std::byte>> CheckDiskBlock(const core::BlockName& name,
                                                         std::span<const std::byte> stored);

// Thread rule: Read from any thread, the rest from one.
class DiskGeneration {
 public:
  enum class Result {
    kRead,
    kDamaged,  // Missing, torn, corrupt or another block.
    kDevice,   // The device reports an error.
  };

  struct Config {
    std::string path;
    bool create = false;          // Create it; else it must exist.
    size_t memtable_bytes = 0;    // Written between two flushes, about.
    rocksdb::Env* env = nullptr;  // Must outlive it.
    std::shared_ptr<rocksdb::EventListener> listener;
  };

  // kDataLoss where damage prevents listing the names, kUnavailable where the device fails or is
  // full. Throws std::bad_alloc.
  static StatusOr<std::unique_ptr<DiskGeneration>> Open(const Config& config);

  // Closes the database; writes that were not flushed are lost.
  ~DiskGeneration();

  // The names of all its blocks, as of Open.
  std::vector<core::BlockName> TakeNames() { return std::move(names_); }

  // Throws std::bad_alloc.
  Status Write(const core::BlockName& name, std::span<const std::byte> bytes);
  Status Erase(const core::BlockName& name);
  // When this returns, all earlier writes survive the process.
  Status Flush();

  // `*bytes` is replaced. Throws std::bad_alloc.
  Result Read(const core::BlockName& name, std::vector<std::byte>* bytes) const;

  // The disk space of its files.
  uint64_t MeasureBytes() const;

  // Closes it once running reads have ended. Later reads find nothing.
  void Close();

 private:
  explicit DiskGeneration(std::string path);
  Status ListNames();

  const std::string path_;
  mutable std::shared_mutex closing_;           // Held shared by readers, alone by Close.
  std::unique_ptr<rocksdb::DB> db_;             // nullptr: closed.
  std::unique_ptr<rocksdb::WriteBatch> batch_;  // Kept to reuse its memory.
  std::vector<core::BlockName> names_;
};

}  // namespace ropeway::kvcache

#endif  // ROPEWAY_KVCACHE_DISK_GENERATION_H_
