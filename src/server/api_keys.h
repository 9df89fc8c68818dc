// API keys: the file that lists them, and which routes a key or the admin key opens.
#ifndef ROPEWAY_SERVER_API_KEYS_H_
#define ROPEWAY_SERVER_API_KEYS_H_

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "http/caller.h"
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

// Keeps digests, not keys. Thread-safe.
class Access {
 public:
  struct Table;  // The keys, as Check needs them.

  Access(const std::vector<ApiKey>& keys, const std::string& admin_key);

  static std::shared_ptr<const Table> TableOf(const std::vector<ApiKey>& keys,
                                              const std::string& admin_key);
  // Puts other keys in their place, from the next Check on. REQUIRES: not null.
  void Replace(std::shared_ptr<const Table> table) noexcept;

  // `authorization`, `api_key`: the values of the headers Authorization and X-Api-Key; ""
  // where they are absent. Either may present the key. What the caller of a route without a key
  // may see depends on it all the same. Takes the same time whichever key is presented and however
  // much of it is right.
  http::Verdict Check(http::Rights rights, std::string_view authorization,
                      std::string_view api_key = {}) const;

 private:
  using Digest = std::array<unsigned char, 32>;
  struct Presented {
    bool any = false;       // A key was given.
    bool two = false;       // Two different keys were given: neither counts.
    bool admin = false;     // It is the admin key.
    size_t tenant = kNone;  // The index of the API key that it is.
  };
  static constexpr size_t kNone = static_cast<size_t>(-1);

  static Digest DigestOf(std::string_view key);
  static Presented Identify(const Table& table, std::string_view authorization,
                            std::string_view api_key);

  mutable std::mutex mutex_;
  std::shared_ptr<const Table> table_;  // Never null. GUARDED_BY(mutex_)
};

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_API_KEYS_H_
