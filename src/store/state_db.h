// The StateDb seam: keys and values that must survive the process.
#ifndef ROPEWAY_STORE_STATE_DB_H_
#define ROPEWAY_STORE_STATE_DB_H_

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ropeway/status.h"

namespace ropeway {

// Sets `key`, or removes it where there is no value.
struct StateChange {
  std::string key;
  std::optional<std::string> value;
};

// Values come back as they were written or not at all, as far as the database can tell; who stores
// them seals them besides (record.h).
//
// Thread rule: Write from one thread at a time, all else from any.
class StateDb {
 public:
  using VisitFn = std::function<void(std::string_view key, std::string_view value)>;

  virtual ~StateDb() = default;

  // Makes all changes, in order, or none. Once it returned OK they survive the process and, where
  // durable(), a power cut. After a failure (a full disk) it may be called again, and works as soon
  // as the cause is gone; what failed may or may not be found after a restart.
  virtual Status Write(std::span<const StateChange> changes) = 0;

  // The value at `key`. kNotFound: there is none; kDataLoss: there may be one, and it cannot be
  // read.
  virtual StatusOr<std::string> Read(const std::string& key) const = 0;

  // Calls `visit` for each key that begins with `prefix`, in their order. kDataLoss where some
  // could not be read; what comes before them was visited.
  virtual Status Visit(const std::string& prefix, const VisitFn& visit) const = 0;

  // Whether what was written outlives the process.
  virtual bool durable() const = 0;
};

}  // namespace ropeway

#endif  // ROPEWAY_STORE_STATE_DB_H_
