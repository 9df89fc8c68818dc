#include "scheduler/admission_tickets.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

namespace ropeway::scheduler {

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

}  // namespace ropeway::scheduler
