#include "server/api_server.h"

#include <algorithm>
#include <boost/asio/ssl/context.hpp>
#include <exception>
#include <string>
#include <utility>

#include "http/http_server.h"
#include "server/api_keys.h"
#include "server/server_context.h"

namespace ropeway::server {
namespace {

bool HasGateway(const ServerOptions& options) {
  return std::ranges::any_of(options.api_keys, [](const ApiKey& key) { return key.gateway; });
}

}  // namespace

class ApiServer::Impl {
 public:
  Impl(const ServerOptions& options, service::FrontDesk* backend, const RoutesMaker& routes)
      : keys_(CheckApiKeys(options.api_keys, options.admin_key)),
        had_gateway_(HasGateway(options)),
        context_(options, backend, routes, NoRoute),
        server_(&context_.http) {
    context_.ShareStore(options.api_keys);
  }

  Status Start() {
    if (!keys_.ok()) return keys_;
    Resume();
    return server_.Start();
  }

  Status Start(http::ServerPort port) {
    if (!keys_.ok()) return keys_;
    Resume();
    return server_.Start(std::move(port));
  }

  Status Reload(const ServerOptions& options, const std::optional<http::TlsFiles>& files) {
    if (Status status = CheckApiKeys(options.api_keys, options.admin_key); !status.ok()) {
      return status;
    }
    if (options.api_keys.empty() != context_.http.open) {
      return InvalidArgument(
          "The first API key cannot be added, nor the last one removed, without a restart.",
          "api_keys");
    }
    if (!had_gateway_ && HasGateway(options)) {
      return InvalidArgument(
          "The first API key with gateway = true cannot be added without a restart.", "api_keys");
    }
    StatusOr<std::shared_ptr<boost::asio::ssl::context>> tls =
        std::shared_ptr<boost::asio::ssl::context>();
    if (files) tls = http::MakeTlsContext(*files);
    if (!tls.ok()) return tls.status();
    std::shared_ptr<const Access::Table> table =
        Access::TableOf(options.api_keys, options.admin_key);
    context_.key_limits.Replace(options.api_keys);  // Changes nothing where it fails.
    // Nothing fails from here on.
    context_.access.Replace(std::move(table));
    context_.ShareStore(options.api_keys);
    context_.http.metrics.ForgetTenants(
        [this](const std::string& tenant) { return context_.key_limits.Remembers(tenant); });
    if (files) server_.ReplaceTls(*std::move(tls));
    return {};
  }

  uint16_t port() const { return server_.port(); }

  int64_t answered() const { return context_.http.metrics.answered(); }

  void StopAccepting() {
    context_.http.state = http::HttpContext::State::kStopping;
    if (context_.stored != nullptr) context_.stored->Park();
  }

  void Stop(std::chrono::milliseconds grace) {
    context_.events.Stop();  // Its streams would last.
    if (context_.stored != nullptr) context_.stored->Park();
    server_.Stop(grace);
    context_.StopHelpers();
  }

 private:
  // What was under way when the last process ended goes on, before clients can ask for it.
  void Resume() {
    if (context_.stored != nullptr) context_.stored->Resume();
  }

  const Status keys_;       // Whether the keys can be used.
  const bool had_gateway_;  // Whether one key was a gateway's at the start.
  ServerContext context_;
  http::HttpServer server_;
};

ApiServer::ApiServer(const ServerOptions& options, service::FrontDesk* backend,
                     const RoutesMaker& routes)
    : impl_(std::make_unique<Impl>(options, backend, routes)) {}

ApiServer::~ApiServer() { Stop(); }

Status ApiServer::Start() { return impl_->Start(); }

Status ApiServer::Start(http::ServerPort port) { return impl_->Start(std::move(port)); }

Status ApiServer::Reload(const ServerOptions& options, const std::optional<http::TlsFiles>& files) {
  try {
    return impl_->Reload(options, files);
  } catch (const std::exception&) {
    return http::StatusFromException();
  }
}

uint16_t ApiServer::port() const { return impl_->port(); }

int64_t ApiServer::answered() const { return impl_->answered(); }

void ApiServer::StopAccepting() { impl_->StopAccepting(); }

void ApiServer::Stop(std::chrono::milliseconds grace) { impl_->Stop(grace); }

}  // namespace ropeway::server
