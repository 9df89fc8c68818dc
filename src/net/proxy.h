// The proxy that the environment names.
#ifndef ROPEWAY_NET_PROXY_H_
#define ROPEWAY_NET_PROXY_H_

#include <cstdint>
#include <optional>
#include <string>

#include "net/base_url.h"
#include "ropeway/status.h"

namespace ropeway::net {

// A proxy that opens tunnels (CONNECT). Its credentials are in no message.
struct Proxy {
  std::string host;
  uint16_t port = 80;
  std::string authorization;  // Of the field Proxy-Authorization; "": none.

  std::string Text() const;  // "HOST:PORT"
};

// The proxy of https_proxy or HTTPS_PROXY for an https URL, unless no_proxy or NO_PROXY lists its
// host: a comma between names, each of which stands for itself and what ends with it, or "*".
// http goes without a proxy. kInvalidArgument for a variable that is no http://[USER:PASSWORD@]HOST
// [:PORT]; the message does not show it.
StatusOr<std::optional<Proxy>> ProxyFor(const BaseUrl& url);

}  // namespace ropeway::net

#endif  // ROPEWAY_NET_PROXY_H_
