#include "gateway/gateway_backend.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <exception>
#include <set>

#include "base/log.h"

namespace ropeway::gateway {
namespace {

// How long Drain waits for what it cancelled.
constexpr std::chrono::seconds kCancelGrace(10);
// A time beyond it would overflow the clock's count.
constexpr std::chrono::nanoseconds kLongestWait = std::chrono::hours(24 * 365);
// What waits while no backend is up is not admitted: looked at again after so long.
constexpr std::chrono::seconds kAdmitAgain(1);
// Signs of life of one attempt are passed on once in so long, or four times within the time after
// which it would be taken to hang.
constexpr base::Duration kAliveGap = std::chrono::seconds(1);
// The dispatch thread does not look twice within it without a reason.
constexpr std::chrono::milliseconds kShortestSleep(1);

Status CheckNames(const GatewayConfig& config) {
  if (config.models.empty()) return InvalidArgument("a gateway needs at least one model", "models");
  std::set<std::string> models;
  std::set<std::string> backends;
  for (const GatewayConfig::Model& model : config.models) {
    std::vector<std::string> names = model.aliases;
    names.push_back(model.name);
    for (const std::string& name : names) {
      if (name == "default") {
        return InvalidArgument("no model may be called \"default\": that is the first one", "name");
      }
      if (models.insert(name).second) continue;
      if (name.empty()) return InvalidArgument("only one model may be without a name", "name");
      return InvalidArgument(fmt::format("two models are called \"{}\"", name), "name");
    }
    for (const GatewayConfig::Backend& backend : model.backends) {
      if (backend.remote == nullptr) {
        return InvalidArgument(fmt::format("the backend {} is nowhere", backend.name), "backend");
      }
      if (backends.insert(backend.name).second) continue;
      return InvalidArgument(fmt::format("two backends are called \"{}\"", backend.name), "name");
    }
  }
  return {};
}

}  // namespace

// Keeps a backend that answers a probe too late from calling a gateway that is gone.
struct GatewayBackend::ProbeGate {
  std::mutex mu;  // Taken before GatewayBackend::mu_.
  GatewayBackend* gateway = nullptr;
};

// Passes what a backend answers to one attempt to the gateway.
class GatewayBackend::AttemptSink final : public RemoteSink {
 public:
  AttemptSink(GatewayBackend* gateway, std::shared_ptr<ClientRequest> client, uint32_t attempt,
              int replica)
      : gateway_(gateway), client_(std::move(client)), attempt_(attempt), replica_(replica) {
    const base::Duration idle = gateway_->config_.dispatch.idle_timeout;
    if (idle > base::Duration(0)) alive_gap_ = std::min(alive_gap_, idle / 4);
  }

  void OnDelta(Delta delta) override {
    Guarded([&] { gateway_->TakeDelta(client_, attempt_, replica_, std::move(delta)); });
  }
  void OnAlive() override {
    Guarded([&] {
      const base::TimePoint now = gateway_->config_.clock->Now();
      if (now < next_alive_) return;
      next_alive_ = now + alive_gap_;
      gateway_->TakeAlive(*client_, attempt_, now);
    });
  }
  void OnEnd(const BackendEnd& end) override {
    Guarded([&] { gateway_->TakeEnd(client_, attempt_, replica_, end); });
  }
  void OnFailure(BackendFailure failure) override {
    Guarded([&] { gateway_->TakeFailure(client_, attempt_, replica_, std::move(failure)); });
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
  const std::shared_ptr<ClientRequest> client_;
  const uint32_t attempt_;
  const int replica_;
  base::Duration alive_gap_ = kAliveGap;
  base::TimePoint next_alive_{};
};

StatusOr<std::unique_ptr<GatewayBackend>> GatewayBackend::Create(GatewayConfig config) {
  if (Status status = CheckNames(config); !status.ok()) return status;
  std::vector<Model> models;
  for (GatewayConfig::Model& from : config.models) {
    Model& model = models.emplace_back();
    model.name = std::move(from.name);
    model.aliases = std::move(from.aliases);
    DispatchOptions dispatch = config.dispatch;
    dispatch.replicas.clear();
    for (GatewayConfig::Backend& backend : from.backends) {
      // Whether it can resume is known once it has been probed: see TakeProbe.
      dispatch.replicas.push_back({.name = backend.name,
                                   .weight = backend.weight,
                                   .max_concurrency = backend.max_concurrency,
                                   .can_resume = true});
      Replica& replica = model.replicas.emplace_back();
      replica.name = std::move(backend.name);
      replica.remote = std::move(backend.remote);
    }
    if (Status status = dispatch.Validate(); !status.ok()) return status;
    model.dispatcher = std::make_unique<Dispatcher>(std::move(dispatch));
  }
  config.models.clear();
  try {
    return std::unique_ptr<GatewayBackend>(
        new GatewayBackend(std::move(config), std::move(models)));
  } catch (const std::exception& e) {
    return Status(StatusCode::kResourceExhausted,
                  fmt::format("cannot start the gateway's thread: {}", e.what()));
  }
}

GatewayBackend::GatewayBackend(GatewayConfig config, std::vector<Model> models)
    : config_(std::move(config)),
      models_(std::move(models)),
      metrics_(config_.ttft_limits, config_.latency_limits),
      request_bytes_(config_.max_request_bytes),
      gate_(std::make_shared<ProbeGate>()) {
  gate_->gateway = this;
  for (size_t i = 0; i < models_.size(); ++i) {
    if (!models_[i].name.empty()) model_of_.emplace(models_[i].name, i);
    for (const std::string& alias : models_[i].aliases) model_of_.emplace(alias, i);
  }
  thread_ = std::thread([this] { Loop(); });
}

GatewayBackend::~GatewayBackend() {
  {
    const std::lock_guard lock(mu_);
    accepting_ = false;
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
  const std::lock_guard lock(gate_->mu);
  gate_->gateway = nullptr;
}

bool GatewayBackend::TryCancel(RequestId id) {
  bool look = false;
  {
    const std::lock_guard lock(mu_);
    const auto found = requests_.find(id);
    if (found == requests_.end()) return false;
    cancelled_.push_back(found->second);
    Dispatcher& dispatcher = *models_[found->second->model].dispatcher;
    if (!dispatcher.Cancel(id, config_.clock->Now())) {
      cancelled_.pop_back();  // It ends right now.
      return true;
    }
    look = LookNow();
  }
  NotifyIf(look);
  return true;
}

Status GatewayBackend::SetDraining(const std::string& backend, bool draining) {
  bool look = false;
  {
    const std::lock_guard lock(mu_);
    Replica* found = nullptr;
    for (Model& model : models_) {
      for (size_t i = 0; i < model.replicas.size(); ++i) {
        if (model.replicas[i].name != backend) continue;
        found = &model.replicas[i];
        found->draining = draining;
        model.dispatcher->SetDraining(static_cast<int>(i), draining, config_.clock->Now());
      }
    }
    if (found == nullptr) {
      return {StatusCode::kNotFound, fmt::format("no backend is called \"{}\"", backend)};
    }
    look = LookNow();
  }
  NotifyIf(look);
  return {};
}

Status GatewayBackend::Drain(std::chrono::nanoseconds deadline) {
  std::vector<RequestId> left;
  {
    std::unique_lock lock(mu_);
    accepting_ = false;
    for (const Model& model : models_) model.dispatcher->set_flush(true);
    LookNow();
    wake_.notify_one();
    const auto none = [this] { return requests_.empty(); };
    if (changed_.wait_for(lock, std::min(deadline, kLongestWait), none)) return {};
    left.reserve(requests_.size());
    for (const auto& [id, client] : requests_) left.push_back(id);
  }
  for (const RequestId id : left) TryCancel(id);
  std::unique_lock lock(mu_);
  changed_.wait_for(lock, kCancelGrace, [this] { return requests_.empty(); });
  return {StatusCode::kDeadlineExceeded,
          fmt::format("{} requests had to be cancelled at the deadline", left.size())};
}

void GatewayBackend::WaitProbed(std::chrono::nanoseconds timeout) const {
  std::unique_lock lock(mu_);
  changed_.wait_for(lock, std::min(timeout, kLongestWait), [this] {
    return std::all_of(models_.begin(), models_.end(), [](const Model& model) {
      return std::all_of(model.replicas.begin(), model.replicas.end(),
                         [](const Replica& replica) { return replica.probed; });
    });
  });
}

bool GatewayBackend::LookNow() {
  look_ = true;
  return sleeps_until_ != base::TimePoint{};
}

bool GatewayBackend::LookIfDue(const Dispatcher& dispatcher) {
  // An awake thread asks for the next look before it sleeps.
  return dispatcher.next_look() < sleeps_until_ && LookNow();
}

// --- The dispatch thread.

void GatewayBackend::Loop() {
  pthread_setname_np(pthread_self(), "ropeway-gateway");  // 15 characters at most.
  while (true) {
    try {
      Turn turn;
      if (!NextTurn(&turn)) break;
      Do(&turn);
    } catch (const std::exception& e) {
      base::TryLog(spdlog::level::err, "dispatch: {}", e.what());
      std::this_thread::sleep_for(kShortestSleep);
    }
  }
  EndRest();
}

bool GatewayBackend::NextTurn(Turn* turn) {
  std::unique_lock lock(mu_);
  busy_since_ = {};
  while (!stopping_) {
    look_ = false;
    const base::TimePoint now = config_.clock->Now();
    Collect(now, turn);
    if (!turn->empty()) {
      busy_since_ = now;
      return true;
    }
    const base::Duration least = kShortestSleep;
    const base::Duration sleep = std::clamp<base::Duration>(NextLook() - now, least, kLongestWait);
    sleeps_until_ = now + sleep;
    wake_.wait_for(lock, sleep, [this] { return look_ || stopping_; });
    sleeps_until_ = {};
  }
  return false;
}

base::TimePoint GatewayBackend::NextLook() const {
  base::TimePoint next = base::TimePoint::max();
  for (const Model& model : models_) next = std::min(next, model.dispatcher->next_look());
  return unadmitted_.empty() ? next : std::min(next, unadmitted_.front().first);
}

void GatewayBackend::Collect(base::TimePoint now, Turn* turn) {
  turn->over.swap(over_);
  turn->cancelled.swap(cancelled_);
  CollectAdmitted(now, turn);
  std::vector<Decision> decisions;
  for (size_t i = 0; i < models_.size(); ++i) {
    decisions.clear();
    models_[i].dispatcher->Run(now, &decisions);
    for (Decision& decision : decisions) {
      CountDecision(&models_[i], decision);
      Action action;
      action.model = i;
      if (decision.kind != Decision::Kind::kProbe) {
        const auto found = requests_.find(decision.id);
        if (found == requests_.end()) continue;
        action.client = found->second;
        action.drained = decision.replica >= 0 &&
                         models_[i].replicas[static_cast<size_t>(decision.replica)].draining;
      }
      action.decision = std::move(decision);
      turn->actions.push_back(std::move(action));
    }
  }
}

void GatewayBackend::CollectAdmitted(base::TimePoint now, Turn* turn) {
  while (!unadmitted_.empty() && unadmitted_.front().first <= now) {
    const RequestId id = unadmitted_.front().second;
    unadmitted_.pop_front();
    const auto found = requests_.find(id);
    if (found == requests_.end()) continue;
    if (models_[found->second->model].dispatcher->any_alive()) {
      turn->admitted.push_back(found->second);
    } else {
      // It may yet be told that there is no backend.
      unadmitted_.emplace_back(now + kAdmitAgain, id);
    }
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

void GatewayBackend::Do(Turn* turn) {
  for (const auto& [id, attempt] : turn->over) EraseCall(id, attempt);
  for (const std::shared_ptr<ClientRequest>& client : turn->cancelled) {
    {
      const std::lock_guard told(client->mu);
      if (!client->ended()) EndCancelled(client.get(), 0, config_.clock->Now());
    }
    EraseCall(client->id, 0);
  }
  for (const std::shared_ptr<ClientRequest>& client : turn->admitted) {
    {
      const std::lock_guard told(client->mu);
      client->Admit();
    }
    AdmitGroup(*client);
  }
  for (const Action& action : turn->actions) {
    try {
      DoAction(action);
    } catch (const std::exception& e) {
      base::TryLog(spdlog::level::err, "dispatch: {}", e.what());
      if (action.client != nullptr) FailOn(action.client, action.decision.attempt);
    }
  }
}

void GatewayBackend::DoAction(const Action& action) {
  const Decision& decision = action.decision;
  switch (decision.kind) {
    case Decision::Kind::kSend:
      Send(action);
      return;
    case Decision::Kind::kDrop: {
      {
        const std::lock_guard told(action.client->mu);
        action.client->last_failure =
            Named(action.model, decision.replica,
                  action.drained ? "it is drained" : "it gave nothing for too long");
      }
      EraseCall(decision.id, decision.attempt);
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
  EraseCall(client.id, 0);  // Of the attempt before.
  const base::TimePoint now = config_.clock->Now();
  std::optional<ResumePoint> resume;
  {
    const std::lock_guard told(client.mu);
    if (client.ended()) return;
    resume = client.Begin(decision.resume, decision.batch, now);
  }
  if (decision.attempt == 1) metrics_.Sent(client.request.priority, now - client.arrival);
  if (client.deadline != base::TimePoint::max()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(client.deadline - now);
    client.request.timeout = std::max(left, std::chrono::milliseconds(1));
  }
  const std::shared_ptr<RemoteBackend>& remote =
      models_[action.model].replicas[static_cast<size_t>(decision.replica)].remote;
  Call& call = calls_[client.id];
  call.attempt = decision.attempt;
  call.call = remote->Start(
      client.request, resume ? &*resume : nullptr,
      std::make_shared<AttemptSink>(this, action.client, decision.attempt, decision.replica));
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
  EraseCall(client.id, 0);
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
  models_[model].replicas[static_cast<size_t>(replica)].remote->Probe(done);
}

void GatewayBackend::EraseCall(RequestId id, uint32_t attempt) {
  const auto found = calls_.find(id);
  if (found == calls_.end() || (attempt != 0 && found->second.attempt != attempt)) return;
  // Not in the table any more while its destructor runs.
  const std::unique_ptr<RemoteCall> call = std::move(found->second.call);
  calls_.erase(found);
}

void GatewayBackend::EndRest() {
  std::vector<std::shared_ptr<ClientRequest>> rest;
  {
    const std::lock_guard lock(mu_);
    rest.reserve(requests_.size());
    for (const auto& [id, client] : requests_) {
      models_[client->model].dispatcher->Cancel(id, config_.clock->Now());
      rest.push_back(client);
    }
  }
  // After this no backend calls back. Those that were just ending have ended.
  calls_.clear();
  for (const std::shared_ptr<ClientRequest>& client : rest) {
    const std::lock_guard told(client->mu);
    if (!client->ended()) EndCancelled(client.get(), 0, config_.clock->Now());
  }
}

}  // namespace ropeway::gateway
