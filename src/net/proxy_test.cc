#include "net/proxy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace ropeway::net {
namespace {

using testing::HasSubstr;
using testing::Not;

class ProxyTest : public testing::Test {
 protected:
  ProxyTest() { Forget(); }
  ~ProxyTest() override { Forget(); }

  static void Forget() {
    for (const char* name : {"https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY"}) unsetenv(name);
  }
  // "HOST:PORT", "" for none, or what is wrong.
  static std::string For(const std::string& url) {
    const auto proxy = ProxyFor(*ParseFileUrl(url));
    if (!proxy.ok()) return proxy.status().message();
    return *proxy ? (*proxy)->Text() : "";
  }
};

TEST_F(ProxyTest, IsWhatTheEnvironmentSays) {
  EXPECT_EQ(For("https://hub/x"), "");
  setenv("HTTPS_PROXY", "http://proxy.lan:3128/", 1);
  EXPECT_EQ(For("https://hub/x"), "proxy.lan:3128");
  EXPECT_EQ(For("http://hub/x"), "") << "the variable is for https";
  setenv("https_proxy", "[::1]:8888", 1);
  EXPECT_EQ(For("https://hub/x"), "[::1]:8888") << "the one in small letters goes first";
  setenv("https_proxy", "", 1);
  EXPECT_EQ(For("https://hub/x"), "proxy.lan:3128");
}

TEST_F(ProxyTest, WhatNoProxyListsGoesDirectly) {
  setenv("HTTPS_PROXY", "proxy:1", 1);
  setenv("NO_PROXY", "a.example, .B.example,c.example:8443,::1,*.d.example", 1);
  for (const char* url :
       {"https://a.example/", "https://x.a.example/", "https://A.EXAMPLE/", "https://x.b.example/",
        "https://x.d.example/", "https://c.example:8443/", "https://[::1]/"}) {
    EXPECT_EQ(For(url), "") << url;
  }
  for (const char* url : {"https://xa.example/", "https://a.example.org/", "https://c.example/",
                          "https://example/"}) {
    EXPECT_EQ(For(url), "proxy:1") << url;
  }
  setenv("no_proxy", "*", 1);
  EXPECT_EQ(For("https://example/"), "");
}

TEST_F(ProxyTest, ItsCredentialsAreDecodedAndInNoMessage) {
  setenv("HTTPS_PROXY", "http://user:p%40s:s@w@proxy:3128", 1);
  const auto proxy = ProxyFor(*ParseFileUrl("https://hub/"));
  ASSERT_TRUE(proxy.ok() && *proxy);
  EXPECT_EQ((*proxy)->Text(), "proxy:3128");
  EXPECT_EQ((*proxy)->authorization, "Basic dXNlcjpwQHM6c0B3");  // user:p@s:s@w
  for (const char* wrong : {"http://u:secret@", "socks5://u:secret@proxy:1", "secret@proxy:0",
                            "https://u:secret@proxy:1", "http://secret@proxy:x"}) {
    setenv("HTTPS_PROXY", wrong, 1);
    EXPECT_THAT(For("https://hub/"), HasSubstr("HTTPS_PROXY: expected http://HOST:PORT"));
    EXPECT_THAT(For("https://hub/"), Not(HasSubstr("secret"))) << wrong;
  }
}

}  // namespace
}  // namespace ropeway::net
