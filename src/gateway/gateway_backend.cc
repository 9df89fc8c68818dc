#include "gateway/gateway_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <set>

#include "scheduler/admission.h"
#include "service/intake.h"

namespace ropeway::gateway {
namespace {

Status CheckBackends(const GatewayConfig& config) {
  std::set<std::string> names;
  for (const GatewayModel& model : config.models) {
    for (const BackendOptions& backend : model.backends) {
      if (backend.backend == nullptr) {
        return InvalidArgument(
            fmt::format("the backend {} has no address and no implementation", backend.name),
            "backend");
      }
      if (names.insert(backend.name).second) continue;
      return InvalidArgument(fmt::format("two backends are called \"{}\"", backend.name), "name");
    }
  }
  return {};
}

}  // namespace

StatusOr<std::unique_ptr<GatewayBackend>> GatewayBackend::Create(GatewayConfig config) {
  std::vector<ModelNames::Model> names;
  for (const GatewayModel& from : config.models) {
    names.push_back({from.name, from.aliases, from.backends.size()});
  }
  if (Status status = ModelNames::Check(names); !status.ok()) return status;
  if (Status status = CheckBackends(config); !status.ok()) return status;
  std::vector<Model> models;
  for (GatewayModel& from : config.models) {
    Model& model = models.emplace_back();
    for (BackendOptions& backend : from.backends) {
      model.replicas.emplace_back(backend.name, std::move(backend.backend));
    }
    DispatchOptions dispatch = config.dispatch;
    dispatch.replicas = std::move(from.backends);
    if (Status status = dispatch.Validate(); !status.ok()) return status;
    model.dispatcher = std::make_unique<Dispatcher>(std::move(dispatch));
  }
  config.models.clear();
  std::unique_ptr<store::SessionStore> sessions = std::move(config.sessions);
  try {
    if (sessions == nullptr) {
      auto opened = store::OpenSessionStore(SessionOptions());
      if (!opened.ok()) return opened.status();
      sessions = *std::move(opened);
    }
    return std::unique_ptr<GatewayBackend>(new GatewayBackend(
        std::move(config), std::move(names), std::move(models), std::move(sessions)));
  } catch (const std::exception& e) {
    return Status(StatusCode::kResourceExhausted,
                  fmt::format("cannot start the gateway's threads: {}", e.what()));
  }
}

GatewayBackend::GatewayBackend(GatewayConfig config, std::vector<ModelNames::Model> names,
                               std::vector<Model> models,
                               std::unique_ptr<store::SessionStore> sessions)
    : config_(std::move(config)),
      sessions_(std::move(sessions)),
      names_(std::move(names)),
      models_(std::move(models)),
      metrics_(config_.dispatch.queue),
      intake_(config_.clock, sessions_.get(), config_.request_timeout, config_.max_request_bytes),
      helpers_(1, scheduler::SharedByTenants(config_.dispatch.queue.max_queued_requests),
               "ropeway-prepare"),
      thread_([this] { Loop(); }) {}

GatewayBackend::~GatewayBackend() {
  requests_.Close();
  inbox_->Close();
  thread_.join();
}

Status GatewayBackend::Cancel(RequestId id) {
  std::shared_ptr<ClientRequest> client;
  {
    // Not while it is being added: SubmitAll may still fail then.
    const std::lock_guard lock(mu_);
    client = requests_.Find(id);
  }
  if (client == nullptr) return NotUnderWay(id);
  if (client->cancel_asked.exchange(true)) return {};
  inbox_->Send(CancelAsked{std::move(client)});
  return {};
}

Status GatewayBackend::SetDraining(const std::string& backend, bool draining) {
  bool found = false;
  {
    const std::lock_guard lock(mu_);
    for (Model& model : models_) {
      for (size_t i = 0; i < model.replicas.size(); ++i) {
        if (model.replicas[i].name() != backend) continue;
        found = true;
        model.dispatcher->SetDraining(static_cast<int>(i), draining, config_.clock->Now());
      }
    }
  }
  if (!found) {
    return {StatusCode::kNotFound, fmt::format("no backend is called \"{}\"", backend)};
  }
  inbox_->Wake();
  return {};
}

Status GatewayBackend::Drain(std::chrono::nanoseconds deadline) {
  requests_.Close();
  {
    const std::lock_guard lock(mu_);
    for (const Model& model : models_) model.dispatcher->set_flush(true);
  }
  inbox_->Wake();
  return requests_.Drain(deadline, [this] {
    // None is being added any more: mu_ was free since the registry was closed.
    for (std::shared_ptr<ClientRequest>& client : requests_.All()) {
      inbox_->Send(CancelAsked{std::move(client)});
    }
  });
}

void GatewayBackend::WaitProbed(std::chrono::nanoseconds timeout) const {
  std::unique_lock lock(mu_);
  probed_.wait_for(lock, std::min(timeout, service::kLongestWait), [this] {
    return std::all_of(models_.begin(), models_.end(), [](const Model& model) {
      return std::all_of(model.replicas.begin(), model.replicas.end(),
                         [](const ReplicaBook& replica) { return replica.probed(); });
    });
  });
}

}  // namespace ropeway::gateway
