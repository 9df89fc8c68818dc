#include "http/server_port.h"

#include <fmt/format.h>

#include <boost/asio/ssl/context.hpp>
#include <optional>
#include <string>
#include <utility>

#include "http/tls_files.h"

namespace ropeway::http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr int kPortsToTry = 32;

StatusOr<tcp::endpoint> Resolve(asio::io_context* io, const HttpOptions& options) {
  error_code error;
  const asio::ip::address address = asio::ip::make_address(options.host, error);
  if (!error) return tcp::endpoint(address, options.port);
  tcp::resolver resolver(*io);
  auto found = resolver.resolve(options.host, std::to_string(options.port), error);
  if (error || found.empty()) {
    return InvalidArgument(fmt::format("The host '{}' is no address and cannot be resolved: {}.",
                                       options.host, error.message()),
                           "host");
  }
  return found.begin()->endpoint();
}

// Takes the port so that no other socket can bind it too: of two that reuse addresses, both could,
// and the slower one would learn at listen() alone. Connections that ended a moment ago may hold
// the port of a server that starts anew: then it is reused, and no longer once it is bound.
error_code Bind(const tcp::endpoint& endpoint, tcp::acceptor* acceptor) {
  error_code error;
  acceptor->open(endpoint.protocol(), error);
  if (!error) acceptor->bind(endpoint, error);
  if (error != asio::error::address_in_use) return error;
  acceptor->set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor->bind(endpoint, error);
  if (!error) acceptor->set_option(tcp::acceptor::reuse_address(false), error);
  return error;
}

// The next port after `endpoint`'s that is free now.
std::optional<int> NextFree(tcp::endpoint endpoint) {
  asio::io_context io;
  for (int i = 0; i < kPortsToTry && endpoint.port() < 65535; ++i) {
    endpoint.port(static_cast<uint16_t>(endpoint.port() + 1));
    tcp::acceptor acceptor(io);
    if (!Bind(endpoint, &acceptor)) return endpoint.port();
  }
  return std::nullopt;
}

// Null: plain HTTP.
StatusOr<std::shared_ptr<asio::ssl::context>> LoadTls(const HttpOptions& options) {
  if (options.tls_cert.empty() && options.tls_key.empty()) {
    return std::shared_ptr<asio::ssl::context>();
  }
  if (options.tls_cert.empty() || options.tls_key.empty()) {
    const char* missing = options.tls_cert.empty() ? "tls_cert" : "tls_key";
    return InvalidArgument("TLS needs both a certificate and its key.", missing);
  }
  const StatusOr<TlsFiles> files = ReadTlsFiles(options.tls_cert, options.tls_key, false);
  if (!files.ok()) return files.status();
  return MakeTlsContext(*files);
}

}  // namespace

Status ServerPort::ErrorOf(const HttpOptions& options, const tcp::endpoint& endpoint,
                           error_code error) {
  if (error == asio::error::address_in_use) {
    const std::optional<int> other = NextFree(endpoint);
    return {StatusCode::kUnavailable,
            fmt::format("port {} is in use: choose another one, such as --port {}", endpoint.port(),
                        other ? std::to_string(*other) : "0 (any free one)"),
            "port"};
  }
  if (error == asio::error::access_denied) {
    return {
        StatusCode::kUnavailable,
        fmt::format("Port {} on {} may not be used by this user.", endpoint.port(), options.host),
        "port"};
  }
  return InvalidArgument(
      fmt::format("Cannot listen on {}:{}: {}.", options.host, endpoint.port(), error.message()),
      "host");
}

StatusOr<ServerPort> ServerPort::Open(const HttpOptions& options) {
  StatusOr<std::shared_ptr<asio::ssl::context>> tls = LoadTls(options);
  if (!tls.ok()) return tls.status();
  auto io = std::make_unique<asio::io_context>();
  const StatusOr<tcp::endpoint> endpoint = Resolve(io.get(), options);
  if (!endpoint.ok()) return endpoint.status();
  tcp::acceptor acceptor(*io);
  if (const error_code error = Bind(*endpoint, &acceptor)) {
    return ErrorOf(options, *endpoint, error);
  }
  return ServerPort{std::move(io), std::move(acceptor), *std::move(tls)};
}

}  // namespace ropeway::http
