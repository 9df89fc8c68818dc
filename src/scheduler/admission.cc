#include "scheduler/admission.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "base/random.h"

namespace ropeway::scheduler {
namespace {

// Seconds; no client waits longer.
constexpr double kLongestRetryAfter = 3600;

}  // namespace

size_t AdmissionTickets::size() const {
  size_t all = 0;
  for (const auto& [flow, line] : flows_) all += line.tickets.size();
  return all;
}

std::list<AdmissionTickets::Ticket>::iterator AdmissionTickets::Erase(
    Line* line, std::list<Ticket>::iterator ticket) {
  line->requests -= ticket->requests;
  line->work -= ticket->work;
  return line->tickets.erase(ticket);
}

void AdmissionTickets::Expire(base::TimePoint now) {
  if (now <= next_end_) return;
  next_end_ = base::TimePoint::max();
  for (auto flow = flows_.begin(); flow != flows_.end();) {
    Line& line = flow->second;
    for (auto ticket = line.tickets.begin(); ticket != line.tickets.end();) {
      if (now > ticket->due + kGrace) {
        ticket = Erase(&line, ticket);
      } else {
        NoteDue(ticket->due);
        ++ticket;
      }
    }
    flow = line.tickets.empty() ? flows_.erase(flow) : std::next(flow);
  }
}

void AdmissionTickets::NoteDue(base::TimePoint due) {
  next_end_ = std::min(next_end_, due + kGrace);
}

AdmissionTickets::Ticket* AdmissionTickets::Find(const Flow& flow, uint64_t key,
                                                 base::TimePoint now) {
  const auto found = flows_.find(flow);
  if (found == flows_.end()) return nullptr;
  Ticket* first = nullptr;
  base::TimePoint newest{};
  for (Ticket& ticket : found->second.tickets) {
    if (ticket.key != key) continue;
    if (ticket.due <= now + kEarly) return &ticket;
    if (first == nullptr) first = &ticket;
    newest = std::max(newest, ticket.made);
  }
  return first != nullptr && now - newest >= kApart ? first : nullptr;
}

WaitingWork AdmissionTickets::Before(const Flow& flow, const Ticket* ticket,
                                     const LoadView& view) const {
  int count = 0;
  Work work;
  const auto found = flows_.find(flow);
  if (found == flows_.end()) return {};
  for (const Ticket& other : found->second.tickets) {
    if (&other == ticket) break;
    count += other.requests;
    work += other.work;
  }
  return {count, view.Seconds(work)};
}

void AdmissionTickets::BookIn(LoadView* view) const {
  for (const auto& [flow, line] : flows_) {
    view->Book(flow.tenant, line.weight, flow.priority, {line.requests, view->Seconds(line.work)});
  }
}

void AdmissionTickets::Add(const Flow& flow, double weight, const Offer& offer,
                           base::TimePoint now) {
  std::list<Ticket> one(1);
  Ticket& ticket = one.front();
  if (!places_.Take(flow.tenant, 1, &ticket.place)) return;
  ticket.key = offer.key;
  ticket.requests = offer.requests;
  ticket.work = offer.work;
  ticket.made = now;
  ticket.due = now + std::chrono::seconds(offer.seconds);
  Line& line = flows_[flow];
  line.weight = weight;
  line.requests += ticket.requests;
  line.work += ticket.work;
  NoteDue(ticket.due);
  line.tickets.splice(line.tickets.end(), one);
}

int AdmissionTickets::Renew(Ticket* ticket, base::TimePoint now, int seconds) {
  if (ticket->due > now + kEarly) {
    return static_cast<int>(std::chrono::ceil<std::chrono::seconds>(ticket->due - now).count());
  }
  ticket->due = now + std::chrono::seconds(seconds);
  NoteDue(ticket->due);
  return seconds;
}

void AdmissionTickets::Remove(const Flow& flow, const Ticket* ticket) {
  const auto found = flows_.find(flow);
  Line& line = found->second;
  for (auto it = line.tickets.begin(); it != line.tickets.end(); ++it) {
    if (&*it != ticket) continue;
    Erase(&line, it);
    break;
  }
  if (line.tickets.empty()) flows_.erase(found);
}

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

Status AdmissionControl::Admit(const core::Job& job, uint64_t content, base::TimePoint now) {
  core::AdmissionGroup* const group = job.request.group.get();
  if (group == nullptr) return Decide(job, content, now);
  if (!group->decision) {
    group->decision = Decide(job, content, now);
  } else if (group->decision->ok()) {
    (void)TakeTokens(job);  // Counted as far as the budget goes: the decision stands.
  }
  return *group->decision;
}

Status AdmissionControl::Decide(const core::Job& job, uint64_t content, base::TimePoint now) {
  tickets_.Expire(now);
  if (tickets_.empty() && queue_->StartsAtOnce(job) && TakeTokens(job)) return {};
  const core::JobRequest& request = job.request;
  const AdmissionTickets::Flow flow{request.tenant, request.priority};
  const LoadView::Asker asker{request.tenant, request.tenant_weight, request.priority};
  const uint64_t key = base::Mix64(
      base::Mix64(static_cast<uint64_t>(job.prompt_len), static_cast<uint64_t>(request.max_tokens)),
      content);
  View(&view_);
  AdmissionTickets::Ticket* const ticket = tickets_.Find(flow, key, now);
  double wait = PredictedWait(view_, asker, max_wait_);
  if (ticket != nullptr) {
    wait = std::min(wait, view_.Wait(asker, tickets_.Before(flow, ticket, view_)));
  }
  const bool soon = wait <= base::ToSeconds(max_wait_);
  if (soon && TakeTokens(job)) {
    if (ticket != nullptr) tickets_.Remove(flow, ticket);
    return {};
  }
  int seconds = RetryAfter(wait, max_wait_);
  if (ticket != nullptr) {
    seconds = tickets_.Renew(ticket, now, seconds);
  } else {
    const int32_t requests = request.group != nullptr ? request.group->size : 1;
    Work work = queue_->WorkOf(job);
    work.prompt *= requests;  // The others are like the first one, as far as it is known.
    work.output *= requests;
    work.sampling *= requests;
    tickets_.Add(flow, request.tenant_weight,
                 {.key = key, .requests = requests, .work = work, .seconds = seconds}, now);
  }
  return Rejection(job, soon ? 0.0 : wait, seconds);
}

bool AdmissionControl::TakeTokens(const core::Job& job) {
  // What one tenant may have waiting fits an empty queue, however long the prompt is.
  const auto tokens = std::min(int64_t{job.num_ids()}, max_queued_tokens_);
  base::SharedBudget::Hold hold;
  if (!tokens_.Take(job.request.tenant, tokens, &hold)) return false;
  queued_.insert_or_assign(job.id(), std::move(hold));
  return true;
}

Status AdmissionControl::Rejection(const core::Job& job, double wait, int seconds) const {
  std::string why;
  if (wait > 0.0) {
    why = fmt::format(
        "the request would wait about {:.0f} s for its turn, longer than max_wait "
        "({} s)",
        std::ceil(wait), base::ToSeconds(max_wait_));
  } else {
    why = fmt::format(
        "the queue is full: {} prompt tokens are waiting, {} of them from this tenant, and this "
        "request has {} (max_queued_tokens {})",
        tokens_.used(), tokens_.held(job.request.tenant), job.num_ids(), max_queued_tokens_);
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
