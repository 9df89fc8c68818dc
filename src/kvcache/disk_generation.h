// One generation of the disk tier: blocks that were stored at about the same time, in a RocksDB
// database of their own, so that dropping the generation gives all its space back at once, and
// damage in one costs no other.
//
// Blocks lie in blob files, uncompressed; the tables hold their keys only:
//
//   'b' + name (32 bytes)  the block (disk_block.h), in a blob file
//   'n' + name             nothing: listing the names must not read the blobs
//
// There is no write-ahead log. What was written is in memory until Flush.
#ifndef ROPEWAY_KVCACHE_DISK_GENERATION_H_
#define ROPEWAY_KVCACHE_DISK_GENERATION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
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

namespace ropeway {

// Thread rule: Read from any thread, the rest from one.
class DiskGeneration {
 public:
  enum class Result {
    kRead,
    kDamaged,  // Not there, torn, corrupt or another block.
    kDevice,   // The device reports an error.
  };

  struct Config {
    std::string path;
    bool create = false;          // A new one; else one that is there.
    size_t memtable_bytes = 0;    // What is written between two flushes, about.
    rocksdb::Env* env = nullptr;  // Must outlive it.
    std::shared_ptr<rocksdb::EventListener> listener;
  };

  // Fails for a database that is damaged so that its names cannot be listed. Throws std::bad_alloc.
  static StatusOr<std::unique_ptr<DiskGeneration>> Open(const Config& config);

  // Closes it; what was not flushed is lost.
  ~DiskGeneration();

  // The names of all blocks in it, as of Open.
  std::vector<BlockName> TakeNames() { return std::move(names_); }

  // Throws std::bad_alloc.
  Status Write(const BlockName& name, std::span<const std::byte> bytes);
  Status Erase(const BlockName& name);
  // What was written before outlives the process when this returns.
  Status Flush();

  // `*bytes` is replaced. Throws std::bad_alloc.
  Result Read(const BlockName& name, std::vector<std::byte>* bytes) const;

  // What its files take of the disk.
  uint64_t MeasureBytes() const;

  // Closes it, after a read that is under way. Later reads find nothing.
  void Close();

 private:
  explicit DiskGeneration(std::string path);
  Status ListNames();

  const std::string path_;
  mutable std::shared_mutex closing_;           // Held shared by readers, alone by Close.
  std::unique_ptr<rocksdb::DB> db_;             // nullptr: closed.
  std::unique_ptr<rocksdb::WriteBatch> batch_;  // Kept: its memory is used again.
  std::vector<BlockName> names_;
};

}  // namespace ropeway

#endif  // ROPEWAY_KVCACHE_DISK_GENERATION_H_
