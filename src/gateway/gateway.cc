#include "ropeway/gateway.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <ctime>
#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "gateway/gateway.h"
#include "gateway/gateway_backend.h"
#include "gateway/http_backend.h"
#include "net/base_url.h"
#include "service/front_desk.h"
#include "service/request_handle.h"
#include "store/session_store.h"

namespace ropeway::gateway {
namespace {

// How long the first probes are waited for.
constexpr std::chrono::seconds kFirstLook(2);

// The thread of all HTTP backends of one gateway.
class BackendIo {
 public:
  BackendIo() : work_(io_.get_executor()), thread_([this] { Run(); }) {}
  ~BackendIo() {
    work_.reset();
    io_.stop();
    thread_.join();
  }
  BackendIo(const BackendIo&) = delete;
  BackendIo& operator=(const BackendIo&) = delete;

  boost::asio::io_context* io() { return &io_; }

 private:
  void Run() {
    pthread_setname_np(pthread_self(), "ropeway-backend");
    while (!io_.stopped()) {
      try {
        io_.run();
      } catch (const std::exception& e) {
        base::TryLog(spdlog::level::err, "backends: {}", e.what());
      }
    }
  }

  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::thread thread_;  // Last.
};

Status BadGatewayOption(const std::string& field, const std::string& expected) {
  return InvalidArgument(field + ": expected " + expected, field);
}

Status CheckOptions(const GatewayOptions& options) {
  if (options.batching.dispatch != "continuous" && options.batching.dispatch != "batch") {
    return BadGatewayOption("dispatch",
                            "continuous or batch, not '" + options.batching.dispatch + "'");
  }
  if (options.batch_control != "aimd" && options.batch_control != "memory") {
    return BadGatewayOption("batch_control", "aimd or memory, not '" + options.batch_control + "'");
  }
  if (options.max_learned_concurrency < 1) {
    return BadGatewayOption("max_learned_concurrency", "at least 1");
  }
  if (options.request_timeout.count() < 0) return BadGatewayOption("request_timeout", "at least 0");
  if (options.connect_timeout.count() < 1) return BadGatewayOption("connect_timeout", "above 0");
  if (options.probe_interval.count() < 1) return BadGatewayOption("probe_interval", "above 0");
  if (options.tenants < 1) return BadGatewayOption("tenants", "at least 1");
  if (options.failover.max_retries < 0) return BadGatewayOption("max_retries", "at least 0");
  if (options.failover.max_resumptions < 0)
    return BadGatewayOption("max_resumptions", "at least 0");
  return store::CheckSessionOptions(options.sessions);
}

DispatchOptions DispatchOptionsOf(const GatewayOptions& options) {
  DispatchOptions dispatch;
  dispatch.queue = options.queue;
  dispatch.batching = options.batching;
  dispatch.failover = options.failover;
  PlacesOptions& places = dispatch.rules.places;
  places.most = options.max_learned_concurrency;
  places.start = std::min(places.start, places.most);
  dispatch.rules.tenants = options.tenants;
  dispatch.rules.memory_control = options.batch_control == "memory";
  HealthOptions& health = dispatch.rules.health;
  health.probe_interval = options.probe_interval;
  health.probe_again = std::min<base::Duration>(health.probe_again, options.probe_interval);
  return dispatch;
}

StatusOr<std::shared_ptr<Backend>> OpenUrl(const std::string& model, const BackendOptions& backend,
                                           const GatewayOptions& options,
                                           boost::asio::io_context* io) {
  const HttpBackendOptions http{
      .server = backend, .model = model, .connect_timeout = options.connect_timeout};
  StatusOr<std::unique_ptr<HttpBackend>> opened = HttpBackend::Open(http, io);
  if (!opened.ok()) return opened.status();
  return std::shared_ptr<Backend>(*std::move(opened));
}

// How a backend is called that was given no name; `number` counts all from 1.
std::string NameOf(const BackendOptions& backend, size_t number) {
  if (!backend.name.empty()) return backend.name;
  // One that cannot be read is not shown: it may hold a password.
  const StatusOr<net::BaseUrl> url = net::ParseBaseUrl(backend.url);
  return url.ok() ? fmt::format("{}:{}", url->host, url->port) : std::to_string(number);
}

}  // namespace

StatusOr<std::unique_ptr<GatewayBackend>> OpenGateway(
    const GatewayOptions& options, const base::Clock* clock, base::Random* random,
    const service::FrontDesk* tokens, std::unique_ptr<store::SessionStore> sessions) {
  if (Status status = CheckOptions(options); !status.ok()) return status;
  GatewayConfig config;
  config.dispatch = DispatchOptionsOf(options);
  config.request_timeout = options.request_timeout;
  config.strict = options.strict;
  config.created = static_cast<int64_t>(std::time(nullptr));
  config.tokens = tokens;
  config.clock = clock;
  config.random = random;
  try {
    if (sessions == nullptr) {
      StatusOr<std::unique_ptr<store::SessionStore>> opened =
          store::OpenSessionStore(options.sessions);
      if (!opened.ok()) return opened.status();
      sessions = *std::move(opened);
    }
    config.sessions = std::move(sessions);
    const auto io = std::make_shared<BackendIo>();
    config.runtime = io;
    size_t number = 0;
    config.models = options.models;
    for (GatewayModel& model : config.models) {
      for (BackendOptions& backend : model.backends) {
        backend.name = NameOf(backend, ++number);
        if (backend.url.empty() == (backend.backend == nullptr)) {
          return InvalidArgument(
              fmt::format("the backend {} must have either a url or a backend", backend.name),
              "url");
        }
        if (backend.backend != nullptr) continue;
        StatusOr<std::shared_ptr<Backend>> opened = OpenUrl(model.name, backend, options, io->io());
        if (!opened.ok()) {
          return Status(opened.status().code(),
                        fmt::format("backend {}: {}", backend.name, opened.status().message()),
                        opened.status().field());
        }
        backend.backend = *std::move(opened);
      }
    }
  } catch (const std::exception& e) {
    return Status(StatusCode::kResourceExhausted,
                  fmt::format("cannot start the gateway: {}", e.what()));
  }
  StatusOr<std::unique_ptr<GatewayBackend>> gateway = GatewayBackend::Create(std::move(config));
  if (gateway.ok()) (*gateway)->WaitProbed(kFirstLook);
  return gateway;
}

}  // namespace ropeway::gateway

namespace ropeway {

class Gateway::Impl {
 public:
  base::RealClock clock;
  base::SystemRandom random;
  std::unique_ptr<gateway::GatewayBackend> backend;  // Its threads use the others.
  std::optional<service::RequestHandles> handles;
};

StatusOr<std::unique_ptr<Gateway>> Gateway::Create(const GatewayOptions& options) {
  auto impl = std::make_unique<Impl>();
  StatusOr<std::unique_ptr<gateway::GatewayBackend>> backend =
      gateway::OpenGateway(options, &impl->clock, &impl->random);
  if (!backend.ok()) return backend.status();
  impl->backend = *std::move(backend);
  impl->handles.emplace(impl->backend.get());
  return std::unique_ptr<Gateway>(new Gateway(std::move(impl)));
}

Gateway::Gateway(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Gateway::~Gateway() = default;

StatusOr<RequestHandle> Gateway::Infer(Request request, StreamCallback on_delta) {
  return impl_->handles->Submit(std::move(request), std::move(on_delta));
}

Status Gateway::Cancel(RequestId id) { return impl_->backend->Cancel(id); }

GatewayHealth Gateway::Health() const {
  const service::Health health = impl_->backend->GetHealth();
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
