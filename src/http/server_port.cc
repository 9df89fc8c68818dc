#include "http/server_port.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl/context.hpp>
#include <exception>
#include <optional>
#include <utility>

#include "base/system.h"

namespace ropeway::http {
namespace {

namespace ssl = boost::asio::ssl;
using boost::system::error_code;

constexpr size_t kMaxPemBytes = size_t{1} << 20;

// `what` names the file in the sentence, `field` its option.
StatusOr<std::string> ReadPem(const std::string& path, const char* what, const char* field,
                              bool regular_only) {
  std::string text;
  std::string why;
  if (regular_only) {
    StatusOr<std::string> read = base::ReadRegularFile(path, kMaxPemBytes);
    if (!read.ok()) why = ": " + read.status().message();
    if (read.ok()) text = *std::move(read);
  } else {
    text = base::ReadFile(path, kMaxPemBytes).value_or("");
  }
  if (text.empty()) {
    return InvalidArgument(fmt::format("The TLS {} {} cannot be read{}.", what, path, why), field);
  }
  if (text.size() > kMaxPemBytes) {
    return InvalidArgument(
        fmt::format("The TLS {} {} is larger than {} bytes.", what, path, kMaxPemBytes), field);
  }
  return text;
}

Status LoadCertificate(const TlsFiles& files, ssl::context* context) {
  error_code error;
  context->use_certificate_chain(boost::asio::buffer(files.cert), error);
  if (!error) return {};
  return InvalidArgument(
      fmt::format("{} holds no TLS certificate in PEM form: {}.", files.cert_path, error.message()),
      "tls_cert");
}

Status LoadKey(const TlsFiles& files, ssl::context* context) {
  const std::string& path = files.key_path;
  bool asked = false;
  // Without a callback OpenSSL would ask at the terminal.
  context->set_password_callback([&asked](size_t, ssl::context::password_purpose) {
    asked = true;
    return std::string();
  });
  error_code error;
  context->use_private_key(boost::asio::buffer(files.key), ssl::context::pem, error);
  context->set_password_callback(
      [](size_t, ssl::context::password_purpose) { return std::string(); });
  if (!error) return {};
  std::string sentence;
  if (asked) {
    sentence = fmt::format(
        "The TLS key {} has a password, which is not supported: use one without.", path);
  } else if (ERR_GET_REASON(static_cast<unsigned long>(error.value())) ==
             X509_R_KEY_VALUES_MISMATCH) {
    sentence = fmt::format("The TLS key {} does not belong to the certificate.", path);
  } else {
    sentence = fmt::format("{} holds no private key in PEM form: {}.", path, error.message());
  }
  return InvalidArgument(std::move(sentence), "tls_key");
}

}  // namespace

StatusOr<TlsFiles> ReadTlsFiles(const std::string& cert_path, const std::string& key_path,
                                bool regular_only) {
  StatusOr<std::string> cert = ReadPem(cert_path, "certificate", "tls_cert", regular_only);
  if (!cert.ok()) return cert.status();
  StatusOr<std::string> key = ReadPem(key_path, "key", "tls_key", regular_only);
  if (!key.ok()) return key.status();
  return TlsFiles{cert_path, key_path, *std::move(cert), *std::move(key)};
}

StatusOr<std::shared_ptr<ssl::context>> MakeTlsContext(const TlsFiles& files) {
  try {
    auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
    SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
    SSL_CTX_set_options(context->native_handle(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    // An idle connection then keeps no record buffers.
    SSL_CTX_set_mode(context->native_handle(), SSL_MODE_RELEASE_BUFFERS);
    Status status = LoadCertificate(files, context.get());
    if (status.ok()) status = LoadKey(files, context.get());
    if (!status.ok()) return status;
    return context;
  } catch (const std::exception& e) {
    return Status(StatusCode::kInternal, fmt::format("TLS cannot be set up: {}.", e.what()));
  }
}

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
constexpr int kPortsToTry = 32;

StatusOr<tcp::endpoint> Resolve(asio::io_context* io, const HttpOptions& options) {
  error_code error;
  const asio::ip::address address = asio::ip::make_address(options.host, error);
  if (!error) return tcp::endpoint(address, options.port);
  tcp::resolver resolver(*io);
  auto found = resolver.resolve(options.host, std::to_string(options.port), error);
  if (error || found.empty()) {
    return InvalidArgument(
        fmt::format("The host '{}' is not an address and cannot be resolved: {}.", options.host,
                    error.message()),
        "host");
  }
  return found.begin()->endpoint();
}

// Takes the port so that no other socket can bind it too: two sockets that reuse addresses both
// could, and the slower one would learn of it only at listen(). Connections that ended a moment ago
// may hold the port of a server that starts anew: then it is reused, and no longer once it is
// bound.
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
    return {StatusCode::kUnavailable,
            fmt::format("This user may not listen on {}:{}.", options.host, endpoint.port()),
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
