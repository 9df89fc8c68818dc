// When requests that wait are looked at though nothing has come of them.
#ifndef ROPEWAY_GATEWAY_LOOK_TIMES_H_
#define ROPEWAY_GATEWAY_LOOK_TIMES_H_

#include <optional>
#include <set>
#include <utility>

#include "base/clock.h"
#include "ropeway/request.h"

namespace ropeway::gateway {

// Requests in the order of their times. Thread rule: the owner's.
class LookTimes {
 public:
  // Throws std::bad_alloc with nothing changed.
  void Add(base::TimePoint when, RequestId id) { times_.emplace(when, id); }
  // The first time; TimePoint::max(): there is none.
  base::TimePoint next() const {
    return times_.empty() ? base::TimePoint::max() : times_.begin()->first;
  }
  // Calls `look` with each request whose time has come, the earliest first, and forgets it, or
  // keeps it for the time that `look` returns, which must be later than `now`. Where `look` throws,
  // that request and those behind it stay.
  template <typename Look>  // std::optional<base::TimePoint>(RequestId)
  void TakeDue(base::TimePoint now, Look look) {
    while (next() <= now) {
      const std::optional<base::TimePoint> again = look(times_.begin()->second);
      auto node = times_.extract(times_.begin());
      if (!again) continue;
      node.value().first = *again;
      times_.insert(std::move(node));  // The same node, so that nothing is allocated.
    }
  }

 private:
  std::set<std::pair<base::TimePoint, RequestId>> times_;
};

}  // namespace ropeway::gateway

#endif  // ROPEWAY_GATEWAY_LOOK_TIMES_H_
