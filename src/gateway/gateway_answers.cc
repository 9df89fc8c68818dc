// The part of GatewayBackend that takes the messages of its inbox, and ends requests.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/failure.h"
#include "base/log.h"
#include "base/utf8.h"
#include "gateway/gateway_backend.h"
#include "gateway/reported_facts.h"

namespace ropeway::gateway {
namespace {

// The most bytes that are passed on of what a backend says about a failure.
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

// The field that the client sent for one that a backend names: a form of the answer is passed on in
// the field that the backend has for it.
std::string FieldOf(const Request& request, const std::string& named) {
  static constexpr std::string_view kForms[] = {"response_format", "structured_outputs", "format",
                                                "guided_choice",   "guided_regex",       "regex"};
  const std::string_view field = std::string_view(named).substr(0, named.find('.'));
  const bool form = std::find(std::begin(kForms), std::end(kForms), field) != std::end(kForms);
  return form && !request.format.field.empty() ? request.format.field : named;
}

}  // namespace

std::string GatewayBackend::Named(const ClientRequest& client, const std::string& what) const {
  const ReplicaBook& replica = models_[client.model].replicas[static_cast<size_t>(client.replica)];
  return fmt::format("backend {}: {}", replica.name(),
                     base::PrintableText(what.substr(0, kMostSaid)));
}

// --- What an attempt's backend says.

void GatewayBackend::Take(AttemptSays* said) {
  ClientRequest& client = *said->client;
  const uint32_t attempt = said->attempt;
  if (client.attempt != attempt) return;
  if (auto* const delta = std::get_if<Delta>(&said->what)) {
    TakeDelta(said->client, attempt, std::move(*delta));
  } else if (auto* const outcome = std::get_if<Outcome>(&said->what)) {
    client.attempt = 0;
    client.backend = nullptr;
    TakeEnd(said->client, attempt, std::move(*outcome));
  } else {
    const std::lock_guard lock(mu_);
    models_[client.model].dispatcher->OnAlive(client.id, attempt, config_.clock->Now());
  }
}

void GatewayBackend::TakeDelta(const std::shared_ptr<ClientRequest>& client, uint32_t attempt,
                               Delta delta) {
  const bool scores = !delta.prompt_tokens.empty() || !delta.embedding.empty();
  if (!delta.says() && delta.tokens.empty() && !scores) return;
  const Model& model = models_[client->model];
  const Backend& backend = *model.replicas[static_cast<size_t>(client->replica)].backend();
  const AttemptOutput output = client->Measure(delta, backend.CanResume());
  const base::TimePoint now = config_.clock->Now();
  {
    const std::lock_guard lock(mu_);
    if (!model.dispatcher->OnOutput(client->id, attempt, output, now)) return;
  }
  Admit(client.get());
  ClientRequest::OutputTimes times;
  const ClientRequest::Given given = client->PassOn(std::move(delta), now, &times);
  const core::ClassMetrics& metrics = metrics_.requests.of(client->priority());
  if (times.first_token) {
    metrics.FirstToken(times.since);
  } else if (times.generated) {
    metrics.Token(times.since);
  }
  switch (given) {
    case ClientRequest::Given::kMore:
      return;
    case ClientRequest::Given::kComplete: {
      // It has what it asked for, whatever the backend would send.
      Finish end = Outcome::Unsaid();
      end.reason = FinishReason::kLength;
      end.usage.completion_tokens = client->request.max_tokens.value_or(Usage::kUnknown);
      return EndAnswered(client, attempt, end);
    }
    case ClientRequest::Given::kDiffers:
      return EndDiffering(client.get());
    case ClientRequest::Given::kGone:
      Withdraw(*client);
      return EndCancelled(client.get());
  }
}

void GatewayBackend::TakeEnd(const std::shared_ptr<ClientRequest>& client, uint32_t attempt,
                             Outcome outcome) {
  if (!outcome.status.ok()) return TakeFailure(client.get(), attempt, std::move(outcome));
  const Finish& end = outcome.finish;
  if (end.reason != FinishReason::kStop && end.reason != FinishReason::kLength) {
    const Status status(StatusCode::kUnavailable, "it ended its answer without a finish reason");
    return TakeFailure(client.get(), attempt, Outcome::Failed(FailureKind::kBroken, status));
  }
  if (client->replays()) return EndDiffering(client.get());
  EndAnswered(client, attempt, end);
}

void GatewayBackend::TakeFailure(ClientRequest* client, uint32_t attempt, Outcome failure) {
  std::string said = failure.status.message().empty() ? "it failed" : failure.status.message();
  // Not the client, which has its end by then.
  if (failure.status.code() == StatusCode::kCancelled) {
    said = "it ended the request before its answer was complete";
  }
  // A server's own words about a client's mistake say all; where the backend stands is no client's
  // business. What is said of a server begins with "it".
  const bool whole = failure.kind == FailureKind::kRejected && !said.starts_with("it ");
  const std::string& named = failure.status.field();
  std::string field = FieldOf(client->request, named);
  if (!named.empty() && said.starts_with(named + ":")) said.replace(0, named.size(), field);
  Status status(CodeOf(failure),
                whole ? base::PrintableText(said.substr(0, kMostSaid)) : Named(*client, said),
                std::move(field));
  status.set_api_code(failure.status.api_code());
  status.set_retry_after_seconds(failure.status.retry_after_seconds());
  failure.status = std::move(status);
  std::string last_failure = failure.status.message();  // Now: later nothing may throw.
  FailureOutcome outcome;
  {
    const std::lock_guard lock(mu_);
    Model& model = models_[client->model];
    outcome = model.dispatcher->OnFailure(client->id, attempt, failure, config_.clock->Now());
    if (outcome.kind == FailureOutcome::Kind::kStale) return;
    model.replicas[static_cast<size_t>(client->replica)].OnFailure(failure.kind);
  }
  client->last_failure = std::move(last_failure);
  if (outcome.kind == FailureOutcome::Kind::kFinal) EndFailed(client, outcome.status);
}

void GatewayBackend::Admit(ClientRequest* client) {
  if (!client->TellAdmitted()) return;
  for (RequestId i = 0; i < client->group_size; ++i) {
    if (const auto other = requests_.Find(client->first_of_group + i)) other->TellAdmitted();
  }
}

// --- The other messages.

void GatewayBackend::Take(AttemptSubmitted* submitted) {
  ClientRequest& client = *submitted->client;
  const StatusOr<RequestId>& id = submitted->id;
  if (client.attempt != submitted->attempt) {
    // It is over, or was given up before it was there.
    if (id.ok()) CancelThere(submitted->backend, *id);
  } else if (id.ok()) {
    client.backend = submitted->backend;
    client.id_there = *id;
  } else {
    client.attempt = 0;
    TakeFailure(&client, submitted->attempt, Outcome::Failed(id.status()));
  }
}

void GatewayBackend::Take(CancelAsked* asked) {
  ClientRequest& client = *asked->client;
  if (client.ended() || client.being_kept()) return;
  Withdraw(client);
  EndCancelled(&client);
}

void GatewayBackend::Take(TurnStored* stored) {
  ClientRequest& client = *stored->client;
  if (!client.ended()) EndWell(&client, *client.turn->end);
}

void GatewayBackend::Take(ProbeAnswered* answered) {
  Model& model = models_[answered->model];
  const auto index = static_cast<size_t>(answered->replica);
  ReplicaBook& replica = model.replicas[index];
  StatusOr<BackendFacts>& facts = answered->facts;
  if (facts.ok()) {
    // What it cannot do, it is not asked for: the dispatcher resumes where the digest is known.
    if (!replica.backend()->CanResume()) facts->model_digest.clear();
    names_.Report(answered->model, index, std::exchange(facts->models, {}), facts->embeds_only);
  }
  std::string news;
  {
    const std::lock_guard lock(mu_);
    const base::TimePoint now = config_.clock->Now();
    model.dispatcher->OnProbe(answered->replica, answered->probe, facts, now);
    news = replica.OnProbe(model.dispatcher->ViewOf(answered->replica, now));
    probed_.notify_all();
  }
  if (!answered->dropped.empty() && replica.MayWarn()) {
    base::TryLog(spdlog::level::warn, "backend {}: {}", replica.name(), answered->dropped);
  }
  const auto level = replica.in_service() ? spdlog::level::info : spdlog::level::warn;
  if (!news.empty()) base::TryLog(level, "backend {} {}", replica.name(), news);
}

// --- Ends.

void GatewayBackend::EndAnswered(const std::shared_ptr<ClientRequest>& client, uint32_t attempt,
                                 const Finish& said) {
  const Finish end = client->Believe(said);
  {
    const std::lock_guard lock(mu_);
    Dispatcher& dispatcher = *models_[client->model].dispatcher;
    if (!dispatcher.OnEnd(client->id, attempt, end, config_.clock->Now())) return;
  }
  if (!client->keeps_turn()) return EndWell(client.get(), end);
  DropAttempt(client.get());
  sessions_->Commit(&client->turn->turn, client->NextState(end),
                    [inbox = inbox_, client](const Status&) { inbox->Send(TurnStored{client}); });
  client->turn->end = end;
}

void GatewayBackend::EndDiffering(ClientRequest* client) {
  const std::string message = Named(*client,
                                    "it cannot continue this answer: its own answer differs from "
                                    "what another backend has already sent");
  Withdraw(*client);
  EndFailed(client, {StatusCode::kUnavailable, message});
}

void GatewayBackend::FailOn(ClientRequest* client) noexcept {
  const Status status = base::CurrentFailure("the gateway");
  if (client->ended() || client->being_kept()) return;
  try {
    Withdraw(*client);
  } catch (const std::exception&) {  // If it was ending, it has not got to the sink.
    base::TryLog(spdlog::level::err, "the dispatcher has lost request {}", client->id);
  }
  EndFailed(client, status);
}

void GatewayBackend::Withdraw(const ClientRequest& client) {
  const std::lock_guard lock(mu_);
  models_[client.model].dispatcher->Cancel(client.id, config_.clock->Now());
}

void GatewayBackend::DropAttempt(ClientRequest* client) noexcept {
  client->attempt = 0;
  Backend* const backend = std::exchange(client->backend, nullptr);
  if (backend != nullptr) CancelThere(backend, client->id_there);
}

void GatewayBackend::CancelThere(Backend* backend, RequestId id) noexcept {
  try {
    static_cast<void>(backend->Cancel(id));  // It may have ended.
  } catch (...) {                            // It is told with the next output.
    base::TryLog(spdlog::level::err,
                 "an attempt could not be cancelled: its backend threw an exception");
  }
}

// What is counted is counted before the client can look.

void GatewayBackend::EndWell(ClientRequest* client, const Finish& end) {
  const base::TimePoint now = config_.clock->Now();
  const Finish finish = client->FinishOf(end, now);
  const bool answered = finish.reason != FinishReason::kCancelled;
  metrics_.Ended(client->priority(), finish.reason, now - client->arrival,
                 answered ? &finish.times : nullptr, finish.usage);
  Admit(client);
  client->Tell({base::StatusOfEnd(finish.reason), finish});
  Forget(client);
}

void GatewayBackend::EndCancelled(ClientRequest* client) {
  const base::TimePoint now = config_.clock->Now();
  metrics_.Ended(client->priority(), FinishReason::kCancelled, now - client->arrival, nullptr,
                 Usage());
  client->TellCancelled(now);
  Forget(client);
}

void GatewayBackend::EndFailed(ClientRequest* client, const Status& status) {
  metrics_.Ended(client->priority(), FinishReason::kFailed, config_.clock->Now() - client->arrival,
                 nullptr, Usage());
  client->Fail(status);
  Forget(client);
}

void GatewayBackend::Forget(ClientRequest* client) {
  requests_.Erase(client->id);
  DropAttempt(client);
}

}  // namespace ropeway::gateway
