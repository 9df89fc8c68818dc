#include "service/intake.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "core/request_check.h"

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

Status TakeBytes(const Request& request, base::SharedBudget* bytes,
                 base::SharedBudget::Hold* hold) {
  const int64_t size = std::min(static_cast<int64_t>(core::BytesOf(request)), bytes->total());
  const bool taken = hold->taken() ? hold->Grow(std::max<int64_t>(0, size - hold->amount()))
                                   : bytes->Take(request.tenant, size, hold);
  if (taken) return {};
  return {StatusCode::kResourceExhausted,
          fmt::format("the requests of this tenant under way leave it less than the {} bytes of "
                      "this one, of {} for all tenants",
                      size, bytes->total())};
}

}  // namespace ropeway::service
