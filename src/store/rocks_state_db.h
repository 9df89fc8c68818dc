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
}  // namespace rocksdb

namespace ropeway {

// Each Write is synced to the device before it returns. The directory belongs to one process at a
// time, and only its owner may read it: there are conversations in it.
class RocksStateDb final : public StateDb {
 public:
  // Opens the database in the directory `path`, which is made if need be. `storage_bytes` is what
  // the directory shall hold at most; the part of it that values may take is kValueShare, the rest
  // is for the log and for values that were overwritten or removed and are not cleared away yet.
  // A torn end of the log, as a power cut leaves it, is cut off; for other damage, or another
  // process with the same directory, one sentence that names the path.
  static StatusOr<std::unique_ptr<RocksStateDb>> Open(const std::string& path,
                                                      uint64_t storage_bytes);
  static constexpr double kValueShare = 0.4;

  ~RocksStateDb() override;

  Status Write(std::span<const StateChange> changes) override;
  StatusOr<std::string> Read(const std::string& key) const override;
  Status Visit(const std::string& prefix, const VisitFn& visit) const override;
  bool durable() const override { return true; }

 private:
  RocksStateDb(std::string path, uint64_t storage_bytes);

  Status OpenDb();
  // Makes the database writable again after a failed write.
  Status Recover();

  const std::string path_;
  const uint64_t storage_bytes_;
  mutable std::shared_mutex mu_;     // Held alone while db_ is opened again.
  std::unique_ptr<rocksdb::DB> db_;  // Guarded by mu_; null where it could not be opened again.
  bool failed_ = false;              // The last Write failed; the writing thread's.
};

}  // namespace ropeway

#endif  // ROPEWAY_STORE_ROCKS_STATE_DB_H_
