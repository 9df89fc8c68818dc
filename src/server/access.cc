#include "server/access.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <utility>

#include "base/sha256.h"

namespace ropeway::server {
namespace {

bool IsAdmin(Route route) {
  return route == Route::kAdminRequests || route == Route::kAdminCancel ||
         route == Route::kAdminDrain;
}

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Returns the token of "Bearer <token>", or "" for any other header.
std::string_view BearerToken(std::string_view header) {
  constexpr std::string_view kScheme = "bearer ";
  if (header.size() <= kScheme.size() ||
      !std::equal(kScheme.begin(), kScheme.end(), header.begin(),
                  [](char want, char got) { return want == Lower(got); })) {
    return {};
  }
  header.remove_prefix(kScheme.size());
  const size_t first = header.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return header.substr(first, header.find_last_not_of(" \t") + 1 - first);
}

HttpReply Unauthorized(bool presented) {
  HttpReply reply =
      ErrorReply({401,
                  presented ? "The API key is wrong."
                            : "This path needs an API key: send 'Authorization: Bearer <key>'.",
                  "invalid_request_error", "", "invalid_api_key"});
  reply.headers.emplace_back(
      "WWW-Authenticate",
      presented ? R"(Bearer realm="ropeway", error="invalid_token")" : R"(Bearer realm="ropeway")");
  return reply;
}

HttpReply Forbidden(const char* message) {
  return ErrorReply({403, message, "invalid_request_error", "", "forbidden"});
}

}  // namespace

base::Flow FlowOf(const Caller& caller) {
  return {
      .tenant = caller.tenant, .cls = static_cast<int>(caller.priority), .weight = caller.weight};
}

Access::Access(const std::vector<ApiKey>& keys, const std::string& admin_key) {
  for (const ApiKey& key : keys) {
    owners_.push_back({key.name, key.cache_scope, key.priority, key.priority_ceiling, key.weight,
                       false, keys.size() < 2 || key.gateway, key.gateway});
    digests_.push_back(DigestOf(key.key));
  }
  if (!admin_key.empty()) admin_ = DigestOf(admin_key);
}

Access::Digest Access::DigestOf(std::string_view key) {
  return base::Sha256(key.data(), key.size());
}

// Compares digests, so that the time does not depend on a key's length, and all of them, so that it
// does not depend on which one matches.
Access::Presented Access::Identify(std::string_view authorization) const {
  Presented presented;
  const std::string_view token = BearerToken(authorization);
  if (token.empty()) return presented;
  presented.any = true;
  const Digest digest = DigestOf(token);
  for (size_t i = 0; i < digests_.size(); ++i) {
    const size_t equal = CRYPTO_memcmp(digest.data(), digests_[i].data(), digest.size()) == 0;
    const size_t mask = 0 - equal;  // All bits or none.
    presented.tenant = (i & mask) | (presented.tenant & ~mask);
  }
  if (admin_) presented.admin = CRYPTO_memcmp(digest.data(), admin_->data(), digest.size()) == 0;
  return presented;
}

Access::Verdict Access::Check(Route route, std::string_view authorization) const {
  Verdict verdict;
  if (digests_.empty() && !IsAdmin(route)) return verdict;
  const Presented presented = Identify(authorization);
  verdict.caller.sees_all = presented.admin || digests_.size() < 2 ||
                            (presented.tenant != kNone && owners_[presented.tenant].gateway);
  if (IsHealth(route)) return verdict;
  if (IsAdmin(route)) {
    if (!admin_) {
      verdict.rejection = Forbidden(
          "The admin paths are closed: start the server with an admin key (--admin-key) to open "
          "them.");
    } else if (presented.tenant != kNone) {
      verdict.rejection = Forbidden("The admin paths need the admin key, not an API key.");
    } else if (!presented.admin) {
      verdict.rejection = Unauthorized(presented.any);
    }
    verdict.caller.admin = presented.admin;
    return verdict;
  }
  if (presented.tenant != kNone) {
    verdict.caller = owners_[presented.tenant];
    return verdict;
  }
  const bool takes_admin =
      route == Route::kMetrics || route == Route::kVersion || route == Route::kQueue;
  verdict.caller.admin = takes_admin && presented.admin;
  if (!verdict.caller.admin) verdict.rejection = Unauthorized(presented.any);
  return verdict;
}

}  // namespace ropeway::server
