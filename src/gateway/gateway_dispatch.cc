// The dispatch thread of GatewayBackend: it does what the dispatchers decide.
#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <exception>

#include "base/failure.h"
#include "base/log.h"
#include "gateway/gateway_backend.h"
#include "service/intake.h"

namespace ropeway::gateway {
namespace {

// What waits while no backend is up is not admitted: looked at again after so long.
constexpr std::chrono::seconds kAdmitAgain(1);
// Signs of life of one attempt are passed on once in so long, or four times within the time after
// which it would be taken to hang.
constexpr base::Duration kAliveGap = std::chrono::seconds(1);
// The dispatch thread does not look twice within it without a reason.
constexpr std::chrono::milliseconds kShortestSleep(1);

// Room for `count` elements, which are then added without allocating.
template <typename T>
void Reserve(std::vector<T>* list, size_t count) {
  if (list->capacity() < count) list->reserve(2 * count);
}

// Calls `fn` with each of them in turn. Where it throws, that one and those behind it stay.
template <typename T, typename Fn>
void TakeEach(std::vector<T>* list, Fn fn) {
  size_t done = 0;
  try {
    for (; done < list->size(); ++done) fn((*list)[done]);
  } catch (...) {
    list->erase(list->begin(), list->begin() + static_cast<std::ptrdiff_t>(done));
    throw;
  }
  list->clear();
}

// Writes of the exception that is being handled; called in a catch block.
void LogDispatchFailure() noexcept {
  try {
    throw;
  } catch (const std::exception& e) {
    base::TryLog(spdlog::level::err, "dispatch: {}", e.what());
  } catch (...) {
    base::TryLog(spdlog::level::err, "dispatch: {}", "unknown exception");
  }
}

}  // namespace

// Passes what a backend answers to one attempt to the gateway.
class GatewayBackend::AttemptSink final : public Sink {
 public:
  AttemptSink(GatewayBackend* gateway, std::shared_ptr<ClientRequest> client, uint32_t attempt,
              int replica)
      : gateway_(gateway),
        open_(gateway->open_sinks_),
        client_(std::move(client)),
        attempt_(attempt),
        replica_(replica) {
    const base::Duration idle = gateway_->config_.dispatch.failover.idle_timeout;
    if (idle > base::Duration(0)) alive_gap_ = std::min(alive_gap_, idle / 4);
    const std::lock_guard lock(open_->mu);
    ++open_->count;
  }
  ~AttemptSink() override {
    client_.reset();
    const std::lock_guard lock(open_->mu);
    if (--open_->count == 0) open_->none.notify_all();
  }
  AttemptSink(const AttemptSink&) = delete;
  AttemptSink& operator=(const AttemptSink&) = delete;

  bool OnDelta(RequestId, Delta delta) override {
    bool more = false;
    Guarded([&] { more = gateway_->TakeDelta(client_, attempt_, replica_, std::move(delta)); });
    return more;
  }
  void OnAlive(RequestId) override {
    Guarded([&] {
      const base::TimePoint now = gateway_->config_.clock->Now();
      if (now < next_alive_) return;
      next_alive_ = now + alive_gap_;
      gateway_->TakeAlive(*client_, attempt_, now);
    });
  }
  void OnEnd(RequestId, const Outcome& outcome) override {
    Guarded([&] {
      if (outcome.status.ok()) {
        gateway_->TakeEnd(client_, attempt_, replica_, outcome.finish);
      } else {
        gateway_->TakeFailure(client_, attempt_, replica_, outcome);
      }
    });
  }

 private:
  template <typename Fn>
  void Guarded(Fn&& fn) noexcept {
    try {
      fn();
    } catch (...) {
      gateway_->FailOn(client_, attempt_);
    }
  }

  GatewayBackend* const gateway_;
  const std::shared_ptr<OpenSinks> open_;
  std::shared_ptr<ClientRequest> client_;
  const uint32_t attempt_;
  const int replica_;
  base::Duration alive_gap_ = kAliveGap;
  base::TimePoint next_alive_{};
};

void GatewayBackend::ReserveEnds() {
  const size_t all = requests_.size();
  Reserve(&cancelled_, cancelled_.size() + all);
  // Between two turns of the dispatch thread one attempt of a request fails, and the request ends.
  Reserve(&over_, over_.size() + 2 * all);
}

void GatewayBackend::Loop() {
  pthread_setname_np(pthread_self(), "ropeway-gateway");  // 15 characters at most.
  while (true) {
    try {
      if (!NextTurn()) break;
      Do();
    } catch (...) {
      LogDispatchFailure();
      std::this_thread::sleep_for(kShortestSleep);
    }
  }
  EndRest();
}

bool GatewayBackend::NextTurn() {
  std::unique_lock lock(mu_);
  busy_since_ = {};
  while (!stopping_) {
    look_ = false;
    const base::TimePoint now = config_.clock->Now();
    if (turn_.empty()) Collect(now);
    if (!turn_.empty()) {
      busy_since_ = now;
      return true;
    }
    const base::Duration least = kShortestSleep;
    const base::Duration sleep =
        std::clamp<base::Duration>(NextLook() - now, least, service::kLongestWait);
    sleeps_until_ = now + sleep;
    wake_.wait_for(lock, sleep, [this] { return look_ || stopping_; });
    sleeps_until_ = {};
  }
  return false;
}

base::TimePoint GatewayBackend::NextLook() const {
  base::TimePoint next = base::TimePoint::max();
  for (const Model& model : models_) next = std::min(next, model.dispatcher->next_look());
  for (const auto& [id, client] : reading_) next = std::min(next, client->deadline);
  return std::min(next, unadmitted_.next());
}

void GatewayBackend::Collect(base::TimePoint now) {
  // The lists change places, and these too are to have the room that ReserveEnds makes.
  Reserve(&turn_.cancelled, requests_.size());
  Reserve(&turn_.over, 2 * requests_.size());
  turn_.cancelled.swap(cancelled_);
  turn_.over.swap(over_);
  CollectAdmitted(now);
  CollectOverdue(now);
  for (size_t i = 0; i < models_.size(); ++i) {
    TakeDecisions(i);  // What a Run before had decided when it threw.
    models_[i].dispatcher->Run(now, &models_[i].decisions);
    TakeDecisions(i);
  }
}

void GatewayBackend::TakeDecisions(size_t model) {
  Model& its = models_[model];
  Reserve(&turn_.actions, turn_.actions.size() + its.decisions.size());
  for (Decision& decision : its.decisions) {
    CountDecision(&its, decision);
    Action action;
    action.model = model;
    if (decision.kind != Decision::Kind::kProbe) {
      const auto found = requests_.find(decision.id);
      if (found == requests_.end()) continue;
      action.client = found->second;
      action.drained =
          decision.replica >= 0 && its.replicas[static_cast<size_t>(decision.replica)].draining;
    }
    action.decision = std::move(decision);
    turn_.actions.push_back(std::move(action));
  }
  its.decisions.clear();
}

void GatewayBackend::CollectAdmitted(base::TimePoint now) {
  unadmitted_.TakeDue(now, [&](RequestId id) -> std::optional<base::TimePoint> {
    const auto found = requests_.find(id);
    if (found == requests_.end()) return std::nullopt;
    // While no backend is alive it may yet be told so.
    if (!models_[found->second->model].dispatcher->any_alive()) return now + kAdmitAgain;
    turn_.admitted.push_back(found->second);
    return std::nullopt;
  });
}

void GatewayBackend::CollectOverdue(base::TimePoint now) {
  for (auto next = reading_.begin(); next != reading_.end();) {
    const std::shared_ptr<ClientRequest>& client = next->second;
    if (client->deadline > now) {
      ++next;
      continue;
    }
    Action& action = turn_.actions.emplace_back();
    action.model = client->model;
    action.client = client;
    action.decision.kind = Decision::Kind::kEnd;
    action.decision.id = client->id;
    action.decision.status = base::RequestTimeout();
    next = reading_.erase(next);
  }
}

void GatewayBackend::CountDecision(Model* model, const Decision& decision) {
  if (decision.replica < 0) return;
  Replica& replica = model->replicas[static_cast<size_t>(decision.replica)];
  switch (decision.kind) {
    case Decision::Kind::kSend:
      if (decision.attempt > 1) ++(decision.resume ? replica.resumptions : replica.retries);
      return;
    case Decision::Kind::kDrop:
      if (!replica.draining) ++replica.timeouts;
      return;
    case Decision::Kind::kEnd:
      if (decision.status.code() != StatusCode::kDeadlineExceeded) ++replica.timeouts;
      return;
    case Decision::Kind::kProbe:
      return;
  }
}

void GatewayBackend::Do() {
  TakeEach(&turn_.over, [this](const auto& attempt) { DropCall(attempt.first, attempt.second); });
  TakeEach(&turn_.cancelled, [this](const std::shared_ptr<ClientRequest>& client) {
    {
      const std::lock_guard told(client->mu);
      if (!client->ended()) EndCancelled(client.get(), 0, config_.clock->Now());
    }
    DropCall(client->id, 0);
  });
  TakeEach(&turn_.admitted, [this](const std::shared_ptr<ClientRequest>& client) {
    {
      const std::lock_guard told(client->mu);
      client->Admit();
    }
    AdmitGroup(*client);
  });
  TakeEach(&turn_.actions, [this](const Action& action) {
    try {
      DoAction(action);
    } catch (...) {
      FailAction(action);
    }
  });
}

void GatewayBackend::FailAction(const Action& action) noexcept {
  LogDispatchFailure();
  if (action.client != nullptr) return FailOn(action.client, action.decision.attempt);
  try {
    TakeProbe(action.model, action.decision.replica, action.decision.probe,
              Status(StatusCode::kUnavailable, "it was not asked"));
  } catch (...) {  // Then it has no answer in time.
    LogDispatchFailure();
  }
}

void GatewayBackend::DoAction(const Action& action) {
  const Decision& decision = action.decision;
  switch (decision.kind) {
    case Decision::Kind::kSend:
      Send(action);
      return;
    case Decision::Kind::kDrop: {
      DropCall(decision.id, decision.attempt);
      std::string failure =
          Named(action.model, decision.replica,
                action.drained ? "it is drained" : "it gave nothing for too long");
      const std::lock_guard told(action.client->mu);
      action.client->last_failure = std::move(failure);
      return;
    }
    case Decision::Kind::kEnd:
      EndByDecision(action);
      return;
    case Decision::Kind::kProbe:
      Probe(action);
      return;
  }
}

void GatewayBackend::Send(const Action& action) {
  const Decision& decision = action.decision;
  ClientRequest& client = *action.client;
  DropCall(client.id, 0);  // Of the attempt before.
  const base::TimePoint now = config_.clock->Now();
  Request request;
  {
    const std::lock_guard told(client.mu);
    if (client.ended()) return;
    request = client.Begin(decision.resume, decision.batch, now);
  }
  if (decision.attempt == 1) {
    metrics_.requests.of(request.priority).Started(now - client.arrival, decision.batch.formation);
  }
  ropeway::Backend* const backend =
      models_[action.model].replicas[static_cast<size_t>(decision.replica)].backend.get();
  auto& [attempt, at, there] = calls_[client.id];
  attempt = decision.attempt;
  const StatusOr<RequestId> id = backend->Submit(
      std::move(request),
      std::make_shared<AttemptSink>(this, action.client, decision.attempt, decision.replica));
  if (!id.ok()) {
    calls_.erase(client.id);
    TakeFailure(action.client, decision.attempt, decision.replica, Outcome::Failed(id.status()));
    return;
  }
  at = backend;
  there = *id;
}

void GatewayBackend::EndByDecision(const Action& action) {
  const Decision& decision = action.decision;
  ClientRequest& client = *action.client;
  {
    const std::lock_guard told(client.mu);
    if (!client.ended()) {
      std::string message = decision.status.message();
      const bool timed_out = decision.status.code() == StatusCode::kDeadlineExceeded;
      if (decision.replica >= 0 && !timed_out) {
        message = Named(action.model, decision.replica, message);
      } else if (!client.last_failure.empty()) {
        message = client.last_failure + "; " + message;
      }
      Status status(decision.status.code(), std::move(message), decision.status.field());
      status.set_retry_after_seconds(decision.status.retry_after_seconds());
      EndFailed(&client, 0, status, config_.clock->Now());
    }
  }
  DropCall(client.id, 0);
}

void GatewayBackend::Probe(const Action& action) {
  const size_t model = action.model;
  const int replica = action.decision.replica;
  const uint64_t number = action.decision.probe;
  const auto done = [gate = gate_, model, replica, number](StatusOr<BackendFacts> facts) {
    try {
      const std::lock_guard lock(gate->mu);
      if (gate->gateway == nullptr) return;
      gate->gateway->TakeProbe(model, replica, number, std::move(facts));
    } catch (const std::exception& e) {
      base::TryLog(spdlog::level::warn, "a probe's answer was lost: {}", e.what());
    }
  };
  models_[model].replicas[static_cast<size_t>(replica)].backend->Probe(done);
}

void GatewayBackend::DropCall(RequestId id, uint32_t attempt) {
  const auto found = calls_.find(id);
  if (found == calls_.end() || (attempt != 0 && found->second.attempt != attempt)) return;
  const Call call = found->second;
  calls_.erase(found);
  // It may have ended; null: Submit threw.
  if (call.backend != nullptr) static_cast<void>(call.backend->Cancel(call.id));
}

void GatewayBackend::EndRest() {
  {
    const std::lock_guard lock(mu_);
    reading_.clear();
    for (const auto& [id, client] : requests_) {
      models_[client->model].dispatcher->Cancel(id, config_.clock->Now());
    }
  }
  while (!calls_.empty()) DropCall(calls_.begin()->first, 0);
  {
    std::unique_lock lock(open_sinks_->mu);
    open_sinks_->none.wait(lock, [this] { return open_sinks_->count == 0; });
  }
  // No backend calls back any more. Those that were just ending have ended, the turns of sessions
  // once they are stored.
  sessions_->WaitWritten();
  const auto any = [this]() -> std::shared_ptr<ClientRequest> {
    const std::lock_guard lock(mu_);
    return requests_.empty() ? nullptr : requests_.begin()->second;
  };
  while (const std::shared_ptr<ClientRequest> client = any()) {
    const std::lock_guard told(client->mu);
    if (!client->ended()) EndCancelled(client.get(), 0, config_.clock->Now());
    Forget(client->id, 0);
  }
  turn_ = {};
}

}  // namespace ropeway::gateway
