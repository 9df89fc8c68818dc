// The part of GatewayBackend that takes what backends answer, on the backends' threads.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <new>
#include <optional>

#include "base/failure.h"
#include "base/log.h"
#include "base/utf8.h"
#include "gateway/gateway_backend.h"
#include "gateway/reported_facts.h"

namespace ropeway::gateway {
namespace {

// Of what a backend says about a failure, as much is passed on.
constexpr size_t kMostSaid = 600;

// The code of a failure, for its client: a backend's own words about cancels and deadlines mean
// nothing here.
StatusCode CodeOf(const Outcome& failure) {
  const StatusCode code = failure.status.code();
  if (failure.kind == FailureKind::kRejected) {
    return code == StatusCode::kOk ? StatusCode::kInvalidArgument : code;
  }
  const bool misleads = code == StatusCode::kOk || code == StatusCode::kCancelled ||
                        code == StatusCode::kInvalidArgument;
  return misleads ? StatusCode::kUnavailable : code;
}

// What a client is told of the exception that is being handled; called in a catch block.
Status FailureInHand() noexcept {
  try {
    try {
      throw;
    } catch (const std::bad_alloc&) {  // As below.
    } catch (const std::exception& e) {
      return {StatusCode::kInternal, std::string("the gateway failed: ") + e.what()};
    } catch (...) {
      return {StatusCode::kInternal, "the gateway failed"};
    }
  } catch (const std::exception&) {  // There is no memory to say more.
  }
  return base::OutOfMemory();
}

// Why the replica gets no requests for more than a moment; "": it does.
std::string WhyNot(const ReplicaView& view) {
  using State = ReplicaView::State;
  const bool out = view.state == State::kNotReady || view.state == State::kEjected ||
                   view.state == State::kDraining;
  if (!out) return {};
  return base::PrintableText(view.reason.empty() ? ReplicaStateName(view.state) : view.reason);
}

}  // namespace

std::string GatewayBackend::Named(size_t model, int replica, const std::string& what) const {
  const std::string& name = models_[model].replicas[static_cast<size_t>(replica)].name;
  return fmt::format("backend {}: {}", name, base::PrintableText(what.substr(0, kMostSaid)));
}

bool GatewayBackend::TakeDelta(const std::shared_ptr<ClientRequest>& client, uint32_t attempt,
                               int replica, Delta delta) {
  if (delta.text.empty() && delta.tokens.empty() && delta.prompt_tokens.empty()) return true;
  const Model& model = models_[client->model];
  const bool reports_ids = model.replicas[static_cast<size_t>(replica)].backend->CanResume();
  bool more = false;
  {
    const std::lock_guard told(client->mu);
    if (client->ended()) return false;
    const AttemptOutput output = client->Measure(delta, reports_ids);
    base::TimePoint now{};
    bool look = false;
    {
      const std::lock_guard lock(mu_);
      now = config_.clock->Now();
      if (!model.dispatcher->OnOutput(client->id, attempt, output, now)) return false;
      look = LookIfDue(*model.dispatcher);
    }
    NotifyIf(look);
    client->Admit();
    ClientRequest::Times times;
    const ClientRequest::Given given = client->Give(std::move(delta), now, &times);
    more = given == ClientRequest::Given::kMore;
    const Priority priority = client->request.priority;
    if (times.generated) {
      if (times.first_token) {
        metrics_.requests.of(priority).FirstToken(times.since);
      } else {
        metrics_.requests.of(priority).Token(times.since);
      }
    }
    if (given == ClientRequest::Given::kComplete) {
      // It has what it asked for, whatever the backend would send.
      Finish end = Outcome::Unsaid();
      end.reason = FinishReason::kLength;
      end.usage.completion_tokens = client->request.max_tokens.value_or(Usage::kUnknown);
      EndAnswered(client, attempt, end);
    } else if (given == ClientRequest::Given::kDiffers) {
      EndDiffering(client.get(), attempt, replica);
    } else if (given == ClientRequest::Given::kGone) {
      bool ends = false;
      {
        const std::lock_guard lock(mu_);
        ends = model.dispatcher->Cancel(client->id, now);
      }
      if (ends) EndCancelled(client.get(), attempt, now);
    }
  }
  AdmitGroup(*client);
  return more;
}

void GatewayBackend::TakeAlive(const ClientRequest& client, uint32_t attempt, base::TimePoint now) {
  const std::lock_guard lock(mu_);
  models_[client.model].dispatcher->OnAlive(client.id, attempt, now);
}

void GatewayBackend::TakeEnd(const std::shared_ptr<ClientRequest>& client, uint32_t attempt,
                             int replica, const Finish& end) {
  if (end.reason != FinishReason::kStop && end.reason != FinishReason::kLength) {
    const Status status(StatusCode::kUnavailable, "it ended its answer without a reason");
    return TakeFailure(client, attempt, replica, Outcome::Failed(FailureKind::kBroken, status));
  }
  {
    const std::lock_guard told(client->mu);
    if (client->ended()) return;
    if (client->replays()) return EndDiffering(client.get(), attempt, replica);
    EndAnswered(client, attempt, end);
  }
  AdmitGroup(*client);
}

void GatewayBackend::EndAnswered(const std::shared_ptr<ClientRequest>& client, uint32_t attempt,
                                 const Finish& said) {
  const Finish end = client->Believe(said);
  base::TimePoint now{};
  {
    const std::lock_guard lock(mu_);
    now = config_.clock->Now();
    if (!models_[client->model].dispatcher->OnEnd(client->id, attempt, end, now)) return;
  }
  if (client->keeps_turn()) {
    KeepTurn(client, attempt, end);
  } else {
    EndWell(client.get(), attempt, end, now);
  }
}

void GatewayBackend::EndDiffering(ClientRequest* client, uint32_t attempt, int replica) {
  base::TimePoint now{};
  {
    const std::lock_guard lock(mu_);
    now = config_.clock->Now();
    if (!models_[client->model].dispatcher->OnOutput(client->id, attempt, {}, now)) return;
    models_[client->model].dispatcher->Cancel(client->id, now);
  }
  const std::string message = Named(client->model, replica,
                                    "it cannot go on with this answer: computed anew, it is "
                                    "another one than what another backend gave of it");
  EndFailed(client, attempt, {StatusCode::kUnavailable, message}, now);
}

void GatewayBackend::TakeFailure(const std::shared_ptr<ClientRequest>& client, uint32_t attempt,
                                 int replica, Outcome failure) {
  const size_t index = client->model;
  if (!IsUnderWay(*client, attempt)) return;  // Before it takes memory.
  std::string said = failure.status.message().empty() ? "it failed" : failure.status.message();
  // Not the client, which has its end by then.
  if (failure.status.code() == StatusCode::kCancelled) {
    said = "it ended the request before its answer was complete";
  }
  Status status(CodeOf(failure), Named(index, replica, said), failure.status.field());
  status.set_api_code(failure.status.api_code());
  status.set_retry_after_seconds(failure.status.retry_after_seconds());
  failure.status = std::move(status);
  const std::lock_guard told(client->mu);
  if (client->ended()) return;
  base::TimePoint now{};
  FailureOutcome outcome;
  bool look = false;
  {
    const std::lock_guard lock(mu_);
    now = config_.clock->Now();
    Model& model = models_[index];
    outcome = model.dispatcher->OnFailure(client->id, attempt, failure, now);
    if (outcome.kind == FailureOutcome::Kind::kStale) return;
    const auto kind = static_cast<size_t>(failure.kind);
    ++model.replicas[static_cast<size_t>(replica)].failures[kind];
    if (outcome.kind != FailureOutcome::Kind::kFinal) {
      over_.emplace_back(client->id, attempt);
      look = LookNow();
    }
  }
  NotifyIf(look);
  client->last_failure = failure.status.message();
  if (outcome.kind == FailureOutcome::Kind::kFinal) {
    EndFailed(client.get(), attempt, outcome.status, now);
  }
}

bool GatewayBackend::IsUnderWay(const ClientRequest& client, uint32_t attempt) const {
  const std::lock_guard lock(mu_);
  return models_[client.model].dispatcher->IsUnderWay(client.id, attempt);
}

void GatewayBackend::FailOn(const std::shared_ptr<ClientRequest>& client,
                            uint32_t attempt) noexcept {
  try {
    const Status status = FailureInHand();
    const std::lock_guard told(client->mu);
    if (client->ended() || client->being_kept()) return;
    // Of an attempt that is over: the request goes on elsewhere.
    if (attempt != 0 && !IsUnderWay(*client, attempt)) return;
    const base::TimePoint now = config_.clock->Now();
    {
      const std::lock_guard lock(mu_);
      // If it was ending, it has not got to the sink.
      models_[client->model].dispatcher->Cancel(client->id, now);
    }
    EndFailed(client.get(), attempt, status, now);
  } catch (...) {
    base::TryLog(spdlog::level::err, "request {}: its failure was lost", client->id);
  }
}

void GatewayBackend::AdmitGroup(const ClientRequest& client) {
  if (client.group == nullptr || client.group->begun.exchange(true)) return;
  for (const std::weak_ptr<ClientRequest>& weak : client.group->requests) {
    const std::shared_ptr<ClientRequest> other = weak.lock();
    if (other == nullptr) continue;
    const std::lock_guard told(other->mu);
    other->Admit();
  }
}

// What is counted is counted before the client can look.

void GatewayBackend::EndWell(ClientRequest* client, uint32_t attempt, const Finish& end,
                             base::TimePoint now) {
  const Finish finish = client->FinishOf(end, now);
  const bool answered = finish.reason != FinishReason::kCancelled;
  metrics_.Ended(client->request.priority, finish.reason, now - client->arrival,
                 answered ? &finish.times : nullptr, finish.usage);
  client->Finish(finish);
  Forget(client->id, attempt);
}

void GatewayBackend::EndCancelled(ClientRequest* client, uint32_t attempt, base::TimePoint now) {
  metrics_.Ended(client->request.priority, FinishReason::kCancelled, now - client->arrival, nullptr,
                 Usage());
  client->Cancel(now);
  Forget(client->id, attempt);
}

void GatewayBackend::EndFailed(ClientRequest* client, uint32_t attempt, const Status& status,
                               base::TimePoint now) {
  metrics_.Ended(client->request.priority, FinishReason::kFailed, now - client->arrival, nullptr,
                 Usage());
  client->Fail(status);
  Forget(client->id, attempt);
}

void GatewayBackend::Forget(RequestId id, uint32_t attempt) {
  bool look = false;
  {
    const std::lock_guard lock(mu_);
    requests_.erase(id);
    if (requests_.empty()) changed_.notify_all();
    if (attempt != 0) over_.emplace_back(id, attempt);
    look = LookNow();
  }
  NotifyIf(look);
}

std::vector<std::string> GatewayBackend::NamesWith(const Model& model, int replica,
                                                   const std::vector<std::string>& names) {
  std::vector<const std::vector<std::string>*> lists;
  lists.reserve(model.replicas.size());
  for (const Replica& each : model.replicas) lists.push_back(&each.models);
  lists[static_cast<size_t>(replica)] = &names;
  return CommonNames(lists);
}

void GatewayBackend::TakeProbe(size_t model, int replica, uint64_t probe,
                               StatusOr<BackendFacts> facts) {
  Model& its = models_[model];
  Replica& one = its.replicas[static_cast<size_t>(replica)];
  // All that takes longer the more a backend says comes before the lock.
  std::string dropped;
  std::vector<std::string> models;
  std::shared_ptr<const std::vector<std::string>> names;
  if (!facts.ok()) facts = ShownFailure(facts.status());
  if (facts.ok()) {
    dropped = BoundFacts(&*facts);
    // What it cannot do, it is not asked for: the dispatcher resumes where the digest is known.
    if (!one.backend->CanResume()) facts->model_digest.clear();
    models = std::exchange(facts->models, {});
    if (its.name.empty()) {
      names = std::make_shared<const std::vector<std::string>>(NamesWith(its, replica, models));
    }
  }
  const bool is_news = !dropped.empty() && !std::exchange(one.warned, true);
  bool look = false;
  std::optional<std::string> news;
  {
    const std::lock_guard lock(mu_);
    if (facts.ok()) one.models.swap(models);
    if (names != nullptr) its.names.swap(names);
    const base::TimePoint now = config_.clock->Now();
    its.dispatcher->OnProbe(replica, probe, facts, now);
    one.probed = true;
    std::string why_not = WhyNot(its.dispatcher->ViewOf(replica, now));
    if (why_not.empty() != one.why_not.empty()) news = why_not;
    one.why_not = std::move(why_not);
    changed_.notify_all();
    look = LookNow();
  }
  NotifyIf(look);
  if (is_news) base::TryLog(spdlog::level::warn, "backend {}: {}", one.name, dropped);
  if (!news) return;
  if (news->empty()) {
    base::TryLog(spdlog::level::info, "backend {} takes requests again", one.name);
  } else {
    base::TryLog(spdlog::level::warn, "backend {} gets no requests: {}", one.name, *news);
  }
}

}  // namespace ropeway::gateway
