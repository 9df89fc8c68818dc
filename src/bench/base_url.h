// The address of a server under load.
#ifndef ROPEWAY_BENCH_BASE_URL_H_
#define ROPEWAY_BENCH_BASE_URL_H_

#include <cstdint>
#include <string>

#include "ropeway/status.h"

namespace ropeway {

struct BaseUrl {
  bool tls = false;
  std::string host;  // Without the brackets of an IPv6 address.
  uint16_t port = 80;
  std::string path;  // What stands before "/completions": "/v1", or as given; no slash at its end.

  // As the Host header has it: the port only where it is not the scheme's own.
  std::string Authority() const;
  // The whole address without a slash at its end.
  std::string Text() const;
};

// Reads http://HOST[:PORT][/PATH] or https://...; a path that does not end in /v1 gets it.
// Fails with kInvalidArgument on everything else, user names and queries included.
StatusOr<BaseUrl> ParseBaseUrl(const std::string& url);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_BASE_URL_H_
