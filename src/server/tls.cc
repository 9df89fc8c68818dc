#include "server/tls.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <exception>
#include <fstream>
#include <utility>

namespace ropeway {
namespace {

namespace ssl = boost::asio::ssl;
using boost::system::error_code;

bool Readable(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return file && file.peek() != std::ifstream::traits_type::eof();
}

Status LoadCertificate(const std::string& path, ssl::context* context) {
  if (!Readable(path)) {
    return InvalidArgument(fmt::format("The TLS certificate {} cannot be read.", path), "tls_cert");
  }
  error_code error;
  context->use_certificate_chain_file(path, error);
  if (!error) return {};
  return InvalidArgument(
      fmt::format("{} holds no TLS certificate in PEM form: {}.", path, error.message()),
      "tls_cert");
}

Status LoadKey(const std::string& path, ssl::context* context) {
  if (!Readable(path)) {
    return InvalidArgument(fmt::format("The TLS key {} cannot be read.", path), "tls_key");
  }
  bool asked = false;
  // Without a callback OpenSSL would ask at the terminal.
  context->set_password_callback([&asked](size_t, ssl::context::password_purpose) {
    asked = true;
    return std::string();
  });
  error_code error;
  context->use_private_key_file(path, ssl::context::pem, error);
  context->set_password_callback(
      [](size_t, ssl::context::password_purpose) { return std::string(); });
  if (!error) return {};
  std::string sentence;
  if (asked) {
    sentence = fmt::format("The TLS key {} has a password; one without is needed.", path);
  } else if (ERR_GET_REASON(static_cast<unsigned long>(error.value())) ==
             X509_R_KEY_VALUES_MISMATCH) {
    sentence = fmt::format("The TLS key {} does not belong to the certificate.", path);
  } else {
    sentence = fmt::format("{} holds no private key in PEM form: {}.", path, error.message());
  }
  return InvalidArgument(std::move(sentence), "tls_key");
}

}  // namespace

StatusOr<std::unique_ptr<ssl::context>> MakeTlsContext(const std::string& cert_path,
                                                       const std::string& key_path) {
  try {
    auto context = std::make_unique<ssl::context>(ssl::context::tls_server);
    SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
    SSL_CTX_set_options(context->native_handle(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    // An idle connection then keeps no record buffers.
    SSL_CTX_set_mode(context->native_handle(), SSL_MODE_RELEASE_BUFFERS);
    Status status = LoadCertificate(cert_path, context.get());
    if (status.ok()) status = LoadKey(key_path, context.get());
    if (!status.ok()) return status;
    return context;
  } catch (const std::exception& e) {
    return Status(StatusCode::kInternal, fmt::format("TLS cannot be set up: {}.", e.what()));
  }
}

}  // namespace ropeway
