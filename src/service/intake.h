// What an engine and a gateway both do with a request before it is in their queue, and tell of
// that.
#ifndef ROPEWAY_SERVICE_INTAKE_H_
#define ROPEWAY_SERVICE_INTAKE_H_

#include <chrono>
#include <string>

#include "base/clock.h"
#include "base/shared_budget.h"
#include "ropeway/options.h"
#include "ropeway/request.h"
#include "ropeway/status.h"
#include "scheduler/queue_load.h"
#include "service/front_desk.h"

namespace ropeway::service {

// A time beyond it would overflow the clock's count.
inline constexpr std::chrono::nanoseconds kLongestWait = std::chrono::hours(24 * 365);

// When the request fails: the smaller of what it asks and `most`, which is none if it is 0, counts.
base::TimePoint DeadlineOf(const Request& request, base::TimePoint arrival,
                           std::chrono::milliseconds most);

// Takes the bytes of `request` from those of all requests under way, or what `hold` lacks of them;
// kResourceExhausted if its tenant's share has not so many. One alone is accepted, however large.
Status TakeBytes(const Request& request, base::SharedBudget* bytes, base::SharedBudget::Hold* hold);

// kResourceExhausted: `places`, which are as many as max_queued_requests lets tenants share, have
// none for the request of `asker`, which is to come again when it would find one.
Status QueueFull(const base::SharedBudget& places, const scheduler::LoadView& load,
                 const scheduler::LoadView::Asker& asker, const QueueOptions& options);

// The wait of each class in FrontDesk::Queue.
void PredictWaits(const scheduler::LoadView& load, const std::string* tenant, double weight,
                  const QueueOptions& options, QueueInfo* queue);

}  // namespace ropeway::service

#endif  // ROPEWAY_SERVICE_INTAKE_H_
