#include "ropeway/gateway.h"

#include <new>
#include <utility>

#include "base/clock.h"
#include "base/failure.h"
#include "base/random.h"
#include "core/request_handle.h"
#include "engine/backend.h"
#include "engine/sinks.h"
#include "gateway/gateway_backend.h"
#include "gateway/open_gateway.h"

namespace ropeway {

class Gateway::Impl {
 public:
  ~Impl() {
    if (link != nullptr) link->Cut();
  }

  StatusOr<RequestHandle> Infer(Request request, StreamCallback on_delta);

  base::RealClock clock;
  base::SystemRandom random;
  std::shared_ptr<CancelLink> link;                  // Of all handles.
  std::unique_ptr<gateway::GatewayBackend> backend;  // Last: its threads use the others.
};

StatusOr<RequestHandle> Gateway::Impl::Infer(Request request, StreamCallback on_delta) {
  try {
    RequestHandle handle;
    handle.state_ = std::make_shared<RequestHandle::State>();
    handle.state_->link = link;
    auto ended = [state = handle.state_](std::shared_ptr<const Result> result) {
      state->End(std::move(result));
    };
    StatusOr<RequestId> id = backend->Submit(
        std::move(request),
        std::make_shared<engine::ResultSink>(std::move(on_delta), std::move(ended)));
    if (!id.ok()) return id.status();
    handle.id_ = *id;
    return handle;
  } catch (const std::bad_alloc&) {
    return base::OutOfMemory();
  }
}

StatusOr<std::unique_ptr<Gateway>> Gateway::Create(const GatewayOptions& options) {
  auto impl = std::make_unique<Impl>();
  StatusOr<std::unique_ptr<gateway::GatewayBackend>> backend =
      gateway::OpenGateway(options, &impl->clock, &impl->random);
  if (!backend.ok()) return backend.status();
  impl->backend = *std::move(backend);
  impl->link =
      std::make_shared<CancelLink>([its = impl->backend.get()](RequestId id) { its->Cancel(id); });
  return std::unique_ptr<Gateway>(new Gateway(std::move(impl)));
}

Gateway::Gateway(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Gateway::~Gateway() = default;

StatusOr<RequestHandle> Gateway::Infer(Request request, StreamCallback on_delta) {
  return impl_->Infer(std::move(request), std::move(on_delta));
}

Status Gateway::Cancel(RequestId id) {
  if (impl_->backend->TryCancel(id)) return {};
  return {StatusCode::kNotFound, "no request " + std::to_string(id) + " is running"};
}

GatewayHealth Gateway::Health() const {
  const engine::Health health = impl_->backend->GetHealth();
  return {.ready = health.live && health.ready,
          .reason = health.reason,
          .backends = impl_->backend->Backends()};
}

EngineStats Gateway::Stats() const { return impl_->backend->Stats(); }
std::string Gateway::MetricsText() const { return impl_->backend->MetricsText(); }

std::vector<SessionInfo> Gateway::Sessions(const std::string& tenant) const {
  return impl_->backend->Sessions(tenant);
}
Status Gateway::CloseSession(const std::string& id, const std::string& tenant) {
  return impl_->backend->CloseSession(id, tenant);
}

Status Gateway::SetDraining(const std::string& backend, bool draining) {
  return impl_->backend->SetDraining(backend, draining);
}

Status Gateway::Shutdown(std::chrono::nanoseconds grace) { return impl_->backend->Drain(grace); }

}  // namespace ropeway
