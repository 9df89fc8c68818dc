#include "gateway_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <utility>

namespace ropeway::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Load = GatewaySetup::Load;

// No run of any seed comes near it; a plant that stops all progress ends here.
constexpr uint64_t kMaxEvents = 2'000'000;
// After the last arrival nothing befalls anybody any more, and so long is enough for all to end.
constexpr base::Duration kTimeToEnd = std::chrono::minutes(20);
// How often a client sends again what was rejected.
constexpr int kMaxTries = 3;
// The request whose end plants take or double.
constexpr RequestId kSingledOut = 3;

constexpr std::string_view kTroubleCounts[kNumTroubles] = {
    "backends that recovered", "backends that died",         "backends that hung",
    "backends that were slow", "backends that were unready", "backends that were busy",
    "backends that broke",     "backends that lied",         "backends that were drained"};

}  // namespace

GatewayReport RunGatewaySeed(uint64_t seed, GatewayPlant plant, bool verbose) {
  const GatewaySetup setup = MakeGatewaySetup(seed, plant);
  GatewayReport report = GatewayWorld(setup, verbose).Run();
  if (GatewayWorld(setup, false).Run().digest != report.digest) {
    report.violations.emplace("same_trace", "two runs of one seed have different traces");
  }
  return report;
}

GatewayWorld::GatewayWorld(const GatewaySetup& setup, bool verbose)
    : setup_(setup),
      verbose_(verbose),
      random_(base::Mix64(setup.seed, 102)),
      dispatcher_(PlantedOptions(setup)),
      reported_(setup.backends.size()),
      draining_(setup.backends.size()),
      checks_(setup_) {
  const Status valid = setup_.dispatch.Validate();
  if (!valid.ok()) checks_.Violate("integrity", "bad options: " + valid.message());
  if (setup_.plant != GatewayPlant::kNone) dispatcher_.ReplacePolicy(MakePlantedPolicy(setup_));
  SimBackendEvents* const events = this;
  for (size_t i = 0; i < setup_.backends.size(); ++i) {
    backends_.push_back(std::make_unique<SimBackend>(static_cast<int>(i), setup_.backends[i],
                                                     base::Mix64(setup_.seed, 200 + i), events));
    if (setup_.backends[i].well > base::Duration(0)) {
      At(setup_.backends[i].well / 2,
         {.kind = Input::Kind::kTrouble, .index = static_cast<int>(i)});
    }
  }
  CountAll();
  const auto arrive = [this](base::Duration at, int user) {
    At(at, {.kind = Input::Kind::kArrival, .index = next_request_++, .user = user});
    ++arrivals_;
  };
  if (setup_.load == Load::kRandom) {
    for (int i = 0; i < setup_.num_requests; ++i) {
      // A fifth of them come together with the one before.
      if (!random_.Chance(0.2)) {
        last_arrival_ += microseconds(random_.Between(0, 2 * setup_.mean_gap_us));
      }
      arrive(last_arrival_, 0);
    }
    return;
  }
  last_arrival_ = setup_.duration;
  const int slots = setup_.backends[0].slots * static_cast<int>(setup_.backends.size());
  const int users[3] = {setup_.load == Load::kTenants ? 12 * slots : 4 * slots,
                        setup_.load == Load::kHostile   ? 1
                        : setup_.load == Load::kOverdue ? 3
                                                        : 4 * slots,
                        setup_.load == Load::kShares ? 4 * slots : 0};
  for (int user = 0; user < 3; ++user) {
    // Once the backends have said how many places they have.
    for (int i = 0; i < users[user]; ++i) arrive(milliseconds(10 + i), user);
  }
}

// All that can happen is named, so that coverage sees what never did.
void GatewayWorld::CountAll() {
  for (const std::string_view name : {"requests",
                                      "accepted",
                                      "rejected: too much waits",
                                      "rejected: no replica is alive",
                                      "groups",
                                      "groups that were rejected",
                                      "sends",
                                      "retries",
                                      "retries that waited for the budget",
                                      "resumptions",
                                      "complete",
                                      "cancelled",
                                      "failed",
                                      "failed of their deadline",
                                      "failed while held",
                                      "failed while cut",
                                      "bad requests",
                                      "attempts that were dropped",
                                      "attempts that answered too late",
                                      "attempts that hung",
                                      "ejections",
                                      "batches of several",
                                      "requests that waited",
                                      "urgent requests at full backends",
                                      "newcomers at full backends",
                                      "probes without an answer"}) {
    counts_.try_emplace(name, 0);
  }
  for (const std::string_view name : kTroubleCounts) counts_.try_emplace(name, 0);
}

void GatewayWorld::Say(const std::string& what) const {
  if (verbose_) std::printf("%10.3f s  %s\n", base::ToSeconds(now_), what.c_str());
}

base::TimePoint GatewayWorld::NextTime() const {
  base::TimePoint next = dispatcher_.next_look();
  if (!inbox_.empty()) next = std::min(next, inbox_.begin()->first);
  for (const auto& backend : backends_) next = std::min(next, backend->next_step());
  return std::max(next, now_);
}

GatewayReport GatewayWorld::Run() {
  const base::TimePoint end = last_arrival_ + kTimeToEnd;
  for (uint64_t event = 0; event < kMaxEvents && now_ <= end; ++event) {
    if (changed_ || dispatcher_.next_look() <= now_) RunDispatcher();
    if (arrivals_ == 0 && checks_.open().empty()) break;
    if (changed_) continue;
    now_ = NextTime();
    if (!inbox_.empty() && inbox_.begin()->first <= now_) {
      Input input = std::move(inbox_.begin()->second);
      inbox_.erase(inbox_.begin());
      Deliver(std::move(input));
      continue;
    }
    for (const auto& backend : backends_) {
      if (backend->next_step() <= now_) {
        backend->Step(now_);
        break;
      }
    }
  }
  checks_.AtEnd();
  const gateway::DispatchCounts& counts = dispatcher_.counts();
  Count("sends", counts.sent);
  Count("retries", counts.retries);
  Count("resumptions", counts.resumptions);
  Count("retries that waited for the budget", counts.retries_delayed);
  Count("batches of several",
        setup_.dispatch.in_batches() && counts.batched > counts.batches ? 1 : 0);
  for (const gateway::ReplicaView& view : dispatcher_.AllReplicas(now_)) {
    Count("ejections", view.ejections);
  }
  GatewayReport report;
  report.violations = checks_.violations();
  report.digest = digest_;
  report.counts = counts_;
  return report;
}

// --- Inputs.

void GatewayWorld::Deliver(Input input) {
  Trace(base::Mix64(static_cast<uint64_t>(now_.count()), static_cast<uint64_t>(input.kind)));
  switch (input.kind) {
    case Input::Kind::kArrival:
      --arrivals_;
      Arrive(input);
      break;
    case Input::Kind::kCancel:
      Cancel(input.id);
      break;
    case Input::Kind::kProbe:
      if (input.facts.ok()) {
        const std::optional<int>& places = input.facts->places;
        reported_[static_cast<size_t>(input.index)] = places ? std::max(1, *places) : 0;
        backends_[static_cast<size_t>(input.index)]->set_told(input.model);
      }
      dispatcher_.OnProbe(input.index, input.probe, input.facts, now_);
      changed_ = true;
      break;
    case Input::Kind::kTrouble:
      Change(input.index);
      break;
    case Input::Kind::kLate:
      Stale(input.id, input.attempt);
      break;
  }
}

void GatewayWorld::Arrive(const Input& input) {
  // Users of a steady load stop at its end.
  if (setup_.load != Load::kRandom && now_ > setup_.duration) return;
  std::vector<GatewayRequest> made = MakeGatewayRequests(setup_, input.index, input.user);
  for (GatewayRequest& one : made) {
    one.request.id = ++last_id_;
    one.request.arrival = now_;
    if (one.deadline_after && !IsPlanted(GatewayPlant::kDeadlineMissed)) {
      one.request.deadline = now_ + *one.deadline_after;
    }
  }
  Count("requests", made.size());
  Count("groups", made.size() > 1 ? 1 : 0);
  size_t accepted = 0;
  const Status status = AddAll(made, &accepted);
  changed_ = true;
  for (size_t i = 0; i < accepted; ++i) Accept(std::move(made[i]), input.user);
  if (status.ok()) return;
  const bool full = status.code() == StatusCode::kResourceExhausted;
  Count(full ? "rejected: too much waits" : "rejected: no replica is alive");
  Count("groups that were rejected", made.size() > 1 ? 1 : 0);
  checks_.OnRejected(status, dispatcher_.any_alive(), input.user);
  const bool again = input.tries < kMaxTries || setup_.load != Load::kRandom;
  if (!again) return;
  Input next = input;
  ++next.tries;
  ++arrivals_;
  At(seconds(status.retry_after_seconds()), std::move(next));
}

Status GatewayWorld::AddAll(const std::vector<GatewayRequest>& made, size_t* accepted) {
  const size_t before = dispatcher_.size();
  Status status;
  if (IsPlanted(GatewayPlant::kGroupSplit)) {
    for (const GatewayRequest& one : made) {
      if (status.ok()) status = dispatcher_.Add(one.request, now_);
    }
  } else {
    std::vector<gateway::DispatchRequest> all;
    for (const GatewayRequest& one : made) all.push_back(one.request);
    status = dispatcher_.AddAll(std::move(all), now_);
  }
  *accepted = std::min(made.size(), dispatcher_.size() - before);
  checks_.OnAdded(made.size(), *accepted, status);
  // What was begun of a group is undone.
  if (status.ok() || made.size() == 1) return status;
  if (const Status whole = dispatcher_.CheckIntegrity(); !whole.ok()) {
    checks_.Violate("integrity", whole.message());
  }
  return status;
}

void GatewayWorld::Accept(GatewayRequest made, int user) {
  const core::JobRequest& request = made.request;
  Count("accepted");
  Count("bad requests", made.bad ? 1 : 0);
  const RequestId id = request.id;
  Say(fmt::format("request {} of class {}, tenant {}", id, PriorityName(request.priority),
                  request.tenant));
  if (made.cancel_after) At(*made.cancel_after, {.kind = Input::Kind::kCancel, .id = id});
  checks_.OnAccepted(id, std::move(made), user, now_);
}

void GatewayWorld::Cancel(RequestId id) {
  GatewayRecord* const record = checks_.Find(id);
  if (record->end != GatewayEnd::kNone) {
    if (dispatcher_.Cancel(id, now_)) checks_.Violate("two_ends", "cancelled after its end");
    return;
  }
  const int backend = record->backend;
  const uint32_t attempt = record->attempt;
  const bool leaks = IsPlanted(GatewayPlant::kPlaceLeaked) && backend >= 0;
  if (!leaks && !dispatcher_.Cancel(id, now_)) {
    checks_.Violate("two_ends", "the dispatcher had ended what its client had not seen end");
  }
  changed_ = true;
  if (backend >= 0) CancelAttempt(id, backend, attempt);
  End(id, GatewayEnd::kCancelled, {});
}

void GatewayWorld::Change(int index) {
  SimBackend& backend = *backends_[static_cast<size_t>(index)];
  const SimBackendSetup& its = setup_.backends[static_cast<size_t>(index)];
  const bool was_well = backend.trouble() == Trouble::kNone;
  // In the end all are well.
  if (now_ > last_arrival_ && was_well) return;
  Trouble trouble = Trouble::kNone;
  if (was_well) trouble = static_cast<Trouble>(random_.Between(1, kNumTroubles - 1));
  if (was_well && IsPlanted(GatewayPlant::kDeadGetsRequests)) trouble = Trouble::kDie;
  Count(kTroubleCounts[static_cast<size_t>(trouble)]);
  Say(fmt::format("backend {}: {}", index, TroubleName(trouble)));
  const auto drains = trouble == Trouble::kDrain;
  if (drains != draining_[static_cast<size_t>(index)]) {
    draining_[static_cast<size_t>(index)] = drains;
    dispatcher_.SetDraining(index, drains, now_);
    changed_ = true;
  }
  backend.SetTrouble(trouble, now_);
  const auto mean = (was_well ? its.trouble : its.well).count();
  At(base::Duration(random_.Between(mean / 4, 2 * mean)),
     {.kind = Input::Kind::kTrouble, .index = index});
}

void GatewayWorld::Stale(RequestId id, uint32_t attempt) {
  const GatewayRecord* const record = checks_.Find(id);
  if (record->end == GatewayEnd::kNone && record->backend >= 0 && record->attempt == attempt)
    return;
  Count("attempts that answered too late");
  const Outcome failure =
      Outcome::Failed(FailureKind::kBroken, {StatusCode::kUnavailable, "too late"});
  checks_.OnStale(id, dispatcher_.OnOutput(id, attempt, {1, true}, now_));
  checks_.OnStale(id, dispatcher_.OnEnd(id, attempt, {}, now_));
  const auto outcome = dispatcher_.OnFailure(id, attempt, failure, now_);
  checks_.OnStale(id, outcome.kind != gateway::FailureOutcome::Kind::kStale);
}

// --- What backends answer.

bool GatewayWorld::IsAtBackend(const SimAttempt& attempt, int backend) {
  const GatewayRecord* const record = checks_.Find(attempt.id);
  return record->end == GatewayEnd::kNone && record->backend == backend &&
         record->attempt == attempt.attempt;
}

void GatewayWorld::OnTokens(int backend, const SimAttempt& attempt, int32_t tokens) {
  if (!IsAtBackend(attempt, backend)) return;
  Trace(base::Mix64(attempt.id, static_cast<uint64_t>(tokens)));
  const bool forgets = IsPlanted(GatewayPlant::kRetryAfterByte) && attempt.id % 2 == 0;
  if (!forgets && !dispatcher_.OnOutput(attempt.id, attempt.attempt, {tokens, true}, now_)) {
    checks_.Violate("stale", "output of an attempt that is under way was not heard");
  }
  checks_.OnTokens(attempt.id, backends_[static_cast<size_t>(backend)]->model(), tokens);
}

void GatewayWorld::OnDone(int backend, const SimAttempt& attempt) {
  if (!IsAtBackend(attempt, backend)) return;
  Finish end = Outcome::Unsaid();
  if (random_.Chance(0.5)) {
    end.usage.completion_tokens = attempt.length;
    end.usage.prompt_tokens = attempt.prompt;
  }
  if (random_.Chance(0.05)) {  // Nonsense.
    const auto nonsense = [this] {
      return static_cast<int32_t>(random_.Between(-2'000'000'000, 2'000'000'000));
    };
    end.usage.completion_tokens = nonsense();
    end.usage.prompt_tokens = nonsense();
    end.usage.cached_tokens = nonsense();
  }
  if (!dispatcher_.OnEnd(attempt.id, attempt.attempt, end, now_)) {
    checks_.Violate("stale", "the end of an attempt that is under way was not heard");
  }
  changed_ = true;
  End(attempt.id, GatewayEnd::kComplete, {});
}

void GatewayWorld::OnFailed(int backend, const SimAttempt& attempt, Outcome failure) {
  if (!IsAtBackend(attempt, backend)) return;
  Trace(base::Mix64(attempt.id, 77));
  const bool dead = failure.kind == FailureKind::kUnreachable;
  if (dead && IsPlanted(GatewayPlant::kDeadGetsRequests)) failure.kind = FailureKind::kBusy;
  const gateway::FailureOutcome outcome =
      dispatcher_.OnFailure(attempt.id, attempt.attempt, failure, now_);
  changed_ = true;
  using Kind = gateway::FailureOutcome::Kind;
  Say(fmt::format("request {} failed at {}: {}", attempt.id, backend, failure.status.message()));
  if (outcome.kind == Kind::kFinal) {
    End(attempt.id, GatewayEnd::kFailed, outcome.status);
  } else if (outcome.kind == Kind::kStale) {
    checks_.Violate("stale", "the failure of an attempt that is under way was not heard");
  } else {
    checks_.OnRequeued(attempt.id, outcome.kind == Kind::kResume, now_);
  }
}

// --- What the dispatcher says.

void GatewayWorld::RunDispatcher() {
  changed_ = false;
  std::vector<gateway::Decision> decisions;
  dispatcher_.Run(now_, &decisions);
  for (const gateway::Decision& decision : decisions) Do(decision);
  checks_.AfterRun(dispatcher_, now_);
  if (dispatcher_.waiting() > 0) Count("requests that waited");
  if (random_.Chance(0.05)) {
    const Status integrity = dispatcher_.CheckIntegrity();
    if (!integrity.ok()) checks_.Violate("integrity", integrity.message());
  }
}

void GatewayWorld::Do(const gateway::Decision& decision) {
  using Kind = gateway::Decision::Kind;
  Trace(base::Mix64(decision.id, static_cast<uint64_t>(decision.kind)));
  Trace(base::Mix64(static_cast<uint64_t>(decision.replica + 1), decision.attempt));
  switch (decision.kind) {
    case Kind::kSend:
      Send(decision);
      return;
    case Kind::kProbe:
      Probe(decision);
      return;
    case Kind::kDrop: {
      Count("attempts that were dropped");
      if (!draining_[static_cast<size_t>(decision.replica)]) Count("attempts that hung");
      const GatewayRecord* const record = checks_.Find(decision.id);
      const bool resumes = record != nullptr && !record->text.empty();
      checks_.OnRequeued(decision.id, resumes, now_);
      CancelAttempt(decision.id, decision.replica, decision.attempt);
      return;
    }
    case Kind::kEnd: {
      const GatewayRecord* const record = checks_.Find(decision.id);
      if (decision.attempt > 0) {
        CancelAttempt(decision.id, decision.replica, decision.attempt);
      } else if (record != nullptr && decision.status.code() == StatusCode::kUnavailable) {
        Count(record->resumes ? "failed while cut" : "failed while held");
      }
      if (decision.status.code() == StatusCode::kDeadlineExceeded) {
        Count("failed of their deadline");
      }
      Say(fmt::format("request {} ended: {}", decision.id, decision.status.message()));
      End(decision.id, GatewayEnd::kFailed, decision.status);
      return;
    }
  }
}

void GatewayWorld::Send(const gateway::Decision& decision) {
  const auto index = static_cast<size_t>(decision.replica);
  SimBackend& backend = *backends_[index];
  Say(fmt::format("request {} to {}{}", decision.id, decision.replica,
                  decision.resume ? ", to go on" : ""));
  checks_.OnSent(decision, backend, reported_[index], draining_[index], now_);
  const GatewayRecord* const record = checks_.Find(decision.id);
  if (record == nullptr) return;
  const gateway::ReplicaView view = dispatcher_.ViewOf(decision.replica, now_);
  if (view.in_flight > view.places && setup_.backends[index].preempts) {
    Count(record->made.request.priority == Priority::kHigh ? "urgent requests at full backends"
                                                           : "newcomers at full backends");
  }
  SimAttempt attempt;
  attempt.id = decision.id;
  attempt.attempt = decision.attempt;
  attempt.prompt = record->made.request.prompt_tokens;
  attempt.length = record->made.length;
  attempt.bad = record->made.bad;
  attempt.urgent = record->made.request.priority == Priority::kHigh ||
                   (setup_.backends[index].shares && checks_.IsAlone(*record));
  if (decision.resume) {
    attempt.done = std::min(attempt.length, static_cast<int32_t>(record->text.size()));
    attempt.prompt += attempt.done;
  }
  backend.Send(attempt, now_);
}

void GatewayWorld::Probe(const gateway::Decision& decision) {
  SimBackend& backend = *backends_[static_cast<size_t>(decision.replica)];
  std::optional<StatusOr<BackendFacts>> facts = backend.Probe();
  if (!facts) {
    Count("probes without an answer");
    return;
  }
  if (setup_.backends[static_cast<size_t>(decision.replica)].preempts) {
    for (const SimAttempt& one : backend.line()) {
      dispatcher_.OnAlive(one.id, one.attempt, now_);
    }
  }
  if (IsPlanted(GatewayPlant::kDeadGetsRequests) && !facts->ok()) *facts = BackendFacts();
  if (IsPlanted(GatewayPlant::kOtherModel) && facts->ok() && !(*facts)->model_digest.empty()) {
    (*facts)->model_digest = "digest 0";
  }
  Input input{.kind = Input::Kind::kProbe,
              .index = decision.replica,
              .probe = decision.probe,
              .model = backend.model()};
  input.facts = *std::move(facts);
  At(microseconds(random_.Between(0, 5000)), std::move(input));
}

void GatewayWorld::CancelAttempt(RequestId id, int backend, uint32_t attempt) {
  backends_[static_cast<size_t>(backend)]->Cancel(id, attempt, now_);
  if (!random_.Chance(setup_.late_share)) return;
  At(microseconds(random_.Between(0, 100'000)),
     {.kind = Input::Kind::kLate, .id = id, .attempt = attempt});
}

void GatewayWorld::End(RequestId id, GatewayEnd end, const Status& status) {
  const GatewayRecord* const record = checks_.Find(id);
  const int user = record != nullptr ? record->user : 0;
  if (IsPlanted(GatewayPlant::kLost) && id == kSingledOut) return;
  checks_.OnEnd(id, end, status, now_);
  if (IsPlanted(GatewayPlant::kDouble) && id == kSingledOut) checks_.OnEnd(id, end, status, now_);
  Count(end == GatewayEnd::kComplete    ? "complete"
        : end == GatewayEnd::kCancelled ? "cancelled"
                                        : "failed");
  Trace(base::Mix64(id, 1000 + static_cast<uint64_t>(end)));
  if (setup_.load == Load::kRandom || now_ > setup_.duration) return;
  At(milliseconds(1), {.kind = Input::Kind::kArrival, .index = next_request_++, .user = user});
  ++arrivals_;
}

}  // namespace ropeway::sim
