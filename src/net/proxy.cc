#include "net/proxy.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "base/words.h"

namespace ropeway::net {
namespace {

namespace asio = boost::asio;

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
    name.erase(0, name.find_first_not_of("*."));
    if (!name.empty() && host.ends_with("." + name)) return true;
  }
  return false;
}

constexpr size_t kMaxHead = size_t{64} << 10;

std::string HostAndPort(const std::string& host, uint16_t port) {
  return fmt::format("{}:{}", host.find(':') == std::string::npos ? host : "[" + host + "]", port);
}

std::string Base64(const std::string& text) {
  std::string coded((text.size() + 2) / 3 * 4 + 1, '\0');
  coded.resize(static_cast<size_t>(EVP_EncodeBlock(
      reinterpret_cast<unsigned char*>(coded.data()),
      reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()))));
  return coded;
}

}  // namespace

std::string Proxy::Text() const { return HostAndPort(host, port); }

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
    proxy.authorization = "Basic " + Base64(base::PercentDecoded(text.substr(0, at)));
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

// It sends nothing behind its head: the server waits for the client's first bytes.
asio::awaitable<Status> OpenTunnel(const Proxy& proxy, const BaseUrl& url,
                                   asio::ip::tcp::socket* socket,
                                   boost::system::error_code* error) {
  std::string head =
      fmt::format("CONNECT {0} HTTP/1.1\r\nHost: {0}\r\n", HostAndPort(url.host, url.port));
  if (!proxy.authorization.empty()) {
    head += "Proxy-Authorization: " + proxy.authorization + "\r\n";
  }
  head += "\r\n";
  auto token = asio::redirect_error(asio::use_awaitable, *error);
  co_await asio::async_write(*socket, asio::buffer(head), token);
  if (*error) co_return Status();
  std::string reply;
  co_await asio::async_read_until(*socket, asio::dynamic_buffer(reply, kMaxHead), "\r\n\r\n",
                                  token);
  if (*error) co_return Status();
  // "HTTP/1.1 200".
  int status = 0;
  const bool is_http = reply.starts_with("HTTP/1.") && reply.size() > 12 &&
                       std::from_chars(&reply[9], &reply[12], status).ptr == &reply[12];
  if (is_http && status / 100 == 2) co_return Status();
  const bool final = status / 100 == 4 && status != 408 && status != 429;
  co_return Status(final ? StatusCode::kInvalidArgument : StatusCode::kUnavailable,
                   is_http ? fmt::format("the proxy {} answered with HTTP {}", proxy.Text(), status)
                           : fmt::format("the proxy {} did not answer with HTTP", proxy.Text()));
}

}  // namespace ropeway::net
