#include "store/state_db.h"

#include <new>
#include <utility>

namespace ropeway::store {

Status MemoryStateDb::Write(std::span<const StateChange> changes) {
  const std::lock_guard lock(mu_);
  // All or none: nodes are allocated first, and the rest needs no memory.
  std::map<std::string, std::string> added;
  try {
    for (const StateChange& change : changes) {
      if (change.value) added[change.key] = *change.value;
      if (!change.value) added.erase(change.key);
    }
  } catch (const std::bad_alloc&) {
    return {StatusCode::kResourceExhausted, "out of memory"};
  }
  for (const StateChange& change : changes) {
    if (!change.value) values_.erase(change.key);
  }
  while (!added.empty()) {
    auto node = added.extract(added.begin());
    values_.erase(node.key());
    values_.insert(std::move(node));
  }
  return {};
}

StatusOr<std::string> MemoryStateDb::Read(const std::string& key) const {
  const std::lock_guard lock(mu_);
  const auto it = values_.find(key);
  if (it == values_.end()) return Status(StatusCode::kNotFound, "no such key");
  return it->second;
}

Status MemoryStateDb::Visit(const std::string& prefix, const VisitFn& visit) const {
  const std::lock_guard lock(mu_);
  for (auto it = values_.lower_bound(prefix); it != values_.end(); ++it) {
    if (it->first.compare(0, prefix.size(), prefix) != 0) break;
    visit(it->first, it->second);
  }
  return {};
}

}  // namespace ropeway::store
