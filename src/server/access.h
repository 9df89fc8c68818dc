// Who may use which route: API keys and the admin key.
#ifndef ROPEWAY_SERVER_ACCESS_H_
#define ROPEWAY_SERVER_ACCESS_H_

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/caller.h"
#include "server/http_reply.h"
#include "server/router.h"
#include "server/server_options.h"

namespace ropeway {

// Keeps digests, not keys. Immutable, so thread-safe.
class Access {
 public:
  Access(const std::vector<ApiKey>& keys, const std::string& admin_key);

  struct Verdict {
    std::optional<HttpReply> refusal;  // 401 or 403; absent: go on.
    Caller caller;                     // Where there is no refusal.
  };

  // `authorization`: the value of the header; "" where there is none. The health routes are open to
  // everybody, the admin routes to the admin key alone. Everything else, paths that do not exist
  // included, needs an API key if there are any; /metrics, /version and /v1/queue take the admin
  // key too. Takes the same time whichever key is presented and however much of it is right.
  Verdict Check(Route route, std::string_view authorization) const;

 private:
  using Digest = std::array<unsigned char, 32>;
  struct Presented {
    bool any = false;       // A bearer token was given.
    bool admin = false;     // And it is the admin key.
    size_t tenant = kNone;  // Or the index of this key.
  };
  static constexpr size_t kNone = static_cast<size_t>(-1);

  static Digest DigestOf(std::string_view key);
  Presented Identify(std::string_view authorization) const;

  std::vector<Caller> owners_;
  std::vector<Digest> digests_;  // Of owners_'s keys.
  std::optional<Digest> admin_;
};

}  // namespace ropeway

#endif  // ROPEWAY_SERVER_ACCESS_H_
