#include "http/cross_origin.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <cctype>
#include <optional>
#include <utility>

#include "http/client_address.h"

namespace ropeway::http {
namespace {

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) {
    return static_cast<char>(c < 0x80 ? std::tolower(c) : c);
  });
  return lower;
}

bool IsTokenChar(unsigned char c) {
  return c < 0x80 &&
         (std::isalnum(c) != 0 ||
          std::string_view("!#$%&'*+-.^_`|~").find(static_cast<char>(c)) != std::string_view::npos);
}

bool IsToken(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, IsTokenChar);
}

bool AllDigits(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// The host of "host", "host:port" or "[address]:port"; nullopt for what is none of these.
std::optional<std::string_view> HostOf(std::string_view authority) {
  if (authority.find_first_of("@/\\?# \t") != std::string_view::npos) return std::nullopt;
  const size_t end = authority.starts_with('[') ? authority.find(']') : authority.find(':');
  if (end == std::string_view::npos) {
    return authority.starts_with('[') ? std::nullopt : std::optional(authority);
  }
  const size_t size = authority.starts_with('[') ? end + 1 : end;
  const std::string_view rest = authority.substr(size);
  if (!rest.empty() && (rest.front() != ':' || rest.size() > 6 || !AllDigits(rest.substr(1)))) {
    return std::nullopt;
  }
  return authority.substr(0, size);
}

// Whether `host` (in lower case, an address of IPv6 in brackets) is this machine by its nature.
bool IsLocalHost(std::string_view host) {
  if (host.starts_with('[')) {
    host = host.substr(1, host.size() - 2);
    return host.find(':') != std::string_view::npos && IsLoopbackHost(host);
  }
  if (!host.ends_with(".localhost")) return IsLoopbackHost(host);
  return host.front() != '.' && host.find("..") == std::string_view::npos &&
         host.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_.") ==
             std::string_view::npos;
}

// Whether `origin`, as browsers write it, is of a page of this machine.
bool IsLocalOrigin(std::string_view origin) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!origin.starts_with(scheme) || origin.ends_with(':')) continue;
    const std::optional<std::string_view> host = HostOf(origin.substr(scheme.size()));
    return host && IsLocalHost(*host);
  }
  return false;
}

// A host as rules compare it.
std::string Normal(std::string_view host) {
  std::string normal = Lower(host);
  if (normal.ends_with('.')) normal.pop_back();
  boost::system::error_code error;
  boost::asio::ip::make_address_v6(normal, error);
  return error ? normal : "[" + normal + "]";
}

// An origin as browsers send it, of one that a person wrote; nullopt for none.
std::optional<std::string> NormalOrigin(std::string_view text) {
  std::string origin = Lower(text);
  const size_t colon = origin.find("://");
  if (colon == std::string::npos || !IsToken(std::string_view(origin).substr(0, colon))) {
    return std::nullopt;
  }
  const std::optional<std::string_view> host = HostOf(std::string_view(origin).substr(colon + 3));
  if (!host || host->empty() || host->find('*') != std::string_view::npos) return std::nullopt;
  for (const auto& [scheme, port] : {std::pair("http://", ":80"), std::pair("https://", ":443")}) {
    if (origin.starts_with(scheme) && origin.ends_with(port)) {
      origin.resize(origin.size() - std::string_view(port).size());
    }
  }
  return origin;
}

}  // namespace

StatusOr<OriginRule> OriginRule::Parse(const std::vector<std::string>& texts) {
  OriginRule rule;
  for (const std::string& text : texts) {
    rule.unset_ = false;
    if (text == "none") {
      if (texts.size() == 1) continue;
      return InvalidArgument("'none' cannot be given together with origins", "cors_origins");
    }
    if (text == "*") {
      rule.any_ = true;
      continue;
    }
    std::optional<std::string> origin = NormalOrigin(text);
    if (!origin) {
      return InvalidArgument(
          fmt::format("expected origins such as https://app.example:8443, '*' or 'none', not '{}'",
                      text.substr(0, 200)),
          "cors_origins");
    }
    rule.origins_.push_back(*std::move(origin));
  }
  return rule;
}

std::string OriginRule::Answer(std::string_view origin, bool on_loopback) const {
  // What a sandbox or a file is of, which anybody can make.
  if (origin.empty() || origin == "null") return {};
  if (any_) return "*";
  const bool good = unset_ ? on_loopback && IsLocalOrigin(origin)
                           : std::ranges::find(origins_, origin) != origins_.end();
  return good ? std::string(origin) : std::string();
}

bool IsOwnOrigin(std::string_view origin, std::string_view host) {
  const std::string own = "://" + Lower(host);
  const std::string lower = Lower(origin);
  return !host.empty() && (lower == "http" + own || lower == "https" + own);
}

std::string AllowedHeaders(std::string_view asked) {
  constexpr size_t kMostNames = 32;
  constexpr size_t kMostBytes = 1024;
  std::string allowed;
  for (size_t names = 0; !asked.empty() && names < kMostNames; ++names) {
    const size_t comma = asked.find(',');
    std::string_view name = asked.substr(0, comma);
    asked.remove_prefix(comma == std::string_view::npos ? asked.size() : comma + 1);
    const size_t first = name.find_first_not_of(" \t");
    if (first == std::string_view::npos) continue;
    name = name.substr(first, name.find_last_not_of(" \t") + 1 - first);
    if (!IsToken(name) || allowed.size() + name.size() + 2 > kMostBytes) continue;
    const std::string lower = Lower(name);
    if (lower == "forwarded" || lower.starts_with("x-forwarded-")) continue;
    if (!allowed.empty()) allowed += ", ";
    allowed += lower;
  }
  return allowed;
}

StatusOr<HostRule> HostRule::Parse(const std::string& bound,
                                   const std::vector<std::string>& texts) {
  HostRule rule;
  rule.hosts_.push_back(Normal(bound));
  for (const std::string& text : texts) {
    if (text == "*") {
      rule.any_ = true;
      continue;
    }
    const std::string host = Normal(text);
    const std::optional<std::string_view> same = HostOf(host);
    if (host.empty() || host.find('*') != std::string::npos || !same || *same != host) {
      return InvalidArgument(
          fmt::format("expected names or addresses without a port, or '*', not '{}'",
                      text.substr(0, 200)),
          "allowed_hosts");
    }
    rule.hosts_.push_back(host);
  }
  return rule;
}

bool HostRule::Allows(std::string_view authority) const {
  if (any_ || authority.empty()) return true;
  const std::optional<std::string_view> host = HostOf(authority);
  if (!host || host->empty()) return false;
  const std::string normal = Normal(*host);
  return IsLocalHost(normal) || std::ranges::find(hosts_, normal) != hosts_.end();
}

}  // namespace ropeway::http
