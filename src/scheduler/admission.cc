#include "scheduler/admission.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

namespace ropeway::scheduler {
namespace {

// Seconds; no client waits longer.
constexpr double kLongestRetryAfter = 3600;

}  // namespace

int64_t SharedByTenants(int64_t limit_alone) {
  return 2 * std::min(limit_alone, std::numeric_limits<int64_t>::max() / 2);
}

double PredictedWait(const LoadView& load, const LoadView::Asker& asker, base::Duration max_wait) {
  const double alone = load.WaitUnbooked(asker);
  return alone <= kShortQueue * base::ToSeconds(max_wait) ? alone : load.Wait(asker);
}

int RetryAfter(double wait, base::Duration max_wait) {
  const double most = base::ToSeconds(max_wait);
  // A request may also be rejected for tokens that wait, behind a queue that is not long.
  const double seconds = wait > most ? wait - most / 2 : wait / 2;
  return WholeSeconds(seconds);
}

int WholeSeconds(double seconds) {
  return static_cast<int>(std::clamp(std::ceil(seconds), 1.0, kLongestRetryAfter));
}

AdmissionControl::AdmissionControl(base::Duration max_wait, int64_t max_queued_tokens,
                                   const AdmissionQueue* queue)
    : max_wait_(max_wait),
      max_queued_tokens_(max_queued_tokens),
      queue_(queue),
      tokens_(SharedByTenants(max_queued_tokens)) {}

Status AdmissionControl::Admit(const core::CoreRequest& request, base::TimePoint now) {
  core::AdmissionGroup* const group = request.group.get();
  if (group == nullptr) return Decide(request, now);
  if (!group->decision) {
    group->decision = Decide(request, now);
  } else if (group->decision->ok()) {
    (void)TakeTokens(request);  // Counted as far as the budget goes: the decision stands.
  }
  return *group->decision;
}

Status AdmissionControl::Decide(const core::CoreRequest& request, base::TimePoint now) {
  tickets_.Expire(now);
  if (tickets_.empty() && queue_->StartsAtOnce(request) && TakeTokens(request)) return {};
  const AdmissionTickets::Flow flow{request.tenant, request.priority};
  const LoadView::Asker asker{request.tenant, request.tenant_weight, request.priority};
  const uint64_t key = AdmissionTickets::KeyOf(request);
  View(&view_);
  AdmissionTickets::Ticket* const ticket = tickets_.Find(flow, key, now);
  double wait = PredictedWait(view_, asker, max_wait_);
  if (ticket != nullptr) {
    wait = std::min(wait, view_.Wait(asker, tickets_.Before(flow, ticket, view_)));
  }
  const bool soon = wait <= base::ToSeconds(max_wait_);
  if (soon && TakeTokens(request)) {
    if (ticket != nullptr) tickets_.Remove(flow, ticket);
    return {};
  }
  int seconds = RetryAfter(wait, max_wait_);
  if (ticket != nullptr) {
    seconds = tickets_.Renew(ticket, now, seconds);
  } else {
    const int32_t requests = request.group != nullptr ? request.group->size : 1;
    Work work = queue_->WorkOf(request);
    work.prompt *= requests;  // The others are like the first one, as far as it is known.
    work.output *= requests;
    work.sampling *= requests;
    tickets_.Add(flow, request.tenant_weight,
                 {.key = key, .requests = requests, .work = work, .seconds = seconds}, now);
  }
  return Rejection(request, soon ? 0.0 : wait, seconds);
}

bool AdmissionControl::TakeTokens(const core::CoreRequest& request) {
  // What one tenant may have waiting fits an empty queue, however long the prompt is.
  const auto tokens = std::min(static_cast<int64_t>(request.num_ids()), max_queued_tokens_);
  base::SharedBudget::Hold hold;
  if (!tokens_.Take(request.tenant, tokens, &hold)) return false;
  queued_.insert_or_assign(request.id, std::move(hold));
  return true;
}

Status AdmissionControl::Rejection(const core::CoreRequest& request, double wait,
                                   int seconds) const {
  std::string why;
  if (wait > 0.0) {
    why = fmt::format(
        "the request would wait about {:.0f} s for its turn, longer than max_wait "
        "({} s)",
        std::ceil(wait), base::ToSeconds(max_wait_));
  } else {
    why = fmt::format(
        "the queue is full: prompts of {} tokens wait, {} of them of the same sender, "
        "and this one has {} (max_queued_tokens {})",
        tokens_.used(), tokens_.held(request.tenant), request.num_ids(), max_queued_tokens_);
  }
  Status status(StatusCode::kResourceExhausted, std::move(why));
  status.set_retry_after_seconds(seconds);
  return status;
}

void AdmissionControl::View(LoadView* view) const {
  queue_->View(view);
  tickets_.BookIn(view);
}

}  // namespace ropeway::scheduler
