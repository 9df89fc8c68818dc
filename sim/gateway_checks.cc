#include "gateway_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>
#include <utility>

namespace ropeway::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Load = GatewaySetup::Load;

// The world's clock stops at each event; so late may a thing be that time alone causes.
constexpr base::Duration kLate = milliseconds(2);
// How long a replica may get requests after it went down: until two probes have failed, and a bit.
constexpr base::Duration kDeadFor = seconds(8);
// Of the place that is kept for a request's cache: several may be passed one after the other.
constexpr base::Duration kIdleFor = seconds(3);
// After max_wait a request goes first, and waits for one of those that run.
constexpr base::Duration kAgedFor = seconds(5);
// The part of a steady load's time in which shares are not settled yet.
constexpr double kUnsettled = 0.2;

std::string Called(RequestId id) { return fmt::format("request {}", id); }

double Seconds(base::Duration time) { return base::ToSeconds(time); }

}  // namespace

GatewayRecord* GatewayChecks::Find(RequestId id) {
  const auto found = records_.find(id);
  return found != records_.end() ? &found->second : nullptr;
}

void GatewayChecks::OnAdded(size_t asked, size_t there, const Status& status) {
  if (there == (status.ok() ? asked : 0)) return;
  Violate("group", fmt::format("{} of {} members were accepted, and the answer is: {}", there,
                               asked, status.ok() ? "OK" : status.message()));
}

void GatewayChecks::OnAccepted(RequestId id, GatewayRequest made, int user, base::TimePoint now) {
  GatewayRecord& record = records_[id];
  record.made = std::move(made);
  record.user = user;
  record.accepted = record.queued = now;
  if (record.made.deadline_after) record.deadline = now + *record.made.deadline_after;
  open_[id] = &record;
}

bool GatewayChecks::IsAlone(const GatewayRecord& record) const {
  return std::none_of(open_.begin(), open_.end(), [&](const auto& one) {
    const GatewayRecord& other = *one.second;
    return &other != &record && other.backend >= 0 &&
           other.made.request.tenant == record.made.request.tenant;
  });
}

void GatewayChecks::OnRejected(const Status& status, bool any_alive, int user) {
  const bool full = status.code() == StatusCode::kResourceExhausted;
  const bool down = status.code() == StatusCode::kUnavailable && !any_alive;
  if (!full && !down) Violate("end_fields", "a request was rejected: " + status.message());
  if (status.retry_after_seconds() < 1) {
    Violate("end_fields", "rejected without Retry-After: " + status.message());
  }
  if (setup_.load == Load::kHostile && user == kHonestUser) {
    Violate("shut_out", "rejected: " + status.message());
  }
}

void GatewayChecks::CheckBudget(const gateway::Decision& decision, GatewayRecord* record,
                                base::TimePoint now) {
  const gateway::DispatchOptions& options = setup_.dispatch;
  if (record->sends == 0) {
    ++first_sends_;
  } else if (decision.resume) {
    ++record->resumptions;
  } else {
    ++retries_;
  }
  ++record->sends;
  if (record->resumptions > options.failover.max_resumptions) {
    Violate("resumptions", Called(decision.id) + " was gone on with too often");
  }
  if (record->sends - record->resumptions > options.failover.max_retries + 1) {
    Violate("retry_budget", Called(decision.id) + " was sent too often");
  }
  const double at_once = std::max(gateway::RetryBudget::kLeastTokens,
                                  gateway::RetryBudget::kSeconds * options.retries.per_second);
  const double most = at_once + options.retries.part * static_cast<double>(first_sends_) +
                      options.retries.per_second * Seconds(now);
  if (static_cast<double>(retries_) > most + 1e-6) {
    Violate("retry_budget", fmt::format("{} retries of {} requests in {:.3f} s", retries_,
                                        first_sends_, Seconds(now)));
  }
}

void GatewayChecks::OnSent(const gateway::Decision& decision, const SimBackend& backend,
                           int reported, bool draining, base::TimePoint now) {
  GatewayRecord* const record = Find(decision.id);
  if (record == nullptr || record->end != GatewayEnd::kNone) {
    Violate("two_ends", Called(decision.id) + " was sent after its end");
    return;
  }
  if (record->backend >= 0) Violate("two_ends", Called(decision.id) + " was sent to two replicas");
  // It leaves the batch with the attempt.
  if (record->sends == 0) record->batch = decision.batch.number;
  CheckBudget(decision, record, now);
  if (decision.resume != !record->text.empty()) {
    Violate("after_byte", Called(decision.id) +
                              (decision.resume ? " has nothing to go on from" : " was sent again"));
  }
  const auto index = static_cast<size_t>(decision.replica);
  const SimBackendSetup& its = setup_.backends[index];
  if (decision.resume && !its.resumes) {
    Violate("resumptions", Called(decision.id) + " cannot go on there");
  }
  record->backend = decision.replica;
  record->attempt = decision.attempt;
  record->idle_since = base::TimePoint::max();

  const gateway::DispatchOptions& options = setup_.dispatch;
  const int set = options.replicas[index].max_concurrency;
  int bound = options.rules.places.most;
  if (set > 0) {
    bound = set;
  } else if (reported > 0) {
    bound = std::min(bound, reported);
  }
  const bool urgent = record->made.request.priority == Priority::kHigh;
  const bool newcomer = its.shares && IsAlone(*record);
  if ((urgent && its.preempts) || newcomer) bound += (bound + 1) / 2;
  const auto there = std::count_if(open_.begin(), open_.end(), [&](const auto& one) {
    return one.second->backend == decision.replica;
  });
  if (there > bound) {
    Violate("places", fmt::format("{} requests at a replica with {} places", there, bound));
  }
  const base::Duration since = now - backend.trouble_since();
  const Trouble trouble = backend.trouble();
  const bool down = (trouble == Trouble::kDie || trouble == Trouble::kUnready) && since > kDeadFor;
  if (down || draining) {
    Violate("dead_replica", fmt::format("{} was sent to a replica that is in trouble ({}) for "
                                        "{:.3f} s",
                                        Called(decision.id), TroubleName(trouble), Seconds(since)));
  }
}

void GatewayChecks::OnRequeued(RequestId id, bool resumes, base::TimePoint now) {
  GatewayRecord* const record = Find(id);
  if (record == nullptr || record->end != GatewayEnd::kNone) {
    Violate("two_ends", Called(id) + " was queued again after its end");
    return;
  }
  record->backend = -1;
  record->batch = 0;
  record->queued = now;
  record->resumes = resumes;
}

void GatewayChecks::OnTokens(RequestId id, int model, int32_t tokens) {
  GatewayRecord* const record = Find(id);
  if (record->end != GatewayEnd::kNone) {
    Violate("two_ends", Called(id) + " had output after its end");
    return;
  }
  if (record->model < 0) record->model = model;
  for (int32_t i = 0; i < tokens; ++i) {
    const auto position = static_cast<int32_t>(record->text.size());
    record->text.push_back(AnswerToken(model, record->made.text, position));
  }
  const bool counts = Seconds(now_) > kUnsettled * Seconds(setup_.duration);
  if (setup_.load == Load::kRandom || !counts || now_ > setup_.duration) return;
  const bool first = static_cast<int32_t>(record->text.size()) == tokens;
  const double prompt = first ? record->made.request.prompt_tokens : 0;
  const double each = setup_.load == Load::kTenants ? 2.0 : 1.0;
  work_[static_cast<size_t>(record->user)] += prompt + each * tokens;
}

void GatewayChecks::OnStale(RequestId id, bool heard) {
  if (heard) Violate("stale", Called(id) + ": an attempt that was over was heard");
}

void GatewayChecks::OnEnd(RequestId id, GatewayEnd end, const Status& status, base::TimePoint now) {
  GatewayRecord* const record = Find(id);
  if (record == nullptr || record->end != GatewayEnd::kNone) {
    Violate("two_ends", Called(id) + " ended twice");
    return;
  }
  record->end = end;
  record->backend = -1;
  open_.erase(id);
  const bool late = status.code() == StatusCode::kDeadlineExceeded;
  if (end == GatewayEnd::kFailed && status.ok()) {
    Violate("end_fields", Called(id) + " failed without a reason");
  }
  if (late && now < record->deadline) {
    Violate("deadline", Called(id) + " ended of its deadline before it");
  }
  if (now - kLate > record->deadline) {
    Violate("deadline", Called(id) + " ended after its deadline");
  }
  bool same = end != GatewayEnd::kComplete ||
              static_cast<int32_t>(record->text.size()) == record->made.length;
  for (size_t i = 0; i < record->text.size() && same; ++i) {
    const auto position = static_cast<int32_t>(i);
    same = record->text[i] == AnswerToken(record->model, record->made.text, position);
  }
  if (!same) {
    Violate("same_text", fmt::format("{} has another text, of {} tokens instead of {}", Called(id),
                                     record->text.size(), record->made.length));
  }
}

void GatewayChecks::CheckPlaces(const gateway::Dispatcher& dispatcher, base::TimePoint now) {
  std::vector<int> there(setup_.backends.size());
  for (const auto& [id, record] : open_) {
    if (record->backend >= 0) ++there[static_cast<size_t>(record->backend)];
  }
  for (size_t i = 0; i < there.size(); ++i) {
    const int said = dispatcher.ViewOf(static_cast<int>(i), now).in_flight;
    if (said == there[i]) continue;
    Violate("places", fmt::format("the dispatcher says that {} requests are at replica {}, there "
                                  "are {}",
                                  said, i, there[i]));
  }
}

bool GatewayChecks::MayBegin() const {
  const gateway::DispatchOptions& options = setup_.dispatch;
  if (options.batching.enable_batching && !options.in_batches()) return true;
  bool any = false;
  std::set<uint64_t> batches;
  for (const auto& [id, record] : open_) {
    if (record->backend < 0) continue;
    any = true;
    if (record->batch != 0) batches.insert(record->batch);
  }
  if (!options.batching.enable_batching) return !any;
  // Batches of urgent requests, which join the others, count here too: whether one is of that kind
  // is not seen from outside.
  return batches.size() < static_cast<size_t>(options.batching.max_parallel_batches);
}

void GatewayChecks::CheckWaits(const gateway::Dispatcher& dispatcher, base::TimePoint now) {
  const gateway::DispatchOptions& options = setup_.dispatch;
  const bool alive = dispatcher.any_alive();
  down_since_ = alive ? base::TimePoint::max() : std::min(down_since_, now);
  bool is_free = false;
  const bool divides = options.rules.tenants > 1;
  for (size_t i = 0; i < setup_.backends.size(); ++i) {
    using State = gateway::ReplicaView::State;
    const gateway::ReplicaView view = dispatcher.ViewOf(static_cast<int>(i), now);
    const bool usable = view.state == State::kUp || view.state == State::kReturning;
    // One of them may be kept for other tenants.
    const int kept = divides ? 1 : 0;
    is_free = is_free || (usable && view.in_flight < view.places - kept);
  }
  const bool may_begin = is_free && MayBegin();
  const base::Duration idle =
      options.in_batches() ? kIdleFor + options.batching.max_batch_wait : kIdleFor;
  for (const auto& [id, record] : open_) {
    if (now - kLate > record->deadline) Violate("deadline", Called(id) + " lives on");
    if (record->backend >= 0) continue;
    const base::TimePoint held = std::max(record->queued, down_since_);
    if (!alive && !record->resumes && now > held + options.failover.hold_timeout + kLate) {
      Violate("held", fmt::format("{} waits for {:.3f} s", Called(id), Seconds(now - held)));
    }
    if (record->resumes && now > record->queued + options.resume_wait + kLate) {
      Violate("held",
              fmt::format("{} is cut for {:.3f} s", Called(id), Seconds(now - record->queued)));
    }
    const bool first = record->sends == 0;
    record->idle_since =
        may_begin && first ? std::min(record->idle_since, now) : base::TimePoint::max();
    if (record->idle_since != base::TimePoint::max() && now > record->idle_since + idle) {
      Violate("idle_place", Called(id) + " waits beside a free place");
    }
    const base::Duration waited = now - record->accepted;
    if (setup_.load == Load::kHostile && record->user == kHonestUser && first && waited > kLate) {
      Violate("shut_out", fmt::format("{} waits for {:.3f} s", Called(id), Seconds(waited)));
    }
    if (setup_.load == Load::kOverdue && first && waited > options.queue.max_wait + kAgedFor) {
      Violate("waited_too_long", fmt::format("{} waits for {:.3f} s", Called(id), Seconds(waited)));
    }
  }
}

void GatewayChecks::AfterRun(const gateway::Dispatcher& dispatcher, base::TimePoint now) {
  now_ = now;
  CheckPlaces(dispatcher, now);
  CheckWaits(dispatcher, now);
}

void GatewayChecks::AtEnd() {
  for (const auto& [id, record] : open_) Violate("no_end", Called(id) + " never ended");
  const double all = work_[0] + work_[1] + work_[2];
  if (all <= 0.0) return;
  if (setup_.load == Load::kShares) {
    for (size_t c = 0; c < work_.size(); ++c) {
      const double share = setup_.dispatch.queue.class_shares[c] / 100.0;
      if (std::abs(work_[c] / all - share) > 0.08) {
        Violate("shares", fmt::format("class {} had {:.3f} of the work, its share is {:.2f}", c,
                                      work_[c] / all, share));
      }
    }
  }
  if (setup_.load == Load::kTenants && work_[1] < 0.4 * all) {
    Violate("tenant_share",
            fmt::format("the modest tenant had {:.3f} of the work", work_[1] / all));
  }
}

}  // namespace ropeway::sim
