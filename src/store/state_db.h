// The StateDb seam: keys and values that survive the process; one in memory and one on disk.
#ifndef ROPEWAY_STORE_STATE_DB_H_
#define ROPEWAY_STORE_STATE_DB_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>

#include "ropeway/status.h"

namespace rocksdb {
class DB;
class Env;
}  // namespace rocksdb

namespace ropeway::store {

// Sets `key`, or removes it if there is no value.
struct StateChange {
  std::string key;
  std::optional<std::string> value;
};

// A value is read back as it was written, or not at all, as far as the database can tell; callers
// also seal their values (session.h).
//
// Thread rule: Write from one thread at a time, the rest from any.
class StateDb {
 public:
  using VisitFn = std::function<void(std::string_view key, std::string_view value)>;

  virtual ~StateDb() = default;

  // Makes all changes, in order, or none. After OK they survive the process if durable(). After a
  // failure (kUnavailable: a full disk) it may be called again, without changes
  // too, and works once the cause is gone; the failed changes may or may not be there after a
  // restart.
  virtual Status Write(std::span<const StateChange> changes) = 0;

  // The value at `key`. kNotFound: there is none; kDataLoss: it is unreadable; kUnavailable: the
  // database is closed.
  virtual StatusOr<std::string> Read(const std::string& key) const = 0;

  // Calls `visit` for each key that begins with `prefix`, in order. kDataLoss if some could not be
  // read; those before them were visited. kUnavailable with none visited: the database is closed.
  virtual Status Visit(const std::string& prefix, const VisitFn& visit) const = 0;

  // Whether writes survive the process.
  virtual bool durable() const = 0;
};

// A StateDb in memory, for engines without a state path.
class MemoryStateDb final : public StateDb {
 public:
  Status Write(std::span<const StateChange> changes) override;
  StatusOr<std::string> Read(const std::string& key) const override;
  Status Visit(const std::string& prefix, const VisitFn& visit) const override;
  bool durable() const override { return false; }

 private:
  mutable std::mutex mu_;
  std::map<std::string, std::string> values_;  // GUARDED_BY(mu_)
};

// One process at a time may open the directory, and only its owner may read it: it contains
// conversations.
class RocksStateDb final : public StateDb {
 public:
  // Opens the database in the directory `path`, which is created if need be. `storage_bytes` bounds
  // the directory's size; values may take kValueShare of it, the rest is for the log and for
  // overwritten or removed values that are not compacted yet. A torn end of the log, as after a
  // power cut, is cut off. Other damage, or another process that uses the directory, is an error
  // that names the path. On a full disk it succeeds with a database that is closed: each Write
  // tries to open it, and until then everything is kUnavailable with the reason. `sync`: each Write
  // is synced to the device before it returns, and survives a power cut; else it is in the system's
  // hands, and survives the process's death, whatever its cause. `env`: for tests; null: the
  // machine's.
  static StatusOr<std::unique_ptr<RocksStateDb>> Open(const std::string& path,
                                                      uint64_t storage_bytes, bool sync,
                                                      rocksdb::Env* env = nullptr);
  static constexpr double kValueShare = 0.4;

  ~RocksStateDb() override;

  Status Write(std::span<const StateChange> changes) override;
  StatusOr<std::string> Read(const std::string& key) const override;
  Status Visit(const std::string& prefix, const VisitFn& visit) const override;
  bool durable() const override { return true; }

 private:
  RocksStateDb(std::string path, uint64_t storage_bytes, bool sync, rocksdb::Env* env);

  // Opens the database; kUnavailable if the disk is full.
  Status OpenDb();
  // Opens it anew after a failed write, which is what makes it writable again.
  Status Reopen();
  // kUnavailable if the disk has no room to open it.
  Status CheckRoom() const;
  Status Closed() const;  // REQUIRES: mu_ is held, and db_ is null.

  const std::string path_;
  const uint64_t storage_bytes_;
  const bool sync_;
  rocksdb::Env* const env_;
  mutable std::shared_mutex mu_;     // Held exclusively while db_ is reopened.
  std::unique_ptr<rocksdb::DB> db_;  // Null if it could not be opened. GUARDED_BY(mu_)
  Status why_closed_;                // Set if db_ is null. GUARDED_BY(mu_)
  bool failed_ = false;              // The last Write failed; used by the writing thread only.
};

}  // namespace ropeway::store

#endif  // ROPEWAY_STORE_STATE_DB_H_
