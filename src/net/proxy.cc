#include "net/proxy.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace ropeway::net {
namespace {

// The value of the first variable that is set and not empty.
std::string_view Variable(std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    const char* const value = std::getenv(name);
    if (value != nullptr && *value != '\0') return value;
  }
  return {};
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower;
}

bool IsListed(const BaseUrl& url, std::string_view list) {
  const std::string host = "." + Lower(url.host);
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    std::string name = Lower(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
    std::erase_if(name, [](unsigned char c) { return std::isspace(c) || c == '[' || c == ']'; });
    if (name == "*") return true;
    if (name.ends_with(fmt::format(":{}", url.port)) && url.host.find(':') == std::string::npos) {
      name.resize(name.rfind(':'));
    }
    name.erase(0, name.find_first_not_of('.'));
    if (!name.empty() && host.ends_with("." + name)) return true;
  }
  return false;
}

// "a%40b" is "a@b".
std::string Decoded(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned char code = 0;
    const char* const digits = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(digits, digits + 2, code, 16).ptr == digits + 2) {
      plain += static_cast<char>(code);
      i += 2;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

std::string Base64(const std::string& text) {
  std::string coded((text.size() + 2) / 3 * 4 + 1, '\0');
  coded.resize(static_cast<size_t>(EVP_EncodeBlock(
      reinterpret_cast<unsigned char*>(coded.data()),
      reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()))));
  return coded;
}

}  // namespace

std::string Proxy::Text() const {
  return fmt::format("{}:{}", host.find(':') == std::string::npos ? host : "[" + host + "]", port);
}

StatusOr<std::optional<Proxy>> ProxyFor(const BaseUrl& url) {
  std::string_view text = Variable({"https_proxy", "HTTPS_PROXY"});
  if (!url.tls || text.empty() || IsListed(url, Variable({"no_proxy", "NO_PROXY"}))) {
    return std::optional<Proxy>();
  }
  constexpr std::string_view kScheme = "http://";
  if (text.starts_with(kScheme)) text.remove_prefix(kScheme.size());
  Proxy proxy;
  // A password may hold an '@'.
  const size_t at = text.find('/') == text.npos ? text.rfind('@') : text.rfind('@', text.find('/'));
  if (at != text.npos) {
    proxy.authorization = "Basic " + Base64(Decoded(text.substr(0, at)));
    text.remove_prefix(at + 1);
  }
  const auto read = ParseBaseUrl(std::string(kScheme) + std::string(text));
  if (!read.ok() || text.find("://") != text.npos || text.size() > 4096) {
    return InvalidArgument(
        "HTTPS_PROXY: expected http://HOST:PORT or http://USER:PASSWORD@HOST:PORT");
  }
  proxy.host = read->host;
  proxy.port = read->port;
  return std::optional<Proxy>(std::move(proxy));
}

}  // namespace ropeway::net
