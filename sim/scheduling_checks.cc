#include "scheduling_checks.h"

#include <algorithm>
#include <cmath>

#include "policy/priority_policy.h"
#include "policy/scheduling_policy.h"
#include "scheduler/scheduler.h"

namespace ropeway::sim {
namespace {

std::string RequestName(RequestId id) { return "request " + std::to_string(id); }

// A class that gets nothing for this many steps is below its share, whatever it owed before: it
// owes at most ClassShares::kMaxDeficit mean steps, and pays with its share of each; twice that,
// because steps differ.
int64_t StepsToPay(int share) {
  return static_cast<int64_t>(2 * policy::ClassShares::kMaxDeficit * 100 / share);
}

constexpr base::Duration kWarmUp = std::chrono::seconds(5);
constexpr base::Duration kShareTime = std::chrono::seconds(30);
constexpr double kShareError = 0.05;

}  // namespace

void SchedulingChecks::OnAdd(const SimRequest& made, uint64_t order, base::TimePoint now) {
  Request request;
  request.priority = made.request.priority;
  request.order = order;
  request.since = now;
  request.masked = made.request.constraint != nullptr;
  request.is_long =
      setup_.core.scheduler.long_prefill_threshold > 0 &&
      static_cast<int>(made.request.num_ids()) > setup_.core.scheduler.long_prefill_threshold;
  requests_[made.request.id] = request;
}

void SchedulingChecks::OnEvent(const engine::CoreEvent& event) { events_.push_back(event); }

void SchedulingChecks::OnKill() {
  starved_ = {};
  deferred_masks_ = 0;
  requests_.clear();
  events_.clear();
  batch_ = 0;
  backlog_since_ = base::TimePoint::max();
}

void SchedulingChecks::AfterStep(const engine::CoreStats& stats, const core::StepContent& content,
                                 base::TimePoint begin, base::TimePoint end) {
  ++steps_;
  longest_step_ = std::max(longest_step_, end - begin);
  if (stats.last_rows > 0 && stats.deferred_masks == deferred_masks_) ++busy_steps_;
  deferred_masks_ = stats.deferred_masks;
  for (auto& [id, request] : requests_) {
    request.started_now = false;
    const bool overdue = begin - request.since >= setup_.core.queue.max_wait;
    request.overdue = request.waits && overdue;
    request.waited_long = begin - request.since >= BeginOfDue();
    request.aged = request.aged || (!request.waits && overdue);
  }
  for (const engine::CoreEvent& event : events_) {
    const auto it = requests_.find(event.id);
    if (it == requests_.end()) continue;
    Request& request = it->second;
    if (event.kind == engine::CoreEvent::Kind::kStarted) {
      request.waits = false;
      request.started_now = true;
      request.decodes = false;
      request.aged = request.overdue;
      request.run_steps = 0;
      request.since = begin;
      request.turned_step = steps_;
      CheckBatch(event.id, &request, event.batch.number);
    } else if (event.kind == engine::CoreEvent::Kind::kPreempted) {
      // For no other request's sake.
      const bool own = event.preempt_reason == scheduler::PreemptReason::kMemory ||
                       event.preempt_reason == scheduler::PreemptReason::kLength;
      const bool turn = event.preempt_reason == scheduler::PreemptReason::kFairness ||
                        event.preempt_reason == scheduler::PreemptReason::kAging;
      // In a turn, a sequence that had its slot and no work counts as one that ran.
      const int64_t ran = turn ? steps_ - request.turned_step : int64_t{request.run_steps};
      const bool often = !turn && request.preemptions - request.turns >= policy::kMaxPreemptions;
      // A tenant without a slot gets one from a sequence that has just begun, too: its blocks stay.
      const bool first_slot = event.preempt_reason == scheduler::PreemptReason::kFairness &&
                              setup_.core.cache.prefix_caching;
      const int64_t least = first_slot ? 1 : int64_t{scheduler::kMinRunSteps};
      if (!own && (ran < least || often)) {
        violate_("ping_pong", RequestName(event.id) + " was preempted for " +
                                  scheduler::PreemptReasonName(event.preempt_reason) + " after " +
                                  std::to_string(ran) + " steps, the " +
                                  std::to_string(request.preemptions + 1) + "th time");
      }
      ++request.preemptions;
      request.turns += turn ? 1 : 0;
      request.turned_step = steps_;
      request.waits = true;
      request.decodes = false;
      request.since = begin;
      request.must_start_by = -1;
    } else if (event.kind == engine::CoreEvent::Kind::kToken) {
      request.decodes = true;
    } else if (event.kind == engine::CoreEvent::Kind::kFinished ||
               event.kind == engine::CoreEvent::Kind::kFailed) {
      request.ended = true;
    }
  }
  NoteWork(content, begin);
  CheckWaiting(stats);
  CountShares(content, end);
  std::erase_if(requests_, [](const auto& request) { return request.second.ended; });
  events_.clear();
}

void SchedulingChecks::CheckBatch(RequestId id, Request* request, uint64_t batch) {
  request->batch = batch;
  if (continuous() || batch == batch_) return;
  const bool runs = std::any_of(requests_.begin(), requests_.end(), [this](const auto& each) {
    return each.second.batch == batch_ && batch_ != 0 && !each.second.ended;
  });
  if (!runs) {
    batch_ = batch;
  } else if (setup_.core.scheduler.urgent_joins && request->priority == Priority::kHigh) {
    ++joined_;
  } else {
    violate_("batch_whole", RequestName(id) + " started while a batch ran");
  }
}

// A request that computes runs; no event reports that it resumed.
void SchedulingChecks::NoteWork(const core::StepContent& content, base::TimePoint begin) {
  std::array<bool, kNumPriorities> there{};
  std::array<bool, kNumPriorities> worked{};
  for (const auto& [id, request] : requests_) there[static_cast<size_t>(request.priority)] = true;
  const auto runs = [this, begin](uint64_t id) -> Request* {
    const auto it = requests_.find(id);
    if (it == requests_.end()) return nullptr;
    if (it->second.waits) {
      it->second.aged = it->second.aged || it->second.overdue;
      it->second.run_steps = 0;
    }
    it->second.since = begin;
    it->second.waits = false;
    it->second.must_start_by = -1;
    return &it->second;
  };
  for (const uint64_t id : content.fetching) runs(id);
  for (const core::StepContent::Item& item : content.items) {
    Request* const request = runs(item.sequence);
    if (request == nullptr) continue;
    ++request->run_steps;
    worked[static_cast<size_t>(request->priority)] = true;
  }
  const auto rests = [&content](RequestId id, const Request& request) {
    return request.masked && request.decodes && !request.waits &&
           std::none_of(content.items.begin(), content.items.end(),
                        [id](const auto& item) { return item.sequence == id; });
  };
  for (auto& [id, request] : requests_) request.run_steps += rests(id, request) ? 1 : 0;
  if (content.items.empty()) return;
  for (size_t c = 0; c < there.size(); ++c) {
    starved_[c] = there[c] && !worked[c] ? starved_[c] + 1 : 0;
  }
}

void SchedulingChecks::CheckWaiting(const engine::CoreStats& stats) {
  int64_t aged = 0;  // At most: some may have run kMinRunSteps.
  for (const auto& [id, request] : requests_) {
    if (!request.waits && request.aged) ++aged;
  }
  for (auto& [id, request] : requests_) {
    if (request.started_now) CheckOrder(id, request, stats.limit, aged);
    if (!request.waits || request.ended || !request.overdue) continue;
    if (request.must_start_by < 0) {
      const auto each = 4 * static_cast<int64_t>(setup_.core.max_model_len) + 2;
      request.must_start_by = busy_steps_ + each * static_cast<int64_t>(requests_.size());
    }
    if (busy_steps_ <= request.must_start_by) continue;
    violate_("waiting_bound", RequestName(id) +
                                  " has waited for longer than max_wait, and for more steps "
                                  "than all before it need");
  }
}

base::Duration SchedulingChecks::BeginOfDue() const {
  const base::Duration max_wait = setup_.core.queue.max_wait;
  // As if each start took a slot for itself, and a step the longest so far.
  const auto waiting = std::count_if(requests_.begin(), requests_.end(),
                                     [](const auto& each) { return each.second.waits; });
  constexpr int kStepsToStart = scheduler::kMinRunSteps + 8;
  return std::min(max_wait / 2, max_wait - (1 + waiting * kStepsToStart) * longest_step_);
}

void SchedulingChecks::CheckOrder(RequestId started, const Request& its, int64_t limit,
                                  int64_t aged) {
  if (several_tenants()) return;
  const QueueOptions& queue = setup_.core.queue;
  const int64_t half = (limit + 1) / 2;
  for (const auto& [id, other] : requests_) {
    // A preempted one may have resumed in this step without a token in it.
    if (!other.waits || other.ended || other.preemptions > 0 || may_follow_(id)) continue;
    // A higher class may pass an aged request that may preempt none, in half the slots.
    const auto later = std::count_if(requests_.begin(), requests_.end(), [&](const auto& each) {
      return !each.second.waits && !each.second.ended && each.second.order > other.order;
    });
    // Aged requests before it.
    const auto first = std::count_if(requests_.begin(), requests_.end(), [&](const auto& each) {
      return each.second.waits && (each.second.overdue || each.second.aged) &&
             each.second.order < other.order;
    });
    if (other.overdue && other.order < its.order && aged + first < half && later > limit / 2) {
      violate_("waiting_bound", RequestName(started) + " started before " + RequestName(id) +
                                    ", which came earlier and has waited for max_wait");
    }
    // It may have been due.
    if (!has_classes() || its.overdue || its.waited_long) continue;
    if (other.priority >= its.priority || other.is_long) continue;
    const auto its_class = static_cast<size_t>(other.priority);
    const bool below =
        queue.strict_priority || starved_[its_class] >= StepsToPay(queue.class_shares[its_class]);
    if (!below) continue;
    violate_("class_order", RequestName(started) + " started before " + RequestName(id) +
                                ", whose class is higher and below its share");
  }
}

void SchedulingChecks::CountShares(const core::StepContent& content, base::TimePoint end) {
  if (!setup_.backlog || measured_) return;
  std::array<bool, kNumPriorities> waits{};
  for (const auto& [id, request] : requests_) {
    if (request.waits) waits[static_cast<size_t>(request.priority)] = true;
  }
  if (std::find(waits.begin(), waits.end(), false) != waits.end()) {
    backlog_since_ = base::TimePoint::max();
    return;
  }
  if (backlog_since_ == base::TimePoint::max()) {
    backlog_since_ = end;
    work_ = {};
  }
  if (end - backlog_since_ < kWarmUp) return;
  for (const core::StepContent::Item& item : content.items) {
    const auto it = requests_.find(item.sequence);
    if (it != requests_.end()) work_[static_cast<size_t>(it->second.priority)] += item.tokens;
  }
  if (end - backlog_since_ < kWarmUp + kShareTime) return;
  measured_ = true;
  const double all = work_[0] + work_[1] + work_[2];
  for (size_t c = 0; c < work_.size(); ++c) {
    const double part = work_[c] / all;
    const double share = setup_.core.queue.class_shares[c] / 100.0;
    if (std::abs(part - share) <= kShareError) continue;
    violate_("shares", std::string("class ") + PriorityName(static_cast<Priority>(c)) + " had " +
                           std::to_string(part) + " of the work of 30 s, its share is " +
                           std::to_string(share));
  }
}

void SchedulingChecks::AtEnd() {
  if (setup_.backlog && !measured_) violate_("shares", "there were no 30 s of backlog");
}

}  // namespace ropeway::sim
