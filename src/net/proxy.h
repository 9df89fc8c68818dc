// The proxy that the environment names.
#ifndef ROPEWAY_NET_PROXY_H_
#define ROPEWAY_NET_PROXY_H_

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
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
  std::string authorization;  // The value of the field Proxy-Authorization; "": none.

  std::string Text() const;  // "HOST:PORT"
};

// The proxy of https_proxy or HTTPS_PROXY for an https URL, unless no_proxy or NO_PROXY lists its
// host: names with commas between them, or "*". A name, also as .NAME or *.NAME, stands for
// itself and what ends with it.
// http goes without a proxy. kInvalidArgument for a variable that is no http://[USER:PASSWORD@]HOST
// [:PORT]; the message does not show it.
StatusOr<std::optional<Proxy>> ProxyFor(const BaseUrl& url);

// Asks the proxy, to which `socket` is connected, for a tunnel to the server of `url`. Why there is
// none, kInvalidArgument where the same request would fail again; OK where there is one, or where
// `error` is set. The arguments must outlive the coroutine.
boost::asio::awaitable<Status> OpenTunnel(const Proxy& proxy, const BaseUrl& url,
                                          boost::asio::ip::tcp::socket* socket,
                                          boost::system::error_code* error);

}  // namespace ropeway::net

#endif  // ROPEWAY_NET_PROXY_H_
