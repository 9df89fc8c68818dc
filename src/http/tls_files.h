// The files of a certificate and its key, and what TLS makes of them.
#ifndef ROPEWAY_HTTP_TLS_FILES_H_
#define ROPEWAY_HTTP_TLS_FILES_H_

#include <memory>
#include <string>

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

}  // namespace ropeway::http

#endif  // ROPEWAY_HTTP_TLS_FILES_H_
