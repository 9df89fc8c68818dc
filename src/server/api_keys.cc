#include "server/api_keys.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <toml++/toml.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/sha256.h"
#include "base/system.h"
#include "base/toml_bounds.h"
#include "base/utf8.h"
#include "core/tenant.h"

namespace ropeway::server {
namespace {

constexpr size_t kMinKeyBytes = 8;
constexpr size_t kMaxKeyBytes = 512;
constexpr size_t kMaxKeys = 1000;

bool IsKeyChar(char c) { return c > ' ' && c < '\x7f'; }

// Checks a key. Returns what is wrong as the end of a sentence, "" if nothing is. Never shows the
// key.
std::string KeyFault(std::string_view key) {
  if (key.size() < kMinKeyBytes) return fmt::format("needs at least {} characters", kMinKeyBytes);
  if (key.size() > kMaxKeyBytes) return fmt::format("has more than {} characters", kMaxKeyBytes);
  if (!std::all_of(key.begin(), key.end(), IsKeyChar)) {
    return "must be visible ASCII characters without spaces";
  }
  return "";
}

std::string NameFault(std::string_view name) {
  if (core::IsTenantName(name)) return "";
  return fmt::format("must be 1 to {} letters, digits, '-', '_' or '.'", core::kMaxTenantNameBytes);
}

// Checks the value of a field. Returns what is wrong, "" if nothing is; so do those below.
std::string RangeFault(std::string_view field, double value, double least, double most) {
  if (value >= least && value <= most) return "";
  return fmt::format("'{}' must be {} to {}, but is {}", field, least, most, value);
}

// Checks what the key grants.
std::string RightsFault(const ApiKey& key) {
  if (key.priority < key.priority_ceiling) {
    return fmt::format("'priority' is \"{}\", which is above the 'priority_ceiling' \"{}\"",
                       PriorityName(key.priority), PriorityName(key.priority_ceiling));
  }
  if (key.metrics_only && key.gateway) {
    return "'metrics_only' and 'gateway' cannot both be true";
  }
  std::string fault =
      RangeFault("weight", key.weight, core::kMinTenantWeight, core::kMaxTenantWeight);
  if (fault.empty()) {
    fault = RangeFault("max_concurrent_requests", key.max_concurrent_requests, 0, kMaxKeyRequests);
  }
  if (fault.empty()) {
    fault = RangeFault("tokens_per_minute", static_cast<double>(key.tokens_per_minute), 0,
                       kMaxKeyTokens);
  }
  return fault;
}

// Checks keys[i] by itself and against those before it.
std::string EntryFault(const std::vector<ApiKey>& keys, size_t i) {
  if (std::string fault = NameFault(keys[i].name); !fault.empty()) return "'name' " + fault;
  if (std::string fault = KeyFault(keys[i].key); !fault.empty()) {
    return fmt::format("the key '{}' {}", keys[i].name, fault);
  }
  if (!keys[i].cache_scope.empty()) {
    if (std::string fault = NameFault(keys[i].cache_scope); !fault.empty()) {
      return "'cache_scope' " + fault;
    }
  }
  if (std::string fault = RightsFault(keys[i]); !fault.empty()) {
    return fmt::format("{} (of the key '{}')", fault, keys[i].name);
  }
  for (size_t k = 0; k < i; ++k) {
    if (keys[k].name == keys[i].name)
      return fmt::format("the name '{}' is given twice", keys[i].name);
    if (keys[k].key == keys[i].key) {
      return fmt::format("'{}' and '{}' have the same key", keys[k].name, keys[i].name);
    }
  }
  return "";
}

Status FaultAtLine(const std::string& path, size_t line, const std::string& fault) {
  // It may quote a name of the file.
  return InvalidArgument(fmt::format("{}, line {}: {}.", path, line, base::PrintableText(fault)));
}

Status FaultAt(const std::string& path, const toml::source_region& source,
               const std::string& fault) {
  return FaultAtLine(path, source.begin.line, fault);
}

// These read one field's value. They return what is wrong with it, "" if nothing is.

std::string ReadKeyText(const toml::node& node, std::string_view field, std::string* out) {
  const auto* text = node.as_string();
  if (text == nullptr) return fmt::format("'{}' must be a string", field);
  *out = text->get();
  return "";
}

std::string ReadKeyPriority(const toml::node& node, std::string_view field, Priority* out) {
  const auto* text = node.as_string();
  const std::optional<Priority> priority = PriorityOf(text == nullptr ? "" : text->get());
  if (!priority) return fmt::format("'{}' must be \"high\", \"medium\" or \"low\"", field);
  *out = *priority;
  return "";
}

std::string ReadKeyWeight(const toml::node& node, std::string_view field, double* out) {
  const std::optional<double> value = node.value<double>();
  if (!node.is_number()) return fmt::format("'{}' must be a number", field);
  *out = *value;
  return RangeFault(field, *value, core::kMinTenantWeight, core::kMaxTenantWeight);
}

std::string ReadKeySwitch(const toml::node& node, std::string_view field, bool* out) {
  const auto* value = node.as_boolean();
  if (value == nullptr) return fmt::format("'{}' must be true or false", field);
  *out = value->get();
  return "";
}

template <typename T>
std::string ReadKeyCount(const toml::node& node, std::string_view field, int64_t most, T* out) {
  const auto* value = node.as_integer();
  if (value == nullptr || value->get() < 1 || value->get() > most) {
    return fmt::format("'{}' must be a whole number, 1 to {}", field, most);
  }
  *out = static_cast<T>(value->get());
  return "";
}

std::string ReadKeyField(const toml::node& node, std::string_view field, ApiKey* entry) {
  if (field == "name") return ReadKeyText(node, field, &entry->name);
  if (field == "key") return ReadKeyText(node, field, &entry->key);
  if (field == "cache_scope") {
    std::string fault = ReadKeyText(node, field, &entry->cache_scope);
    // An empty scope would mean that there is none.
    if (fault.empty() && entry->cache_scope.empty()) fault = "'cache_scope' " + NameFault("");
    return fault;
  }
  if (field == "priority") return ReadKeyPriority(node, field, &entry->priority);
  if (field == "priority_ceiling") return ReadKeyPriority(node, field, &entry->priority_ceiling);
  if (field == "weight") return ReadKeyWeight(node, field, &entry->weight);
  if (field == "max_concurrent_requests") {
    return ReadKeyCount(node, field, kMaxKeyRequests, &entry->max_concurrent_requests);
  }
  if (field == "tokens_per_minute") {
    return ReadKeyCount(node, field, kMaxKeyTokens, &entry->tokens_per_minute);
  }
  if (field == "gateway") return ReadKeySwitch(node, field, &entry->gateway);
  if (field == "metrics_only") return ReadKeySwitch(node, field, &entry->metrics_only);
  return fmt::format("unknown field '{}'", field);
}

// One [[keys]] table.
StatusOr<ApiKey> ReadEntry(const std::string& path, const toml::table& table) {
  ApiKey entry;
  for (const auto& [field, node] : table) {
    const std::string fault = ReadKeyField(node, field.str(), &entry);
    if (!fault.empty()) return FaultAt(path, field.source(), fault);
  }
  for (const char* field : {"name", "key"}) {
    if (!table.contains(field))
      return FaultAt(path, table.source(), fmt::format("'{}' is missing", field));
  }
  if (!table.contains("priority"))
    entry.priority = std::max(entry.priority, entry.priority_ceiling);
  return entry;
}

StatusOr<std::vector<ApiKey>> ReadEntries(const std::string& path, const toml::table& file) {
  for (const auto& [field, unused] : file) {
    if (field.str() != "keys") {
      return FaultAt(path, field.source(), fmt::format("unknown field '{}'", field.str()));
    }
  }
  const toml::array* list = file["keys"].as_array();
  if (list == nullptr || list->empty()) {
    return InvalidArgument(fmt::format("The API key file {} has no [[keys]] table.", path));
  }
  if (list->size() > kMaxKeys) {
    return InvalidArgument(fmt::format("{} has more than {} keys.", path, kMaxKeys));
  }
  std::vector<ApiKey> keys;
  for (const toml::node& node : *list) {
    const toml::table* table = node.as_table();
    if (table == nullptr) return FaultAt(path, node.source(), "'keys' must be [[keys]] tables");
    StatusOr<ApiKey> entry = ReadEntry(path, *table);
    if (!entry.ok()) return entry.status();
    keys.push_back(*std::move(entry));
    const std::string fault = EntryFault(keys, keys.size() - 1);
    if (!fault.empty()) return FaultAt(path, table->source(), fault);
  }
  return keys;
}

}  // namespace

StatusOr<std::vector<ApiKey>> ReadApiKeys(const std::string& path) {
  const std::optional<std::string> text = base::ReadFile(path, kMaxApiKeysBytes);
  if (!text) {
    return Status(StatusCode::kNotFound, fmt::format("--api-keys: cannot read '{}'", path));
  }
  return ParseApiKeys(path, *text);
}

StatusOr<std::vector<ApiKey>> ParseApiKeys(const std::string& path, const std::string& text) {
  if (text.size() > kMaxApiKeysBytes) {
    return InvalidArgument(
        fmt::format("The API key file {} is larger than {} bytes.", path, kMaxApiKeysBytes));
  }
  if (const std::optional<base::TomlFault> fault = base::FindTomlFault(text)) {
    return FaultAtLine(path, fault->line, fault->what);
  }
  try {
    return ReadEntries(path, toml::parse(text, path));
  } catch (const toml::parse_error& error) {
    // Only the line: the description may quote the file, and so a key.
    return FaultAt(path, error.source(), "this is not valid TOML");
  }
}

Status CheckApiKeys(const std::vector<ApiKey>& keys, const std::string& admin_key) {
  for (size_t i = 0; i < keys.size(); ++i) {
    const std::string fault = EntryFault(keys, i);
    if (!fault.empty()) return InvalidArgument(fmt::format("API keys: {}.", fault), "api_keys");
    if (keys[i].key == admin_key) {
      return InvalidArgument(
          fmt::format("The admin key must differ from the API key '{}'.", keys[i].name),
          "admin_key");
    }
  }
  if (!keys.empty() && std::ranges::all_of(keys, &ApiKey::metrics_only)) {
    return InvalidArgument(
        "API keys: metrics_only is true for all of them, so no client could use the API.",
        "api_keys");
  }
  if (admin_key.empty()) return {};
  const std::string fault = KeyFault(admin_key);
  if (!fault.empty()) return InvalidArgument(fmt::format("The admin key {}.", fault), "admin_key");
  return {};
}

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
  std::vector<Digest> digests;  // The digest of each owner's key.
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
  if (rights == http::Rights::kView) {
    if (table->digests.empty() && !table->admin) return verdict;
    rights = http::Rights::kAdmin;
  }
  if (table->digests.empty() && rights != http::Rights::kAdmin) return verdict;
  const Presented presented = Identify(*table, authorization, api_key);
  verdict.caller.sees_all = presented.admin || table->tenants < 2 ||
                            (presented.tenant != kNone && table->owners[presented.tenant].gateway);
  if (rights == http::Rights::kOpen) return verdict;
  if (presented.two) {
    verdict.rejection =
        http::ErrorReply({400, "Authorization and X-Api-Key have different keys: send only one.",
                          "invalid_request_error", "", "invalid_api_key"});
    return verdict;
  }
  if (rights == http::Rights::kAdmin) {
    if (!table->admin) {
      verdict.rejection = Forbidden(
          "The admin paths are closed: start the server with an admin key (--admin-key) to open "
          "them.");
    } else if (presented.tenant != kNone) {
      verdict.rejection = Forbidden("This path needs the admin key, not an API key.");
    } else if (!presented.admin) {
      verdict.rejection = Unauthorized(presented.any);
    }
    verdict.caller.admin = presented.admin;
    return verdict;
  }
  if (presented.tenant != kNone) {
    verdict.caller = table->owners[presented.tenant];
    if (verdict.caller.metrics_only && rights != http::Rights::kMetrics) {
      verdict.rejection = Forbidden("This API key is only for /metrics.");
    }
    return verdict;
  }
  verdict.caller.admin = rights != http::Rights::kKey && presented.admin;
  if (!verdict.caller.admin) verdict.rejection = Unauthorized(presented.any);
  return verdict;
}

}  // namespace ropeway::server
