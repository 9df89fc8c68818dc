#include "service/intake.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/words.h"
#include "core/request_check.h"
#include "scheduler/admission.h"

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
          fmt::format(
              "this request needs {} bytes, but the other requests of its tenant leave less free "
              "(the limit of all tenants together is {} bytes)",
              size, bytes->total())};
}

Status Intake::Open(ActiveRequest* request) {
  const Request& asked = request->request;
  request->arrival = clock_->Now();
  request->deadline = DeadlineOf(asked, request->arrival, timeout_);
  if (asked.session_id.empty()) return {};
  StatusOr<store::SessionTurn> turn = sessions_->Begin(asked.tenant, asked.session_id);
  if (!turn.ok()) return turn.status();
  request->turn = std::make_unique<Turn>();
  request->turn->turn = *std::move(turn);
  return {};
}

Status QueueFull(const base::SharedBudget& places, const scheduler::LoadView& load,
                 const scheduler::LoadView::Asker& asker, const QueueOptions& options) {
  Status status(StatusCode::kResourceExhausted,
                fmt::format("the queue is full: it holds {}, {} of the same sender "
                            "(max_queued_requests {})",
                            base::Counted(places.used(), "request"), places.held(asker.tenant),
                            options.max_queued_requests));
  const double wait = scheduler::PredictedWait(load, asker, options.max_wait);
  status.set_retry_after_seconds(scheduler::RetryAfter(wait, options.max_wait));
  return status;
}

void SetPositions(const std::vector<RequestId>& queue, std::vector<RequestInfo>* requests) {
  for (size_t position = 0; position < queue.size(); ++position) {
    const auto it = std::lower_bound(
        requests->begin(), requests->end(), queue[position],
        [](const RequestInfo& info, RequestId wanted) { return info.id < wanted; });
    if (it == requests->end() || it->id != queue[position] || !it->waits()) continue;
    it->queue_position = static_cast<int32_t>(position);
  }
}

void PredictWaits(const scheduler::LoadView& load, const std::string* tenant, double weight,
                  const QueueOptions& options, QueueInfo* queue) {
  for (int i = 0; i < kNumPriorities; ++i) {
    const auto priority = static_cast<Priority>(i);
    queue->classes[static_cast<size_t>(i)].wait_seconds =
        tenant == nullptr
            ? load.LongestWait(priority)
            : scheduler::PredictedWait(load, {*tenant, weight, priority}, options.max_wait);
  }
}

}  // namespace ropeway::service
