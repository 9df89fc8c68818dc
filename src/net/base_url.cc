#include "net/base_url.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

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
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *port);
  return error == std::errc() && end == text.data() + text.size() && *port != 0;
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
  BaseUrl result;
  std::string_view rest = url;
  if (TakePrefix(&rest, "https://")) {
    result.tls = true;
    result.port = 443;
  } else if (!TakePrefix(&rest, "http://")) {
    return wrong("begins with neither");
  }
  const auto graphic = [](char c) { return c > ' ' && c < 0x7F; };
  if (!std::all_of(rest.begin(), rest.end(), graphic)) return wrong("has odd characters");
  if (rest.find_first_of("@?#") != std::string_view::npos) {
    return wrong("has a user name, a query or a fragment");
  }

  const size_t slash = std::min(rest.find('/'), rest.size());
  std::string_view authority = rest.substr(0, slash);
  result.path = rest.substr(slash);
  while (result.path.ends_with('/')) result.path.pop_back();
  if (!result.path.ends_with("/v1")) result.path += "/v1";

  size_t colon = authority.rfind(':');
  if (authority.starts_with('[')) {
    const size_t bracket = authority.find(']');
    if (bracket == std::string_view::npos) return wrong("has a bracket that does not close");
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
  if (result.host.empty()) return wrong("names no host");
  if (colon != std::string_view::npos && !ParsePort(authority.substr(colon + 1), &result.port)) {
    return wrong("has no port from 1 to 65535");
  }
  return result;
}

}  // namespace ropeway::net
