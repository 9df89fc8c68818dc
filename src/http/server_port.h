// The port of a server, and the files of its TLS.
#ifndef ROPEWAY_HTTP_SERVER_PORT_H_
#define ROPEWAY_HTTP_SERVER_PORT_H_

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <string>

#include "http/http_options.h"
#include "ropeway/status.h"

namespace boost::asio::ssl {
class context;
}  // namespace boost::asio::ssl

namespace ropeway::http {

// Two PEM files that were read: a certificate with its chain, and its private key.
struct TlsFiles {
  std::string cert_path;
  std::string key_path;
  std::string cert;
  std::string key;  // A secret.
};

// Reads the files: any that can be read, or, so that it never waits for a writer, regular ones
// only. kInvalidArgument with one sentence that names the file that cannot be read (field tls_cert
// or tls_key).
StatusOr<TlsFiles> ReadTlsFiles(const std::string& cert_path, const std::string& key_path,
                                bool regular_only);

// kInvalidArgument with one sentence that names the file at fault (field tls_cert or tls_key): not
// PEM, a key with a password, or a key that is not the certificate's.
StatusOr<std::shared_ptr<boost::asio::ssl::context>> MakeTlsContext(const TlsFiles& files);

// A port that is opened before a model is loaded, so that a mistake is told at once and no other
// process takes the port meanwhile. It refuses connections until a server listens on it.
struct ServerPort {
  // Reads the TLS files, if any, and binds the port. kInvalidArgument for a host or a TLS file that
  // cannot be used; kUnavailable for a port that is forbidden, or in use: then the message proposes
  // a free one.
  static StatusOr<ServerPort> Open(const HttpOptions& options);

  // Why `endpoint`, where the acceptor was or was to be, cannot be used: see Open.
  static Status ErrorOf(const HttpOptions& options, const boost::asio::ip::tcp::endpoint& endpoint,
                        boost::system::error_code error);

  std::unique_ptr<boost::asio::io_context> io;     // The acceptor's; runs nothing.
  boost::asio::ip::tcp::acceptor acceptor;         // Bound.
  std::shared_ptr<boost::asio::ssl::context> tls;  // Null: plain HTTP.
};

}  // namespace ropeway::http

#endif  // ROPEWAY_HTTP_SERVER_PORT_H_
