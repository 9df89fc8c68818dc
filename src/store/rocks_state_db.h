// A StateDb on disk: a RocksDB with a write-ahead log.
#ifndef ROPEWAY_STORE_ROCKS_STATE_DB_H_
#define ROPEWAY_STORE_ROCKS_STATE_DB_H_

#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <string>

#include "store/state_db.h"

namespace rocksdb {
class DB;
class Env;
}  // namespace rocksdb

namespace ropeway::store {

// Each Write is synced to the device before it returns. One process at a time may open the
// directory, and only its owner may read it: it contains conversations.
class RocksStateDb final : public StateDb {
 public:
  // Opens the database in the directory `path`, which is created if need be. `storage_bytes` bounds
  // the directory's size; values may take kValueShare of it, the rest is for the log and for
  // overwritten or removed values that are not compacted yet. A torn end of the log, as after a
  // power cut, is cut off. Other damage, or another process that uses the directory, is an error
  // that names the path. On a full disk it succeeds with a database that is closed: each Write
  // tries to open it, and until then everything is kUnavailable with the reason. `env`: for tests;
  // null: the machine's.
  static StatusOr<std::unique_ptr<RocksStateDb>> Open(const std::string& path,
                                                      uint64_t storage_bytes,
                                                      rocksdb::Env* env = nullptr);
  static constexpr double kValueShare = 0.4;

  ~RocksStateDb() override;

  Status Write(std::span<const StateChange> changes) override;
  StatusOr<std::string> Read(const std::string& key) const override;
  Status Visit(const std::string& prefix, const VisitFn& visit) const override;
  bool durable() const override { return true; }

 private:
  RocksStateDb(std::string path, uint64_t storage_bytes, rocksdb::Env* env);

  // Opens the database; kUnavailable if the disk is full.
  Status OpenDb();
  // Opens it anew after a failed write, which is what makes it writable again.
  Status Reopen();
  // kUnavailable if the disk has no room to open it.
  Status CheckRoom() const;
  Status Closed() const;  // REQUIRES: mu_ is held, and db_ is null.

  const std::string path_;
  const uint64_t storage_bytes_;
  rocksdb::Env* const env_;
  mutable std::shared_mutex mu_;     // Held exclusively while db_ is reopened.
  std::unique_ptr<rocksdb::DB> db_;  // Guarded by mu_; null if it could not be opened.
  Status why_closed_;                // Guarded by mu_; set if db_ is null.
  bool failed_ = false;              // The last Write failed; used by the writing thread only.
};

}  // namespace ropeway::store

#endif  // ROPEWAY_STORE_ROCKS_STATE_DB_H_
