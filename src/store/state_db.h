// The StateDb seam: keys and values that survive the process; and one in memory.
#ifndef ROPEWAY_STORE_STATE_DB_H_
#define ROPEWAY_STORE_STATE_DB_H_

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ropeway/status.h"

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

  // Makes all changes, in order, or none. After OK they survive the process and, if durable(), a
  // power cut. After a failure (kUnavailable: a full disk) it may be called again, without changes
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
  std::map<std::string, std::string> values_;  // Guarded by mu_.
};

}  // namespace ropeway::store

#endif  // ROPEWAY_STORE_STATE_DB_H_
