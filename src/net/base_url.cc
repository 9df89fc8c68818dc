#include "net/base_url.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"
#include "base/words.h"

namespace ropeway::net {
namespace {

// Parse's errors, with the value and its name in the message.
struct Wrong {
  std::string_view name;
  std::string_view url;
  Status operator()(std::string_view what) const {
    return InvalidArgument(fmt::format(
        "{} must be http://HOST:PORT or https://HOST:PORT, but '{}' {}.", name, url, what));
  }
};

bool TakePrefix(std::string_view* text, std::string_view prefix) {
  if (!text->starts_with(prefix)) return false;
  text->remove_prefix(prefix.size());
  return true;
}

bool ParsePort(std::string_view text, uint16_t* port) {
  *port = base::ParseNumber<uint16_t>(text).value_or(0);
  return *port != 0;
}

// Scheme, host and port; `path` is all behind them.
StatusOr<BaseUrl> ParseUrl(std::string_view rest, const Wrong& wrong) {
  BaseUrl result;
  if (TakePrefix(&rest, "https://")) {
    result.tls = true;
    result.port = 443;
  } else if (!TakePrefix(&rest, "http://")) {
    return wrong("begins with neither");
  }
  const auto graphic = [](char c) { return c > ' ' && c < 0x7F; };
  if (!std::all_of(rest.begin(), rest.end(), graphic))
    return wrong("has characters other than visible ASCII");
  const size_t end = std::min(rest.find_first_of("/?"), rest.size());
  std::string_view authority = rest.substr(0, end);
  result.path = rest.substr(end);
  if (authority.find('@') != std::string_view::npos) return wrong("has a user name");

  size_t colon = authority.rfind(':');
  if (authority.starts_with('[')) {
    const size_t bracket = authority.find(']');
    if (bracket == std::string_view::npos) return wrong("has no ']' after '['");
    result.host = authority.substr(1, bracket - 1);
    authority.remove_prefix(bracket + 1);
    if (!authority.empty() && authority[0] != ':') return wrong("has no port after ']'");
    colon = authority.empty() ? std::string_view::npos : 0;
  } else {
    result.host = authority.substr(0, colon);
    if (result.host.find(':') != std::string::npos) {
      return wrong("has an IPv6 address without brackets");
    }
  }
  if (result.host.empty()) return wrong("has no host");
  if (colon != std::string_view::npos && !ParsePort(authority.substr(colon + 1), &result.port)) {
    return wrong("has no port from 1 to 65535");
  }
  return result;
}

}  // namespace

std::string BaseUrl::Authority() const {
  const std::string name = host.find(':') == std::string::npos ? host : "[" + host + "]";
  return port == (tls ? 443 : 80) ? name : fmt::format("{}:{}", name, port);
}

std::string BaseUrl::Text() const {
  return fmt::format("{}://{}{}", tls ? "https" : "http", Authority(), path);
}

StatusOr<BaseUrl> ParseBaseUrl(const std::string& url, std::string_view name) {
  const Wrong wrong{name, url};
  if (url.find_first_of("@?#") != std::string::npos) {
    return wrong("has a user name, a query or a fragment");
  }
  StatusOr<BaseUrl> read = ParseUrl(url, wrong);
  if (!read.ok()) return read;
  while (read->path.ends_with('/')) read->path.pop_back();
  if (read->path.empty()) read->path = "/v1";
  return read;
}

StatusOr<BaseUrl> ParseFileUrl(const std::string& url) {
  const std::string shown = base::PrintableText(url);
  const std::string without = url.substr(0, url.find('#'));
  StatusOr<BaseUrl> read = ParseUrl(without, Wrong{"The URL", shown});
  if (read.ok() && !read->path.starts_with('/')) read->path.insert(0, "/");
  return read;
}

StatusOr<BaseUrl> ParseLocation(const BaseUrl& from, const std::string& location) {
  if (!location.starts_with('/') || location.starts_with("//")) {
    return ParseFileUrl(location.starts_with("//") ? (from.tls ? "https:" : "http:") + location
                                                   : location);
  }
  BaseUrl to = from;
  to.path.clear();
  return ParseFileUrl(to.Text() + location);
}

bool SameServer(const BaseUrl& a, const BaseUrl& b) {
  return a.tls == b.tls && a.host == b.host && a.port == b.port;
}

}  // namespace ropeway::net
