#include "http/tls_files.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl/context.hpp>
#include <exception>
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

}  // namespace ropeway::http
