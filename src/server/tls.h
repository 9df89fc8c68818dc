// The server's side of TLS: version 1.2 or later, with one certificate.
#ifndef ROPEWAY_SERVER_TLS_H_
#define ROPEWAY_SERVER_TLS_H_

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>

#include "ropeway/status.h"

namespace ropeway {

// Reads the certificate chain and the private key, both PEM. kInvalidArgument with one sentence
// that names the file at fault (field tls_cert or tls_key): missing, not PEM, a key with a
// password, or a key that is not the certificate's.
StatusOr<std::unique_ptr<boost::asio::ssl::context>> MakeTlsContext(const std::string& cert_path,
                                                                    const std::string& key_path);

}  // namespace ropeway

#endif  // ROPEWAY_SERVER_TLS_H_
