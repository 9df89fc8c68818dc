// A StateDb in memory, for engines without a state path.
#ifndef ROPEWAY_STORE_MEMORY_STATE_DB_H_
#define ROPEWAY_STORE_MEMORY_STATE_DB_H_

#include <map>
#include <mutex>
#include <string>

#include "store/state_db.h"

namespace ropeway {

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

}  // namespace ropeway

#endif  // ROPEWAY_STORE_MEMORY_STATE_DB_H_
