#include "http/client_address.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/words.h"

namespace ropeway::http {
namespace {

namespace ip = boost::asio::ip;

// IPv4 addresses of sockets that take both are mapped into IPv6.
ip::address Unmapped(const ip::address& address) {
  if (!address.is_v6() || !address.to_v6().is_v4_mapped()) return address;
  return ip::make_address_v4(ip::v4_mapped, address.to_v6());
}

std::optional<ip::address> ParseAddress(std::string_view text) {
  boost::system::error_code error;
  const ip::address address = ip::make_address(std::string(text), error);
  if (error) return std::nullopt;
  return Unmapped(address);
}

std::string_view Trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") + 1 - first);
}

// An address with or without a port: "192.0.2.7", "192.0.2.7:80", "2001:db8::1",
// "[2001:db8::1]:80", any of them in quotes.
std::optional<ip::address> ParseNode(std::string_view text) {
  text = Trimmed(text);
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') {
    text = text.substr(1, text.size() - 2);
  }
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    return ParseAddress(text.substr(1, end - 1));
  }
  if (std::count(text.begin(), text.end(), ':') == 1) text = text.substr(0, text.find(':'));
  return ParseAddress(text);
}

std::vector<std::string_view> Split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(at);
    parts.push_back(Trimmed(text.substr(0, end)));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// What stands in an element of Forwarded for "for"; "" if nothing does.
std::string_view ForOf(std::string_view element) {
  for (const std::string_view pair : Split(element, ';')) {
    if (pair.size() > 4 && (pair[0] | 0x20) == 'f' && (pair[1] | 0x20) == 'o' &&
        (pair[2] | 0x20) == 'r' && pair[3] == '=') {
      return pair.substr(4);
    }
  }
  return {};
}

}  // namespace

std::string AddressAccount(const ip::address& any) {
  const ip::address address = Unmapped(any);
  if (address.is_v4()) return "addr:" + address.to_string();
  ip::address_v6::bytes_type bytes = address.to_v6().to_bytes();
  std::fill(bytes.begin() + 8, bytes.end(), 0);
  return "addr:" + ip::address_v6(bytes).to_string() + "/64";
}

bool IsLoopbackAddress(const ip::address& address) { return Unmapped(address).is_loopback(); }

TrustedProxies::Bytes TrustedProxies::BytesOf(const ip::address& any) {
  const ip::address address = Unmapped(any);
  const ip::address_v6 wide =
      address.is_v4() ? ip::make_address_v6(ip::v4_mapped, address.to_v4()) : address.to_v6();
  const ip::address_v6::bytes_type from = wide.to_bytes();
  Bytes bytes{};
  std::copy(from.begin(), from.end(), bytes.begin());
  return bytes;
}

bool IsLoopbackHost(std::string_view host) {
  const std::optional<ip::address> address = ParseAddress(host);
  return host == "localhost" || (address && IsLoopbackAddress(*address));
}

StatusOr<TrustedProxies> TrustedProxies::Parse(const std::vector<std::string>& texts) {
  TrustedProxies proxies;
  for (const std::string& text : texts) {
    const size_t slash = text.find('/');
    const std::optional<ip::address> address =
        ParseAddress(std::string_view(text).substr(0, slash));
    const int most = address && address->is_v4() ? 32 : 128;
    int bits = most;
    bool good = address.has_value();
    if (good && slash != std::string::npos) {
      bits = base::ParseNumber<int>(std::string_view(text).substr(slash + 1)).value_or(-1);
      good = bits >= 0 && bits <= most;
    }
    if (!good) {
      return InvalidArgument(
          fmt::format("expected an address or a network, such as 10.0.0.1 or 10.0.0.0/8, not '{}'",
                      text.substr(0, 100)),
          "trusted_proxies");
    }
    proxies.networks_.push_back({BytesOf(*address), bits + (128 - most)});
  }
  return proxies;
}

bool TrustedProxies::Contains(const ip::address& address) const {
  const Bytes bytes = BytesOf(address);
  return std::any_of(networks_.begin(), networks_.end(), [&](const Network& network) {
    for (int bit = 0; bit < network.bits; ++bit) {
      const auto byte = static_cast<size_t>(bit / 8);
      if (((bytes[byte] ^ network.bytes[byte]) & (0x80 >> bit % 8)) != 0) return false;
    }
    return true;
  });
}

std::optional<ip::address> TrustedProxies::ClientOf(std::string_view x_forwarded_for,
                                                    std::string_view forwarded) const {
  const bool is_list = !x_forwarded_for.empty();
  const std::vector<std::string_view> elements = Split(is_list ? x_forwarded_for : forwarded, ',');
  std::optional<ip::address> client;
  for (auto element = elements.rbegin(); element != elements.rend(); ++element) {
    const std::optional<ip::address> node = ParseNode(is_list ? *element : ForOf(*element));
    if (!node) break;  // What stands before it is not to be trusted either.
    client = node;
    if (!Contains(*node)) break;
  }
  return client;
}

}  // namespace ropeway::http
