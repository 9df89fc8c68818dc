#include "server/access.h"

#include <openssl/crypto.h>

#include <algorithm>

#include "base/sha256.h"

namespace ropeway::server {
namespace {

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

http::HttpReply Unauthorized(bool presented) {
  http::HttpReply reply = http::ErrorReply(
      {401,
       presented ? "The API key is wrong."
                 : "This path needs an API key: send 'Authorization: Bearer <key>' or "
                   "'X-Api-Key: <key>'.",
       "invalid_request_error", "", "invalid_api_key"});
  reply.headers.emplace_back(
      "WWW-Authenticate",
      presented ? R"(Bearer realm="ropeway", error="invalid_token")" : R"(Bearer realm="ropeway")");
  return reply;
}

http::HttpReply Forbidden(const char* message) {
  return http::ErrorReply({403, message, "invalid_request_error", "", "forbidden"});
}

}  // namespace

struct Access::Table {
  std::vector<http::Caller> owners;
  std::vector<Digest> digests;  // Of the keys of owners.
  int64_t tenants = 0;          // Keys that are not for metrics alone.
  std::optional<Digest> admin;
};

Access::Access(const std::vector<ApiKey>& keys, const std::string& admin_key)
    : table_(TableOf(keys, admin_key)) {}

void Access::Replace(std::shared_ptr<const Table> table) noexcept {
  const std::lock_guard lock(mutex_);
  table_.swap(table);
}

std::shared_ptr<const Access::Table> Access::TableOf(const std::vector<ApiKey>& keys,
                                                     const std::string& admin_key) {
  auto table = std::make_shared<Table>();
  table->tenants = std::ranges::count(keys, false, &ApiKey::metrics_only);
  for (const ApiKey& key : keys) {
    table->owners.push_back(
        {key.name, key.cache_scope, key.priority, key.priority_ceiling, key.weight, false,
         table->tenants < 2 || key.gateway || key.metrics_only, key.gateway, key.metrics_only});
    table->digests.push_back(DigestOf(key.key));
  }
  if (!admin_key.empty()) table->admin = DigestOf(admin_key);
  return table;
}

Access::Digest Access::DigestOf(std::string_view key) {
  return base::Sha256(key.data(), key.size());
}

// Compares digests, so that the time does not depend on a key's length, and all of them, so that it
// does not depend on which one matches.
Access::Presented Access::Identify(const Table& table, std::string_view authorization,
                                   std::string_view api_key) {
  Presented presented;
  const std::string_view token = BearerToken(authorization);
  if (token.empty() && api_key.empty()) return presented;
  presented.any = true;
  const Digest digest = DigestOf(token.empty() ? api_key : token);
  if (!token.empty() && !api_key.empty()) {
    const Digest other = DigestOf(api_key);
    presented.two = CRYPTO_memcmp(digest.data(), other.data(), digest.size()) != 0;
    if (presented.two) return presented;
  }
  for (size_t i = 0; i < table.digests.size(); ++i) {
    const size_t equal = CRYPTO_memcmp(digest.data(), table.digests[i].data(), digest.size()) == 0;
    const size_t mask = 0 - equal;  // All bits or none.
    presented.tenant = (i & mask) | (presented.tenant & ~mask);
  }
  if (table.admin) {
    presented.admin = CRYPTO_memcmp(digest.data(), table.admin->data(), digest.size()) == 0;
  }
  return presented;
}

http::Verdict Access::Check(http::Rights rights, std::string_view authorization,
                            std::string_view api_key) const {
  const std::shared_ptr<const Table> table = [this] {
    const std::lock_guard lock(mutex_);
    return table_;
  }();
  http::Verdict verdict;
  if (table->digests.empty() && rights != http::Rights::kAdmin) return verdict;
  const Presented presented = Identify(*table, authorization, api_key);
  verdict.caller.sees_all = presented.admin || table->tenants < 2 ||
                            (presented.tenant != kNone && table->owners[presented.tenant].gateway);
  if (rights == http::Rights::kOpen) return verdict;
  if (presented.two) {
    verdict.rejection =
        http::ErrorReply({400, "Authorization and X-Api-Key have different keys: send one.",
                          "invalid_request_error", "", "invalid_api_key"});
    return verdict;
  }
  if (rights == http::Rights::kAdmin) {
    if (!table->admin) {
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
    verdict.caller = table->owners[presented.tenant];
    if (verdict.caller.metrics_only && rights != http::Rights::kMetrics) {
      verdict.rejection = Forbidden("This API key opens /metrics and nothing else.");
    }
    return verdict;
  }
  verdict.caller.admin = rights != http::Rights::kKey && presented.admin;
  if (!verdict.caller.admin) verdict.rejection = Unauthorized(presented.any);
  return verdict;
}

}  // namespace ropeway::server
