// Access control: which routes an API key or the admin key opens.
#ifndef ROPEWAY_SERVER_ACCESS_H_
#define ROPEWAY_SERVER_ACCESS_H_

#include <array>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "http/caller.h"
#include "server/server_options.h"

namespace ropeway::server {

// Keeps digests, not keys. Thread-safe.
class Access {
 public:
  struct Table;  // Of keys, as Check needs them.

  Access(const std::vector<ApiKey>& keys, const std::string& admin_key);

  static std::shared_ptr<const Table> TableOf(const std::vector<ApiKey>& keys,
                                              const std::string& admin_key);
  // Puts other keys in their place, from the next Check on. REQUIRES: not null.
  void Replace(std::shared_ptr<const Table> table) noexcept;

  // `authorization`, `api_key`: the values of the headers Authorization and X-Api-Key, of which
  // either may present the key; "" where they are absent. What the caller of a route without a key
  // may see depends on it all the same. Takes the same time whichever key is presented and however
  // much of it is right.
  http::Verdict Check(http::Rights rights, std::string_view authorization,
                      std::string_view api_key = {}) const;

 private:
  using Digest = std::array<unsigned char, 32>;
  struct Presented {
    bool any = false;       // A key was given,
    bool two = false;       // or two that differ, of which none counts.
    bool admin = false;     // It is the admin key.
    size_t tenant = kNone;  // The index of the API key that it is.
  };
  static constexpr size_t kNone = static_cast<size_t>(-1);

  static Digest DigestOf(std::string_view key);
  static Presented Identify(const Table& table, std::string_view authorization,
                            std::string_view api_key);

  mutable std::mutex mutex_;
  std::shared_ptr<const Table> table_;  // Guarded by mutex_; never null.
};

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_ACCESS_H_
