// URLs: the base URL of an OpenAI-compatible API, and the URLs of files.
#ifndef ROPEWAY_NET_BASE_URL_H_
#define ROPEWAY_NET_BASE_URL_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "ropeway/status.h"

namespace ropeway::net {

struct BaseUrl {
  bool tls = false;
  std::string host;  // Without the brackets of an IPv6 address.
  uint16_t port = 80;
  std::string path;  // The prefix of "/completions": as given, or "/v1"; no trailing slash.

  // The Host header's value: the port is left out where it is the scheme's default.
  std::string Authority() const;
  // The whole URL, without a trailing slash.
  std::string Text() const;
};

// Reads http://HOST[:PORT][/PATH] or https://...; a path is taken as it is, and without one it is
// /v1. Fails with kInvalidArgument on everything else, user names and queries included; the message
// calls the value `name`.
StatusOr<BaseUrl> ParseBaseUrl(const std::string& url, std::string_view name = "The base URL");

// Reads the URL of a file, http://HOST[:PORT]/PATH[?QUERY] or https://...: `path` is what goes into
// the request line, with the query. A fragment is left out. kInvalidArgument on everything else.
StatusOr<BaseUrl> ParseFileUrl(const std::string& url);

// Where a redirect's Location leads from `from`: a URL, or a path on the same host.
StatusOr<BaseUrl> ParseLocation(const BaseUrl& from, const std::string& location);

// Whether both name one server, and so may see the same secrets: scheme, host and port are equal.
bool SameServer(const BaseUrl& a, const BaseUrl& b);

}  // namespace ropeway::net

#endif  // ROPEWAY_NET_BASE_URL_H_
