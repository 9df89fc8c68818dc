// The thread of GatewayBackend: its turns, and what it does of what the dispatchers decide.
#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/failure.h"
#include "base/log.h"
#include "gateway/gateway_backend.h"
#include "gateway/reported_facts.h"
#include "service/intake.h"

namespace ropeway::gateway {
namespace {

// Signs of life of one attempt are passed on once in so long, or four times within the time after
// which it would be taken to hang.
constexpr base::Duration kAliveGap = std::chrono::seconds(1);
// The dispatchers look after so many batches of messages, though there may be more.
constexpr int kMostBatches = 16;
// Bytes of a request that it takes milliseconds to copy and write.
constexpr int64_t kLargeRequest = int64_t{128} << 10;
// The thread does not look twice within it without a reason.
constexpr std::chrono::milliseconds kShortestSleep(1);

size_t Index(int replica) { return static_cast<size_t>(replica); }

// Writes of the exception that is being handled; called in a catch block.
void LogFailure(const char* what) noexcept {
  base::TryLog(spdlog::level::err, "{}", base::CurrentFailure(what).message());
}

}  // namespace

// A turn. What has come is taken before the dispatchers look: output that waits in the inbox is no
// hang.
void GatewayBackend::Loop() {
  pthread_setname_np(pthread_self(), "ropeway-gateway");  // 15 characters at most.
  base::Duration sleep{0};
  while (!inbox_->closed()) {
    for (int i = 0; i < kMostBatches; ++i) {
      if (!TakeMessages(std::exchange(sleep, base::Duration(0)))) break;
    }
    LookAtWaiting();
    const bool decided = DispatchDue();
    // What was done may make more decisions due.
    sleep = decided ? base::Duration(0) : UntilNextLook();
    busy_since_ = base::TimePoint{};
  }
  EndRest();
}

bool GatewayBackend::TakeMessages(base::Duration wait) noexcept {
  std::list<GatewayMessage> messages = inbox_->WaitAll(wait);
  busy_since_ = config_.clock->Now();
  for (GatewayMessage& message : messages) Handle(&message);
  return !messages.empty();
}

void GatewayBackend::Handle(GatewayMessage* message) noexcept {
  const auto take = [this](auto& its) {
    try {
      Take(&its);
    } catch (...) {
      if constexpr (requires { its.client; }) {
        FailOn(its.client.get());
      } else {
        LogFailure("reading a probe's answer");
      }
    }
  };
  std::visit(take, *message);
}

void GatewayBackend::LookAtWaiting() {
  const base::TimePoint now = config_.clock->Now();
  std::vector<std::shared_ptr<ClientRequest>> due;
  const auto look = [&](RequestId id) -> std::optional<base::TimePoint> {
    const std::shared_ptr<ClientRequest> client = requests_.Find(id);
    if (client == nullptr) return std::nullopt;
    const bool overdue = client->deadline <= now;
    const bool reading = client->state() == service::RequestState::kEncoding;
    if (reading && !overdue) return std::min(client->deadline, now + kLookAgain);
    if (!reading && now < client->admit_at) return std::nullopt;  // It has a later look.
    // While no backend is alive it may yet be told so.
    if (!reading && !models_[client->model].dispatcher->any_alive()) return now + kLookAgain;
    due.push_back(client);
    return std::nullopt;
  };
  try {
    const std::lock_guard lock(mu_);
    look_times_.TakeDue(now, look);
  } catch (...) {  // The rest stays for the next turn.
    LogFailure("dispatch");
  }
  for (const std::shared_ptr<ClientRequest>& client : due) {
    if (client->state() == service::RequestState::kEncoding) {
      EndFailed(client.get(), base::RequestTimeout());
    } else {
      Admit(client.get());
    }
  }
}

bool GatewayBackend::DispatchDue() {
  std::vector<size_t> due;
  try {
    const std::lock_guard lock(mu_);
    const base::TimePoint now = config_.clock->Now();
    for (size_t i = 0; i < models_.size(); ++i) {
      if (models_[i].dispatcher->next_look() <= now) due.push_back(i);
    }
  } catch (const std::bad_alloc&) {  // The rest is due in the next turn, too.
    LogFailure("dispatch");
  }
  bool decided = false;
  for (const size_t index : due) decided |= Dispatch(index);
  return decided;
}

bool GatewayBackend::Dispatch(size_t index) {
  Model& model = models_[index];
  std::vector<Decision> decisions;
  {
    const std::lock_guard lock(mu_);
    try {
      model.dispatcher->Run(config_.clock->Now(), &decisions);
    } catch (...) {  // What it has decided is to be done all the same.
      LogFailure("dispatch");
    }
    for (const Decision& decision : decisions) {
      if (decision.replica >= 0) model.replicas[Index(decision.replica)].OnDecision(decision);
    }
  }
  for (const Decision& decision : decisions) {
    if (decision.kind == Decision::Kind::kProbe) {
      Probe(index, decision);
    } else if (const auto client = requests_.Find(decision.id)) {
      try {
        Do(model, decision, client);
      } catch (...) {
        LogFailure("dispatch");
        FailOn(client.get());
      }
      TakeMessages(base::Duration(0));  // Streams do not wait for what is sent.
    }
  }
  return !decisions.empty();
}

void GatewayBackend::Do(const Model& model, const Decision& decision,
                        const std::shared_ptr<ClientRequest>& client) {
  switch (decision.kind) {
    case Decision::Kind::kSend:
      Send(model, decision, client);
      return;
    case Decision::Kind::kDrop:
      DropAttempt(client.get());
      try {
        client->last_failure =
            Named(*client, decision.drained ? "it is draining" : "it sent nothing for too long");
      } catch (const std::bad_alloc&) {  // It goes on elsewhere all the same.
      }
      return;
    case Decision::Kind::kEnd:
      EndByDecision(decision, client.get());
      return;
    case Decision::Kind::kProbe:  // See Dispatch.
      return;
  }
}

void GatewayBackend::Send(const Model& model, const Decision& decision,
                          const std::shared_ptr<ClientRequest>& client) {
  DropAttempt(client.get());  // A drop that was decided may not have been told.
  const base::TimePoint now = config_.clock->Now();
  Request request = client->Begin(decision.resume, decision.batch, now);
  if (decision.attempt == 1) {
    metrics_.requests.of(request.priority).Started(now - client->arrival, decision.batch.formation);
  }
  const base::Duration idle = config_.dispatch.failover.idle_timeout;
  const base::Duration gap = idle > base::Duration(0) ? std::min(kAliveGap, idle / 4) : kAliveGap;
  Backend* const backend = model.replicas[Index(decision.replica)].backend();
  client->attempt = decision.attempt;
  client->replica = decision.replica;
  AttemptSubmitted to{client, decision.attempt, backend, RequestId{0}};
  auto sink = std::make_shared<AttemptSink>(inbox_, client, decision.attempt, gap, config_.clock);
  if (client->bytes.amount() >= kLargeRequest) {
    const auto large = std::make_shared<Request>(std::move(request));
    if (SubmitAside(to, large, sink)) return;
    request = std::move(*large);
  }
  to.id = backend->Submit(std::move(request), std::move(sink));
  Take(&to);
}

bool GatewayBackend::SubmitAside(const AttemptSubmitted& to,
                                 const std::shared_ptr<Request>& request,
                                 const std::shared_ptr<Sink>& sink) {
  return helpers_.TryAdd(to.client->flow(), [inbox = inbox_, to, request, sink] {
    if (to.client->attempt != to.attempt) return true;  // It was given up.
    StatusOr<RequestId> id = RequestId{0};
    try {
      id = to.backend->Submit(std::move(*request), sink);
    } catch (...) {
      id = base::CurrentFailure("the backend");
    }
    const RequestId there = id.ok() ? *id : 0;
    AttemptSubmitted done{to.client, to.attempt, to.backend, std::move(id)};
    if (!inbox->Send(std::move(done))) CancelThere(to.backend, there);  // The gateway ends.
    return true;
  });
}

void GatewayBackend::EndByDecision(const Decision& decision, ClientRequest* client) {
  std::string message = decision.status.message();
  const bool timed_out = decision.status.code() == StatusCode::kDeadlineExceeded;
  if (decision.replica >= 0 && !timed_out) {
    message = Named(*client, message);
  } else if (!client->last_failure.empty()) {
    message = client->last_failure + "; " + message;
  }
  Status status(decision.status.code(), std::move(message), decision.status.field());
  status.set_retry_after_seconds(decision.status.retry_after_seconds());
  EndFailed(client, status);
}

void GatewayBackend::Probe(size_t model, const Decision& decision) noexcept {
  ProbeAnswered answer{
      .model = model,
      .replica = decision.replica,
      .probe = decision.probe,
      .facts = base::MakeStatus(StatusCode::kUnavailable, "the probe was not sent"),
      .dropped = {}};
  try {
    const auto done = [inbox = inbox_, answer](StatusOr<BackendFacts> facts) mutable {
      // What takes the longer, the more a backend says, is done here, on its thread.
      try {
        if (!facts.ok()) facts = ShownFailure(facts.status());
        if (facts.ok()) answer.dropped = BoundFacts(&*facts);
        answer.facts = std::move(facts);
      } catch (const std::exception&) {
        answer.facts = base::OutOfMemory();
      }
      inbox->Send(std::move(answer));
    };
    models_[model].replicas[Index(decision.replica)].backend()->Probe(done);
  } catch (...) {
    LogFailure("dispatch");
    inbox_->Send(std::move(answer));
  }
}

base::Duration GatewayBackend::UntilNextLook() const {
  const std::lock_guard lock(mu_);
  base::TimePoint next = look_times_.next();
  for (const Model& model : models_) next = std::min(next, model.dispatcher->next_look());
  return std::clamp<base::Duration>(next - config_.clock->Now(), kShortestSleep,
                                    service::kLongestWait);
}

void GatewayBackend::EndRest() {
  while (const std::shared_ptr<ClientRequest> client = requests_.Oldest()) {
    if (client->being_kept()) {
      sessions_->WaitWritten();
      EndWell(client.get(), *client->turn->end);
    } else {
      GatewayMessage cancel = CancelAsked{client};
      Handle(&cancel);
    }
  }
  helpers_.Stop();
  TakeMessages(base::Duration(0));  // Of attempts that are to be cancelled.
  inbox_->WaitNoSinks();
  // A probe without an answer keeps the inbox, and what is left in it has turns, which must not
  // outlive their store.
  static_cast<void>(inbox_->WaitAll(base::Duration(0)));
}

}  // namespace ropeway::gateway
