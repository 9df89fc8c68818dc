// What an engine and a gateway both do with a request before it is in their queue, and tell of
// that.
#ifndef ROPEWAY_SERVICE_INTAKE_H_
#define ROPEWAY_SERVICE_INTAKE_H_

#include <chrono>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/shared_budget.h"
#include "ropeway/options.h"
#include "ropeway/request.h"
#include "ropeway/status.h"
#include "scheduler/queue_load.h"
#include "service/active_request.h"
#include "service/front_desk.h"
#include "store/session_store.h"

namespace ropeway::service {

// A time beyond it would overflow the clock's count.
inline constexpr std::chrono::nanoseconds kLongestWait = std::chrono::hours(24 * 365);

// When the request fails: after the shorter of the timeout that it asks for and `most`; 0 is no
// limit.
base::TimePoint DeadlineOf(const Request& request, base::TimePoint arrival,
                           std::chrono::milliseconds most);

// Takes the bytes of `request` from `bytes`, or as many as `hold` lacks. kResourceExhausted if its
// tenant's share has not so many. A request alone is accepted, however large.
Status TakeBytes(const Request& request, base::SharedBudget* bytes, base::SharedBudget::Hold* hold);

// What engines and gateways both do with a request before it is queued.
//
// Thread rule: every method from any thread.
class Intake {
 public:
  // Both must outlive it. A request ends after `timeout` at the latest, if that is not 0. The texts
  // and ids of all requests under way take `max_bytes` together, shared between tenants.
  Intake(const base::Clock* clock, store::SessionStore* sessions, std::chrono::milliseconds timeout,
         int64_t max_bytes)
      : clock_(clock), sessions_(sessions), timeout_(timeout), bytes_(max_bytes) {}

  // Notes when the request came and when its time is over, and takes the turn of the session that
  // it names. REQUIRES: core::CheckRequest. Throws std::bad_alloc.
  Status Open(ActiveRequest* request);
  // Takes the request's bytes, or as many as it has grown by.
  Status TakeBytes(ActiveRequest* request) {
    return service::TakeBytes(request->request, &bytes_, &request->bytes);
  }

  base::SharedBudget* bytes() { return &bytes_; }

 private:
  const base::Clock* const clock_;
  store::SessionStore* const sessions_;
  const std::chrono::milliseconds timeout_;
  base::SharedBudget bytes_;
};

// kResourceExhausted: there is no place in the queue for the request of `asker`. Retry-After is
// when it would find one. `places`: the places that tenants share (max_queued_requests).
Status QueueFull(const base::SharedBudget& places, const scheduler::LoadView& load,
                 const scheduler::LoadView::Asker& asker, const QueueOptions& options);

// Sets the queue positions of the `requests` that wait in `queue`. REQUIRES: they are in order of
// their ids.
void SetPositions(const std::vector<RequestId>& queue, std::vector<RequestInfo>* requests);

// The wait of each class in FrontDesk::Queue.
void PredictWaits(const scheduler::LoadView& load, const std::string* tenant, double weight,
                  const QueueOptions& options, QueueInfo* queue);

}  // namespace ropeway::service

#endif  // ROPEWAY_SERVICE_INTAKE_H_
