// What an engine and a gateway both do with a request before it is in their queue.
#ifndef ROPEWAY_SERVICE_INTAKE_H_
#define ROPEWAY_SERVICE_INTAKE_H_

#include <chrono>

#include "base/clock.h"
#include "base/shared_budget.h"
#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway::service {

// A time beyond it would overflow the clock's count.
inline constexpr std::chrono::nanoseconds kLongestWait = std::chrono::hours(24 * 365);

// When the request fails: the smaller of what it asks and `most`, which is none if it is 0, counts.
base::TimePoint DeadlineOf(const Request& request, base::TimePoint arrival,
                           std::chrono::milliseconds most);

// Takes the bytes of `request` from those of all requests under way, or what `hold` lacks of them;
// kResourceExhausted if its tenant's share has not so many. One alone is accepted, however large.
Status TakeBytes(const Request& request, base::SharedBudget* bytes, base::SharedBudget::Hold* hold);

}  // namespace ropeway::service

#endif  // ROPEWAY_SERVICE_INTAKE_H_
