// A queue in which tenants take turns.
#ifndef ROPEWAY_BASE_TURN_QUEUE_H_
#define ROPEWAY_BASE_TURN_QUEUE_H_

#include <list>
#include <map>
#include <string>

namespace ropeway::base {

// The items of each tenant in their order; a turn is one item. A tenant's first item waits for at
// most one of each other tenant's, however many these have. Thread rule: one thread at a time.
template <typename T>
class TurnQueue {
 public:
  // Takes the items of `items`, behind the tenant's others. Throws std::bad_alloc, with nothing
  // taken.
  void Push(const std::string& tenant, std::list<T>* items) {
    std::list<T>& own = tenants_.try_emplace(tenant).first->second;
    own.splice(own.end(), *items);
  }

  // One item. REQUIRES: not empty.
  std::list<T> Pop() {
    if (next_ == tenants_.end()) next_ = tenants_.begin();
    std::list<T> item;
    item.splice(item.end(), next_->second, next_->second.begin());
    const auto served = next_++;
    if (served->second.empty()) tenants_.erase(served);
    return item;
  }

  bool empty() const { return tenants_.empty(); }

 private:
  std::map<std::string, std::list<T>>
      tenants_;  // With items; turns go round in order of the names.
  typename std::map<std::string, std::list<T>>::iterator next_ = tenants_.end();
};

}  // namespace ropeway::base

#endif  // ROPEWAY_BASE_TURN_QUEUE_H_
