// A disk that is full from some write on.
#ifndef ROPEWAY_STORE_TEST_FULL_DISK_H_
#define ROPEWAY_STORE_TEST_FULL_DISK_H_

#include <rocksdb/env.h>

#include <atomic>
#include <cstdint>
#include <memory>

namespace ropeway::store {

// The machine's file system, without its fsync.
class FullDisk {
 public:
  static constexpr int64_t kEndless = int64_t{1} << 60;

  FullDisk();
  ~FullDisk();
  rocksdb::Env* env() { return env_.get(); }

  // What takes space (a new file, a directory, a name, bytes, a sync) succeeds this many times
  // more.
  std::atomic<int64_t> writes_left{kEndless};
  bool is_full() const { return writes_left <= 0; }
  std::atomic<int64_t> syncs{0};  // Of files, so far.
  // Whether the file system says that it is full before one tries.
  std::atomic<bool> tells{true};

 private:
  std::unique_ptr<rocksdb::Env> env_;
};

}  // namespace ropeway::store

#endif  // ROPEWAY_STORE_TEST_FULL_DISK_H_
