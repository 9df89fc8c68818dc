// Which web pages may read the server's answers (CORS), and by which names the server may be
// called, so that no page makes a name of its own mean it (DNS rebinding).
#ifndef ROPEWAY_HTTP_CROSS_ORIGIN_H_
#define ROPEWAY_HTTP_CROSS_ORIGIN_H_

#include <string>
#include <string_view>
#include <vector>

#include "ropeway/status.h"

namespace ropeway::http {

// Immutable, so thread-safe.
class OriginRule {
 public:
  // Reads HttpOptions::cors_origins. kInvalidArgument (`cors_origins`) names the text at fault.
  static StatusOr<OriginRule> Parse(const std::vector<std::string>& texts);

  // What Access-Control-Allow-Origin says to a page of `origin`, the value of its header Origin;
  // "": it may read nothing. `on_loopback`: the server listens there.
  std::string Answer(std::string_view origin, bool on_loopback) const;
  // Whether an answer may depend on the page that asks.
  bool varies(bool on_loopback) const { return unset_ ? on_loopback : any_ || !origins_.empty(); }

 private:
  bool unset_ = true;  // No text was given: pages of this machine, while the server is its alone.
  bool any_ = false;
  std::vector<std::string> origins_;
};

// Whether a page of `origin` is the server's own, which its client calls `host` (the header Host).
bool IsOwnOrigin(std::string_view origin, std::string_view host);

// The names in `asked`, the value of Access-Control-Request-Headers, that a page may send, in lower
// case: tokens, at most 32 names and 1024 bytes, and none that only a proxy says.
std::string AllowedHeaders(std::string_view asked);

// Immutable, so thread-safe.
class HostRule {
 public:
  // Reads HttpOptions::host and allowed_hosts; each text is a name or an address, without a port,
  // or "*". kInvalidArgument (`allowed_hosts`) names the text at fault.
  static StatusOr<HostRule> Parse(const std::string& bound, const std::vector<std::string>& texts);

  // Whether a server that is open to its machine alone answers to `authority`: a name or address of
  // this machine, the one that it was bound to, or one that was given; with or without a port. ""
  // is no name, so no page's.
  bool Allows(std::string_view authority) const;

 private:
  bool any_ = false;
  std::vector<std::string> hosts_;
};

}  // namespace ropeway::http

#endif  // ROPEWAY_HTTP_CROSS_ORIGIN_H_
