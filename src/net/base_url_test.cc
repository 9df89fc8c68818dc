#include "net/base_url.h"

#include <gtest/gtest.h>

#include <string>

namespace ropeway::net {
namespace {

TEST(BaseUrl, ReadsHostPortAndPath) {
  auto url = ParseBaseUrl("http://127.0.0.1:8080");
  ASSERT_TRUE(url.ok());
  EXPECT_FALSE(url->tls);
  EXPECT_EQ(url->host, "127.0.0.1");
  EXPECT_EQ(url->port, 8080);
  EXPECT_EQ(url->path, "/v1");
  EXPECT_EQ(url->Text(), "http://127.0.0.1:8080/v1");
}

TEST(BaseUrl, KnowsTheSchemesOwnPorts) {
  auto plain = ParseBaseUrl("http://example/");
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->port, 80);
  EXPECT_EQ(plain->Authority(), "example");
  auto tls = ParseBaseUrl("https://example/v1/");
  ASSERT_TRUE(tls.ok());
  EXPECT_TRUE(tls->tls);
  EXPECT_EQ(tls->port, 443);
  EXPECT_EQ(tls->path, "/v1");
}

TEST(BaseUrl, KeepsAPathAndBracketsOfIpv6) {
  auto url = ParseBaseUrl("http://[::1]:9000/proxy/api");
  ASSERT_TRUE(url.ok());
  EXPECT_EQ(url->host, "::1");
  EXPECT_EQ(url->port, 9000);
  EXPECT_EQ(url->path, "/proxy/api");
  EXPECT_EQ(url->Authority(), "[::1]:9000");
  auto bare = ParseBaseUrl("http://[::1]");
  ASSERT_TRUE(bare.ok());
  EXPECT_EQ(bare->port, 80);
}

TEST(BaseUrl, RejectsTheRestWithOneSentence) {
  for (const char* url :
       {"", "127.0.0.1:8080", "ftp://a", "http://", "http://:80", "http://a:", "http://a:0",
        "http://a:65536", "http://a:8x", "http://a b", "http://u@a", "http://a/?q", "http://a#f",
        "http://::1:80", "http://[::1", "http://[::1]80", "http://a\r\nX: y"}) {
    auto parsed = ParseBaseUrl(url, "--base-url");
    ASSERT_FALSE(parsed.ok()) << url;
    EXPECT_EQ(parsed.status().message().find("--base-url must be http://HOST:PORT"), 0);
    EXPECT_EQ(ParseBaseUrl(url).status().message().find("The base URL must be"), 0);
  }
}

TEST(FileUrl, KeepsPathAndQuery) {
  auto url = ParseFileUrl("https://host:8443/a/b%20c.gguf?download=true#sha256=00");
  ASSERT_TRUE(url.ok());
  EXPECT_EQ(url->Authority(), "host:8443");
  EXPECT_EQ(url->path, "/a/b%20c.gguf?download=true");
  EXPECT_EQ(ParseFileUrl("http://host")->path, "/");
  EXPECT_EQ(ParseFileUrl("http://host?x=1")->path, "/?x=1");
  EXPECT_FALSE(ParseFileUrl("http://user@host/a").ok());
  EXPECT_FALSE(ParseFileUrl("http://host/a b").ok());
  const std::string message = ParseFileUrl("ftp://a\x1b[31m").status().message();
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
}

TEST(FileUrl, ARedirectLeadsToAnotherHostOrPath) {
  const BaseUrl from = *ParseFileUrl("https://host:8443/a/b?c=d");
  EXPECT_EQ(ParseLocation(from, "/x/y?z")->Text(), "https://host:8443/x/y?z");
  EXPECT_EQ(ParseLocation(from, "http://other/x")->Text(), "http://other/x");
  EXPECT_EQ(ParseLocation(from, "//other/x")->Text(), "https://other/x");
  EXPECT_FALSE(ParseLocation(from, "file:///etc/passwd").ok());
  EXPECT_FALSE(ParseLocation(from, "").ok());
}

TEST(FileUrl, OneServerIsOneSchemeHostAndPort) {
  const BaseUrl hub = *ParseFileUrl("https://host/a");
  EXPECT_TRUE(SameServer(hub, *ParseFileUrl("https://host:443/b?c")));
  for (const char* other : {"http://host/a", "https://host:8443/a", "https://host.other/a"}) {
    EXPECT_FALSE(SameServer(hub, *ParseFileUrl(other))) << other;
  }
}

}  // namespace
}  // namespace ropeway::net
