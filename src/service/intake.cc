#include "service/intake.h"

#include <algorithm>

namespace ropeway::service {

base::TimePoint DeadlineOf(const Request& request, base::TimePoint arrival,
                           std::chrono::milliseconds most) {
  using std::chrono::milliseconds;
  milliseconds timeout = most.count() > 0 ? most : milliseconds::max();
  if (request.timeout) timeout = std::min(timeout, *request.timeout);
  // Compared in milliseconds: more of them than this do not fit the clock's count.
  if (timeout >= std::chrono::duration_cast<milliseconds>(kLongestWait)) {
    return base::TimePoint::max();
  }
  return arrival + timeout;
}

}  // namespace ropeway::service
