// Where API keys come from, and what makes one acceptable.
#ifndef ROPEWAY_SERVER_API_KEYS_H_
#define ROPEWAY_SERVER_API_KEYS_H_

#include <string>
#include <vector>

#include "ropeway/status.h"
#include "server/server_options.h"

namespace ropeway {

// Reads a TOML file of named keys:
//
//   [[keys]]
//   name = "team-a"   # letters, digits, '-', '_' and '.'; at most 64
//   key = "..."       # 8 to 512 visible ASCII characters without a space
//   # All others may be left out:
//   cache_scope = "research"    # as a name
//   priority = "medium"         # "high", "medium" or "low": of requests that name none
//   priority_ceiling = "high"   # the highest that requests may name
//   weight = 1.0                # 0.01 to 100
//   max_concurrent_requests = 8
//   tokens_per_minute = 100000
//
// Without a priority it is "medium", or the ceiling where that is lower.
//
// kNotFound or kInvalidArgument with one sentence that names the file and, where there is one, the
// line; it never contains a key. A file that other users may read is a warning in the log.
StatusOr<std::vector<ApiKey>> ReadApiKeys(const std::string& path);

// Whether the server takes these keys: each of the form above, no key twice (not even as the admin
// key), no name twice. HttpServer::Start asks it too.
Status CheckApiKeys(const std::vector<ApiKey>& keys, const std::string& admin_key);

}  // namespace ropeway

#endif  // ROPEWAY_SERVER_API_KEYS_H_
