#include "http/client_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ropeway::http {
namespace {

using boost::asio::ip::make_address;
using testing::HasSubstr;

TrustedProxies Proxies(const std::vector<std::string>& texts) {
  StatusOr<TrustedProxies> proxies = TrustedProxies::Parse(texts);
  EXPECT_TRUE(proxies.ok()) << proxies.status().message();
  return *proxies;
}

TEST(ClientAddressTest, AccountsAreAddressesAndNetworksOf64Bits) {
  EXPECT_EQ(AddressAccount(make_address("192.0.2.7")), "addr:192.0.2.7");
  EXPECT_EQ(AddressAccount(make_address("::ffff:192.0.2.7")), "addr:192.0.2.7");
  EXPECT_EQ(AddressAccount(make_address("2001:db8:1:2:3:4:5:6")), "addr:2001:db8:1:2::/64");
  EXPECT_EQ(AddressAccount(make_address("2001:db8:1:2:ffff::1")), "addr:2001:db8:1:2::/64");
}

TEST(ClientAddressTest, KnowsTheHostsOfThisMachineAlone) {
  for (const char* host : {"127.0.0.1", "127.1.2.3", "::1", "localhost"}) {
    EXPECT_TRUE(IsLoopbackHost(host)) << host;
  }
  for (const char* host :
       {"0.0.0.0", "::", "10.0.0.1", "example.org", "1270.0.0.1", "127.example.org", ""}) {
    EXPECT_FALSE(IsLoopbackHost(host)) << host;
  }
}

TEST(ClientAddressTest, KnowsThisMachinesOwn) {
  for (const char* own : {"127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"}) {
    EXPECT_TRUE(IsLoopbackAddress(make_address(own))) << own;
  }
  for (const char* other : {"10.0.0.1", "::2", "::ffff:10.0.0.1", "0.0.0.0"}) {
    EXPECT_FALSE(IsLoopbackAddress(make_address(other))) << other;
  }
}

TEST(ClientAddressTest, ProxiesAreAddressesAndNetworks) {
  const TrustedProxies proxies = Proxies({"10.1.0.0/16", "192.0.2.7", "2001:db8::/33", "::1"});
  for (const char* inside :
       {"10.1.0.0", "10.1.255.255", "::ffff:10.1.2.3", "192.0.2.7", "2001:db8:7fff::1", "::1"}) {
    EXPECT_TRUE(proxies.Contains(make_address(inside))) << inside;
  }
  for (const char* outside : {"10.2.0.0", "10.0.255.255", "192.0.2.6", "2001:db8:8000::", "::2"}) {
    EXPECT_FALSE(proxies.Contains(make_address(outside))) << outside;
  }
  EXPECT_TRUE(Proxies({"0.0.0.0/0"}).Contains(make_address("1.2.3.4")));
  EXPECT_FALSE(Proxies({"0.0.0.0/0"}).Contains(make_address("2001::1")));
  EXPECT_FALSE(Proxies({}).Contains(make_address("127.0.0.1")));
}

TEST(ClientAddressTest, WhatIsNoAddressIsNamed) {
  for (const char* bad : {"", "proxy.example", "10.0.0", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/",
                          "10.0.0.0/8x", "::1/129", "/8"}) {
    const Status status = TrustedProxies::Parse({"10.0.0.1", bad}).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(status.message(), HasSubstr("'" + std::string(bad) + "'"));
  }
}

TEST(ClientAddressTest, TheClientIsTheLastThatIsNoProxy) {
  const TrustedProxies proxies = Proxies({"10.0.0.0/8", "2001:db8::/32"});
  struct Case {
    const char* list;
    const char* forwarded;
    const char* client;  // "": none.
  };
  for (const Case& c : {
           Case{"1.2.3.4", "", "1.2.3.4"},
           Case{"6.6.6.6, 1.2.3.4", "", "1.2.3.4"},
           Case{"6.6.6.6,1.2.3.4 , 10.0.0.2", "", "1.2.3.4"},
           Case{"1.2.3.4:5678", "", "1.2.3.4"},
           Case{"[2001:1::7]:80", "", "2001:1::7"},
           Case{"2001:1::7", "", "2001:1::7"},
           Case{"10.0.0.3, 10.0.0.2", "", "10.0.0.3"},  // All are proxies: the first.
           Case{"1.2.3.4, unknown", "", ""},
           Case{"1.2.3.4, unknown, 10.0.0.2", "", "10.0.0.2"},
           Case{"1.2.3.4", "for=9.9.9.9", "1.2.3.4"},
           Case{"", "for=1.2.3.4", "1.2.3.4"},
           Case{"", "by=10.0.0.1;For=1.2.3.4;proto=http", "1.2.3.4"},
           Case{"", "for=6.6.6.6, for=\"[2001:1::7]:80\" , for=10.0.0.2", "2001:1::7"},
           Case{"", "for=\"1.2.3.4:99\"", "1.2.3.4"},
           Case{"", "for=_hidden", ""},
           Case{"", "proto=http", ""},
           Case{"", "", ""},
           Case{",", "", ""},
           Case{"[::1", "", ""},
       }) {
    const auto client = proxies.ClientOf(c.list, c.forwarded);
    EXPECT_EQ(client ? client->to_string() : "", c.client) << c.list << " | " << c.forwarded;
  }
}

}  // namespace
}  // namespace ropeway::http
