// Reads and checks API keys.
#ifndef ROPEWAY_SERVER_API_KEYS_H_
#define ROPEWAY_SERVER_API_KEYS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "ropeway/status.h"
#include "server/server_options.h"

namespace ropeway::server {

// Reads a TOML file of named keys:
//
//   [[keys]]
//   name = "team-a"   # letters, digits, '-', '_' and '.'; at most 64
//   key = "..."       # 8 to 512 visible ASCII characters without a space
//   # Optional:
//   cache_scope = "research"    # as a name
//   priority = "medium"         # "high", "medium" or "low": of requests that name none
//   priority_ceiling = "high"   # the highest that requests may name
//   weight = 1.0                # 0.01 to 100
//   max_concurrent_requests = 8
//   tokens_per_minute = 100000
//   gateway = true              # of a gateway in front of this server; default false
//   metrics_only = true         # opens /metrics and nothing else; default false
//
// The default priority is "medium", or the ceiling if that is lower.
//
// Fails with kNotFound or kInvalidArgument and one sentence that names the file and, if known, the
// line; it never contains a key.
StatusOr<std::vector<ApiKey>> ReadApiKeys(const std::string& path);

// The same of the text of a file that was read; at most kMaxApiKeysBytes + 1 of its bytes are
// needed.
inline constexpr size_t kMaxApiKeysBytes = size_t{4} << 20;
StatusOr<std::vector<ApiKey>> ParseApiKeys(const std::string& path, const std::string& text);

// Checks that each key has the form above, and that no key (the admin key included) and no name is
// given twice. ApiServer::Start calls it too.
Status CheckApiKeys(const std::vector<ApiKey>& keys, const std::string& admin_key);

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_API_KEYS_H_
