// Whose connections and requests are that come without a key: accounts of addresses, also of those
// behind proxies.
#ifndef ROPEWAY_HTTP_CLIENT_ADDRESS_H_
#define ROPEWAY_HTTP_CLIENT_ADDRESS_H_

#include <array>
#include <boost/asio/ip/address.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ropeway/status.h"

namespace ropeway::http {

// The account of an address, which is the name of no tenant: "addr:192.0.2.7", or for IPv6 the
// account of its network of 64 bits, since one client has all of it: "addr:2001:db8::/64".
std::string AddressAccount(const boost::asio::ip::address& address);

// Whether the address is this machine's own.
bool IsLoopbackAddress(const boost::asio::ip::address& address);
// Whether a host, as flags and URLs have it, is this machine's own: a loopback address, or
// "localhost". Resolves no names.
bool IsLoopbackHost(std::string_view host);

// The proxies whose word on their clients' addresses counts.
class TrustedProxies {
 public:
  // Each text is an address, "10.0.0.1", or a network, "10.0.0.0/8"; kInvalidArgument names one
  // that is neither.
  static StatusOr<TrustedProxies> Parse(const std::vector<std::string>& texts);

  bool Contains(const boost::asio::ip::address& address) const;

  // The client for which a trusted proxy sent a request with these headers: X-Forwarded-For if it
  // is not empty, else Forwarded (RFC 7239). Each proxy adds the address that it saw at the end,
  // and what stands before may be anybody's invention: the client is the last one that is no
  // trusted proxy. nullopt: they name none.
  std::optional<boost::asio::ip::address> ClientOf(std::string_view x_forwarded_for,
                                                   std::string_view forwarded) const;

 private:
  using Bytes = std::array<unsigned char, 16>;  // IPv4 as in ::ffff:0:0/96.
  struct Network {
    Bytes bytes;
    int bits = 128;
  };

  static Bytes BytesOf(const boost::asio::ip::address& address);

  std::vector<Network> networks_;
};

}  // namespace ropeway::http

#endif  // ROPEWAY_HTTP_CLIENT_ADDRESS_H_
